package zset

import (
	"kevy/internal/command"
	"kevy/resp"
)

func zScan() *command.Spec {
	return &command.Spec{
		Name: "zscan", Arity: -3, Flags: command.ReadOnly, Category: command.CatSortedSet,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "sorted-set", Since: "2.8.0", Complexity: "O(1) a call, O(N) for all N members",
		Syntax:  "key cursor [MATCH pattern] [COUNT count]",
		Summary: "Walks over the members of a sorted set and their scores, a few a call.",
		Run:     runZScan,
	}
}

func runZScan(c *command.Ctx) {
	a := c.Scan(2)
	cursor := a.Cursor()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	var found result
	if z.Exists() { // Redis does not read the options where there is nothing to scan
		o := a.ScanOptions(false)
		if err := a.Err(); err != nil {
			c.W.Error(err)
			return
		}
		cursor = z.Scan(cursor, o.Count, func(member []byte, score float64) {
			if o.Matches(member) {
				found.add(member, score)
			}
		})
	} else {
		cursor = 0
	}
	c.W.Array(2)
	c.W.BulkInt(int64(cursor))
	c.W.Array(2 * len(found.scores))
	for i, score := range found.scores {
		// The score is a string in RESP3 as well.
		var scratch [32]byte
		c.W.Bulk(found.members.At(i))
		c.W.Bulk(resp.AppendDouble(scratch[:0], score))
	}
}
