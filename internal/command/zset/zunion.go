package zset

import "kevy/internal/command"

func zUnion() *command.Spec {
	return &command.Spec{
		Name: "zunion", Arity: -3, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  []command.KeySpec{command.Count(1, command.RO|command.Access)},
		Group: "sorted-set", Since: "6.2.0", Complexity: "O(N+M*log(M)) for N members of all keys, of which M are distinct",
		Syntax:      "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
		Summary:     "Answers the members that any of the keys has.",
		Differences: negativeZero,
		Run:         combining(union, takesWeights|takesScores),
	}
}

func zUnionStore() *command.Spec {
	return &command.Spec{
		Name: "zunionstore", Arity: -4, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatSortedSet,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.OW|command.Update),
			command.Count(2, command.RO|command.Access),
		},
		Group: "sorted-set", Since: "2.0.0", Complexity: "O(N+M*log(M)) for N members of all keys, of which M are distinct",
		Syntax:      "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
		Summary:     "Stores the members that any of the keys has; answers how many.",
		Differences: negativeZero,
		Run:         storing("zunionstore", union, takesWeights),
	}
}

func union(k *combination) (r result) {
	k.sortOperands()
	for i := range k.operands {
		o := &k.operands[i]
		o.each(func(member []byte, score float64) bool {
			score = o.weighted(score)
			if at, fresh := r.members.Add(member); fresh {
				r.scores = append(r.scores, score)
			} else {
				r.scores[at] = k.aggregate.of(r.scores[at], score)
			}
			return true
		})
	}
	return r
}
