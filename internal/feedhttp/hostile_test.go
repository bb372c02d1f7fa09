package feedhttp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/shard"
)

func (s *store) dial() net.Conn {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.addr, patience)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

func (s *store) admitted() int {
	s.http.mu.Lock()
	defer s.http.mu.Unlock()
	return s.http.admitted
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	const limit = 1000
	s := serve(t, func(o *Options) { o.MaxClients = func() int { return limit } })
	var conns []net.Conn
	for range limit {
		conns = append(conns, s.dial())
	}
	eventually(t, "all are admitted", func() bool { return s.admitted() == limit })
	for range 3 {
		text, err := io.ReadAll(s.dial())
		if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 503 ") || !strings.Contains(string(text), "http-maxclients") {
			t.Fatalf("%q, %v", text, err)
		}
	}
	// Those that are there are served, also all at once.
	for _, c := range conns {
		if _, err := io.WriteString(c, "GET /changes?follow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	s.set("key", "value")
	for _, c := range conns {
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(r.Body); lines.Scan() && !strings.Contains(lines.Text(), `"offset":1,`) && !strings.Contains(lines.Text(), `["SET","key","value"]`); {
		}
	}
	_ = conns[0].Close()
	eventually(t, "there is room again", func() bool { return s.admitted() < limit })
	if status, _ := s.get(""); status != http.StatusOK {
		t.Errorf("%d", status)
	}
}

func TestHalfARequest(t *testing.T) {
	s := serve(t, func(o *Options) { o.headerTimeout = 200 * time.Millisecond })
	for _, text := range []string{"", "GET /cha", "GET /changes HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", "GET /changes HTTP/1.1\r\nHost: 127.0.0.1\r\n"} {
		c := s.dial()
		_, _ = io.WriteString(c, text)
		began := time.Now()
		answer, _ := io.ReadAll(c)
		if took := time.Since(began); took > patience/2 || strings.Contains(string(answer), "200 OK") {
			t.Errorf("%q: %q after %s", text, answer, took)
		}
	}
	// A byte at a time is no way to stay either.
	c := s.dial()
	began := time.Now()
	for time.Since(began) < patience/2 {
		if _, err := io.WriteString(c, "G"); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if time.Since(began) >= patience/2 {
		t.Error("a request of many bytes is waited for")
	}
	eventually(t, "all have ended", func() bool { return s.admitted() == 0 })
}

func TestHostileBytes(t *testing.T) {
	s := serve(t, nil)
	for _, test := range []struct{ send, status string }{
		{"GET /changes HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n", "431"},
		{"GET /changes?prefix=" + strings.Repeat("x", 2*maxHeaderBytes) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "431"},
		{"*1\r\n$4\r\nPING\r\n", "400"},
		{"GET /changes HTTP/1.1\r\n\r\n", "400"},
		{"GET /changes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9223372036854775807\r\n\r\n", "400"},
		{"GET /changes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n", "400"},
		{"GET /changes HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz", "400"},
		{"GET /changes HTTP/1.0\r\n\r\n", "200"},
	} {
		c := s.dial()
		if _, err := io.WriteString(c, test.send); err != nil && test.status != "431" {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%.60q: %v", test.send, err)
			continue
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if !strings.HasPrefix(r.Status, test.status) {
			t.Errorf("%.60q: %s, want %s", test.send, r.Status, test.status)
		}
		_ = c.Close()
	}
	eventually(t, "all have ended", func() bool { return s.admitted() == 0 })
}

// deaf asks for a stream of which it takes nothing.
func (s *store) deaf() {
	s.t.Helper()
	c := s.dial()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	if _, err := io.WriteString(c, "GET /changes?follow&start=oldest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "it is admitted", func() bool { return s.admitted() == 1 })
}

// TestDeafReader takes nothing of what is sent to it: writers do not wait for it,
// and it is cut off.
func TestDeafReader(t *testing.T) {
	for _, test := range []struct {
		timeout time.Duration
		left    int
	}{{time.Hour, 1}, {300 * time.Millisecond, 0}} {
		s := serve(t, func(o *Options) { o.writeTimeout = test.timeout })
		s.deaf()
		value := strings.Repeat("v", 1<<20)
		for range 32 {
			s.set("key", value) // no test comes back from one that waits for an hour
		}
		eventually(t, "it has ended, or not", func() bool { return s.admitted() == test.left })
	}
}

// reluctant is a connection whose peer takes little at a time: a write runs into
// the deadline in the middle.
type reluctant struct {
	net.Conn
	bytes int // how much is taken
	times int // how often anything is, then nothing
}

func (c *reluctant) Write(p []byte) (int, error) {
	if c.times == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	c.times--
	if len(p) <= c.bytes {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:c.bytes])
	if err == nil {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// TestSlowReader takes a little of each piece within the time there is for one, and
// gets all the same; only once it takes nothing it is cut off.
func TestSlowReader(t *testing.T) {
	s := serve(t, nil)
	const sets = 8
	for i := range sets {
		s.set(fmt.Sprint("k", i), strings.Repeat("v", 100<<10))
	}
	for _, test := range []struct {
		times int
		whole bool
	}{{1 << 30, true}, {100, false}} {
		for _, query := range []string{"start=oldest", "start=oldest&follow", "start=snapshot&follow"} {
			client, server := net.Pipe()
			ln := &oneConn{conn: &reluctant{Conn: local{server}, bytes: 1000, times: test.times}, done: make(chan any)}
			s.http.Serve(ln)
			_ = client.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(client, "GET /changes?"+query+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil || r.StatusCode != http.StatusOK {
				t.Fatal(r, err)
			}
			got := 0
			read := bufio.NewReader(r.Body)
			for got < sets && err == nil {
				var line string
				if line, err = read.ReadString('\n'); err == nil && strings.Contains(line, `["SET","k`) {
					got++
				}
			}
			if whole := err == nil; whole != test.whole {
				t.Errorf("%s: %d frames, then %v", query, got, err)
			}
			_ = client.Close()
		}
	}
}

func TestClientGoes(t *testing.T) {
	s := serve(t, nil)
	for _, kind := range []string{"application/x-ndjson", "text/event-stream"} {
		r := s.open("follow=yes", "Accept", kind)
		waiting := func() int {
			info, err := s.Feed().Info(4)
			if err != nil {
				t.Fatal(err)
			}
			return info.Waiting
		}
		eventually(t, "it waits", func() bool { return waiting() == 1 })
		_ = r.Body.Close()
		eventually(t, "nobody waits", func() bool { return waiting() == 0 })
	}
}

func TestClose(t *testing.T) {
	s := serve(t, nil)
	var bodies []io.ReadCloser
	for range 5 {
		bodies = append(bodies, s.open("follow=yes").Body)
		bodies = append(bodies, s.open("", "Accept", "text/event-stream").Body)
	}
	idle := s.dial()
	s.commit(0, func(tx *shard.Tx) { tx.Set([]byte("k"), []byte("v"), 0) })
	began := time.Now()
	s.http.Close()
	if took := time.Since(began); took > patience/4 {
		t.Errorf("the end took %s", took)
	}
	for i, body := range bodies {
		if text, _ := io.ReadAll(body); !strings.Contains(string(text), "position") {
			t.Errorf("stream %d: %q", i, text)
		}
		_ = body.Close()
	}
	if n, err := idle.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes on an idle connection", n)
	}
	if _, err := net.DialTimeout("tcp", s.addr, time.Second); err == nil {
		t.Error("it still listens")
	}
}

// TestStoreCloses under readers: their answers end as they should.
func TestStoreCloses(t *testing.T) {
	s := serve(t, nil)
	r := s.open("follow=yes")
	defer r.Body.Close()
	long := make(chan string, 1)
	go func() {
		_, body := s.get("block=60000")
		long <- body
	}()
	eventually(t, "both wait", func() bool {
		info, err := s.Feed().Info(4)
		return err == nil && info.Waiting == 2
	})
	s.Feed().Close()
	if body, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(body), "position") || strings.Contains(string(body), "end") {
		t.Errorf("%q, %v", body, err)
	}
	if body := <-long; !strings.Contains(body, "closing") {
		t.Errorf("%q", body)
	}
}

// TestProtectedMode lets in whom it says, by address.
func TestProtectedMode(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "10.0.0.1": false, "2001:db8::1": false} {
		if got := isLocal(&net.TCPAddr{IP: net.ParseIP(addr), Port: 1}); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	local := true
	s := serve(t, func(o *Options) { o.LocalOnly = func() bool { return local } })
	if status, body := s.get(""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	// A foreign peer is refused before a byte of it is read.
	client, server := net.Pipe()
	defer client.Close()
	ln := &oneConn{conn: foreign{server}, done: make(chan any)}
	s.http.Serve(ln)
	text, err := io.ReadAll(client)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 403 ") || !strings.Contains(string(text), "protected-mode") {
		t.Errorf("%q, %v", text, err)
	}
	local = false
	req, _ := http.NewRequest(http.MethodGet, s.url, nil)
	req.Host = "kevy.example:6380"
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != 200 {
		t.Errorf("a name, without protected-mode: %s", r.Status)
	}
}

// foreign is a connection from another machine.
type foreign struct{ net.Conn }

func (foreign) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }

// local is a connection from this machine.
type local struct{ net.Conn }

func (local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// oneConn is a listener on which one connection comes.
type oneConn struct {
	conn net.Conn
	done chan any
	once sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, fmt.Errorf("accept: %w", net.ErrClosed)
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
