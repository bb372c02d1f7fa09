package hash

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func hIncrByFloat() *command.Spec {
	return &command.Spec{
		Name: "hincrbyfloat", Arity: 4, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "hash", Since: "2.6.0", Complexity: "O(1)",
		Syntax:      "key field increment",
		Summary:     "Adds to the number that a field holds; a missing field is 0.",
		Differences: "The sum has the digits of Redis on x86-64 (an 80-bit long double) on every machine.",
		Run:         runHIncrByFloat,
	}
}

var (
	errInfinite      = &resp.Error{Code: "ERR", Text: "value is NaN or Infinity"}
	errFieldNotFloat = &resp.Error{Code: "ERR", Text: "hash value is not a float"}
)

func runHIncrByFloat(c *command.Ctx) {
	key, field := c.Args[1], c.Args[2]
	delta, ok := command.ParseLongDouble(c.Args[3])
	switch {
	case !ok:
		c.W.Error(command.ErrNotFloat)
		return
	case delta.IsInf():
		c.W.Error(errInfinite)
		return
	}
	h, err := c.Tx.HashFields(key)
	if err != nil {
		c.W.Err(err)
		return
	}
	n := command.LongDoubleOf(0)
	if value, found := h.Get(field); found {
		if n, ok = command.ParseLongDouble(value); !ok {
			c.W.Error(errFieldNotFloat)
			return
		}
	}
	sum, finite := n.Add(delta)
	if !finite {
		c.W.Error(command.ErrNaNOrInfinity)
		return
	}
	text := sum.Append(nil)
	if err := setKeepingTTL(c, h, field, text); err != nil {
		c.W.Err(err)
		return
	}
	c.Tx.Notify(shard.OfHashes, "hincrbyfloat", key)
	c.W.Bulk(text)
}
