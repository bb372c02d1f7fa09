package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// subject is the server under test, where only ours has what is tested.
func subject(t *testing.T, why string) process.Binary {
	t.Helper()
	b := process.Subject(t)
	if b.Redis {
		t.Skipf("a redis-server stands in, which %s", why)
	}
	return b
}

// do runs a command that must not fail.
func do(t testing.TB, c *wire.Conn, args ...string) wire.Reply {
	t.Helper()
	r, err := c.Do(args...)
	if err != nil || r.IsError("") {
		t.Fatalf("%.200q: %s, %v", args, r, err)
	}
	return r
}

// expectExit waits for a server that must not start and checks what it says.
func expectExit(t *testing.T, s *process.Server, says ...string) {
	t.Helper()
	err := s.WaitExit(20 * time.Second)
	if s.Running() {
		s.Kill()
		t.Fatalf("the server runs, though it should have refused to start:\n%s", s.Log())
	}
	if err == nil {
		t.Errorf("the server ended without an error code:\n%s", s.Log())
	}
	for _, text := range says {
		if !strings.Contains(s.Log(), text) {
			t.Errorf("the server does not say %q:\n%s", text, s.Log())
		}
	}
}

func TestSecondServerOnTheDirectory(t *testing.T) {
	b := subject(t, "does not lock its directory")
	first := process.Start(t, b, process.Config{})
	c := first.Conn(t)
	do(t, c, "SET", "k", "v")
	second, err := process.Launch(b, process.Config{Dir: first.Dir})
	if err != nil {
		t.Fatal(err)
	}
	expectExit(t, second, first.Dir)
	if r := do(t, c, "GET", "k"); string(r.Text) != "v" {
		t.Errorf("the first server answers %s", r)
	}
	do(t, c, "SET", "k", "w")
	// What the second one did must not have harmed the first one's log.
	first.Kill()
	again := process.Start(t, b, process.Config{Dir: first.Dir})
	if r := do(t, again.Conn(t), "GET", "k"); string(r.Text) != "w" {
		t.Errorf("after a restart GET k is %s", r)
	}
}

func TestPortTaken(t *testing.T) {
	b := process.Subject(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	s, err := process.LaunchOn(b, process.Config{Dir: t.TempDir()}, port)
	if err != nil {
		t.Fatal(err)
	}
	says := []string{strconv.Itoa(port)}
	if !b.Redis {
		says = append(says, "taken", "--port")
	}
	expectExit(t, s, says...)
}

func TestPortZero(t *testing.T) {
	b := subject(t, "does not listen on port 0")
	s, err := process.LaunchOn(b, process.Config{Dir: t.TempDir()}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(s.Log(), "listening on 127.0.0.1:") {
		if time.Now().After(deadline) || !s.Running() {
			t.Fatalf("the port is not printed:\n%s", s.Log())
		}
		time.Sleep(5 * time.Millisecond)
	}
	_, rest, _ := strings.Cut(s.Log(), "listening on ")
	addr, _, _ := strings.Cut(rest, "\n")
	c, err := wire.Dial(strings.TrimSpace(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r := do(t, c, "PING"); string(r.Text) != "PONG" {
		t.Errorf("PING: %s", r)
	}
}

func TestBadSettingsStopTheStart(t *testing.T) {
	b := subject(t, "words its errors otherwise")
	dir := t.TempDir()
	conf := filepath.Join(dir, "kevy.conf")
	if err := os.WriteFile(conf, []byte("# a comment\nappendfsync sometimes\nnosuchsetting 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s, err := process.LaunchOn(b, process.Config{Dir: dir, File: conf}, port)
	if err != nil {
		t.Fatal(err)
	}
	expectExit(t, s, "kevy.conf:2", "appendfsync", "always", "everysec", "kevy.conf:3", "nosuchsetting")
}

// TestCleanCloseResumes stops the server cleanly: every stream goes on in its generation, and a reader in
// the middle misses nothing.
func TestCleanCloseResumes(t *testing.T) {
	b := subject(t, "has no feed")
	s := process.Start(t, b, process.Config{Args: []string{"--shards", "4"}})
	c := s.Conn(t)
	for i := range 300 {
		do(t, c, "SET", fmt.Sprintf("k%d", i%40), strconv.Itoa(i))
	}
	ledger := newLedger()
	at, err := position(c, "OLDEST", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	r := &consumer{stream: "ALL", at: at, ledger: ledger}
	if _, err := r.poll(c, 0); err != nil {
		t.Fatal(err)
	}
	streams := []string{"0", "1", "2", "3", "ALL"}
	before := map[string]cursor{}
	for _, stream := range streams {
		if before[stream], err = position(c, "TAIL", stream); err != nil {
			t.Fatal(err)
		}
		// A marker of a clean close must not lie there while the server runs: it could come back after a power cut.
		if _, err := os.Stat(filepath.Join(s.Dir, "feed-"+strings.ToLower(stream)+".meta")); err == nil {
			t.Errorf("feed-%s.meta is there while the server runs", strings.ToLower(stream))
		}
	}
	s.Stop(t)
	for round := range 3 {
		s = process.Start(t, b, process.Config{Dir: s.Dir})
		c = s.Conn(t)
		for _, stream := range streams {
			after, err := position(c, "TAIL", stream)
			if err != nil {
				t.Fatal(err)
			}
			if after != before[stream] {
				t.Errorf("round %d: stream %s was at %s and is at %s", round, stream, before[stream], after)
			}
		}
		do(t, c, "SET", "new", strconv.Itoa(round))
		if err := r.catchUp(c); err != nil {
			t.Fatal(err)
		}
		if r.frames != 301+round || r.moves != 0 {
			t.Errorf("round %d: the reader has %d frames, moved %d times", round, r.frames, r.moves)
		}
		for _, stream := range streams {
			if before[stream], err = position(c, "TAIL", stream); err != nil {
				t.Fatal(err)
			}
		}
		s.Stop(t)
	}
}
