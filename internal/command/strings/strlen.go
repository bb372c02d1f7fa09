package strings

import "kevy/internal/command"

func strLen() *command.Spec {
	return &command.Spec{
		Name: "strlen", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RO),
		Group: "string", Since: "2.2.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the length of the key's string in bytes.",
		Run:     runStrLen,
	}
}

func runStrLen(c *command.Ctx) {
	value, _, err := c.Tx.String(c.Args[1])
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Int(int64(len(value)))
}
