package connection

import "kevy/internal/command"

func ping() *command.Spec {
	return &command.Spec{
		Name: "ping", Arity: -1, Flags: command.Fast | command.Unlocked, Category: command.CatConnection,
		Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "[message]",
		Tips:    []string{"request_policy:all_shards", "response_policy:all_succeeded"},
		Summary: "Answers PONG, or the message.",
		Run: func(c *command.Ctx) {
			switch n := len(c.Args); {
			case n > 2:
				c.W.Error(c.Spec.ArityError())
			case inSubscribeMode(c):
				c.W.Array(2)
				c.W.BulkString("pong")
				if n == 2 {
					c.W.Bulk(c.Args[1])
				} else {
					c.W.BulkString("")
				}
			case n == 2:
				c.W.Bulk(c.Args[1])
			default:
				c.W.Simple("PONG")
			}
		},
	}
}

// inSubscribeMode reports whether the connection is in the mode of SUBSCRIBE in
// RESP2, where all that is sent is a message.
func inSubscribeMode(c *command.Ctx) bool {
	s, ok := c.Session.(interface{ SubscribeMode() bool })
	return ok && s.SubscribeMode()
}
