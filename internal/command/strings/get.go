package strings

import "kevy/internal/command"

func get() *command.Spec {
	return &command.Spec{
		Name: "get", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "string", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the key's string.",
		Run:     func(c *command.Ctx) { replyString(c, c.Args[1]) },
	}
}
