package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

func sAdd() *command.Spec {
	return &command.Spec{
		Name: "sadd", Arity: -3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatSet,
		Keys:  command.One(1, command.RW|command.Insert),
		Group: "set", Since: "1.0.0", Complexity: "O(N) for N members",
		Syntax:  "key member [member ...]",
		Summary: "Adds members; answers how many are new.",
		Run: func(c *command.Ctx) {
			n, err := c.Tx.SAdd(c.Key(1), c.Args[2:]...)
			if n > 0 {
				c.Tx.Notify(shard.OfSets, "sadd", c.Key(1))
			}
			replyInt(c, n, err)
		},
	}
}
