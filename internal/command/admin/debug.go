package admin

import (
	"strconv"
	"time"

	"kevy/internal/command"
	"kevy/internal/config"
	"kevy/resp"
)

// maxSleepSeconds bounds DEBUG SLEEP.
const maxSleepSeconds = 3600

func debug(srv Server) *command.Spec {
	flags := command.Admin | command.NoScript | command.Loading | command.Stale | command.Unlocked
	allowed := func(run command.Handler) command.Handler {
		return func(c *command.Ctx) {
			if srv.Config().EnableDebugCommand.Load() == config.LocalityNo {
				c.W.Error(resp.Errorf("ERR", "DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server."))
				return
			}
			run(c)
		}
	}
	return &command.Spec{
		Name: "debug", Arity: -2, Group: "server", Since: "1.0.0", Complexity: "Depends on the subcommand.", Flags: flags,
		Summary: "Commands for tests.", Differences: "Only SLEEP, SET-ACTIVE-EXPIRE and HELP exist.",
		Sub: []*command.Spec{
			{
				Name: "sleep", Arity: 3, Flags: flags, Since: "1.0.0", Complexity: "O(1)", Syntax: "seconds",
				Summary: "Answers after a while; other connections go on.", Run: allowed(runSleep),
			},
			{
				Name: "set-active-expire", Arity: 3, Flags: flags, Since: "1.0.0", Complexity: "O(1)", Syntax: "<0 | 1>",
				Summary: "Stops or resumes the removal of overdue keys that nobody asks for.",
				Run: allowed(func(c *command.Ctx) {
					on, err := strconv.Atoi(string(c.Args[2]))
					if err != nil {
						c.W.Error(command.ErrNotInt)
						return
					}
					srv.PauseExpiry(on == 0)
					c.W.OK()
				}),
			},
			{
				Name: "help", Arity: 2, Flags: flags, Since: "5.0.0", Complexity: "O(1)", Summary: "Lists the subcommands.",
				Run: allowed(func(c *command.Ctx) {
					command.Help(c, []string{
						"SET-ACTIVE-EXPIRE <0|1>", "    Setting it to 0 disables expiring keys that are not accessed.",
						"SLEEP <seconds>", "    Answer after <seconds>, which may be a fraction. Other connections go on.",
					})
				}),
			},
		},
	}
}

func runSleep(c *command.Ctx) {
	sec, err := strconv.ParseFloat(string(c.Args[2]), 64)
	if err != nil || !(sec >= 0 && sec <= maxSleepSeconds) {
		c.W.Error(command.ErrNotFloat)
		return
	}
	time.Sleep(time.Duration(sec * float64(time.Second)))
	c.W.OK()
}
