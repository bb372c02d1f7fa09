package server

import (
	"fmt"
	"strings"
	"testing"

	"kevy/tests/wire"
)

// slowCommands returns what SLOWLOG GET shows of commands, the newest first.
func (c *conn) slowCommands() (out []string) {
	c.t.Helper()
	for _, e := range c.do("SLOWLOG GET -1").Elems {
		out = append(out, strings.Join(e.Elems[3].Strings(), " "))
	}
	return out
}

// TestSlowlog: what is slow is found wherever it stands in a pipeline, and told whole.
func TestSlowlog(t *testing.T) {
	in := start(t, "--enable-debug-command", "yes", "--slowlog-log-slower-than", "20000", "--slowlog-max-len", "3")
	c := in.conn()
	c.do("CLIENT SETNAME me")
	replies, err := c.Pipeline([]string{"SET", "k", "v"}, []string{"GET", "k"}, []string{"DEBUG", "SLEEP", "0.03"}, []string{"GET", "k"}, []string{"PING"})
	if err != nil || len(replies) != 5 {
		t.Fatal(replies, err)
	}
	if got := c.slowCommands(); len(got) != 1 || got[0] != "DEBUG SLEEP 0.03" {
		t.Fatalf("slow were %q", got)
	}
	e := c.do("SLOWLOG GET").Elems[0].Elems
	if us, _ := e[2].Int(); string(e[0].Text) != "0" || us < 30_000 || string(e[4].Text) != c.LocalAddr().String() || string(e[5].Text) != "me" {
		t.Errorf("the entry is %v", e)
	}
	c.do("CONFIG SET slowlog-log-slower-than 0")
	c.do("SLOWLOG RESET")
	c.do("MULTI")
	c.do("SET a 1")
	c.do("EXEC")
	_, _ = c.Pipeline([]string{"SET", "b", "1"}, []string{"CONFIG", "SET", "slowlog-log-slower-than", "-1"}, []string{"SET", "c", "1"})
	// EXEC is not among them, as in Redis, nor what ends it: what counts is the setting as
	// of when a command has run.
	want := "[SET b 1 SET a 1 MULTI]"
	if got := fmt.Sprint(c.slowCommands()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := c.do("SLOWLOG GET").Elems; len(got) != 3 || string(got[0].Elems[0].Text) != "5" {
		t.Errorf("the newest is %v", got)
	}
}

// TestLatencyEvents: commands that take long are events, which are forgotten on
// demand.
func TestLatencyEvents(t *testing.T) {
	in := start(t, "--enable-debug-command", "yes", "--latency-monitor-threshold", "20")
	c := in.conn()
	c.do("DEBUG SLEEP 0.03")
	latest := c.do("LATENCY LATEST").Elems
	if len(latest) != 1 || string(latest[0].Elems[0].Text) != "command" {
		t.Fatalf("latest are %v", latest)
	}
	if ms, _ := latest[0].Elems[2].Int(); ms < 30 || !latest[0].Elems[2].Equal(latest[0].Elems[3]) {
		t.Errorf("it took %v", latest[0])
	}
	history := c.do("LATENCY HISTORY command").Elems
	if len(history) != 1 || !history[0].Elems[0].Equal(latest[0].Elems[1]) {
		t.Errorf("history is %v", history)
	}
	graph := string(c.do("LATENCY GRAPH command").Text)
	if lines := strings.Split(graph, "\n"); len(lines) != 10 || lines[5] != "_" || !strings.HasPrefix(lines[0], "command - high ") || lines[8] != "s" {
		t.Errorf("graph is %q", graph)
	}
	report := string(c.do("LATENCY DOCTOR").Text)
	if !strings.Contains(report, "1. command: in 1 seconds") || !strings.Contains(report, "slowlog-log-slower-than") == (in.cfg.SlowlogMicros.Load() > 20000) {
		t.Errorf("report is %q", report)
	}
	c.expect("LATENCY RESET nosuch command", ":1")
	if got := c.do("LATENCY LATEST"); len(got.Elems) != 0 {
		t.Errorf("latest are %v", got)
	}
}

// TestLatencyHistograms: each call is counted once, in pipelines, in transactions and
// where it fails.
func TestLatencyHistograms(t *testing.T) {
	in := start(t)
	c := in.conn()
	c.do("CONFIG RESETSTAT")
	var batch [][]string
	for range 50 {
		batch = append(batch, []string{"SET", "k", "v"}, []string{"LPUSH", "k", "x"}, []string{"SMEMBERS", "nosuch"}, []string{"MULTI"}, []string{"GET", "k"}, []string{"EXEC"})
	}
	if _, err := c.Pipeline(batch...); err != nil {
		t.Fatal(err)
	}
	r := c.do("LATENCY HISTOGRAM set lpush smembers get exec multi config nosuch")
	got := map[string]wire.Reply{}
	for i := 0; i < len(r.Elems); i += 2 {
		got[string(r.Elems[i].Text)] = r.Elems[i+1]
	}
	for _, name := range []string{"set", "lpush", "smembers", "get", "exec", "multi"} {
		e := got[name].Elems
		if len(e) != 4 {
			t.Fatalf("%s: %v", name, got[name])
		}
		steps := e[3].Elems
		if calls, _ := e[1].Int(); calls != 50 || string(steps[len(steps)-1].Text) != "50" {
			t.Errorf("%s: %v", name, got[name])
		}
		if calls := c.infoField("commandstats", "cmdstat_"+name); !strings.HasPrefix(calls, "calls=50,") {
			t.Errorf("%s: INFO says %s", name, calls)
		}
		if p := c.infoField("latencystats", "latency_percentiles_usec_"+name); !strings.HasPrefix(p, "p50=") || !strings.Contains(p, ",p99.9=") {
			t.Errorf("%s: INFO says %s", name, p)
		}
	}
	if len(got) != 7 || len(got["config|resetstat"].Elems) != 4 {
		t.Errorf("got %v", r)
	}
	c.do("CONFIG SET latency-tracking no")
	if text := string(c.do("INFO latencystats").Text); strings.TrimSpace(text) != "# Latencystats" {
		t.Errorf("INFO says %q", text)
	}
}
