package admin

import (
	"kevy/internal/command"
	"kevy/internal/config"
	"kevy/resp"
)

func configCommand(srv Server) *command.Spec {
	flags := command.Admin | command.NoScript | command.Loading | command.Stale | command.Unlocked
	return &command.Spec{
		Name: "config", Arity: -2, Group: "server", Since: "2.0.0", Complexity: "Depends on the subcommand.",
		Summary: "Commands about settings.", Differences: "REWRITE is not there yet.",
		Sub: []*command.Spec{
			{
				Name: "get", Arity: -3, Flags: flags, Since: "2.0.0", Complexity: "O(N) for N settings", Syntax: "parameter [parameter ...]",
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
			},
			{
				Name: "help", Arity: 2, Flags: serverFlags | command.Unlocked, Since: "5.0.0", Complexity: "O(1)", Summary: "Lists the subcommands.",
				Run: func(c *command.Ctx) {
					command.Help(c, []string{
						"GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.",
						"SET <directive> <value>", "    Set the configuration <directive> to <value>.",
						"RESETSTAT", "    Reset statistics reported by the INFO command.",
					})
				},
			},
			{
				Name: "resetstat", Arity: 2, Flags: flags, Since: "2.0.0", Complexity: "O(1)", Summary: "Sets the counters of INFO to zero.",
				Run: func(c *command.Ctx) {
					srv.ResetStats()
					c.W.OK()
				},
			},
			{
				Name: "set", Arity: -4, Flags: flags, Since: "2.0.0", Complexity: "O(N) for N settings", Syntax: "parameter value [parameter value ...]",
				Summary: "Changes settings, all or none.", Tips: []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
				Run: func(c *command.Ctx) {
					if len(c.Args)%2 != 0 {
						c.W.Error(c.Spec.ArityError())
						return
					}
					pairs := make([]config.Pair, 0, len(c.Args)/2-1)
					for i := 2; i < len(c.Args); i += 2 {
						pairs = append(pairs, config.Pair{Name: string(c.Args[i]), Value: string(c.Args[i+1])})
					}
					if err := srv.Config().Set(pairs); err != nil {
						c.W.Error(resp.Errorf("ERR", "%v", err))
						return
					}
					c.W.OK()
				},
			},
		},
	}
}
