package generic

import (
	"bytes"
	"math"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func copyKey() *command.Spec {
	return &command.Spec{
		Name: "copy", Arity: -3, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatKeyspace,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.RO|command.Access),
			command.Range(2, 0, 1, command.OW|command.Update),
		},
		Group: "generic", Since: "6.2.0", Complexity: "O(N) with a value of N elements or bytes",
		Syntax:  "source destination [DB destination-db] [REPLACE]",
		Summary: "Copies a key's value and expiry to another key.",
		Run:     runCopy,
	}
}

var (
	errDBIndex = &resp.Error{Code: "ERR", Text: "DB index is out of range"}
	errDBRange = &resp.Error{Code: "ERR", Text: "value is out of range, value must between -2147483648 and 2147483647"}
	errSameKey = &resp.Error{Code: "ERR", Text: "source and destination objects are the same"}
)

// dbIndex checks the number of a database.
func dbIndex(c *command.Ctx, n int64) (db int, err *resp.Error) {
	switch {
	case n < math.MinInt32 || n > math.MaxInt32:
		return 0, errDBRange
	case n < 0 || n >= int64(c.Tx.DBs()):
		return 0, errDBIndex
	}
	return int(n), nil
}

// existsIn reports whether the key exists in a database.
func existsIn(c *command.Ctx, db int, key []byte) bool {
	selected := c.Tx.DB()
	c.Tx.Select(db)
	defer c.Tx.Select(selected)
	return c.Tx.Exists(key)
}

// takenIn is existsIn for a name that is to be free: no key is missed there.
func takenIn(c *command.Ctx, db int, key []byte) bool {
	c.Tx.TellMisses(false)
	return existsIn(c, db, key)
}

func runCopy(c *command.Ctx) {
	src, dst := c.Args[1], c.Args[2]
	db, replace := c.Tx.DB(), false
	a := c.Scan(3)
	for a.More() {
		switch {
		case a.Is("REPLACE"):
			replace = true
		case a.Is("DB"):
			n := a.Int()
			if a.Err() == nil {
				var err *resp.Error
				if db, err = dbIndex(c, n); err != nil {
					a.Fail(err)
				}
			}
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	switch {
	case db == c.Tx.DB() && bytes.Equal(src, dst):
		c.W.Error(errSameKey)
	case !c.Tx.Exists(src) || takenIn(c, db, dst) && !replace:
		c.W.Int(0)
	default:
		c.Tx.Copy(src, db, dst)
		c.Tx.NotifyIn(db, shard.OfGeneric, "copy_to", dst)
		c.W.Int(1)
	}
}
