package zset

import "kevy/internal/command"

func zRangeStore() *command.Spec {
	return &command.Spec{
		Name: "zrangestore", Arity: -5, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatSortedSet,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.OW|command.Update),
			command.Range(2, 0, 1, command.RO|command.Access),
		},
		Group: "sorted-set", Since: "6.2.0", Complexity: "O(log(N)+M*log(M)) for N members of which M are stored",
		Syntax:  "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
		Summary: "Stores the members in a range of positions, of scores or of members; answers how many.",
		Run:     runZRangeStore,
	}
}

func runZRangeStore(c *command.Ctx) {
	q := rangeQuery{freeBy: true, freeOrder: true}
	a := c.Scan(3)
	q.parse(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	z, err := c.Tx.ZSet(c.Key(2))
	if err != nil {
		c.W.Err(err)
		return
	}
	s := q.span(z)
	// Gathered first: the destination may be the source.
	var r result
	z.EachRank(s.first, s.n, s.reverse, func(member []byte, score float64) bool {
		r.add(member, score)
		return true
	})
	store(c, c.Key(1), r.inOrder(), "zrangestore")
}
