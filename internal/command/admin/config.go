package admin

import (
	"kevy/internal/command"
	"kevy/internal/config"
)

// configFlags are those of the subcommands of CONFIG but HELP.
const configFlags = command.Admin | command.NoScript | command.Loading | command.Stale | command.Unlocked

func configCommand(srv Server) *command.Spec {
	return &command.Spec{
		Name: "config", Arity: -2, Group: "server", Since: "2.0.0",
		Summary: "Commands about settings.",
		Sub: []*command.Spec{
			configGet(srv),
			helpSub("5.0.0", []string{
				"GET <pattern>",
				"    Return parameters matching the glob-like <pattern> and their values.",
				"SET <directive> <value>",
				"    Set the configuration <directive> to <value>.",
				"RESETSTAT",
				"    Reset statistics reported by the INFO command.",
				"REWRITE",
				"    Rewrite the configuration file.",
			}),
			configResetStat(srv),
			configRewrite(srv),
			configSet(srv),
		},
	}
}

func configGet(srv Server) *command.Spec {
	return &command.Spec{
		Name: "get", Arity: -3, Flags: configFlags, Since: "2.0.0", Complexity: "O(N) for N settings", Syntax: "parameter [parameter ...]",
		Summary: "Answers the settings whose names match.",
		Run: func(c *command.Ctx) {
			patterns := make([]string, 0, len(c.Args)-2)
			for _, p := range c.Args[2:] {
				patterns = append(patterns, string(p))
			}
			pairs := srv.Config().Get(patterns...)
			c.W.Map(len(pairs))
			for _, p := range pairs {
				c.W.BulkString(p.Name)
				c.W.BulkString(p.Value)
			}
		},
	}
}

func configResetStat(srv Server) *command.Spec {
	return &command.Spec{
		Name: "resetstat", Arity: 2, Flags: configFlags, Since: "2.0.0", Complexity: "O(N) for N commands",
		Summary: "Sets the counters of INFO to zero.",
		Run: func(c *command.Ctx) {
			session(c).MergeStats()
			srv.ResetStats()
			c.W.OK()
		},
	}
}

func configRewrite(srv Server) *command.Spec {
	return &command.Spec{
		Name: "rewrite", Arity: 2, Flags: configFlags, Since: "2.8.0", Complexity: "O(N) for N settings and N lines",
		Summary:     "Writes the settings and users as they are now into the configuration file.",
		Differences: "Only lines of client-output-buffer-limit that differ from the defaults are kept. The file is forced to the disk before it takes the place of the other.",
		Run: func(c *command.Ctx) {
			rewriteConfig(c, srv, false)
		},
	}
}

func rewriteConfig(c *command.Ctx, srv Server, all bool) {
	if err := srv.RewriteConfig(all); err != nil {
		c.W.Err(err)
		return
	}
	c.W.OK()
}

func configSet(srv Server) *command.Spec {
	return &command.Spec{
		Name: "set", Arity: -4, Flags: configFlags, Since: "2.0.0", Complexity: "O(N) for N settings", Syntax: "parameter value [parameter value ...]",
		Tips:    []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
		Summary: "Changes settings, all or none.",
		Secrets: func(args [][]byte, hide func(i int)) {
			for i := 2; i < len(args); i += 2 {
				if config.Secret(string(args[i])) {
					hide(i + 1)
				}
			}
		},
		Run: func(c *command.Ctx) {
			if len(c.Args)%2 != 0 {
				c.W.Error(command.ErrSyntax)
				return
			}
			pairs := make([]config.Pair, 0, len(c.Args)/2-1)
			for i := 2; i < len(c.Args); i += 2 {
				pairs = append(pairs, config.Pair{Name: string(c.Args[i]), Value: string(c.Args[i+1])})
			}
			if err := srv.Config().Set(pairs); err != nil {
				c.W.Err(err)
				return
			}
			c.W.OK()
		},
	}
}
