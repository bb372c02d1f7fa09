package server

import (
	"context"
	"errors"
	"os"
	"time"

	"kevy/internal/command"
	"kevy/internal/command/changes"
	"kevy/internal/exec"
	"kevy/resp"
)

var _ changes.Outlet = (*client)(nil)

// Subscriptions gives the feed's commands those of this connection.
func (c *client) Subscriptions() *changes.Subscriptions { return c.receive().subs }

// subscriptions returns how many streams are pushed.
func (s *Server) subscriptions() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.receivers {
		n += r.subs.Count()
	}
	return n
}

// Addr implements changes.Outlet.
func (c *client) Addr() string { return c.addr }

// Turn implements changes.Outlet.
func (c *client) Turn(ctx context.Context) (proto int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	select {
	case c.receiver.Load().turn <- struct{}{}:
		return c.pushProto, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// EndTurn implements changes.Outlet.
func (c *client) EndTurn() { <-c.receiver.Load().turn }

// Push implements changes.Outlet. A subscriber may take its time: what it costs
// meanwhile is what was handed over here.
func (c *client) Push(b []byte) bool {
	c.unsent.Store(int64(len(b)))
	defer c.unsent.Store(0)
	return c.push(b)
}

func (c *client) push(b []byte) bool {
	if c.secure && c.writeDeadline != 0 {
		c.waitForPeer() // what TLS has begun to write it cannot go on with
	}
	for {
		n, err := c.write(b)
		if err == nil {
			return true
		}
		b = b[n:]
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.ending.Load() {
			c.kill()
			return false
		}
		// It was that of a reply before.
		c.waitForPeer()
	}
}

// waitForPeer takes the deadline of replies away, unless the connection ends.
func (c *client) waitForPeer() {
	c.writeDeadline = 0
	_ = c.conn.SetWriteDeadline(time.Time{})
	if c.ending.Load() {
		_ = c.conn.SetWriteDeadline(time.Now().Add(c.srv.writeTimeout))
	}
}

// Pause implements changes.Outlet.
func (c *client) Pause() <-chan struct{} { return c.srv.pacer.next() }

// Fail implements changes.Outlet.
func (c *client) Fail(err error) {
	c.srv.log.Error("a message could not be completed, closing the connection", "client", c.id, "addr", c.addr, "error", err)
	c.kill()
}

// endPushes ends the subscriptions before the connection's last replies. A peer
// that does not read is waited for no longer than for these.
func (c *client) endPushes() {
	r := c.receiver.Load()
	if r == nil || !r.subs.Any() && !c.sending(r) {
		return
	}
	c.ending.Store(true)
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.srv.writeTimeout))
	r.subs.Close()
	c.writeDeadline = 0
}

// SubscribeMode reports whether the connection takes messages in RESP2, which
// has no other way to tell them from replies than that there are none.
func (c *client) SubscribeMode() bool { return c.w.Proto() == 2 && c.subscribed() }

// subscribed reports whether the connection takes messages, of the feed or of
// channels. Any goroutine may ask.
func (c *client) subscribed() bool {
	r := c.receiver.Load()
	return r != nil && (r.subs.Any() || r.channels.Any())
}

// refuseSubscribed holds a connection in that mode to what Redis allows in it,
// and to what ends it.
func refuseSubscribed(es *exec.Session, spec *command.Spec, _ [][]byte) *resp.Error {
	c, ok := es.Self().(*client)
	if !ok || !c.SubscribeMode() || allowedSubscribed[spec.FullName()] {
		return nil
	}
	return resp.Errorf("ERR", "Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context", spec.FullName())
}

var allowedSubscribed = map[string]bool{
	"subscribe": true, "psubscribe": true, "ssubscribe": true, "unsubscribe": true, "punsubscribe": true, "sunsubscribe": true,
	"changes|subscribe": true, "changes|credit": true, "changes|unsubscribe": true,
	"ping": true, "quit": true, "reset": true,
}
