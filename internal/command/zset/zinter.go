package zset

import "kevy/internal/command"

func zInter() *command.Spec {
	return &command.Spec{
		Name: "zinter", Arity: -3, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  []command.KeySpec{command.Count(1, command.RO|command.Access)},
		Group: "sorted-set", Since: "6.2.0", Complexity: "O(N*K+M*log(M)) for K keys of which the smallest has N members, and M members answered",
		Syntax:      "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
		Summary:     "Answers the members that all keys have.",
		Differences: negativeZero,
		Run:         combining(intersect, takesWeights|takesScores),
	}
}

func zInterStore() *command.Spec {
	return &command.Spec{
		Name: "zinterstore", Arity: -4, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatSortedSet,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.OW|command.Update),
			command.Count(2, command.RO|command.Access),
		},
		Group: "sorted-set", Since: "2.0.0", Complexity: "O(N*K+M*log(M)) for K keys of which the smallest has N members, and M members stored",
		Syntax:      "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
		Summary:     "Stores the members that all keys have; answers how many.",
		Differences: negativeZero,
		Run:         storing("zinterstore", intersect, takesWeights),
	}
}

func zInterCard() *command.Spec {
	return &command.Spec{
		Name: "zintercard", Arity: -3, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  []command.KeySpec{command.Count(1, command.RO|command.Access)},
		Group: "sorted-set", Since: "7.0.0", Complexity: "O(N*K) for K keys of which the smallest has N members",
		Syntax:  "numkeys key [key ...] [LIMIT limit]",
		Summary: "Answers how many members all keys have, or LIMIT if they are more.",
		Run:     runZInterCard,
	}
}

func runZInterCard(c *command.Ctx) {
	k, err := parseCombination(c, 1, takesLimit)
	if err != nil {
		c.W.Err(err)
		return
	}
	var n int64
	k.eachCommon(func([]byte, float64) bool {
		n++
		return n != k.limit
	})
	c.W.Int(n)
}

func intersect(k *combination) (r result) {
	k.eachCommon(func(member []byte, score float64) bool {
		r.add(member, score)
		return true
	})
	return r
}

// eachCommon calls fn for each member that all operands have until it returns
// false: it looks up those of the smallest operand in the others.
func (k *combination) eachCommon(fn func(member []byte, score float64) bool) {
	k.sortOperands()
	first, others := &k.operands[0], k.operands[1:]
	first.each(func(member []byte, score float64) bool {
		score = first.weighted(score)
		for i := range others {
			other, ok := others[i].score(member)
			if !ok {
				return true
			}
			// Not weighted: as in Redis, what is no number here makes a sum 0 and
			// leaves a minimum or maximum alone.
			score = k.aggregate.of(score, others[i].weight*other)
		}
		return fn(member, score)
	})
}
