package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

func sIsMember() *command.Spec {
	return &command.Spec{
		Name: "sismember", Arity: 3, Flags: command.ReadOnly | command.Fast, Category: command.CatSet,
		Keys:  command.One(1, command.RO),
		Group: "set", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key member",
		Summary: "Answers whether a member is there.",
		Run:     reading(func(c *command.Ctx, s shard.SetView) { c.W.Int(boolInt(s.Has(c.Args[2]))) }),
	}
}

func sMIsMember() *command.Spec {
	return &command.Spec{
		Name: "smismember", Arity: -3, Flags: command.ReadOnly | command.Fast, Category: command.CatSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "set", Since: "6.2.0", Complexity: "O(N) for N members",
		Syntax:  "key member [member ...]",
		Summary: "Answers of each member whether it is there.",
		Run: reading(func(c *command.Ctx, s shard.SetView) {
			c.W.Array(len(c.Args) - 2)
			for _, member := range c.Args[2:] {
				c.W.Int(boolInt(s.Has(member)))
			}
		}),
	}
}
