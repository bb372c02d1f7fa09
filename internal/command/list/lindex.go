package list

import "kevy/internal/command"

func lIndex() *command.Spec {
	return &command.Spec{
		Name: "lindex", Arity: 3, Flags: command.ReadOnly, Category: command.CatList,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "list", Since: "1.0.0", Complexity: "O(N) for N elements from the nearer end",
		Syntax:  "key index",
		Summary: "Answers the element at an index; a negative one counts from the end.",
		Run:     runLIndex,
	}
}

func runLIndex(c *command.Ctx) {
	l, ok := view(c)
	if !ok {
		return
	}
	if !l.Exists() {
		c.W.Null()
		return
	}
	i, ok := command.ParseInt(c.Args[2])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	if elem, ok := l.Index(int(i)); ok {
		c.W.Bulk(elem)
	} else {
		c.W.Null()
	}
}
