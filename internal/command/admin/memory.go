package admin

import "kevy/internal/command"

func memory(srv Server) *command.Spec {
	return &command.Spec{
		Name: "memory", Arity: -2, Group: "server", Since: "4.0.0",
		Summary: "Commands about memory.", Differences: "DOCTOR, MALLOC-STATS and STATS are not there: INFO memory has the figures.",
		Sub: []*command.Spec{
			helpSub("4.0.0", []string{
				"PURGE",
				"    Attempt to purge dirty pages for reclamation by the allocator.",
				"USAGE <key> [SAMPLES <count>]",
				"    Return memory in bytes used by <key> and its value. Nested values are",
				"    sampled up to <count> times (default: 5, 0 means sample all).",
			}),
			{
				Name: "purge", Arity: 2, Flags: command.Unlocked, Since: "4.0.0", Complexity: "O(N) for N bytes of memory",
				Tips:    []string{"request_policy:all_shards", "response_policy:all_succeeded"},
				Summary: "Gives memory that is not in use back to the system.",
				Run: func(c *command.Ctx) {
					srv.FreeMemory()
					c.W.OK()
				},
			},
			{
				Name: "usage", Arity: -3, Flags: command.ReadOnly, Keys: command.One(2, command.RO), Since: "4.0.0",
				Complexity:  "O(N) for N chunks of the value",
				Syntax:      "key [SAMPLES count]",
				Summary:     "Estimates what a key and its value occupy, in bytes.",
				Differences: "Values are counted whole, whatever SAMPLES says. What is counted is our representation, not that of Redis.",
				Run:         runUsage,
			},
		},
	}
}

func runUsage(c *command.Ctx) {
	a := c.Scan(3)
	for a.More() {
		if !a.Is("SAMPLES") || !a.More() {
			a.Fail(command.ErrSyntax)
		}
		if samples := a.Int(); samples < 0 {
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if info, ok := c.Tx.Info(c.Key(2)); ok {
		c.W.Int(info.Bytes)
	} else {
		c.W.Null()
	}
}
