package set

import (
	"cmp"
	"slices"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func sInter() *command.Spec {
	return &command.Spec{
		Name: "sinter", Arity: -2, Flags: command.ReadOnly, Category: command.CatSet,
		Keys:  []command.KeySpec{command.Range(1, -1, 1, command.RO|command.Access)},
		Tips:  []string{"nondeterministic_output_order"},
		Group: "set", Since: "1.0.0", Complexity: "O(N*M) for M sets of which the smallest has N members",
		Syntax:  "key [key ...]",
		Summary: "Answers the members that all sets have.",
		Run:     answering(intersect),
	}
}

func sInterStore() *command.Spec {
	return &command.Spec{
		Name: "sinterstore", Arity: -3, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatSet,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RW|command.Update),
			command.Range(2, -1, 1, command.RO|command.Access),
		},
		Group: "set", Since: "1.0.0", Complexity: "O(N*M) for M sets of which the smallest has N members",
		Syntax:  "destination key [key ...]",
		Summary: "Stores the members that all sets have; answers how many.",
		Run:     storing("sinterstore", intersect),
	}
}

func sInterCard() *command.Spec {
	return &command.Spec{
		Name: "sintercard", Arity: -3, Flags: command.ReadOnly, Category: command.CatSet,
		Keys:  []command.KeySpec{command.Count(1, command.RO|command.Access)},
		Group: "set", Since: "7.0.0", Complexity: "O(N*M) for M sets of which the smallest has N members",
		Syntax:  "numkeys key [key ...] [LIMIT limit]",
		Summary: "Answers how many members all sets have, or LIMIT if they are more.",
		Run:     runSInterCard,
	}
}

var (
	errTooManyKeys   = &resp.Error{Code: "ERR", Text: "Number of keys can't be greater than number of args"}
	errNegativeLimit = &resp.Error{Code: "ERR", Text: "LIMIT can't be negative"}
)

func runSInterCard(c *command.Ctx) {
	a := c.Scan(1)
	keys := a.CountedKeys(errTooManyKeys)
	var limit int64
	for a.More() {
		if !a.Is("LIMIT") {
			a.Fail(command.ErrSyntax)
		}
		limit = a.AtLeast(0, errNegativeLimit)
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	sets, err := setsOf(c, keys)
	if err != nil {
		c.W.Err(err)
		return
	}
	var n int64
	eachCommon(sets, func([]byte) bool {
		n++
		return n != limit
	})
	c.W.Int(n)
}

func intersect(sets []shard.SetView, emit func(member []byte)) {
	eachCommon(sets, func(member []byte) bool {
		emit(member)
		return true
	})
}

// eachCommon calls fn for each member that all sets have until it returns
// false: it looks up those of the smallest set in the others.
func eachCommon(sets []shard.SetView, fn func(member []byte) bool) {
	slices.SortFunc(sets, func(a, b shard.SetView) int { return cmp.Compare(a.Len(), b.Len()) })
	sets[0].Each(func(member []byte) bool {
		for _, s := range sets[1:] {
			if !s.Has(member) {
				return true
			}
		}
		return fn(member)
	})
}
