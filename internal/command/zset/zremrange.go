package zset

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func zRemRangeByRank() *command.Spec {
	return &command.Spec{
		Name: "zremrangebyrank", Arity: 4, Flags: command.Write, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "sorted-set", Since: "2.0.0", Complexity: "O(M*log(N)) for N members of which M are removed",
		Syntax:  "key start stop",
		Summary: "Removes the members in a range of positions; answers how many.",
		Run: func(c *command.Ctx) {
			start, stop, err := parseRanks(c.Args[2], c.Args[3])
			removeRange(c, err, func(z shard.ZSetView) (first, end int) {
				s := rankSpan(z.Len(), start, stop, false)
				return s.first, s.first + s.n
			})
		},
	}
}

func zRemRangeByScore() *command.Spec {
	return &command.Spec{
		Name: "zremrangebyscore", Arity: 4, Flags: command.Write, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "sorted-set", Since: "1.2.0", Complexity: "O(M*log(N)) for N members of which M are removed",
		Syntax:  "key min max",
		Summary: "Removes the members whose scores are in a range; answers how many.",
		Run: func(c *command.Ctx) {
			r, err := parseScoreRange(c.Args[2], c.Args[3])
			removeRange(c, err, r.ranks)
		},
	}
}

func zRemRangeByLex() *command.Spec {
	return &command.Spec{
		Name: "zremrangebylex", Arity: 4, Flags: command.Write, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "sorted-set", Since: "2.8.9", Complexity: "O(M*log(N)) for N members of which M are removed",
		Syntax:  "key min max",
		Summary: "Removes the members in a range of members, all scores being the same; answers how many.",
		Run: func(c *command.Ctx) {
			r, err := parseLexRange(c.Args[2], c.Args[3])
			removeRange(c, err, r.ranks)
		},
	}
}

// removeRange removes the members between two ranks, unless the bounds could not
// be read.
func removeRange(c *command.Ctx, badBounds *resp.Error, ranks func(z shard.ZSetView) (first, end int)) {
	if badBounds != nil {
		c.W.Error(badBounds)
		return
	}
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	first, end := ranks(z)
	n, err := c.Tx.ZRemRange(c.Key(1), first, end-first, false, nil)
	if n > 0 {
		c.Tx.NotifyRemoval(shard.OfZSets, c.Spec.Name, c.Key(1))
	}
	replyInt(c, n, err)
}
