package list

import (
	"kevy/internal/command"
	"kevy/shard"
)

func lInsert() *command.Spec {
	return &command.Spec{
		Name: "linsert", Arity: 5, Flags: command.Write | command.DenyOOM, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Insert),
		Group: "list", Since: "2.2.0", Complexity: "O(N) for N elements up to the pivot",
		Syntax:  "key <BEFORE | AFTER> pivot element",
		Summary: "Puts an element beside the first one that equals pivot; answers the new length, -1 without a pivot.",
		Run:     runLInsert,
	}
}

func runLInsert(c *command.Ctx) {
	a := c.Scan(2)
	after := a.Is("AFTER")
	if !after && !a.Is("BEFORE") {
		c.W.Error(command.ErrSyntax)
		return
	}
	n, err := c.Tx.LInsert(c.Key(1), after, a.Bytes(), a.Bytes())
	if n > 0 {
		c.Tx.Notify(shard.OfLists, "linsert", c.Key(1))
	}
	replyInt(c, n, err)
}
