package strings

import (
	"kevy/internal/command"
	"kevy/shard"
)

func incrByFloat() *command.Spec {
	return &command.Spec{
		Name: "incrbyfloat", Arity: 3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "string", Since: "2.6.0", Complexity: "O(1)",
		Syntax:      "key increment",
		Summary:     "Adds to the number that the key holds; a missing key is 0.",
		Differences: "The sum has the digits of Redis on x86-64 (an 80-bit long double) on every machine.",
		Run:         runIncrByFloat,
	}
}

func runIncrByFloat(c *command.Ctx) {
	key := c.Args[1]
	value, found, err := c.Tx.String(key)
	if err != nil {
		c.W.Err(err)
		return
	}
	n := command.LongDoubleOf(0)
	ok := true
	if found {
		n, ok = command.ParseLongDouble(value)
	}
	delta, okDelta := command.ParseLongDouble(c.Args[2])
	if !ok || !okDelta {
		c.W.Error(command.ErrNotFloat)
		return
	}
	sum, finite := n.Add(delta)
	if !finite {
		c.W.Error(command.ErrNaNOrInfinity)
		return
	}
	text := sum.Append(nil)
	c.Tx.Set(key, text, shard.KeepTTL)
	c.Tx.MarkNotInt(key)
	c.Tx.Notify(shard.OfStrings, "incrbyfloat", key)
	c.W.Bulk(text)
}
