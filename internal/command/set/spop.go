package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

func sPop() *command.Spec {
	return &command.Spec{
		Name: "spop", Arity: -2, Flags: command.Write | command.Fast, Category: command.CatSet,
		Keys: command.One(1, command.RW|command.Access|command.Delete), Tips: []string{"nondeterministic_output"},
		Group: "set", Since: "1.0.0", Complexity: "O(N) for N members asked for, of the set if that is a third of it or more",
		Syntax:      "key [count]",
		Summary:     "Removes members picked at random and answers them.",
		Differences: "A set of which few members are left keeps its encoding; Redis builds it anew.",
		Run:         runSPop,
	}
}

func runSPop(c *command.Ctx) {
	switch len(c.Args) {
	case 2:
		popOne(c)
	case 3:
		popCount(c)
	default:
		c.W.Error(command.ErrSyntax)
	}
}

func popOne(c *command.Ctx) {
	s, err := c.Tx.SetOf(c.Key(1))
	switch {
	case err != nil:
		c.W.Err(err)
	case !s.Exists():
		c.W.Null()
	default:
		member := append([]byte{}, s.Random(command.Rand)...)
		c.W.Bulk(member)
		remove(c, member)
		c.Tx.NotifyRemoval(shard.OfSets, "spop", c.Key(1))
	}
}

func popCount(c *command.Ctx) {
	a := c.Scan(2)
	count := a.AtLeast(0, command.ErrNotPositive)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	s, err := c.Tx.SetOf(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	n := int(min(count, int64(s.Len())))
	c.W.Set(n)
	if n == s.Len() && n > shard.MaxOpElems {
		replyAll(c, s)
		c.Tx.Del(c.Key(1))
		c.Tx.NotifyRemoval(shard.OfSets, "spop", c.Key(1))
		return
	}
	// Copied: what is answered is removed while others are still to go.
	var members command.Members
	pick(s, n, members.Append)
	var batch [shard.MaxOpElems][]byte
	for i := 0; i < n; {
		k := 0
		for ; k < len(batch) && i < n; i++ {
			batch[k] = members.At(i)
			c.W.Bulk(batch[k])
			k++
		}
		remove(c, batch[:k]...)
	}
	if n > 0 {
		c.Tx.NotifyRemoval(shard.OfSets, "spop", c.Key(1))
	}
}

// remove removes members from the key, which is known to hold a set.
func remove(c *command.Ctx, members ...[]byte) {
	if _, err := c.Tx.SRem(c.Key(1), members...); err != nil {
		panic(err)
	}
}
