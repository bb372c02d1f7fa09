package list

import (
	"kevy/internal/command"
	"kevy/shard"
)

func lSet() *command.Spec {
	return &command.Spec{
		Name: "lset", Arity: 4, Flags: command.Write | command.DenyOOM, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "list", Since: "1.0.0", Complexity: "O(N) for N elements from the nearer end",
		Syntax:  "key index element",
		Summary: "Replaces the element at an index; a negative one counts from the end.",
		Run:     runLSet,
	}
}

func runLSet(c *command.Ctx) {
	l, ok := view(c)
	if !ok {
		return
	}
	if !l.Exists() {
		c.W.Error(command.ErrNoSuchKey)
		return
	}
	i, ok := command.ParseInt(c.Args[2])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	switch ok, err := c.Tx.LSet(c.Key(1), int(i), c.Args[3]); {
	case err != nil:
		c.W.Err(err)
	case !ok:
		c.W.Error(command.ErrOutOfRange)
	default:
		c.Tx.Notify(shard.OfLists, "lset", c.Key(1))
		c.W.OK()
	}
}
