package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

func hDel() *command.Spec {
	return &command.Spec{
		Name: "hdel", Arity: -3, Flags: command.Write | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "hash", Since: "2.0.0", Complexity: "O(N) for N fields",
		Syntax:  "key field [field ...]",
		Summary: "Removes fields; answers how many there were.",
		Run:     runHDel,
	}
}

func runHDel(c *command.Ctx) {
	n, err := c.Tx.HDel(c.Key(1), c.Args[2:]...)
	if err != nil {
		c.W.Err(err)
		return
	}
	if n > 0 {
		c.Tx.NotifyRemoval(shard.OfHashes, "hdel", c.Key(1))
	}
	c.W.Int(int64(n))
}
