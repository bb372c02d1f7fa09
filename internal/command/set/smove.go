package set

import (
	"bytes"

	"kevy/internal/command"
	"kevy/shard"
)

func sMove() *command.Spec {
	return &command.Spec{
		Name: "smove", Arity: 4, Flags: command.Write | command.Fast, Category: command.CatSet,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RW|command.Access|command.Delete),
			command.Range(2, 0, 1, command.RW|command.Insert),
		},
		Group: "set", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "source destination member",
		Summary: "Moves a member from one set to another; answers whether it was there.",
		Run:     runSMove,
	}
}

func runSMove(c *command.Ctx) {
	src, dst, member := c.Key(1), c.Key(2), c.Args[3]
	from, err := c.Tx.SetOf(src)
	if err == nil && from.Exists() {
		// Redis asks what the destination holds only if there is a source.
		_, err = c.Tx.SetOf(dst)
	}
	has := from.Has(member)
	if err == nil && has && !bytes.Equal(src, dst) {
		if _, err = c.Tx.SRem(src, member); err == nil {
			c.Tx.NotifyRemoval(shard.OfSets, "srem", src)
			var added int
			if added, err = c.Tx.SAdd(dst, member); added > 0 {
				c.Tx.Notify(shard.OfSets, "sadd", dst)
			}
		}
	}
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Int(boolInt(has))
}
