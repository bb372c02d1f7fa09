package server

import (
	"net"
	"strings"
	"testing"

	"kevy/internal/command"
	"kevy/internal/command/all"
	"kevy/internal/exec"
)

// TestHandlerPanics: a bug in a handler costs its caller an error.
func TestHandlerPanics(t *testing.T) {
	boom := &command.Spec{Name: "boom", Arity: 2, Flags: command.Write, Keys: command.One(1, command.RW), Run: func(c *command.Ctx) {
		c.Tx.Set(c.Key(1), []byte("before"), 0)
		panic("on purpose")
	}}
	in := startWith(t, setup{server: func(s *Server) {
		s.exec = exec.New(command.NewTable(all.Data(), exec.Commands(), []*command.Spec{boom}), s.store, s.log, exec.Refusals{})
	}})
	c, other := in.conn(), in.conn()
	for range 3 {
		c.expect("BOOM k", "-ERR internal error in 'boom' command, see the server's log")
		other.expect("GET k", `"before"`)
		other.expect("DEL k", ":1")
	}
	c.expect("SET k v", "+OK")
	if n := in.exec.Stats().Panics(); n != 3 {
		t.Errorf("%d panics were counted", n)
	}
}

// brokenListener yields connections on which a write panics.
type brokenListener struct{ net.Listener }

type brokenConn struct{ *net.TCPConn }

func (brokenConn) Write([]byte) (int, error) { panic("a bug outside of handlers") }

func (l brokenListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return brokenConn{c.(*net.TCPConn)}, nil
}

// TestPanicOutsideHandlers: it costs the connection.
func TestPanicOutsideHandlers(t *testing.T) {
	in := startWith(t, setup{listener: func(ln net.Listener) net.Listener { return brokenListener{ln} }})
	for range 3 {
		c := in.conn()
		if err := c.Send("SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		c.ended()
	}
	eventually(t, "the connections are forgotten", func() bool { return in.ConnectedClients() == 0 })
	if n := strings.Count(in.log.String(), "a bug outside of handlers"); n < 3 {
		t.Errorf("the log tells of %d", n)
	}
	tx := in.store.NewTx()
	for i := range in.store.Set().Shards() {
		held := []int{i}
		in.store.Set().Lock(held)
		tx.Begin(held, 0, 0)
		tx.End()
		in.store.Set().Unlock(held)
	}
}

// TestShutdown: the server stops, and nothing of the pipeline behind it runs.
func TestShutdown(t *testing.T) {
	in := start(t)
	c := in.conn()
	other := in.conn()
	other.expect("PING", "+PONG")
	if _, err := c.Write([]byte("SET k v\r\nSHUTDOWN\r\nSET k w\r\n")); err != nil {
		t.Fatal(err)
	}
	if r, err := c.ReadReply(); err != nil || r.String() != "+OK" {
		t.Errorf("%s, %v", r, err)
	}
	c.ended()
	other.ended()
	err := <-in.done
	if err != nil {
		t.Errorf("serve: %v", err)
	}
	in.done <- err // for the cleanup
	if in.ConnectedClients() != 0 {
		t.Error("a connection is left")
	}
	tx := in.store.NewTx()
	held := []int{in.store.Set().ShardOf([]byte("k"))}
	in.store.Set().Lock(held)
	tx.Begin(held, 0, 0)
	if v, _, _ := tx.String([]byte("k")); string(v) != "v" {
		t.Errorf("k is %q", v)
	}
	tx.End()
	in.store.Set().Unlock(held)
}
