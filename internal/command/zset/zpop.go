package zset

import (
	"kevy/internal/command"
	"kevy/shard"
)

func zPopMin() *command.Spec {
	return &command.Spec{
		Name: "zpopmin", Arity: -2, Flags: command.Write | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RW|command.Access|command.Delete),
		Group: "sorted-set", Since: "5.0.0", Complexity: "O(M*log(N)) for N members of which M go",
		Syntax:  "key [count]",
		Summary: "Removes the member with the lowest score, or so many, and answers what went.",
		Run:     func(c *command.Ctx) { pop(c, lowest) },
	}
}

func zPopMax() *command.Spec {
	return &command.Spec{
		Name: "zpopmax", Arity: -2, Flags: command.Write | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RW|command.Access|command.Delete),
		Group: "sorted-set", Since: "5.0.0", Complexity: "O(M*log(N)) for N members of which M go",
		Syntax:  "key [count]",
		Summary: "Removes the member with the highest score, or so many, the highest first, and answers what went.",
		Run:     func(c *command.Ctx) { pop(c, highest) },
	}
}

func zMPop() *command.Spec {
	return &command.Spec{
		Name: "zmpop", Arity: -4, Flags: command.Write, Category: command.CatSortedSet,
		Keys:  []command.KeySpec{command.Count(1, command.RW|command.Access|command.Delete)},
		Group: "sorted-set", Since: "7.0.0", Complexity: "O(K+M*log(N)) for K keys and N members of which M go",
		Syntax:  "numkeys key [key ...] <MIN | MAX> [COUNT count]",
		Summary: "Removes members from an end of the first sorted set that there is; answers its key and what went.",
		Run:     runZMPop,
	}
}

// end is an end of a sorted set.
type end bool

const (
	lowest  end = false
	highest end = true
)

// take removes n members of z, which the key holds, and calls fn with each
// before it goes.
func (e end) take(c *command.Ctx, key []byte, z shard.ZSetView, n int, fn func(member []byte, score float64)) {
	first := 0
	if e == highest {
		first = z.Len() - 1
	}
	if _, err := c.Tx.ZRemRange(key, first, n, e == highest, fn); err != nil {
		panic(err) // the key holds a sorted set
	}
	event := "zpopmin"
	if e == highest {
		event = "zpopmax"
	}
	c.Tx.NotifyRemoval(shard.OfZSets, event, key)
}

func pop(c *command.Ctx, from end) {
	if len(c.Args) > 3 {
		c.W.Error(command.ErrSyntax)
		return
	}
	count := int64(1)
	a := c.Scan(2)
	counted := a.More()
	if counted {
		count = a.AtLeast(0, command.ErrNotPositive)
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	n := int(min(count, int64(z.Len())))
	switch {
	case n == 0:
		c.W.Array(0)
	case counted:
		r := membersReply{c, true}
		r.begin(n)
		from.take(c, c.Key(1), z, n, r.add)
	default:
		c.W.Array(2)
		from.take(c, c.Key(1), z, 1, func(member []byte, score float64) {
			c.W.Bulk(member)
			c.W.Double(score)
		})
	}
}

func runZMPop(c *command.Ctx) {
	a := c.Scan(1)
	keys, p := parseMPop(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if !command.PopFirst(c, keys, p) {
		c.W.NullArray()
	}
}

// parseMPop reads what ZMPOP and BZMPOP share: the keys, the end and how many.
func parseMPop(a *command.Args) (keys [][]byte, p popping) {
	keys = a.CountedKeys(command.ErrSyntax)
	p.from = lowest
	switch {
	case a.Is("MIN"):
	case a.Is("MAX"):
		p.from = highest
	default:
		a.Fail(command.ErrSyntax)
	}
	p.count = a.PopCount()
	return keys, p
}
