package admin

import "kevy/internal/command"

func memory(srv Server) *command.Spec {
	return &command.Spec{
		Name: "memory", Arity: -2, Group: "server", Since: "4.0.0",
		Summary: "Commands about memory.",
		Sub: []*command.Spec{
			memoryDoctor(srv),
			helpSub("4.0.0", []string{
				"DOCTOR",
				"    Return memory problems reports.",
				"MALLOC-STATS",
				"    Return internal statistics report from the memory allocator.",
				"PURGE",
				"    Attempt to purge dirty pages for reclamation by the allocator.",
				"STATS",
				"    Return information about the memory usage of the server.",
				"USAGE <key> [SAMPLES <count>]",
				"    Return memory in bytes used by <key> and its value. Nested values are",
				"    sampled up to <count> times (default: 5, 0 means sample all).",
			}),
			{
				Name: "malloc-stats", Arity: 2, Flags: command.Unlocked, Since: "4.0.0", Complexity: "O(1)", Tips: memoryTips,
				Summary:     "Answers what the allocator tells of itself.",
				Differences: "What is told is told by the allocator of Go.",
				Run:         func(c *command.Ctx) { c.W.Verbatim("txt", srv.AllocatorStats()) },
			},
			{
				Name: "purge", Arity: 2, Flags: command.Unlocked, Since: "4.0.0", Complexity: "O(N) for N bytes of memory",
				Tips:    []string{"request_policy:all_shards", "response_policy:all_succeeded"},
				Summary: "Gives memory that is not in use back to the system.",
				Run: func(c *command.Ctx) {
					srv.FreeMemory()
					c.W.OK()
				},
			},
			memoryStats(srv),
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
