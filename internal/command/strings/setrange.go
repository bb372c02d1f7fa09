package strings

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func setRange() *command.Spec {
	return &command.Spec{
		Name: "setrange", Arity: 4, Flags: command.Write | command.DenyOOM, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "string", Since: "2.2.0", Complexity: "O(M) with M bytes written, those that fill a gap included",
		Syntax:  "key offset value",
		Summary: "Overwrites part of the key's string; a gap is filled with zero bytes.",
		Run:     runSetRange,
	}
}

var errOffset = &resp.Error{Code: "ERR", Text: "offset is out of range"}

func runSetRange(c *command.Ctx) {
	key, patch := c.Args[1], c.Args[3]
	offset, ok := command.ParseInt(c.Args[2])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	if offset < 0 {
		c.W.Error(errOffset)
		return
	}
	value, _, err := c.Tx.String(key)
	switch {
	case err != nil:
		c.W.Err(err)
		return
	case len(patch) == 0:
		c.W.Int(int64(len(value)))
		return
	case !command.FitsString(offset, int64(len(patch))):
		c.W.Error(command.ErrTooLong)
		return
	}
	n := max(len(value), int(offset)+len(patch))
	if err := c.Tx.SetRange(key, int(offset), patch); err != nil {
		c.W.Err(err)
		return
	}
	c.Tx.Notify(shard.OfStrings, "setrange", key)
	c.W.Int(int64(n))
}
