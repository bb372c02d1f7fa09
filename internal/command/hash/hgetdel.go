package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

func hGetDel() *command.Spec {
	return &command.Spec{
		Name: "hgetdel", Arity: -5, Flags: command.Write | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Access|command.Delete),
		Group: "hash", Since: "8.0.0", Complexity: "O(N) for N fields",
		Syntax:  "key FIELDS numfields field [field ...]",
		Summary: "Answers the values of fields and removes these.",
		Run:     runHGetDel,
	}
}

func runHGetDel(c *command.Ctx) {
	if !hashFirst(c) {
		return
	}
	a := c.Scan(2)
	fields := countedFields(c, &a, errNumFields)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	takeFields(c, fields)
}

// takeFields replies with the values of fields, removes these, and returns how
// many there were. The key holds a hash or nothing.
func takeFields(c *command.Ctx, fields [][]byte) int {
	c.W.Array(len(fields))
	n, _ := c.Tx.HTake(c.Key(1), fields, func(value []byte, ok bool) {
		if ok {
			c.W.Bulk(value)
		} else {
			c.W.Null()
		}
	})
	if n > 0 {
		c.Tx.NotifyRemoval(shard.OfHashes, "hdel", c.Key(1))
	}
	return n
}
