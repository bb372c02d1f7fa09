package strings

import (
	"math"
	"strconv"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func incr() *command.Spec {
	return &command.Spec{
		Name: "incr", Arity: 2, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "string", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Adds one to the integer that the key holds; a missing key is 0.",
		Run:     func(c *command.Ctx) { add(c, 1) },
	}
}

func decr() *command.Spec {
	return &command.Spec{
		Name: "decr", Arity: 2, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "string", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Takes one from the integer that the key holds; a missing key is 0.",
		Run:     func(c *command.Ctx) { add(c, -1) },
	}
}

func incrBy() *command.Spec {
	return &command.Spec{
		Name: "incrby", Arity: 3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "string", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key increment",
		Summary: "Adds to the integer that the key holds; a missing key is 0.",
		Run:     runIncrBy,
	}
}

func decrBy() *command.Spec {
	return &command.Spec{
		Name: "decrby", Arity: 3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "string", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key decrement",
		Summary: "Takes from the integer that the key holds; a missing key is 0.",
		Run:     runDecrBy,
	}
}

var (
	errOverflow     = &resp.Error{Code: "ERR", Text: "increment or decrement would overflow"}
	errDecrOverflow = &resp.Error{Code: "ERR", Text: "decrement would overflow"}
)

func runIncrBy(c *command.Ctx) {
	n, ok := command.ParseInt(c.Args[2])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	add(c, n)
}

func runDecrBy(c *command.Ctx) {
	n, ok := command.ParseInt(c.Args[2])
	switch {
	case !ok:
		c.W.Error(command.ErrNotInt)
	case n == math.MinInt64:
		c.W.Error(errDecrOverflow) // it has no negative
	default:
		add(c, -n)
	}
}

func add(c *command.Ctx, delta int64) {
	key := c.Args[1]
	value, found, err := c.Tx.String(key)
	if err != nil {
		c.W.Err(err)
		return
	}
	var n int64
	if found {
		var ok bool
		if n, ok = command.ParseInt(value); !ok {
			c.W.Error(command.ErrNotInt)
			return
		}
	}
	sum := n + delta
	if delta > 0 && sum < n || delta < 0 && sum > n {
		c.W.Error(errOverflow)
		return
	}
	var scratch [20]byte
	c.Tx.Set(key, strconv.AppendInt(scratch[:0], sum, 10), shard.KeepTTL)
	c.Tx.Notify(shard.OfStrings, "incrby", key)
	c.W.Int(sum)
}
