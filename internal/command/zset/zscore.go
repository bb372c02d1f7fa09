package zset

import (
	"kevy/internal/command"
	"kevy/shard"
)

func zScore() *command.Spec {
	return &command.Spec{
		Name: "zscore", Arity: 3, Flags: command.ReadOnly | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "1.2.0", Complexity: "O(1)",
		Syntax:  "key member",
		Summary: "Answers the score of a member.",
		Run:     reading(func(c *command.Ctx, z shard.ZSetView) { replyScore(c, z, c.Args[2]) }),
	}
}

func zMScore() *command.Spec {
	return &command.Spec{
		Name: "zmscore", Arity: -3, Flags: command.ReadOnly | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "6.2.0", Complexity: "O(N) for N members",
		Syntax:  "key member [member ...]",
		Summary: "Answers the scores of members.",
		Run: reading(func(c *command.Ctx, z shard.ZSetView) {
			c.W.Array(len(c.Args) - 2)
			for _, member := range c.Args[2:] {
				replyScore(c, z, member)
			}
		}),
	}
}

func replyScore(c *command.Ctx, z shard.ZSetView, member []byte) {
	if score, ok := z.Score(member); ok {
		c.W.Double(score)
	} else {
		c.W.Null()
	}
}
