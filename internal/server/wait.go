package server

import (
	"context"
	"syscall"
	"time"

	"kevy/resp"
)

// Block prepares the connection for a command that waits for the feed, as Park
// does for one that waits for keys.
func (c *client) Block() (ctx context.Context, done func(), ok bool) {
	ctx, ready, ok := c.Park()
	if !ok {
		return nil, nil, false
	}
	c.srv.stats.blocked.Add(1)
	c.blocked.Store(true)
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	c.unblock = cancel
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		c.unblock = nil
		c.mu.Unlock()
		cancel(nil)
		ready()
		c.blocked.Store(false)
		c.srv.stats.blocked.Add(-1)
	}, true
}

// errUnblocked is the reason of CLIENT UNBLOCK … ERROR.
var errUnblocked = &resp.Error{Code: "UNBLOCKED", Text: "client unblocked via CLIENT UNBLOCK"}

// unblockFeed ends the wait of a command for the feed, as its timeout would or with an
// error, and reports whether there was one.
func (c *client) unblockFeed(withError bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unblock == nil {
		return false
	}
	var reason error
	if withError {
		reason = errUnblocked
	}
	c.unblock(reason)
	c.unblock = nil
	return true
}

// Park prepares the connection for a command that waits: what was gathered is
// sent, and the returned context ends when the peer hangs up or the server
// stops. The command calls done when it no longer waits. ok is false if the
// connection is gone already.
func (c *client) Park() (ctx context.Context, done func(), ok bool) {
	c.endResumed()
	if !c.flush() {
		return nil, nil, false
	}
	c.es.Waits()
	c.publish()
	c.waits.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	c.setEndWait(cancel)
	stop := func() {}
	if c.srv.hangUps.Follow(c); !c.watched && c.raw != nil {
		stop = c.watchAlone(ctx, cancel)
	}
	return ctx, func() {
		c.setEndWait(nil)
		cancel()
		stop()
		c.waits.Store(false)
		c.es.Resumes()
	}, true
}

// setEndWait says how hungUp ends what waits, nil if nothing does any more. If the
// peer has hung up before, it is called at once.
func (c *client) setEndWait(cancel context.CancelFunc) {
	c.mu.Lock()
	c.endWait = cancel
	gone := c.gone
	c.mu.Unlock()
	if gone && cancel != nil {
		cancel()
	}
}

// hungUp notes that the peer has closed its side, or that the client was killed: what
// it waits for, now or later, nobody wants. Any goroutine may call it.
func (c *client) hungUp() {
	c.es.Abandon()
	c.mu.Lock()
	c.gone = true
	cancel := c.endWait
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// watchAlone watches for a hang-up on a goroutine of its own, until stop is called.
func (c *client) watchAlone(ctx context.Context, cancel context.CancelFunc) (stop func()) {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watchHangUp(ctx, cancel)
	}()
	return func() {
		// The watcher waits in a read: a deadline in the past ends it.
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
		<-watched
		_ = c.conn.SetReadDeadline(time.Time{})
	}
}

// Drain sends what was gathered, in the middle of a reply.
func (c *client) Drain() bool {
	c.es.Waits()
	defer c.es.Resumes()
	if c.quiet != nil {
		c.es.Drop(c.quiet.from)
	}
	return c.sendPart()
}

// Abort ends the connection in the middle of a reply that cannot be completed.
func (c *client) Abort(err error) {
	c.srv.log.Error("a reply could not be completed, closing the connection", "client", c.id, "addr", c.addr, "error", err)
	c.w.Reset()
	c.kill()
	c.closing = true
}

// LastWrite implements changes.Session.
func (c *client) LastWrite() (lsn uint64, streams []int) { return c.es.LastWrite() }

// hangUpPoll is how often a peer is looked at whose next commands are waiting
// already: then the socket stays readable and says nothing of its end.
const hangUpPoll = 50 * time.Millisecond

// watchHangUp cancels when the peer closes the connection. It reads no byte.
func (c *client) watchHangUp(ctx context.Context, cancel context.CancelFunc) {
	var peeked [1]byte
	for ctx.Err() == nil {
		gone, pending := false, false
		err := c.raw.Read(func(fd uintptr) bool {
			n, _, err := syscall.Recvfrom(int(fd), peeked[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			if err == syscall.EAGAIN || err == syscall.EINTR {
				return false
			}
			gone = err != nil || n == 0
			pending = n > 0
			return true
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil || gone || (pending && c.halfClosed()):
			cancel()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(hangUpPoll):
		}
	}
}
