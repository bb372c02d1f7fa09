package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

func hRandField() *command.Spec {
	return &command.Spec{
		Name: "hrandfield", Arity: -2, Flags: command.ReadOnly, Category: command.CatHash,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "hash", Since: "6.2.0", Complexity: "O(N) for N fields asked for, of the hash if that is a third of it or more",
		Syntax:      "key [count [WITHVALUES]]",
		Summary:     "Answers fields picked at random: distinct ones, or with a negative count each out of all.",
		Differences: "A negative count is refused as out of range if the reply would have more than 256 MiB.",
		Run:         runHRandField,
	}
}

func runHRandField(c *command.Ctx) {
	if len(c.Args) == 2 {
		randField(c)
		return
	}
	a := c.Scan(2)
	n, repeat, withValues := a.RandomCountWith("WITHVALUES")
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	h, err := c.Tx.Hash(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	r := fieldsReply{c, withValues}
	switch {
	case !h.Exists() || n == 0:
		c.W.Array(0)
	case repeat:
		c.Repeat(n, r.begin, func() { r.add(h.Random(command.Rand)) })
	case n >= int64(h.Len()):
		r.begin(h.Len())
		h.Each(func(field, value []byte) bool {
			r.add(field, value)
			return true
		})
	default:
		r.begin(int(n))
		randFields(h, int(n), r.add)
	}
}

func randField(c *command.Ctx) {
	h, err := c.Tx.Hash(c.Key(1))
	switch {
	case err != nil:
		c.W.Err(err)
	case !h.Exists():
		c.W.Null()
	default:
		field, _ := h.Random(command.Rand)
		c.W.Bulk(field)
	}
}

// fieldsReply replies with fields, with their values or without.
type fieldsReply struct {
	c          *command.Ctx
	withValues bool
}

func (r fieldsReply) begin(n int) {
	if r.withValues {
		r.c.W.Pairs(n)
	} else {
		r.c.W.Array(n)
	}
}

func (r fieldsReply) add(field, value []byte) {
	if r.withValues {
		r.c.W.Pair()
		r.c.W.Bulk(field)
		r.c.W.Bulk(value)
	} else {
		r.c.W.Bulk(field)
	}
}

const (
	// maxDrawShare: up to a third of a hash is drawn field by field.
	maxDrawShare = 3
	// maxWalkedLen: a hash of so many fields is walked in any case; it may be
	// packed, and then a draw costs a walk.
	maxWalkedLen = 256
)

// randFields calls fn for n distinct fields of more than n.
func randFields(h shard.HashView, n int, fn func(field, value []byte)) {
	if h.Len() <= maxWalkedLen || n >= h.Len()/maxDrawShare {
		s := command.NewSample(n, h.Len())
		h.Each(func(field, value []byte) bool {
			if s.Take() {
				fn(field, value)
			}
			return !s.Done()
		})
		return
	}
	seen := make(map[string]struct{}, n)
	for len(seen) < n {
		field, value := h.Random(command.Rand)
		if _, again := seen[string(field)]; !again {
			seen[string(field)] = struct{}{}
			fn(field, value)
		}
	}
}
