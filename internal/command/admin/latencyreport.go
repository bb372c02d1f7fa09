package admin

import (
	"fmt"
	"strings"
	"time"

	"kevy/internal/metrics"
)

func nowUnix() int64 { return time.Now().Unix() }

const (
	// graphRows is the height of LATENCY GRAPH, graphColumns its width at most.
	graphRows    = 4
	graphColumns = 80
)

// graphLevels are the heights within a row, and what stands below the top.
const (
	graphLevels = "_o#"
	graphBody   = '|'
)

// latencyGraph draws the newest samples as columns, the age of each written downwards
// below it. It is laid out as redis-server does it, which tools cut to pieces.
func latencyGraph(e *metrics.Event, now int64) string {
	samples := e.Samples
	if over := len(samples) - graphColumns; over > 0 {
		samples = samples[over:]
	}
	low, high := samples[0].Milliseconds, samples[0].Milliseconds
	for _, s := range samples {
		low, high = min(low, s.Milliseconds), max(high, s.Milliseconds)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n%s\n", e.Name, high, low, e.MaxMs, strings.Repeat("-", graphColumns))
	const steps = graphRows * len(graphLevels)
	for row := range graphRows {
		line := []byte(strings.Repeat(" ", len(samples)))
		for i, s := range samples {
			step := min(int((s.Milliseconds-low)*int64(steps)/max(high-low, 1)), steps-1)
			switch level := step - (graphRows-row-1)*len(graphLevels); {
			case level >= len(graphLevels):
				line[i] = graphBody
			case level >= 0:
				line[i] = graphLevels[level]
			}
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteString(strings.Repeat(" ", len(samples)) + "\n")
	ages, longest := make([]string, len(samples)), 0
	for i, s := range samples {
		ages[i] = ago(now - s.UnixSeconds)
		longest = max(longest, len(ages[i]))
	}
	for row := range longest {
		line := []byte(strings.Repeat(" ", len(samples)))
		for i, age := range ages {
			if row < len(age) {
				line[i] = age[row]
			}
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// latencyReport says of each event how often and how long, and what may help.
func latencyReport(srv Server) string {
	threshold := srv.Config().LatencyMonitorMs.Load()
	events := srv.Events().All()
	switch {
	case threshold == 0 && len(events) == 0:
		return "Nothing is recorded: latency-monitor-threshold is 0. Set it to the milliseconds from which on something is too slow for you:\n\n" +
			"CONFIG SET latency-monitor-threshold 100\n"
	case len(events) == 0:
		return fmt.Sprintf("Nothing took %d ms or longer since the server started or LATENCY RESET was sent.\n", threshold)
	}
	var b strings.Builder
	b.WriteString("What took long:\n\n")
	for i := range events {
		e := &events[i]
		n, sum := int64(len(e.Samples)), int64(0)
		for _, s := range e.Samples {
			sum += s.Milliseconds
		}
		mean, deviation := sum/n, int64(0)
		for _, s := range e.Samples {
			deviation += max(s.Milliseconds-mean, mean-s.Milliseconds)
		}
		period := float64(e.Latest().UnixSeconds-e.Samples[0].UnixSeconds) / float64(n)
		fmt.Fprintf(&b, "%d. %s: in %d seconds (on average %d ms, mean deviation %d ms, one each %.2f sec). The longest took %d ms.\n",
			i+1, e.Name, n, mean, deviation/n, period, e.MaxMs)
	}
	b.WriteString("\nWhat may help:\n")
	for _, advice := range latencyAdvice(srv, events) {
		b.WriteString("\n- " + advice + "\n")
	}
	return b.String()
}

func latencyAdvice(srv Server, events []metrics.Event) (out []string) {
	has := map[string]bool{}
	for i := range events {
		has[events[i].Name] = true
	}
	cfg := srv.Config()
	if has["command"] {
		if slower, ms := cfg.SlowlogMicros.Load(), cfg.LatencyMonitorMs.Load(); slower < 0 || slower > ms*1000 {
			out = append(out, fmt.Sprintf("SLOWLOG does not record all of these commands: CONFIG SET slowlog-log-slower-than %d makes it.", ms*1000))
		}
		out = append(out, "SLOWLOG GET shows which commands they were. Look for those that go through a whole collection or keyspace, and use the SCAN family in their place.")
	}
	if has["fast-command"] {
		out = append(out, "Commands took long that never should: the machine has too little processor for all that runs on it, or has begun to swap.")
	}
	if has["expire-cycle"] || has["eviction-cycle"] {
		out = append(out, "Very large values went at once. Several smaller keys in place of a large one spread that.")
	}
	if has["aof-write"] || has["aof-fsync-always"] {
		out = append(out, "The disk is slow to take the log. Nothing else should write to it; appendfsync everysec waits for it less often than always, and may lose a second in a power cut.")
	}
	return out
}
