package bitmap

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func setBit() *command.Spec {
	return &command.Spec{
		Name: "setbit", Arity: 4, Flags: command.Write | command.DenyOOM, Category: command.CatBitmap,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "bitmap", Since: "2.2.0", Complexity: "O(1); O(N) where the string grows by N bytes",
		Syntax:  "key offset value",
		Summary: "Sets or clears a bit and answers what it was; the string grows with zero bits.",
		Run:     runSetBit,
	}
}

var errBit = &resp.Error{Code: "ERR", Text: "bit is not an integer or out of range"}

func runSetBit(c *command.Ctx) {
	key := c.Args[1]
	bit, err := parseOffset(c.Args[2])
	if err != nil {
		c.W.Error(err)
		return
	}
	on, ok := command.ParseInt(c.Args[3])
	if !ok || on != on&1 {
		c.W.Error(errBit)
		return
	}
	value, _, wrong := c.Tx.String(key)
	if wrong != nil {
		c.W.Err(wrong)
		return
	}
	was := bitAt(value, bit)
	at := int(bit >> 3)
	if was != on || at >= len(value) {
		var patch [1]byte
		if at < len(value) {
			patch[0] = value[at]
		}
		patch[0] = patch[0]&^(1<<(7-bit&7)) | byte(on)<<(7-bit&7)
		if err := c.Tx.SetRange(key, at, patch[:]); err != nil {
			c.W.Err(err)
			return
		}
	} else {
		c.Tx.MarkRaw(key)
	}
	if was != on || at >= len(value) {
		c.Tx.Notify(shard.OfStrings, "setbit", key)
	}
	c.W.Int(was)
}
