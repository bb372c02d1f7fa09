package connection

import "kevy/internal/command"

func ping() *command.Spec {
	return &command.Spec{
		Name: "ping", Arity: -1, Flags: command.Fast | command.Unlocked, Category: command.CatConnection,
		Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "[message]",
		Tips:    []string{"request_policy:all_shards", "response_policy:all_succeeded"},
		Summary: "Answers PONG, or the message.",
		Run: func(c *command.Ctx) {
			switch len(c.Args) {
			case 1:
				c.W.Simple("PONG")
			case 2:
				c.W.Bulk(c.Args[1])
			default:
				c.W.Error(c.Spec.ArityError())
			}
		},
	}
}
