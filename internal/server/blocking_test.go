package server

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// blocks sends a command and returns once so many clients are blocked.
func (c *conn) blocks(watcher *conn, n int64, args ...string) {
	c.t.Helper()
	if err := c.Send(args...); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "it waits", func() bool { return watcher.infoInt("clients", "blocked_clients") == n })
}

// TestBlockedClients: how they are shown, that neither timeout nor those who go
// take an element, and that CLIENT KILL ends them at once.
func TestBlockedClients(t *testing.T) {
	in := start(t, "--timeout", "1")
	watcher := in.conn()
	c := in.conn()
	c.blocks(watcher, 1, "BLPOP", "q", "100")
	line := string(watcher.do("CLIENT LIST").Text)
	if !strings.Contains(line, " flags=b ") || !strings.Contains(line, " cmd=blpop ") {
		t.Errorf("it is shown as %s", line)
	}
	if n := watcher.infoInt("clients", "clients_in_timeout_table"); n != 1 {
		t.Errorf("clients_in_timeout_table is %d", n)
	}
	// Longer than timeout allows the idle.
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		watcher.expect("PING", "+PONG")
	}
	watcher.expect("RPUSH q a", ":1")
	if r, err := c.ReadReply(); err != nil || r.String() != `["q", "a"]` {
		t.Errorf("it was served %s, %v", r, err)
	}
	if n := watcher.infoInt("clients", "blocked_clients"); n != 0 {
		t.Errorf("%d are blocked", n)
	}
	for _, pipelined := range []string{"", "PING\r\n", strings.Repeat("SET k v\r\n", 5000)} {
		c := in.conn()
		if _, err := c.Write([]byte("BLPOP q 0\r\n" + pipelined)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return watcher.infoInt("clients", "blocked_clients") == 1 })
		c.Close()
		eventually(t, "it is gone", func() bool { return watcher.infoInt("clients", "blocked_clients") == 0 })
		watcher.expect("RPUSH q a", ":1")
		watcher.expect("LPOP q", `"a"`)
		watcher.expect("EXISTS k", ":0")
	}
	for range 20 {
		c := in.conn()
		id := c.do("CLIENT ID").String()[1:]
		if _, err := c.Write([]byte("BLPOP q 0\r\nSET k v\r\n")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return watcher.infoInt("clients", "blocked_clients") == 1 })
		watcher.expect("CLIENT KILL ID "+id, ":1")
		watcher.expect("RPUSH q a", ":1")
		watcher.expect("LPOP q", `"a"`)
		eventually(t, "it is gone", func() bool { return watcher.infoInt("clients", "connected_clients") == 1 })
		watcher.expect("EXISTS k", ":0")
	}
	c = in.conn()
	id := c.do("CLIENT ID").String()[1:]
	// Nobody follows, so that WAIT waits to its end.
	for how, want := range map[string]string{"TIMEOUT": ":0", "ERROR": "-UNBLOCKED client unblocked via CLIENT UNBLOCK"} {
		c.blocks(watcher, 1, "WAIT", "1", "0")
		if line := string(watcher.do("CLIENT LIST ID " + id).Text); !strings.Contains(line, " flags=b ") || !strings.Contains(line, " cmd=wait ") {
			t.Errorf("it is shown as %s", line)
		}
		watcher.expect("CLIENT UNBLOCK "+id+" "+how, ":1")
		if r, err := c.ReadReply(); err != nil || r.String() != want {
			t.Errorf("after UNBLOCK %s, WAIT answers %s, %v", how, r, err)
		}
	}
	c.blocks(watcher, 1, "BLPOP", "q", "0")
	watcher.expect("CLIENT UNBLOCK "+id+" ERROR", ":1")
	if n := watcher.infoInt("clients", "blocked_clients"); n != 0 {
		t.Errorf("%d are blocked", n)
	}
	if text := string(watcher.do("INFO errorstats").Text); !strings.Contains(text, "errorstat_UNBLOCKED:count=2\r\n") {
		t.Errorf("INFO errorstats says %s", text)
	}
	if text := string(watcher.do("INFO commandstats").Text); !strings.Contains(text, fmt.Sprintf("cmdstat_blpop:calls=%d,", 1+3+20+1)) {
		t.Errorf("INFO commandstats says %s", text)
	}
}

// TestStopWithBlockedClients: the server stops although clients wait, for ever
// or with replies unsent.
func TestStopWithBlockedClients(t *testing.T) {
	in := start(t)
	watcher := in.conn()
	const many = 300
	for i := range int64(many) {
		_ = in.conn().Send("BLMOVE", fmt.Sprint("a", i%10), fmt.Sprint("b", i%7), "LEFT", "RIGHT", "0")
	}
	eventually(t, "they wait", func() bool { return watcher.infoInt("clients", "blocked_clients") == many })
}

// TestHangUpsAreNoticedWithoutHelp: where nothing watches for all, each client that
// waits watches by itself.
func TestHangUpsAreNoticedWithoutHelp(t *testing.T) {
	in := start(t)
	watcher := in.conn()
	watcher.expect("PING", "+PONG") // it serves, and so has opened them
	in.hangUps.close()
	tail := watcher.do("CHANGES TAIL ALL").Strings()
	since := "CHANGES SINCE ALL " + tail[0] + " " + tail[1] + " BLOCK 60000"
	for _, waits := range []string{"BLPOP q 0", "BLPOP q 0\r\nPING", since, since + "\r\nPING"} {
		c := in.conn()
		if _, err := c.Write([]byte(waits + "\r\n")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return watcher.infoInt("clients", "blocked_clients") == 1 })
		c.Close()
		eventually(t, "it is gone", func() bool { return watcher.infoInt("clients", "blocked_clients") == 0 })
	}
	watcher.expect("RPUSH q a", ":1")
	c := in.conn()
	c.blocks(watcher, 1, "BLPOP", "r", "0")
	watcher.expect("RPUSH r b", ":1")
	if r, err := c.ReadReply(); err != nil || r.String() != `["r", "b"]` {
		t.Errorf("it was served %s, %v", r, err)
	}
	c.expect("LPOP q", `"a"`)
}

// TestWaitingTakesOneGoroutine: that of the client; whether it hangs up is watched
// for all together. Those who go on are watched until their end.
func TestWaitingTakesOneGoroutine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("each client watches by itself here")
	}
	in := start(t)
	watcher := in.conn()
	const many = 200
	before := runtime.NumGoroutine()
	var conns []*conn
	for i := range int64(many) {
		c := in.conn()
		conns = append(conns, c)
		c.blocks(watcher, i+1, "BLPOP", "q", "0")
	}
	if n := runtime.NumGoroutine() - before; n > many+many/10 {
		t.Errorf("%d waiting clients have %d goroutines", many, n)
	}
	// More at once than are noticed at a time.
	for _, c := range conns[:many-1] {
		c.Close()
	}
	watcher.expect("RPUSH q a b", ":2")
	if r, err := conns[many-1].ReadReply(); err != nil || r.String() != `["q", "a"]` {
		t.Errorf("the only one who is there gets %s, %v", r, err)
	}
	eventually(t, "the others are gone", func() bool { return watcher.infoInt("clients", "connected_clients") == 2 })
	// What is not sent to wait is answered, though the peer sends no more.
	c := conns[many-1]
	if _, err := c.Write([]byte("LPOP q\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := c.Conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"b"`, "+PONG"} {
		if r, err := c.ReadReply(); err != nil || r.String() != want {
			t.Errorf("who half closed the connection gets %s, %v", r, err)
		}
	}
}
