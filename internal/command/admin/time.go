package admin

import (
	"time"

	"kevy/internal/command"
)

func timeCommand() *command.Spec {
	return &command.Spec{
		Name: "time", Arity: 1, Flags: serverFlags | command.Fast | command.Unlocked,
		Group: "server", Since: "2.6.0", Complexity: "O(1)", Tips: []string{"nondeterministic_output"},
		Summary: "Answers the server's clock: seconds and microseconds since 1970.",
		Run: func(c *command.Ctx) {
			us := time.Now().UnixMicro()
			c.W.Array(2)
			c.W.BulkInt(us / 1e6)
			c.W.BulkInt(us % 1e6)
		},
	}
}
