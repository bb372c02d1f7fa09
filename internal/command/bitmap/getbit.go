package bitmap

import "kevy/internal/command"

func getBit() *command.Spec {
	return &command.Spec{
		Name: "getbit", Arity: 3, Flags: command.ReadOnly | command.Fast, Category: command.CatBitmap,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "bitmap", Since: "2.2.0", Complexity: "O(1)",
		Syntax:  "key offset",
		Summary: "Answers a bit, 0 beyond the string's end.",
		Run:     runGetBit,
	}
}

func runGetBit(c *command.Ctx) {
	bit, err := parseOffset(c.Args[2])
	if err != nil {
		c.W.Error(err)
		return
	}
	value, _, wrong := c.Tx.String(c.Args[1])
	if wrong != nil {
		c.W.Err(wrong)
		return
	}
	c.W.Int(bitAt(value, bit))
}
