package zset

import (
	"kevy/internal/command"
	"kevy/shard"
)

func zCard() *command.Spec {
	return &command.Spec{
		Name: "zcard", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO),
		Group: "sorted-set", Since: "1.2.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the number of members.",
		Run:     reading(func(c *command.Ctx, z shard.ZSetView) { c.W.Int(int64(z.Len())) }),
	}
}
