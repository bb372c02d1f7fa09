package admin

import (
	"kevy/internal/command"
	"kevy/resp"
)

func monitor() *command.Spec {
	return &command.Spec{
		Name: "monitor", Arity: 1, Flags: command.Admin | command.NoScript | serverFlags | command.Unlocked,
		Group: "server", Since: "1.0.0", Complexity: "O(1); every command then costs a line for each such connection.",
		Summary: "Shows each command that runs, on this connection.",
		Differences: "Commands run at once on several cores: they are shown in an order in which they could have run one by one, those of a " +
			"transaction together. A connection that does not read is ended, at the bound of its class in client-output-buffer-limit, or at 64 MiB " +
			"where there is none.",
		Run: func(c *command.Ctx) {
			if s := session(c); s.InMulti() {
				c.W.Error(resp.Errorf("ERR", "MONITOR isn't allowed for DENY BLOCKING client"))
			} else if s.Monitor() { // one that does already gets no reply, as in Redis
				c.W.OK()
			}
		},
	}
}
