package admin

import "kevy/internal/command"

const saveDifferences = "The file, dump.rdb, is for who wants it: no start reads it, kevy-server import does. Other clients go on meanwhile."

func save(srv Server) *command.Spec {
	return &command.Spec{
		Name: "save", Arity: 1, Flags: command.Admin | command.NoScript | command.NoAsyncLoading | command.NoMulti | command.Unlocked,
		Group: "server", Since: "1.0.0", Complexity: "O(N) for N keys",
		Summary: "Writes all keys to an RDB file.", Differences: saveDifferences,
		Run: func(c *command.Ctx) {
			if err := srv.Save(); err != nil {
				c.W.Err(err)
				return
			}
			c.W.OK()
		},
	}
}

func bgSave(srv Server) *command.Spec {
	return &command.Spec{
		Name: "bgsave", Arity: -1, Flags: command.Admin | command.NoScript | command.NoAsyncLoading | command.Unlocked,
		Group: "server", Since: "1.0.0", Complexity: "O(1)", Syntax: "[SCHEDULE]",
		Summary:     "Starts to write all keys to an RDB file in the background.",
		Differences: saveDifferences + " A rewrite of the log does not keep it from beginning.",
		Run: func(c *command.Ctx) {
			if len(c.Args) > 2 || len(c.Args) == 2 && !command.EqualFold(c.Args[1], "SCHEDULE") {
				c.W.Error(command.ErrSyntax)
				return
			}
			err := srv.StartSave()
			switch {
			case err != nil:
				c.W.Err(err)
			case session(c).InMulti():
				// It begins when EXEC lets go of the shards.
				c.W.Simple("Background saving scheduled")
			default:
				c.W.Simple("Background saving started")
			}
		},
	}
}
