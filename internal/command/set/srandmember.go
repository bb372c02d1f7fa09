package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

func sRandMember() *command.Spec {
	return &command.Spec{
		Name: "srandmember", Arity: -2, Flags: command.ReadOnly, Category: command.CatSet,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "set", Since: "1.0.0", Complexity: "O(N) for N members asked for, of the set if that is a third of it or more",
		Syntax:      "key [count]",
		Summary:     "Answers members picked at random: distinct ones, or with a negative count each out of all.",
		Differences: "A negative count is refused as out of range if the reply would have more than 256 MiB.",
		Run:         runSRandMember,
	}
}

func runSRandMember(c *command.Ctx) {
	switch len(c.Args) {
	case 2:
		randMember(c)
	case 3:
		randMembers(c)
	default:
		c.W.Error(command.ErrSyntax)
	}
}

func randMember(c *command.Ctx) {
	s, err := c.Tx.SetOf(c.Key(1))
	switch {
	case err != nil:
		c.W.Err(err)
	case !s.Exists():
		c.W.Null()
	default:
		c.W.Bulk(s.Random(command.Rand))
	}
}

func randMembers(c *command.Ctx) {
	a := c.Scan(2)
	n, repeat := a.RandomCount()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	s, err := c.Tx.SetOf(c.Key(1))
	switch {
	case err != nil:
		c.W.Err(err)
	case !s.Exists() || n == 0:
		c.W.Array(0)
	case repeat:
		c.Repeat(n, c.W.Array, func() { c.W.Bulk(s.Random(command.Rand)) })
	default:
		k := int(min(n, int64(s.Len())))
		c.W.Array(k)
		pick(s, k, c.W.Bulk)
	}
}

// maxDrawShare: less than a third of a set is drawn member by member, more is
// chosen in one walk.
const maxDrawShare = 3

// pick calls fn for n distinct members, n being at most Len. member is valid
// until fn returns.
func pick(s shard.SetView, n int, fn func(member []byte)) {
	if n >= s.Len()/maxDrawShare {
		sample := command.NewSample(n, s.Len())
		s.Each(func(member []byte) bool {
			if sample.Take() {
				fn(member)
			}
			return !sample.Done()
		})
		return
	}
	var drawn command.Members
	for drawn.Len() < n {
		if i, fresh := drawn.Add(s.Random(command.Rand)); fresh {
			fn(drawn.At(i))
		}
	}
}
