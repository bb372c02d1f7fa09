package zset

import "kevy/internal/command"

func zDiff() *command.Spec {
	return &command.Spec{
		Name: "zdiff", Arity: -3, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys:  []command.KeySpec{command.Count(1, command.RO|command.Access)},
		Group: "sorted-set", Since: "6.2.0", Complexity: "O(N+M*log(M)) for N members of all keys, of which M are answered",
		Syntax:  "numkeys key [key ...] [WITHSCORES]",
		Summary: "Answers the members of the first key that no other has.",
		Run:     combining(difference, takesScores),
	}
}

func zDiffStore() *command.Spec {
	return &command.Spec{
		Name: "zdiffstore", Arity: -4, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatSortedSet,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.OW|command.Update),
			command.Count(2, command.RO|command.Access),
		},
		Group: "sorted-set", Since: "6.2.0", Complexity: "O(N+M*log(M)) for N members of all keys, of which M are stored",
		Syntax:  "destination numkeys key [key ...]",
		Summary: "Stores the members of the first key that no other has; answers how many.",
		Run:     storing("zdiffstore", difference, 0),
	}
}

// difference takes the way of less work: to look up the members of the first
// operand in the others, which on average ends halfway, or those of the others
// in the first.
func difference(k *combination) result {
	total := 0
	for i := range k.operands {
		total += k.operands[i].Len()
	}
	if k.operands[0].Len()*len(k.operands)/2 <= total {
		return lookUp(&k.operands[0], k.operands[1:])
	}
	return strikeOut(&k.operands[0], k.operands[1:])
}

func lookUp(first *operand, others []operand) (r result) {
	first.each(func(member []byte, score float64) bool {
		for i := range others {
			if _, ok := others[i].score(member); ok {
				return true
			}
		}
		r.add(member, score)
		return true
	})
	return r
}

func strikeOut(first *operand, others []operand) (r result) {
	var members command.Members
	scores := make([]float64, 0, first.Len())
	first.each(func(member []byte, score float64) bool {
		members.Add(member)
		scores = append(scores, score)
		return true
	})
	struck := make([]bool, members.Len())
	for i := range others {
		others[i].each(func(member []byte, _ float64) bool {
			if at := members.Find(member); at >= 0 {
				struck[at] = true
			}
			return true
		})
	}
	for i, gone := range struck {
		if !gone {
			r.add(members.At(i), scores[i])
		}
	}
	return r
}
