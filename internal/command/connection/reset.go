package connection

import "kevy/internal/command"

func reset() *command.Spec {
	return &command.Spec{
		Name: "reset", Arity: 1, Category: command.CatConnection,
		Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.AllowBusy | command.Unlocked,
		Group: "connection", Since: "6.2.0", Complexity: "O(1)",
		Summary: "Puts the connection into the state of a new one.",
		Run: func(c *command.Ctx) {
			conn(c).Reset()
			c.W.Simple("RESET")
		},
	}
}
