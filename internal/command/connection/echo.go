package connection

import "kevy/internal/command"

func echo() *command.Spec {
	return &command.Spec{
		Name: "echo", Arity: 2, Flags: command.Loading | command.Stale | command.Fast | command.Unlocked, Category: command.CatConnection,
		Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "message",
		Summary: "Answers the message.",
		Run:     func(c *command.Ctx) { c.W.Bulk(c.Args[1]) },
	}
}
