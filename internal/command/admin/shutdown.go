package admin

import (
	"kevy/internal/command"
	"kevy/resp"
)

func shutdown(srv Server) *command.Spec {
	return &command.Spec{
		Name: "shutdown", Arity: -1, Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Syntax:      "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
		Flags:       command.Admin | command.NoScript | command.Loading | command.Stale | command.NoMulti | command.AllowBusy | command.Unlocked,
		Summary:     "Stops the server after everything is on disk.",
		Differences: "SAVE, NOW and FORCE make no difference, and NOSAVE only while a script takes long, which then ends: the log is always closed whole. No shutdown waits, so there is none to ABORT.",
		Run: func(c *command.Ctx) {
			abort, noSave, err := parseShutdown(c)
			if err == nil && !abort && !noSave {
				// What a script has written by now would be lost.
				err = srv.Busy()
			}
			switch {
			case err != nil:
				c.W.Error(err)
			case abort:
				c.W.Error(resp.Errorf("ERR", "No shutdown in progress."))
			default:
				session(c).Drain()
				session(c).HangUp()
				srv.Shutdown()
			}
		},
	}
}

func parseShutdown(c *command.Ctx) (abort, noSave bool, _ *resp.Error) {
	save, other := false, false
	for _, arg := range c.Args[1:] {
		switch {
		case command.EqualFold(arg, "SAVE"):
			save = true
		case command.EqualFold(arg, "NOSAVE"):
			noSave = true
		case command.EqualFold(arg, "NOW"), command.EqualFold(arg, "FORCE"):
			other = true
		case command.EqualFold(arg, "ABORT"):
			abort = true
		default:
			return false, false, command.ErrSyntax
		}
	}
	if save && noSave || abort && (save || noSave || other) {
		return false, false, command.ErrSyntax
	}
	return abort, noSave, nil
}
