package server

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// waits waits until so many commands are kept waiting.
func (c *conn) waits(n int64) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%d wait", n), func() bool { return c.infoInt("clients", "blocked_clients") == n })
}

// TestPauseOrder: what waited runs in the order in which it came, however many there
// are; who has gone meanwhile runs nothing.
func TestPauseOrder(t *testing.T) {
	in := start(t)
	c := in.conn()
	c.expect("CLIENT PAUSE 1000000 WRITE", "+OK")
	var all []*conn
	want := ""
	for i := range 30 {
		w := in.conn()
		_ = w.Send("APPEND", "k", fmt.Sprintf("%d,", i))
		c.waits(int64(i + 1))
		all = append(all, w)
		if i != 7 {
			want += fmt.Sprintf("%d,", i)
		}
	}
	_ = all[7].Close()
	c.waits(29)
	c.expect("CLIENT UNBLOCK "+fmt.Sprint(in.nextID.Load())+" ERROR", ":0")
	c.expect("CLIENT UNPAUSE", "+OK")
	for i, w := range all {
		if i != 7 {
			if r, err := w.ReadReply(); err != nil || r.IsError("") {
				t.Fatalf("%d: %v %v", i, r, err)
			}
		}
	}
	if got := string(c.do("GET k").Text); got != want {
		t.Errorf("got %s", got)
	}
	if in.pauses.on.Load() {
		t.Error("the pause goes on")
	}
}

// TestPauseAndBlocking: a command that a pause has kept waiting and that waits then for
// a key keeps nobody else.
func TestPauseAndBlocking(t *testing.T) {
	in := start(t)
	c, w, x := in.conn(), in.conn(), in.conn()
	c.expect("CLIENT PAUSE 1000000 WRITE", "+OK")
	_ = w.Send("BLPOP", "l", "0")
	c.waits(1)
	_ = x.Send("RPUSH", "l", "a")
	c.waits(2)
	c.expect("CLIENT UNPAUSE", "+OK")
	for _, o := range []*conn{w, x} {
		if r, err := o.ReadReply(); err != nil || r.IsError("") {
			t.Fatalf("%v %v", r, err)
		}
	}
	// A pause of everything ends by itself; it keeps even CLIENT UNPAUSE.
	c.expect("CLIENT PAUSE 50", "+OK")
	c.expect("CLIENT UNPAUSE", "+OK")
	c.expect("PING", "+PONG")
}

// TestPauseStops: nothing changes by itself while writes are paused.
func TestPauseStops(t *testing.T) {
	in := start(t)
	c := in.conn()
	c.do("SET k v PX 30")
	c.do("SET l v PX 30")
	c.expect("CLIENT PAUSE 1000000 WRITE", "+OK")
	before := c.infoInt("persistence", "kevy_last_lsn")
	if before == 2 { // else they were gone already
		time.Sleep(300 * time.Millisecond)
		for _, line := range []string{"GET k", "TTL k", "TYPE l", "RANDOMKEY", "SCAN 0", "KEYS *", "OBJECT ENCODING k"} {
			if r := c.do(line); r.IsError("") && line != "OBJECT ENCODING k" {
				t.Errorf("%s: %v", line, r)
			}
		}
		if after := c.infoInt("persistence", "kevy_last_lsn"); after != before {
			t.Errorf("the log went from %d to %d", before, after)
		}
	}
	c.expect("CLIENT UNPAUSE", "+OK")
	eventually(t, "they are gone", func() bool { return c.infoInt("persistence", "kevy_last_lsn") == before+2 || before > 2 })
}

// TestUnblockFeed: CLIENT UNBLOCK ends commands that wait for the feed.
func TestUnblockFeed(t *testing.T) {
	in := start(t)
	c, w := in.conn(), in.conn()
	tail := c.do("CHANGES TAIL ALL")
	generation := string(tail.Elems[0].Text)
	id := string(w.do("CLIENT ID").Text)
	for _, command := range []string{"CHANGES SINCE ALL " + generation + " 0 BLOCK 0", "CHANGES WAIT ALL " + generation + " 5 0"} {
		for _, how := range []string{"", " TIMEOUT", " ERROR"} {
			_ = w.Send(strings.Fields(command)...)
			c.waits(1)
			c.expect("CLIENT UNBLOCK "+id+how, ":1")
			r, err := w.ReadReply()
			if err != nil || r.IsError("UNBLOCKED") != (how == " ERROR") || r.IsError("") != (how == " ERROR") {
				t.Errorf("%s, UNBLOCK%s: %v %v", command, how, r, err)
			}
			c.expect("CLIENT UNBLOCK "+id+how, ":0")
		}
	}
}

// TestQuiet: replies that nobody wants are not sent, in pipelines of any size, and what
// they stand for is in the log all the same.
func TestQuiet(t *testing.T) {
	in := start(t)
	c := in.conn()
	value := strings.Repeat("x", 10_000)
	batch := [][]string{{"CLIENT", "REPLY", "OFF"}}
	for range 50 {
		batch = append(batch, []string{"INCR", "n"}, []string{"SET", "k", value}, []string{"GET", "k"}, []string{"NOSUCH"})
	}
	batch = append(batch, []string{"CLIENT", "REPLY", "ON"}, []string{"GET", "n"})
	for _, cmd := range batch {
		if err := c.Send(cmd...); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"OK", "50"} {
		if r, err := c.ReadReply(); err != nil || string(r.Text) != want {
			t.Fatalf("%.100s %v", r, err)
		}
	}
	c.expect("PING", "+PONG")
	_ = c.Send("CLIENT", "REPLY", "SKIP")
	_ = c.Send("LRANGE", "nosuch", "0", "-1")
	c.expect("PING", "+PONG")
	// Messages come all the same.
	m, w := in.conn().proto("3"), in.conn()
	_ = m.Send("CLIENT", "REPLY", "OFF")
	_ = m.Send("SUBSCRIBE", "ch")
	if r, err := m.ReadReply(); err != nil || string(r.Elems[0].Text) != "subscribe" {
		t.Fatalf("%v %v", r, err)
	}
	w.do("PUBLISH ch hello")
	if r, err := m.ReadReply(); err != nil || string(r.Elems[0].Text) != "message" {
		t.Fatalf("%v %v", r, err)
	}
	m.expect("RESET", "+RESET")
}
