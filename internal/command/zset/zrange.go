package zset

import "kevy/internal/command"

func zRange() *command.Spec {
	return &command.Spec{
		Name: "zrange", Arity: -4, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "1.2.0", Complexity: "O(log(N)+M) for N members of which M are answered",
		Syntax:  "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
		Summary: "Answers the members in a range of positions, of scores or of members.",
		Run:     answering(rangeQuery{freeBy: true, freeOrder: true, freeScores: true}),
	}
}

func zRevRange() *command.Spec {
	return &command.Spec{
		Name: "zrevrange", Arity: -4, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "1.2.0", Complexity: "O(log(N)+M) for N members of which M are answered",
		Syntax:  "key start stop [WITHSCORES]",
		Summary: "Answers the members in a range of positions, counted from the highest score.",
		Run:     answering(rangeQuery{reverse: true, freeScores: true}),
	}
}

func zRangeByScore() *command.Spec {
	return &command.Spec{
		Name: "zrangebyscore", Arity: -4, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "1.0.5", Complexity: "O(log(N)+M) for N members of which M are answered",
		Syntax:  "key min max [WITHSCORES] [LIMIT offset count]",
		Summary: "Answers the members whose scores are in a range.",
		Run:     answering(rangeQuery{by: byScore, freeScores: true}),
	}
}

func zRevRangeByScore() *command.Spec {
	return &command.Spec{
		Name: "zrevrangebyscore", Arity: -4, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "2.2.0", Complexity: "O(log(N)+M) for N members of which M are answered",
		Syntax:  "key max min [WITHSCORES] [LIMIT offset count]",
		Summary: "Answers the members whose scores are in a range, the highest first.",
		Run:     answering(rangeQuery{by: byScore, reverse: true, freeScores: true}),
	}
}

func zRangeByLex() *command.Spec {
	return &command.Spec{
		Name: "zrangebylex", Arity: -4, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "2.8.9", Complexity: "O(log(N)+M) for N members of which M are answered",
		Syntax:  "key min max [LIMIT offset count]",
		Summary: "Answers the members in a range of members, all scores being the same.",
		Run:     answering(rangeQuery{by: byLex, freeScores: true}),
	}
}

func zRevRangeByLex() *command.Spec {
	return &command.Spec{
		Name: "zrevrangebylex", Arity: -4, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "2.8.9", Complexity: "O(log(N)+M) for N members of which M are answered",
		Syntax:  "key max min [LIMIT offset count]",
		Summary: "Answers the members in a range of members, the last first, all scores being the same.",
		Run:     answering(rangeQuery{by: byLex, reverse: true, freeScores: true}),
	}
}

// answering is a handler that replies with what the query finds; what the query
// leaves open the options say.
func answering(form rangeQuery) command.Handler {
	return func(c *command.Ctx) {
		q := form
		a := c.Scan(2)
		q.parse(&a)
		if err := a.Err(); err != nil {
			c.W.Error(err)
			return
		}
		z, err := c.Tx.ZSet(c.Key(1))
		if err != nil {
			c.W.Err(err)
			return
		}
		s := q.span(z)
		r := membersReply{c, q.withScores}
		r.begin(s.n)
		z.EachRank(s.first, s.n, s.reverse, func(member []byte, score float64) bool {
			r.add(member, score)
			return true
		})
	}
}
