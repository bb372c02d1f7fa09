package strings

import (
	"bytes"

	"kevy/internal/command"
)

func delIfEQ() *command.Spec {
	return &command.Spec{
		Name: "delifeq", Arity: 3, Flags: command.Write | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RM|command.Access|command.Delete),
		Group: "string", Since: "9.0.0", Complexity: "O(1)",
		Syntax:      "key value",
		Summary:     "Deletes the key if its string is the one given.",
		Differences: "As in Valkey 9.0; Redis has DELEX IFEQ for it.",
		Run:         runDelIfEQ,
	}
}

func runDelIfEQ(c *command.Ctx) {
	key := c.Args[1]
	value, found, err := c.Tx.String(key)
	if err != nil {
		c.W.Err(err)
		return
	}
	c.W.Int(deleted(c, key, found && bytes.Equal(value, c.Args[2])))
}
