package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

func hPersist() *command.Spec {
	return &command.Spec{
		Name: "hpersist", Arity: -5, Flags: command.Write | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "hash", Since: "7.4.0", Complexity: "O(N log M) for N fields of M that expire",
		Syntax:  "key FIELDS numfields field [field ...]",
		Summary: "Keeps fields from expiring; answers 1 for each that would have, -1 for one that would not, -2 for one that is not there.",
		Run:     runHPersist,
	}
}

func runHPersist(c *command.Ctx) {
	if !hashFirst(c) {
		return
	}
	a := c.Scan(2)
	fields := countedFields(c, &a, errNumFields)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	c.W.Array(len(fields))
	changed := false
	_ = c.Tx.HPersist(c.Key(1), fields, func(found, had bool) {
		changed = changed || had
		switch {
		case had:
			c.W.Int(1)
		case found:
			c.W.Int(-1)
		default:
			c.W.Int(-2)
		}
	})
	if changed {
		c.Tx.Notify(shard.OfHashes, "hpersist", c.Key(1))
	}
}
