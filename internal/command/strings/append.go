package strings

import (
	"kevy/internal/command"
	"kevy/shard"
)

func appendTo() *command.Spec {
	return &command.Spec{
		Name: "append", Arity: 3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Insert),
		Group: "string", Since: "2.0.0", Complexity: "O(1) amortized, for a short value",
		Syntax:  "key value",
		Summary: "Puts the value at the end of the key's string; a missing key begins empty.",
		Run:     runAppend,
	}
}

func runAppend(c *command.Ctx) {
	key, tail := c.Args[1], c.Args[2]
	value, found, err := c.Tx.String(key)
	if err != nil {
		c.W.Err(err)
		return
	}
	if !found {
		// Even an empty value makes the key, which SETRANGE would not.
		c.Tx.Set(key, tail, 0)
		c.Tx.Notify(shard.OfStrings, "append", key)
		c.W.Int(int64(len(tail)))
		return
	}
	n := len(value)
	if !command.FitsString(int64(n), int64(len(tail))) {
		c.W.Error(command.ErrTooLong)
		return
	}
	if len(tail) > 0 {
		if err := c.Tx.SetRange(key, n, tail); err != nil {
			c.W.Err(err)
			return
		}
	} else {
		c.Tx.MarkRaw(key)
		c.Tx.Signal(key)
	}
	c.Tx.Notify(shard.OfStrings, "append", key)
	c.W.Int(int64(n + len(tail)))
}
