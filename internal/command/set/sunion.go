package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

func sUnion() *command.Spec {
	return &command.Spec{
		Name: "sunion", Arity: -2, Flags: command.ReadOnly, Category: command.CatSet,
		Keys:  []command.KeySpec{command.Range(1, -1, 1, command.RO|command.Access)},
		Tips:  []string{"nondeterministic_output_order"},
		Group: "set", Since: "1.0.0", Complexity: "O(N) for N members of all sets",
		Syntax:  "key [key ...]",
		Summary: "Answers the members that any of the sets has.",
		Run:     answering(union),
	}
}

func sUnionStore() *command.Spec {
	return &command.Spec{
		Name: "sunionstore", Arity: -3, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatSet,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.OW|command.Update),
			command.Range(2, -1, 1, command.RO|command.Access),
		},
		Group: "set", Since: "1.0.0", Complexity: "O(N) for N members of all sets",
		Syntax:  "destination key [key ...]",
		Summary: "Stores the members that any of the sets has; answers how many.",
		Run:     storing("sunionstore", union),
	}
}

func union(sets []shard.SetView, emit func(member []byte)) {
	var seen command.Members
	for _, s := range sets {
		s.Each(func(member []byte) bool {
			if _, fresh := seen.Add(member); fresh {
				emit(member)
			}
			return true
		})
	}
}
