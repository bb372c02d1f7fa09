package admin

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
)

func slowlog(srv Server) *command.Spec {
	flags := command.Admin | serverFlags | command.Unlocked
	return &command.Spec{
		Name: "slowlog", Arity: -2, Group: "server", Since: "2.2.12",
		Summary: "Commands about those that took long.",
		Differences: "What counts is the time in the command itself, not its wait for locks or for the log. With a slowlog-log-slower-than of a " +
			"millisecond or more, commands that touch one key with short arguments are not measured one by one, and are never slow.",
		Sub: []*command.Spec{
			{
				Name: "get", Arity: -2, Flags: flags, Since: "2.2.12", Complexity: "O(N) for N entries", Syntax: "[count]",
				Tips:    []string{"request_policy:all_nodes", "nondeterministic_output"},
				Summary: "Answers the newest entries.",
				Run:     func(c *command.Ctx) { runSlowlogGet(c, srv) },
			},
			helpSub("6.2.0", []string{
				"GET [<count>]",
				"    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
				"    Entries are made of:",
				"    id, timestamp, time in microseconds, arguments array, client IP and port,",
				"    client name",
				"LEN",
				"    Return the length of the slowlog.",
				"RESET",
				"    Reset the slowlog.",
			}),
			{
				Name: "len", Arity: 2, Flags: flags, Since: "2.2.12", Complexity: "O(1)",
				Tips:    []string{"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"},
				Summary: "Answers the number of entries.",
				Run:     func(c *command.Ctx) { c.W.Int(int64(srv.SlowLog().Len())) },
			},
			{
				Name: "reset", Arity: 2, Flags: flags, Since: "2.2.12", Complexity: "O(N) for N entries",
				Tips:    []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
				Summary: "Drops the entries.",
				Run: func(c *command.Ctx) {
					srv.SlowLog().Reset()
					c.W.OK()
				},
			},
		},
	}
}

// slowlogCount is how many entries SLOWLOG GET shows that is not told.
const slowlogCount = 10

func runSlowlogGet(c *command.Ctx, srv Server) {
	count := int64(slowlogCount)
	switch len(c.Args) {
	case 2:
	case 3:
		n, ok := command.ParseInt(c.Args[2])
		if !ok || n < -1 {
			c.W.Error(resp.Errorf("ERR", "count should be greater than or equal to -1"))
			return
		}
		if count = n; n == -1 {
			count = math.MaxInt32
		}
	default:
		c.W.Error(command.SubcommandError(c))
		return
	}
	entries := srv.SlowLog().Newest(int(min(count, math.MaxInt32)))
	c.W.Array(len(entries))
	for _, e := range entries {
		c.W.Array(6)
		c.W.Int(e.ID)
		c.W.Int(e.UnixSeconds)
		c.W.Int(e.Microseconds)
		c.W.Array(len(e.Args))
		for _, a := range e.Args {
			c.W.BulkString(a)
		}
		c.W.BulkString(e.Addr)
		c.W.BulkString(e.Name)
	}
}
