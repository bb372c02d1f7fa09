package server

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"kevy/tests/wire"
)

func TestMaxClients(t *testing.T) {
	in := start(t, "--maxclients", "2")
	first, second := in.conn(), in.conn()
	first.expect("PING", "+PONG")
	second.expect("PING", "+PONG")
	for range 3 {
		c := in.conn()
		if r, err := c.ReadReply(); err != nil || r.String() != "-ERR max number of clients reached" {
			t.Errorf("%s, %v", r, err)
		}
		c.ended()
	}
	if n := first.infoInt("stats", "rejected_connections"); n != 3 {
		t.Errorf("%d were rejected", n)
	}
	second.Close()
	eventually(t, "there is room again", func() bool {
		c, err := wire.Dial(in.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r, err := c.Do("PING")
		return err == nil && r.String() == "+PONG"
	})
	first.expect("CONFIG SET maxclients 1", "+OK")
	eventually(t, "one is enough now", func() bool {
		c := in.conn()
		r, err := c.ReadReply()
		return err == nil && r.IsError("ERR")
	})
	first.expect("PING", "+PONG")
}

// TestTimeout: idle connections end, also those that wait already when the
// setting changes; those that a command keeps waiting do not.
func TestTimeout(t *testing.T) {
	t.Parallel()
	in := start(t)
	idle, waiting, busy := in.conn(), in.conn(), in.conn()
	idle.expect("PING", "+PONG")
	tail := waiting.do("CHANGES TAIL ALL").Strings()
	if err := waiting.Send("CHANGES", "SINCE", "ALL", tail[0], tail[1], "BLOCK", "10000"); err != nil {
		t.Fatal(err)
	}
	busy.expect("CONFIG SET timeout 1", "+OK")
	ended := make(chan struct{})
	go func() {
		idle.ended()
		close(ended)
	}()
	for done := false; !done; {
		select {
		case <-ended:
			done = true
		case <-time.After(50 * time.Millisecond):
			busy.expect("PING", "+PONG")
		}
	}
	busy.expect("CONFIG SET timeout 0", "+OK")
	busy.expect("SET k v", "+OK")
	if r, err := waiting.ReadReply(); err != nil || len(r.Elems) != 3 || len(r.Elems[2].Elems) != 1 {
		t.Errorf("the one that waited: %s, %v", r, err)
	}
}

// TestHangUpIsNoticed: a consumer that waits and goes is gone at once, whatever
// else it has sent before.
func TestHangUpIsNoticed(t *testing.T) {
	in := start(t)
	watcher := in.conn()
	for _, pipelined := range []string{"", "PING\r\n", strings.Repeat("SET k v\r\n", 5000)} {
		c := in.conn()
		tail := c.do("CHANGES TAIL ALL").Strings()
		line := "CHANGES SINCE ALL " + tail[0] + " " + tail[1] + " BLOCK 60000\r\n" + pipelined
		if _, err := c.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return watcher.infoInt("clients", "blocked_clients") == 1 })
		if line := string(watcher.do("CLIENT LIST").Text); !strings.Contains(line, " flags=b ") {
			t.Errorf("nobody is shown as blocked: %s", line)
		}
		began := time.Now()
		c.Close()
		eventually(t, "it is gone", func() bool {
			return watcher.infoInt("clients", "blocked_clients") == 0 && watcher.infoInt("clients", "connected_clients") == 1
		})
		if took := time.Since(began); took > patience/2 { // the wait itself is longer
			t.Errorf("after %v, with %d bytes behind", took, len(pipelined))
		}
	}
	// One that is killed, and the stop of the server, end the wait too.
	c := in.conn()
	id, tail := c.do("CLIENT ID").String()[1:], c.do("CHANGES TAIL ALL").Strings()
	_ = c.Send("CHANGES", "SINCE", "ALL", tail[0], tail[1], "BLOCK", "60000")
	eventually(t, "it waits", func() bool { return watcher.infoInt("clients", "blocked_clients") == 1 })
	watcher.expect("CLIENT KILL ID "+id, ":1")
	eventually(t, "it is gone", func() bool { return watcher.infoInt("clients", "blocked_clients") == 0 })
	_ = in.conn().Send("CHANGES", "SINCE", "ALL", tail[0], tail[1], "BLOCK", "60000")
	eventually(t, "another waits", func() bool { return watcher.infoInt("clients", "blocked_clients") == 1 })
}

