package server

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// line reads one status, without its time.
func (c *conn) line() string {
	c.t.Helper()
	r, err := c.ReadReply()
	if err != nil {
		c.t.Fatal(err)
	}
	m := monitorLine.FindStringSubmatch(string(r.Text))
	if m == nil {
		c.t.Fatalf("not a line of MONITOR: %q", r.Text)
	}
	return m[1]
}

var monitorLine = regexp.MustCompile(`^\d{10}\.\d{6} (\[.*)$`)

// TestMonitorShows what MONITOR shows and in which order: transactions whole, secrets
// hidden, the operator's commands not at all.
func TestMonitorShows(t *testing.T) {
	in := start(t)
	m, c := in.conn(), in.conn()
	m.expect("MONITOR", "+OK")
	from := " " + c.LocalAddr().String() + "]"
	c.do("SELECT 3")
	_ = c.Send("SET", "a\"\\\n\r\t\a\b\x00\xff é", "")
	_, _ = c.ReadReply()
	for _, line := range []string{
		"GET", "nosuch", "CONFIG GET dir", "MULTI", "INCR n", "EXEC", "EXEC", "MULTI", "nosuch", "EXEC", "WATCH w", "MULTI", "PING",
	} {
		c.do(line)
	}
	other := in.conn()
	other.do("SET w 1") // in database 0
	other.do("SELECT 3")
	other.do("SET w 2")
	c.do("EXEC")
	c.do("HELLO 2 AUTH default secret")
	o := " " + other.LocalAddr().String() + "]"
	for _, want := range []string{
		"[3" + from + ` "SELECT" "3"`, "[3" + from + ` "SET" "a\"\\\n\r\t\a\b\x00\xff \xc3\xa9" ""`,
		"[3" + from + ` "MULTI"`, "[3" + from + ` "INCR" "n"`, "[3" + from + ` "EXEC"`, "[3" + from + ` "EXEC"`,
		"[3" + from + ` "MULTI"`, "[3" + from + ` "EXEC"`, "[3" + from + ` "WATCH" "w"`, "[3" + from + ` "MULTI"`,
		"[0" + o + ` "SET" "w" "1"`, "[3" + o + ` "SELECT" "3"`, "[3" + o + ` "SET" "w" "2"`, "[3" + from + ` "EXEC"`,
		"[3" + from + ` "HELLO" "2" "AUTH" "(redacted)" "(redacted)"`,
	} {
		if got := m.line(); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	if list := string(c.do("CLIENT LIST").Text); !strings.Contains(list, " flags=O ") {
		t.Errorf("CLIENT LIST: %s", list)
	}
	// Its own commands are shown, too: before their replies or after.
	m.expect("RESET", "+RESET")
	m.expect("PING", "+PONG")
	c.do("SET k v")
	m.expect("PING", "+PONG")
	if list := string(c.do("CLIENT LIST").Text); strings.Contains(list, " flags=O ") {
		t.Errorf("CLIENT LIST: %s", list)
	}
	if in.observed.monitors.any() {
		t.Error("commands are shown to nobody")
	}
}

// TestMonitorOrder: of what several connections run at once, each monitor sees the
// same order, that of each connection kept, and each transaction in one piece; the
// values that INCR answered grow along it.
func TestMonitorOrder(t *testing.T) {
	in := start(t)
	const workers, rounds = 4, 300
	var monitors []*conn
	for range 2 {
		m := in.conn()
		m.expect("MONITOR", "+OK")
		monitors = append(monitors, m)
	}
	var running sync.WaitGroup
	for w := range workers {
		c := in.conn()
		running.Go(func() {
			for i := range rounds {
				c.do("MULTI")
				c.do("INCR a")
				c.do(fmt.Sprintf("SET w%d %d", w, i))
				r := c.do("EXEC")
				if len(r.Elems) != 2 {
					c.t.Errorf("EXEC: %v", r)
					return
				}
				c.do(fmt.Sprintf("ECHO %d:%d:%s", w, i, r.Elems[0].Text))
			}
		})
	}
	running.Wait()
	var seen [2][]string
	for i, m := range monitors {
		for len(seen[i]) < workers*rounds*5 {
			seen[i] = append(seen[i], m.line())
		}
	}
	at, next := 0, map[string]int{}
	for i, line := range seen[0] {
		if line != seen[1][i] {
			t.Fatalf("line %d: one sees %s, the other %s", i, line, seen[1][i])
		}
		addr, command, _ := strings.Cut(line, "] ")
		switch {
		case strings.HasPrefix(command, `"INCR"`):
			at++
			if !strings.HasPrefix(seen[0][i+1], addr+`] "SET"`) || seen[0][i+2] != addr+`] "EXEC"` {
				t.Fatalf("the transaction at line %d is in pieces: %q", i, seen[0][i:i+3])
			}
			next[addr+"n"] = at
		case strings.HasPrefix(command, `"ECHO"`):
			var w, round, n int
			_, _ = fmt.Sscanf(command, `"ECHO" "%d:%d:%d"`, &w, &round, &n)
			if round != next[addr] || n != next[addr+"n"] {
				t.Fatalf("line %d: %s, want round %d and %d", i, line, next[addr], next[addr+"n"])
			}
			next[addr]++
		}
	}
	if at != workers*rounds {
		t.Errorf("%d transactions were seen", at)
	}
}

// TestMonitorCutOff: one that does not read is ended at its bound, and nobody waits
// for it.
func TestMonitorCutOff(t *testing.T) {
	in := start(t, "--client-output-buffer-limit", "normal 1mb 0 0")
	m, c := in.conn(), in.conn()
	m.expect("MONITOR", "+OK")
	value := strings.Repeat("x", 64<<10)
	for range 400 { // more than any socket takes
		if err := c.Send("SET", "k", value); err != nil {
			t.Fatal(err)
		}
		if r, err := c.ReadReply(); err != nil || string(r.Text) != "OK" {
			t.Fatalf("%v %v", r, err)
		}
	}
	eventually(t, "the monitor is ended", func() bool { return !in.observed.monitors.any() })
	eventually(t, "and said to be", func() bool { return strings.Contains(in.log.String(), "client-output-buffer-limit") })
	c.expect("PING", "+PONG")
}

// TestMonitorOfLongTransaction: what a script in a transaction calls is gathered up to the limit, and no longer.
func TestMonitorOfLongTransaction(t *testing.T) {
	in := start(t, "--client-output-buffer-limit", "normal 1mb 0 0")
	m, c := in.conn(), in.conn()
	m.expect("MONITOR", "+OK")
	var before, after runtime.MemStats
	c.expect("MULTI", "+OK")
	if err := c.Send("EVAL", "local s = string.rep('x', 100000) for i = 1, 1000 do redis.call('ECHO', s) end", "0"); err != nil {
		t.Fatal(err)
	}
	if r, err := c.ReadReply(); err != nil || string(r.Text) != "QUEUED" {
		t.Fatalf("%v %v", r, err)
	}
	runtime.ReadMemStats(&before)
	c.expect("EXEC", "[$nil]")
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapSys) - int64(before.HeapSys); held > 64<<20 {
		t.Errorf("the heap has grown by %d bytes", held)
	}
	eventually(t, "the monitor is ended", func() bool { return !in.observed.monitors.any() })
}

// TestMonitorThatQuits leaves nothing behind, however it ends.
func TestMonitorThatQuits(t *testing.T) {
	in := start(t)
	c := in.conn()
	for _, end := range []func(m *conn){
		func(m *conn) { m.do("QUIT") },
		func(m *conn) { _ = m.Close() },
		func(m *conn) { c.do("CLIENT KILL ADDR " + m.LocalAddr().String()) },
	} {
		m := in.conn()
		m.expect("MONITOR", "+OK")
		end(m)
		eventually(t, "it is gone", func() bool { return !in.observed.monitors.any() })
	}
	// With subscriptions beside it.
	m := in.conn().proto("3")
	m.do("SUBSCRIBE ch")
	m.expect("MONITOR", "+OK")
	c.do("PUBLISH ch hello")
	got := map[string]bool{}
	for range 2 {
		r, err := m.ReadReply()
		if err != nil {
			t.Fatal(err)
		}
		got[string(r.Kind)] = true
	}
	if len(got) != 2 {
		t.Errorf("got %v", got)
	}
}
