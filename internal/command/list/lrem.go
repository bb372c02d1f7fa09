package list

import (
	"kevy/internal/command"
	"kevy/shard"
)

func lRem() *command.Spec {
	return &command.Spec{
		Name: "lrem", Arity: 4, Flags: command.Write, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "list", Since: "1.0.0", Complexity: "O(N + M) for N elements, M of which go",
		Syntax:  "key count element",
		Summary: "Removes the first count elements that equal element, with a negative count the last ones, with 0 all.",
		Run:     runLRem,
	}
}

func runLRem(c *command.Ctx) {
	count, ok := command.ParseInt(c.Args[2])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	n, err := c.Tx.LRem(c.Key(1), int(count), c.Args[3])
	if n > 0 {
		c.Tx.NotifyRemoval(shard.OfLists, "lrem", c.Key(1))
	}
	replyInt(c, n, err)
}
