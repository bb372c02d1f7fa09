package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

func sRem() *command.Spec {
	return &command.Spec{
		Name: "srem", Arity: -3, Flags: command.Write | command.Fast, Category: command.CatSet,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "set", Since: "1.0.0", Complexity: "O(N) for N members",
		Syntax:  "key member [member ...]",
		Summary: "Removes members; answers how many there were.",
		Run: func(c *command.Ctx) {
			n, err := c.Tx.SRem(c.Key(1), c.Args[2:]...)
			if n > 0 {
				c.Tx.NotifyRemoval(shard.OfSets, "srem", c.Key(1))
			}
			replyInt(c, n, err)
		},
	}
}
