package admin

import (
	"strconv"

	"kevy/internal/command"
	"kevy/resp"
)

func latency(srv Server, table func() *command.Table) *command.Spec {
	flags := command.Admin | command.NoScript | serverFlags | command.Unlocked
	tips := []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"}
	sub := func(name string, arity int, since, syntax, complexity, summary string, run func(c *command.Ctx)) *command.Spec {
		return &command.Spec{
			Name: name, Arity: arity, Flags: flags, Since: since, Syntax: syntax, Complexity: complexity, Tips: tips, Summary: summary, Run: run,
		}
	}
	reset := sub("reset", -2, "2.8.13", "[event [event ...]]", "O(1)", "Forgets events.", func(c *command.Ctx) {
		names := make([]string, 0, len(c.Args)-2)
		for _, n := range c.Args[2:] {
			names = append(names, string(n))
		}
		c.W.Int(int64(srv.Events().Forget(names...)))
	})
	reset.Tips = []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	return &command.Spec{
		Name: "latency", Arity: -2, Group: "server", Since: "2.8.13",
		Summary: "Commands about what took long.",
		Differences: "The events are command, fast-command, expire-cycle, eviction-cycle, aof-write and aof-fsync-always. While " +
			"latency-monitor-threshold is 0, quick commands that came in one batch are measured together.",
		Sub: []*command.Spec{
			sub("doctor", 2, "2.8.13", "", "O(1)", "Answers a report on the events, and what may help.", func(c *command.Ctx) {
				c.W.Verbatim("txt", latencyReport(srv))
			}),
			sub("graph", 3, "2.8.13", "event", "O(1)", "Draws the samples of an event.", func(c *command.Ctx) { runLatencyGraph(c, srv) }),
			helpSub("2.8.13", []string{
				"DOCTOR",
				"    Return a human readable latency analysis report.",
				"GRAPH <event>",
				"    Return an ASCII latency graph for the <event> class.",
				"HISTORY <event>",
				"    Return time-latency samples for the <event> class.",
				"LATEST",
				"    Return the latest latency samples for all events.",
				"RESET [<event> ...]",
				"    Reset latency data of one or more <event> classes.",
				"    (default: reset all data for all event classes)",
				"HISTOGRAM [COMMAND ...]",
				"    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
				"    If no commands are specified then all histograms are replied.",
			}),
			sub("histogram", -2, "7.0.0", "[command [command ...]]", "O(N) for N commands", "Answers how the durations of commands are spread.",
				func(c *command.Ctx) { runLatencyHistogram(c, srv, table()) }),
			sub("history", 3, "2.8.13", "event", "O(1)", "Answers the samples of an event: when, and how many milliseconds.",
				func(c *command.Ctx) { runLatencyHistory(c, srv) }),
			sub("latest", 2, "2.8.13", "", "O(1)", "Answers of each event when it came last, how long it took, and the longest.",
				func(c *command.Ctx) { runLatencyLatest(c, srv) }),
			reset,
		},
	}
}

func runLatencyLatest(c *command.Ctx, srv Server) {
	events := srv.Events().All()
	c.W.Array(len(events))
	for i := range events {
		e := &events[i]
		last := e.Latest()
		c.W.Array(4)
		c.W.BulkString(e.Name)
		c.W.Int(last.UnixSeconds)
		c.W.Int(last.Milliseconds)
		c.W.Int(e.MaxMs)
	}
}

func runLatencyHistory(c *command.Ctx, srv Server) {
	e, _ := srv.Events().Named(string(c.Args[2]))
	c.W.Array(len(e.Samples))
	for _, s := range e.Samples {
		c.W.Array(2)
		c.W.Int(s.UnixSeconds)
		c.W.Int(s.Milliseconds)
	}
}

// runLatencyHistogram answers a map by command: those named, and of a container all
// its subcommands. What is no command is left out, and so is what was never called.
func runLatencyHistogram(c *command.Ctx, srv Server, table *command.Table) {
	session(c).MergeStats()
	m, n := c.W.Begin(), 0
	add := func(s *command.Spec) {
		h := srv.Latency(s)
		if h == nil || h.Count() == 0 {
			return
		}
		n++
		steps := h.Steps()
		c.W.BulkString(s.FullName())
		c.W.Map(2)
		c.W.BulkString("calls")
		c.W.Int(h.Count())
		c.W.BulkString("histogram_usec")
		c.W.Map(len(steps))
		for _, step := range steps {
			c.W.Int(step.Microseconds)
			c.W.Int(step.Calls)
		}
	}
	all := func(s *command.Spec) {
		add(s)
		for _, sub := range s.Sub {
			add(sub)
		}
	}
	if len(c.Args) == 2 {
		for _, s := range table.All() {
			all(s)
		}
	}
	for _, name := range c.Args[2:] {
		if s := table.Named(string(name)); s != nil {
			all(s)
		}
	}
	c.W.EndMap(m, n)
}

func runLatencyGraph(c *command.Ctx, srv Server) {
	e, ok := srv.Events().Named(string(c.Args[2]))
	if !ok {
		c.W.Error(resp.Errorf("ERR", "No samples available for event '%s'", command.CText(c.Args[2])))
		return
	}
	c.W.Verbatim("txt", latencyGraph(&e, nowUnix()))
}

// ago says in a few letters how long something is past.
func ago(seconds int64) string {
	for _, unit := range []struct {
		seconds int64
		letter  string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}} {
		if seconds >= unit.seconds {
			return strconv.FormatInt(seconds/unit.seconds, 10) + unit.letter
		}
	}
	return strconv.FormatInt(max(seconds, 0), 10) + "s"
}
