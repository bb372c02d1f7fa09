package list

import "kevy/internal/command"

func lLen() *command.Spec {
	return &command.Spec{
		Name: "llen", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatList,
		Keys:  command.One(1, command.RO),
		Group: "list", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the number of elements.",
		Run:     runLLen,
	}
}

func runLLen(c *command.Ctx) {
	if l, ok := view(c); ok {
		c.W.Int(int64(l.Len()))
	}
}
