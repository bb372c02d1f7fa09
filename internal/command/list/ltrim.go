package list

import (
	"kevy/internal/command"
	"kevy/shard"
)

func lTrim() *command.Spec {
	return &command.Spec{
		Name: "ltrim", Arity: 4, Flags: command.Write, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "list", Since: "1.0.0", Complexity: "O(N) for N elements that go",
		Syntax:  "key start stop",
		Summary: "Keeps the elements from one index to another, both included; negative ones count from the end.",
		Run:     runLTrim,
	}
}

func runLTrim(c *command.Ctx) {
	a := c.Scan(2)
	start, stop := a.Int(), a.Int()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	l, ok := view(c)
	if !ok {
		return
	}
	there := l.Exists()
	if err := c.Tx.LTrim(c.Key(1), int(start), int(stop)); err != nil {
		c.W.Err(err)
		return
	}
	if there {
		c.Tx.Signal(c.Key(1)) // also where nothing was cut
		c.Tx.NotifyRemoval(shard.OfLists, "ltrim", c.Key(1))
	}
	c.W.OK()
}
