package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

func sDiff() *command.Spec {
	return &command.Spec{
		Name: "sdiff", Arity: -2, Flags: command.ReadOnly, Category: command.CatSet,
		Keys:  []command.KeySpec{command.Range(1, -1, 1, command.RO|command.Access)},
		Tips:  []string{"nondeterministic_output_order"},
		Group: "set", Since: "1.0.0", Complexity: "O(N) for N members of all sets",
		Syntax:  "key [key ...]",
		Summary: "Answers the members of the first set that no other has.",
		Run:     answering(difference),
	}
}

func sDiffStore() *command.Spec {
	return &command.Spec{
		Name: "sdiffstore", Arity: -3, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatSet,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.OW|command.Update),
			command.Range(2, -1, 1, command.RO|command.Access),
		},
		Group: "set", Since: "1.0.0", Complexity: "O(N) for N members of all sets",
		Syntax:  "destination key [key ...]",
		Summary: "Stores the members of the first set that no other has; answers how many.",
		Run:     storing("sdiffstore", difference),
	}
}

// difference takes the way of less work: to look up the members of the first
// set in the others, which on average ends halfway, or those of the others in
// the first.
func difference(sets []shard.SetView, emit func(member []byte)) {
	total := 0
	for _, s := range sets {
		total += s.Len()
	}
	if sets[0].Len()*len(sets)/2 <= total {
		lookUp(sets[0], sets[1:], emit)
	} else {
		strikeOut(sets[0], sets[1:], emit)
	}
}

func lookUp(first shard.SetView, others []shard.SetView, emit func(member []byte)) {
	first.Each(func(member []byte) bool {
		for _, s := range others {
			if s.Has(member) {
				return true
			}
		}
		emit(member)
		return true
	})
}

func strikeOut(first shard.SetView, others []shard.SetView, emit func(member []byte)) {
	var members command.Members
	first.Each(func(member []byte) bool {
		members.Add(member)
		return true
	})
	struck := make([]bool, members.Len())
	for _, s := range others {
		s.Each(func(member []byte) bool {
			if i := members.Find(member); i >= 0 {
				struck[i] = true
			}
			return true
		})
	}
	for i, gone := range struck {
		if !gone {
			emit(members.At(i))
		}
	}
}
