package admin

import (
	"kevy/internal/command"
	"kevy/resp"
)

func bgRewriteAOF(srv Server) *command.Spec {
	return &command.Spec{
		Name: "bgrewriteaof", Arity: 1, Flags: command.Admin | command.NoScript | command.NoAsyncLoading | command.Unlocked,
		Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary:     "Starts to rewrite the log in the background.",
		Differences: "With appendonly no there is no log, and so nothing to rewrite.",
		Run: func(c *command.Ctx) {
			err := srv.Rewrite()
			switch {
			case err != nil:
				c.W.Error(resp.Errorf("ERR", "%v", err))
			case session(c).InMulti():
				// It begins when EXEC lets go of the shards.
				c.W.Simple("Background append only file rewriting scheduled")
			default:
				c.W.Simple("Background append only file rewriting started")
			}
		},
	}
}
