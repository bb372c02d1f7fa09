package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

func sCard() *command.Spec {
	return &command.Spec{
		Name: "scard", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatSet,
		Keys:  command.One(1, command.RO),
		Group: "set", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the number of members.",
		Run:     reading(func(c *command.Ctx, s shard.SetView) { c.W.Int(int64(s.Len())) }),
	}
}
