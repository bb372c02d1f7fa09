package connection

import "kevy/internal/command"

func quit() *command.Spec {
	return &command.Spec{
		Name: "quit", Arity: -1, Category: command.CatConnection,
		Flags: command.AllowBusy | command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.Unlocked,
		Group: "connection", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Closes the connection.",
		Run: func(c *command.Ctx) {
			conn(c).HangUp()
			c.W.OK()
		},
	}
}
