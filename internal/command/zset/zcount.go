package zset

import (
	"kevy/internal/command"
	"kevy/shard"
)

func zCount() *command.Spec {
	return &command.Spec{
		Name: "zcount", Arity: 4, Flags: command.ReadOnly | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "2.0.0", Complexity: "O(log(N)) for N members",
		Syntax:  "key min max",
		Summary: "Answers how many members have a score in the range.",
		Run: func(c *command.Ctx) {
			r, err := parseScoreRange(c.Args[2], c.Args[3])
			if err != nil {
				c.W.Error(err)
				return
			}
			count(c, r.ranks)
		},
	}
}

func zLexCount() *command.Spec {
	return &command.Spec{
		Name: "zlexcount", Arity: 4, Flags: command.ReadOnly | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "2.8.9", Complexity: "O(log(N)) for N members",
		Syntax:  "key min max",
		Summary: "Answers how many members are in the range, all scores being the same.",
		Run: func(c *command.Ctx) {
			r, err := parseLexRange(c.Args[2], c.Args[3])
			if err != nil {
				c.W.Error(err)
				return
			}
			count(c, r.ranks)
		},
	}
}

func count(c *command.Ctx, ranks func(z shard.ZSetView) (first, end int)) {
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	first, end := ranks(z)
	c.W.Int(int64(end - first))
}
