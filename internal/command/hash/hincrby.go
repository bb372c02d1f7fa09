package hash

import (
	"bytes"
	"strconv"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func hIncrBy() *command.Spec {
	return &command.Spec{
		Name: "hincrby", Arity: 4, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "hash", Since: "2.0.0", Complexity: "O(1)",
		Syntax:  "key field increment",
		Summary: "Adds to the integer that a field holds; a missing field is 0.",
		Run:     runHIncrBy,
	}
}

var (
	errFieldNotInt = &resp.Error{Code: "ERR", Text: "hash value is not an integer"}
	errOverflow    = &resp.Error{Code: "ERR", Text: "increment or decrement would overflow"}
)

func runHIncrBy(c *command.Ctx) {
	key, field := c.Args[1], c.Args[2]
	delta, ok := command.ParseInt(c.Args[3])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	h, err := c.Tx.HashFields(key)
	if err != nil {
		c.W.Err(err)
		return
	}
	var n int64
	if value, found := h.Get(field); found {
		if n, ok = command.ParseInt(value); !ok {
			c.W.Error(errFieldNotInt)
			return
		}
	}
	sum := n + delta
	if delta > 0 && sum < n || delta < 0 && sum > n {
		c.W.Error(errOverflow)
		return
	}
	var scratch [20]byte
	if err := setKeepingTTL(c, h, field, strconv.AppendInt(scratch[:0], sum, 10)); err != nil {
		c.W.Err(err)
		return
	}
	c.Tx.Notify(shard.OfHashes, "hincrby", key)
	c.W.Int(sum)
}

// setKeepingTTL sets a field of the hash h that the first argument names; a
// deadline of the field stays.
func setKeepingTTL(c *command.Ctx, h shard.HashView, field, value []byte) (err error) {
	if at, _ := h.Deadline(field); at != 0 {
		_, err = c.Tx.HSetKeepTTL(c.Key(1), field, bytes.Clone(value)) // value may be on the stack
	} else {
		_, err = c.Tx.HSet(c.Key(1), field, value)
	}
	return err
}