// small makes the kernel's buffers small, so that unread replies show.
func small(t testing.TB, c net.Conn) {
	if err := c.(*net.TCPConn).SetReadBuffer(8 << 10); err != nil {
		t.Fatal(err)
	}
}

// shrinkListener makes the sockets that it accepts have small buffers.
type shrinkListener struct{ net.Listener }

func (l shrinkListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(8 << 10)
	}
	return c, err
}

func shrunk(ln net.Listener) net.Listener { return shrinkListener{ln} }

// TestUnreadReplies: a client that does not read stops being served, costs one
// reply, and is disconnected when it has taken nothing for too long.
func TestUnreadReplies(t *testing.T) {
	t.Parallel()
	const valueBytes, commands = 1 << 20, 400
	in := startWith(t, setup{listener: shrunk, server: func(s *Server) { s.writeTimeout = time.Second }})
	other := in.conn()
	if _, err := other.Do("SET", "big", strings.Repeat("x", valueBytes)); err != nil {
		t.Fatal(err)
	}
	deaf := in.dial()
	small(t, deaf)
	if _, err := deaf.Write(bytes.Repeat(wire.AppendStrings(nil, "GET", "big"), commands)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is stuck", func() bool { return other.infoInt("clients", "client_recent_max_output_buffer") > 0 })
	for range 20 {
		began := time.Now()
		other.expect("PING", "+PONG")
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("another was answered after %v", took)
		}
		if unsent := other.infoInt("clients", "client_recent_max_output_buffer"); unsent > 2*valueBytes {
			t.Errorf("%d bytes wait", unsent)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if calls := other.infoField("commandstats", "cmdstat_get"); !strings.HasPrefix(calls, "calls=1,") {
		t.Errorf("it is still served: %s", calls)
	}
	eventually(t, "it is disconnected", func() bool { return other.infoInt("clients", "connected_clients") == 1 })
	_ = deaf.SetReadDeadline(time.Now().Add(patience))
	if n, _ := io.Copy(io.Discard, deaf); n >= 2*valueBytes {
		t.Errorf("%d bytes were sent", n)
	}
}

// TestSlowReader: who takes its time, but takes, is served to the end.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	const valueBytes = 300 << 10
	const writeTimeout = time.Second
	in := startWith(t, setup{listener: shrunk, server: func(s *Server) { s.writeTimeout = writeTimeout }})
	other := in.conn()
	if _, err := other.Do("SET", "big", strings.Repeat("x", valueBytes)); err != nil {
		t.Fatal(err)
	}
	slow := in.dial()
	small(t, slow)
	if _, err := slow.Write(wire.AppendStrings(nil, "GET", "big")); err != nil {
		t.Fatal(err)
	}
	began, got, buf := time.Now(), 0, make([]byte, 16<<10)
	for got < valueBytes {
		n, err := slow.Read(buf)
		got += n
		if err != nil && got < valueBytes {
			t.Fatalf("after %d bytes and %v: %v", got, time.Since(began), err)
		}
		time.Sleep(130 * time.Millisecond)
	}
	if took := time.Since(began); took < writeTimeout*3/2 {
		t.Errorf("it took %v: nothing was shown", took)
	}
}

func TestOutputBufferLimit(t *testing.T) {
	t.Parallel()
	const valueBytes = 24 << 20 // more than sockets take
	in := start(t)
	other := in.conn()
	if _, err := other.Do("SET", "big", strings.Repeat("x", valueBytes)); err != nil {
		t.Fatal(err)
	}
	set := func(limit string) {
		t.Helper()
		if r, err := other.Do("CONFIG", "SET", "client-output-buffer-limit", limit); err != nil || r.String() != "+OK" {
			t.Fatalf("%s, %v", r, err)
		}
	}
	set("normal 23mb 0 0")
	c := in.conn()
	c.expect("STRLEN big", ":25165824")
	if err := c.Send("GET", "big"); err != nil {
		t.Fatal(err)
	}
	c.ended()

	set("normal 0 1mb 1")
	// Who reads in time is not concerned.
	reader := in.conn()
	if r, err := reader.Do("GET", "big"); err != nil || len(r.Text) != valueBytes {
		t.Errorf("%d bytes, %v", len(r.Text), err)
	}
	deaf := in.dial()
	small(t, deaf)
	began := time.Now()
	if _, err := deaf.Write(wire.AppendStrings(nil, "GET", "big")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is disconnected", func() bool { return strings.Count(in.log.String(), "client-output-buffer-limit") == 2 })
	if took := time.Since(began); took < 900*time.Millisecond || took > 5*time.Second {
		t.Errorf("after %v", took)
	}
	reader.expect("PING", "+PONG")
}

func TestQueryBufferLimit(t *testing.T) {
	in := start(t, "--client-query-buffer-limit", "1mb")
	other := in.conn()
	// What a transaction has queued counts.
	c := in.conn()
	c.expect("MULTI", "+OK")
	ended := false
	for range 30 {
		if _, err := c.Do("SET", "k", strings.Repeat("x", 100_000)); err != nil {
			ended = true
			break
		}
	}
	if !ended {
		t.Error("a transaction grew beyond the limit")
	}
	other.expect("EXISTS k", ":0")
	if !strings.Contains(in.log.String(), "client-query-buffer-limit") {
		t.Error("the log does not say why")
	}
	// The limits hold for those that are connected already.
	other.expect("CONFIG SET proto-max-bulk-len 1mb client-query-buffer-limit 10mb", "+OK")
	late := in.conn()
	for _, c := range []*conn{other, late} {
		if _, err := c.Write([]byte("*2\r\n$4\r\nECHO\r\n$2000000\r\n")); err != nil {
			t.Fatal(err)
		}
		if r, err := c.ReadReply(); err != nil || r.String() != "-ERR Protocol error: invalid bulk length" {
			t.Errorf("%s, %v", r, err)
		}
		c.ended()
	}
}

// TestOutputLimitHoldsForABatch: a low limit is that of all replies of a batch, of which
// then none comes; one that is just met lets all through.
func TestOutputLimitHoldsForABatch(t *testing.T) {
	in := start(t, "--client-output-buffer-limit", "normal 100000 0 0")
	in.conn().expect("SETRANGE k 9999 x", ":10000")
	batch := func(n int) [][]string {
		var out [][]string
		for range n {
			out = append(out, []string{"GET", "k"})
		}
		return out
	}
	fits := 100_000 / (10_000 + len("$10000\r\n\r\n"))
	if replies, err := in.conn().Pipeline(batch(fits)...); err != nil || len(replies) != fits {
		t.Errorf("%d replies within the limit: %v, %d came", fits, err, len(replies))
	}
	if replies, err := in.conn().Pipeline(batch(fits + 1)...); err == nil || len(replies) > 0 {
		t.Errorf("one more: %v, %d came", err, len(replies))
	}
	// What is gathered beyond a higher limit goes piece by piece, to who reads it.
	if r, err := in.conn().Do("CONFIG", "SET", "client-output-buffer-limit", "normal 2000000 0 0"); err != nil || r.String() != "+OK" {
		t.Fatal(r, err)
	}
	if replies, err := in.conn().Pipeline(batch(1000)...); err != nil || len(replies) != 1000 {
		t.Errorf("1000 replies with a high limit: %v, %d came", err, len(replies))
	}
}

// TestRepetitionsOverTheLimit: who asks for more repetitions than a reply may have is cut
// off if he may not have so much wait for him.
func TestRepetitionsOverTheLimit(t *testing.T) {
	in := start(t)
	c := in.conn()
	c.expect("HSET h f v", ":1")
	c.expect("HRANDFIELD h -999999999", "-ERR value is out of range")
	if r, err := c.Do("CONFIG", "SET", "client-output-buffer-limit", "normal 1000000 0 0"); err != nil || r.String() != "+OK" {
		t.Fatal(r, err)
	}
	if r, err := c.Do("HRANDFIELD", "h", "-999999999"); err == nil {
		t.Errorf("it answers %v", r)
	}
	in.conn().expect("PING", "+PONG")
}
