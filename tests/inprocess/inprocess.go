// Package inprocess runs a server inside a test: quick to start, seen by the race
// detector, and gone with the test.
package inprocess

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/internal/config"
	"kevy/internal/server"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// Server is a server that runs, or is stopped for a while.
type Server struct {
	t      testing.TB
	args   []string
	addr   string
	cancel context.CancelFunc
	ended  chan error
}

// Start starts a server of four shards with a data directory of its own; args are
// further settings, as --name value. It ends with the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t}
	var err error
	// The free port may be taken between its choice and its use.
	for range 5 {
		var port int
		if port, err = process.FreePort(); err != nil {
			t.Fatal(err)
		}
		s.args = append([]string{"--port", strconv.Itoa(port), "--dir", t.TempDir(), "--shards", "4"}, args...)
		if err = s.start(); err == nil {
			t.Cleanup(s.Stop)
			return s
		}
	}
	t.Fatal(err)
	return nil
}

func (s *Server) start() error {
	cfg, err := config.Load(s.args, strings.NewReader(""))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, cfg, slog.New(slog.DiscardHandler), func(a string) { addr <- a })
	}()
	select {
	case s.addr = <-addr:
		s.cancel, s.ended = cancel, ended
		return nil
	case err := <-ended:
		cancel()
		return err
	}
}

// Addr is host:port, the same after Restart.
func (s *Server) Addr() string { return s.addr }

// Stop closes the server cleanly. A second call does nothing.
func (s *Server) Stop() {
	s.t.Helper()
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.cancel = nil
	if err := <-s.ended; err != nil {
		s.t.Errorf("the server ended with %v", err)
	}
}

// Restart closes the server, if it runs, and starts it on the same data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	var err error
	for range 50 { // its port may be in use for a moment by a connection to it
		if err = s.start(); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Fatal(err)
}

// Conn connects to the server; the connection is closed with the test.
func (s *Server) Conn() *wire.Conn {
	s.t.Helper()
	c, err := wire.Dial(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// Do sends a command, given as a line of words, which must not be refused.
func Do(t testing.TB, c *wire.Conn, line string) wire.Reply {
	t.Helper()
	r, err := c.Do(strings.Fields(line)...)
	if err != nil || r.IsError("") {
		t.Fatalf("%s: %v, %v", line, r, err)
	}
	return r
}
