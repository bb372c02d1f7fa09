package zset

import (
	"kevy/internal/command"
	"kevy/shard"
)

func bzPopMin() *command.Spec {
	return &command.Spec{
		Name: "bzpopmin", Arity: -3, Flags: command.Write | command.Fast | command.Blocking, Category: command.CatSortedSet,
		Keys:  []command.KeySpec{command.Range(1, -2, 1, command.RW|command.Access|command.Delete)},
		Group: "sorted-set", Since: "5.0.0", Complexity: "O(K+log(N)) for K keys and N members",
		Syntax:      "key [key ...] timeout",
		Summary:     "Removes the member with the lowest score of the first sorted set that there is, waiting for one if need be; answers its key, it and the score.",
		Differences: differsWhenReady,
		Run:         func(c *command.Ctx) { runBZPop(c, lowest) },
	}
}

func bzPopMax() *command.Spec {
	return &command.Spec{
		Name: "bzpopmax", Arity: -3, Flags: command.Write | command.Fast | command.Blocking, Category: command.CatSortedSet,
		Keys:  []command.KeySpec{command.Range(1, -2, 1, command.RW|command.Access|command.Delete)},
		Group: "sorted-set", Since: "5.0.0", Complexity: "O(K+log(N)) for K keys and N members",
		Syntax:      "key [key ...] timeout",
		Summary:     "Removes the member with the highest score of the first sorted set that there is, waiting for one if need be; answers its key, it and the score.",
		Differences: differsWhenReady,
		Run:         func(c *command.Ctx) { runBZPop(c, highest) },
	}
}

func bzMPop() *command.Spec {
	return &command.Spec{
		Name: "bzmpop", Arity: -5, Flags: command.Write | command.Blocking, Category: command.CatSortedSet,
		Keys:  []command.KeySpec{command.Count(2, command.RW|command.Access|command.Delete)},
		Group: "sorted-set", Since: "7.0.0", Complexity: "O(K+M*log(N)) for K keys and N members of which M go",
		Syntax:      "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
		Summary:     "ZMPOP that waits for a sorted set if there is none.",
		Differences: differsWhenReady,
		Run:         runBZMPop,
	}
}

// differsWhenReady is said of all commands that wait for a sorted set.
const differsWhenReady = "A sorted set that takes the place of another value, as by ZUNIONSTORE, serves those who wait for it; Redis 7.0 forgets them then."

// popping is what is popped of a sorted set once there is one.
type popping struct {
	from  end
	count int64 // at most; 0: one member, which is not replied as an array
}

func runBZPop(c *command.Ctx, from end) {
	last := len(c.Args) - 1
	command.PopOrWait(c, c.Args[1:last], popping{from: from}, last)
}

func runBZMPop(c *command.Ctx) {
	a := c.Scan(2)
	keys, p := parseMPop(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	command.PopOrWait(c, keys, p, 1)
}

// Kind implements command.Popper.
func (p popping) Kind() shard.Kind { return shard.KindZSet }

// Pop pops of a sorted set that there is and replies with its key and what went.
func (p popping) Pop(c *command.Ctx, key []byte) bool {
	z, err := c.Tx.ZSet(key)
	if err != nil {
		panic(err) // the key holds a sorted set
	}
	if p.count == 0 {
		c.W.Array(3)
		c.W.Bulk(key)
		p.from.take(c, key, z, 1, func(member []byte, score float64) {
			c.W.Bulk(member)
			c.W.Double(score)
		})
		return true
	}
	n := int(min(p.count, int64(z.Len())))
	c.W.Array(2)
	c.W.Bulk(key)
	c.W.Array(n)
	p.from.take(c, key, z, n, func(member []byte, score float64) {
		c.W.Array(2)
		c.W.Bulk(member)
		c.W.Double(score)
	})
	return true
}
