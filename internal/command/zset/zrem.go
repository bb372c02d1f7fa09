package zset

import (
	"kevy/internal/command"
	"kevy/shard"
)

func zRem() *command.Spec {
	return &command.Spec{
		Name: "zrem", Arity: -3, Flags: command.Write | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "sorted-set", Since: "1.2.0", Complexity: "O(M*log(N)) for M members given and N in the sorted set",
		Syntax:  "key member [member ...]",
		Summary: "Removes members; answers how many there were.",
		Run: func(c *command.Ctx) {
			n, err := c.Tx.ZRem(c.Key(1), c.Args[2:]...)
			if n > 0 {
				c.Tx.NotifyRemoval(shard.OfZSets, "zrem", c.Key(1))
			}
			replyInt(c, n, err)
		},
	}
}

func replyInt(c *command.Ctx, n int, err error) {
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Int(int64(n))
}
