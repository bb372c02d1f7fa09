package strings

import "kevy/internal/command"

func setNX() *command.Spec {
	return &command.Spec{
		Name: "setnx", Arity: 3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.OW|command.Insert),
		Group: "string", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key value",
		Summary: "Makes the key hold a string unless it exists.",
		Run:     runSetNX,
	}
}

func runSetNX(c *command.Ctx) {
	if c.Tx.Exists(c.Args[1]) {
		c.W.Int(0)
		return
	}
	setUntil(c, c.Args[1], c.Args[2], 0)
	c.W.Int(1)
}
