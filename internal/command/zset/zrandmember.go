package zset

import (
	"kevy/internal/command"
	"kevy/shard"
)

func zRandMember() *command.Spec {
	return &command.Spec{
		Name: "zrandmember", Arity: -2, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "sorted-set", Since: "6.2.0", Complexity: "O(M*log(N)) for M members asked for and N in the sorted set, O(N) if M is a third of it or more",
		Syntax:      "key [count [WITHSCORES]]",
		Summary:     "Answers members picked at random: distinct ones, or with a negative count each out of all.",
		Differences: "A negative count is refused as out of range if the reply would have more than 256 MiB.",
		Run:         runZRandMember,
	}
}

func runZRandMember(c *command.Ctx) {
	if len(c.Args) == 2 {
		randMember(c)
		return
	}
	a := c.Scan(2)
	n, repeat, withScores := a.RandomCountWith("WITHSCORES")
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	r := membersReply{c, withScores}
	switch {
	case !z.Exists() || n == 0:
		c.W.Array(0)
	case repeat:
		c.Repeat(n, r.begin, func() { r.add(z.Random(command.Rand)) })
	default:
		k := int(min(n, int64(z.Len())))
		r.begin(k)
		pick(z, k, r.add)
	}
}

func randMember(c *command.Ctx) {
	z, err := c.Tx.ZSet(c.Key(1))
	switch {
	case err != nil:
		c.W.Err(err)
	case !z.Exists():
		c.W.Null()
	default:
		member, _ := z.Random(command.Rand)
		c.W.Bulk(member)
	}
}

// maxDrawShare: less than a third of a sorted set is drawn rank by rank, more is
// chosen in one walk.
const maxDrawShare = 3

// pick calls fn for n distinct members, n being at most Len.
func pick(z shard.ZSetView, n int, fn func(member []byte, score float64)) {
	if n >= z.Len()/maxDrawShare {
		sample := command.NewSample(n, z.Len())
		z.EachRank(0, z.Len(), false, func(member []byte, score float64) bool {
			if sample.Take() {
				fn(member, score)
			}
			return !sample.Done()
		})
		return
	}
	drawn := make(map[int]struct{}, n)
	for len(drawn) < n {
		rank := command.Rand.IntN(z.Len())
		if _, again := drawn[rank]; again {
			continue
		}
		drawn[rank] = struct{}{}
		member, score, _ := z.At(rank)
		fn(member, score)
	}
}
