package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"kevy/internal/config"
	"kevy/internal/exec"
	"kevy/resp"
)

const (
	// flushBytes is how many bytes of replies are gathered before they are sent
	// although more commands wait.
	flushBytes = 64 << 10
	// maxGatheredBytes is up to which hard limit of client-output-buffer-limit they are
	// gathered until they pass it.
	maxGatheredBytes = 1 << 20
	// writeTimeout is how long a client may take none of what is sent to it. A
	// write may fail earlier by a quarter, which saves setting a timer each time.
	writeTimeout = 60 * time.Second
	// strangerWriteTimeout is the same for a client that must log in first. It is sent
	// little but refusals: one that reads none of them until sockets are full of them
	// is not waited for.
	strangerWriteTimeout = time.Second
)

// client is one connection: its socket, its commands and its replies. The
// goroutine that runs serve owns it; what others read or set is atomic or
// guarded by mu.
type client struct {
	srv    *Server
	id     uint64
	conn   net.Conn
	raw    syscall.RawConn // nil if the connection has no file descriptor
	fd     int
	addr   string
	laddr  string
	local  bool          // the peer is on this machine
	unix   bool          // by a Unix socket
	secure bool          // conn is a *tls.Conn
	joined time.Duration // on the server's clock
	input  countedInput
	r      *resp.Reader
	w      *resp.Writer
	es     *exec.Session

	receiver atomic.Pointer[receiver] // nil: it has never taken messages
	pub      *publishing              // nil: it has never published
	monitor  atomic.Pointer[monitor]  // nil: it is not in MONITOR; set by the owner
	shown    []byte                   // lines for those in MONITOR of a transaction that runs
	// Who has receiver.turn may touch writeDeadline and pushProto; without a receiver
	// the owner may.
	writeDeadline time.Duration
	pushProto     int // the protocol version of messages

	limits     *resp.Limits  // those that r has
	clock      time.Duration // when flush last sent; 0: since then fill has read the clock
	hasTurn    bool          // the owner has the turn
	batchBytes int           // input since the buffer was last empty
	closing    bool          // after the replies so far
	rests      bool          // the goroutine ends, and the connection does not
	watched    bool          // by srv.hangUps
	quiet      *quiet        // nil: it gets its replies
	resumed    *pausedClient // a pause has kept the command waiting that runs
	unsettled  bool          // replies were dropped: what they stand for has not been waited for
	midReply   bool          // part of what is gathered was sent

	noTouch atomic.Bool
	// unblock ends the wait of a command for the feed; guarded by mu.
	unblock func(reason error)
	// gone says that the peer has hung up, or the client was killed; endWait ends what
	// waits then, nil if nothing does. Guarded by mu.
	gone    bool
	endWait context.CancelFunc

	idleSince atomic.Int64 // on the server's clock; or busy, or resting and below
	asleep    atomic.Bool  // it has no goroutine
	blocked   atomic.Bool  // by the feed
	waits     atomic.Bool  // a command waits, and sends nothing
	unsent    atomic.Int64 // bytes of a large write that goes on
	counted   atomic.Int64 // bytes that count against maxmemory, messages not included
	queued    int64        // bytes of messages that do; guarded by srv.mu
	left      bool         // it ends, and so does the receiver that it has by now; guarded by srv.mu
	noEvict   atomic.Bool  // maxmemory-clients does not end it
	killed    atomic.Bool
	ending    atomic.Bool // nothing is pushed any more once writeTimeout has passed

	mu      sync.Mutex
	name    string // written by the owner, guarded by mu for others, as are these
	libName string
	libVer  string
	state   clientState // written by the owner, guarded by mu for others
	tracker *tracker    // nil: it was never asked to track keys; written by the owner, guarded by mu for others
}

// countedInput is what a client's commands are read from.
type countedInput struct {
	conn  net.Conn
	bytes int
}

func (in *countedInput) Read(p []byte) (int, error) {
	n, err := in.conn.Read(p)
	in.bytes += n
	return n, err
}

// ID implements command.Session.
func (c *client) ID() uint64 { return c.id }

// DB implements command.Session.
func (c *client) DB() int { return c.es.DB() }

// Exec gives the transaction commands their session.
func (c *client) Exec() *exec.Session { return c.es }

// serve reads commands and sends replies until the connection ends.
func (c *client) serve() {
	defer c.leave()
	for !c.closing {
		args, ok, err := c.r.Next()
		switch {
		case err != nil:
			c.protocolError(err)
		case ok:
			c.srv.exec.Do(c.es, args)
			if c.quiet != nil {
				c.hush()
			}
			if c.tracker != nil {
				c.tellOwn()
			}
			if c.resumed != nil {
				c.endResumed()
			}
			if c.w.Len() < flushBytes || c.gathers() {
				continue
			}
		}
		if !c.flush() {
			return
		}
		if err == nil && !ok && !c.fill() {
			return
		}
	}
	c.endTracking()
	c.endPushes()
	c.flush()
}

// leave ends the client, unless it only rests. A panic that got here is a bug
// outside of handlers: it costs this connection, unless shards are locked, which
// would stop all others.
func (c *client) leave() {
	p := recover()
	c.endResumed()
	switch {
	case p == nil && c.rests:
		c.sleep()
		return
	case p == nil:
		c.srv.leave(c)
		return
	}
	c.srv.log.Error("serving a connection panicked", "client", c.id, "addr", c.addr, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if c.es.Holding() {
		panic(p)
	}
	c.srv.leave(c)
}

// protocolError answers input that is no command; nothing after it can be read.
func (c *client) protocolError(err error) {
	c.srv.log.Debug("protocol error", "client", c.id, "addr", c.addr, "error", err)
	c.srv.exec.Stats().CountError([]byte("ERR"))
	c.w.Err(err)
	c.closing = true
}

// fill waits for more input.
func (c *client) fill() bool {
	now := c.clock
	if now == 0 {
		now = c.srv.uptime()
	}
	c.clock = 0
	c.r.Shrink()
	c.publish()
	c.holdToLimits()
	had, before := c.r.Buffered(), c.input.bytes
	c.idleSince.Store(int64(now))
	err := c.r.Fill()
	if since := c.idleSince.Swap(busy); since <= resting {
		c.stopsResting()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.lieDown(since)
			return false
		}
	}
	read := c.input.bytes - before
	c.srv.stats.input.add(read)
	c.batchBytes = had + read
	if err == nil && int64(c.r.Buffered()+c.es.QueuedBytes()) > c.limits.MaxQueryBytes {
		err = resp.ErrQueryTooBig
	}
	if err == nil {
		return true
	}
	var protocol *resp.Error
	switch {
	case errors.Is(err, resp.ErrQueryTooBig):
		// As in Redis, without a reply.
		c.srv.log.Warn("closing a client whose unfinished command or transaction passed client-query-buffer-limit", "client", c.id, "addr", c.addr)
	case errors.As(err, &protocol):
		c.protocolError(protocol)
		c.flush()
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	default:
		c.srv.log.Debug("connection lost", "client", c.id, "addr", c.addr, "error", err)
	}
	return false
}

// flush sends the gathered replies, after what they show is as safe as the
// fsync policy promises. It reports whether the connection can go on.
func (c *client) flush() bool {
	if c.w.Len() == 0 && !c.hasTurn {
		if c.unsettled {
			c.unsettled = false
			c.es.Settle()
			c.deliver()
		}
		c.midReply = false
		c.letInvalidationsGo()
		return true
	}
	ok := c.sendPart()
	c.midReply = false
	c.pushProto = c.w.Proto()
	if c.hasTurn {
		c.hasTurn = false
		c.EndTurn()
	}
	if r := c.receiver.Load(); r != nil {
		r.subs.Sent()
		r.channels.Release()
	}
	if c.tracker != nil {
		c.tracker.held = false
	}
	return ok
}

// sendPart is flush in the middle of a reply: no message gets between it and the
// rest.
func (c *client) sendPart() bool {
	c.es.Settle()
	c.unsettled = false
	c.deliver()
	ok := true
	if r := c.receiver.Load(); r != nil && !c.hasTurn && (c.sending(r) || r.subs.Any()) {
		r.turn <- struct{}{}
		c.hasTurn = true
		if !r.shared.Load() {
			r.shared.Store(true)
		}
		if !c.midReply {
			// What was published before these replies is sent before them.
			ok = c.sendMessages(r)
			if m := c.monitor.Load(); m != nil {
				ok = ok && m.send()
			}
		}
	}
	c.midReply = true
	if c.w.Len() > flushBytes {
		if c.overHardLimit(c.w.Len()) {
			return false // before it counts: nobody else is to go for what goes itself
		}
		c.publish() // others must know how large it is: it may take long
	}
	c.clock = c.srv.uptime()
	ok = ok && c.send(c.w.Bytes())
	c.w.Reset()
	if c.quiet != nil {
		c.quiet.from = 0
	}
	return ok && !c.killed.Load()
}

// outputLimit is that of client-output-buffer-limit.
func (c *client) outputLimit() config.OutputLimit {
	class := config.ClientNormal
	if c.subscribed() {
		class = config.ClientPubSub
	}
	return c.srv.cfg.ClientOutputBuffer.Load(class)
}

// overHardLimit reports whether so many bytes of replies are more than may wait.
func (c *client) overHardLimit(bytes int) bool {
	limit := c.outputLimit().HardBytes
	if limit == 0 || int64(bytes) <= limit {
		return false
	}
	c.overOutputLimit(bytes)
	return true
}

// EndOverLimit implements what package command asks of sessions.
func (c *client) EndOverLimit(bytes int) {
	if c.overHardLimit(bytes) {
		c.kill()
	}
}

// gathers reports whether the replies so far are to wait for those of the other commands
// that came with theirs: where their limit is that low, it is the batch that is held to
// it, as in Redis, however fast its client reads.
func (c *client) gathers() bool {
	limit := c.outputLimit().HardBytes
	return limit > 0 && limit <= maxGatheredBytes && int64(c.w.Len()) <= limit
}

// send writes replies to the connection, within client-output-buffer-limit.
func (c *client) send(b []byte) bool {
	if c.overHardLimit(len(b)) {
		return false
	}
	limit := c.outputLimit()
	if len(b) > flushBytes {
		c.unsent.Store(int64(len(b)))
		defer c.unsent.Store(0)
	}
	if over := int64(len(b)) - limit.SoftBytes; limit.SoftBytes > 0 && over > 0 {
		// What is above the soft limit must go within the time that it allows.
		c.setWriteDeadline(c.clock + time.Duration(max(limit.SoftSeconds, 1))*time.Second)
		c.hurry(true)
		n, err := c.write(b[:over])
		c.hurry(false)
		if err != nil {
			c.overOutputLimit(len(b) - n)
			return false
		}
		b = b[over:]
		c.clock, c.writeDeadline = c.srv.uptime(), 0
	}
	for {
		timeout := c.srv.writeTimeout
		if c.limits == &strangerLimits {
			timeout = min(timeout, strangerWriteTimeout)
		}
		if left := c.writeDeadline - c.clock; left < timeout-timeout/4 || left > timeout {
			c.setWriteDeadline(c.clock + timeout)
		}
		n, err := c.write(b)
		if err == nil {
			return true
		}
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		// It is slow, but takes.
		b = b[n:]
		c.clock = c.srv.uptime()
	}
}

func (c *client) setWriteDeadline(at time.Duration) {
	c.writeDeadline = at
	_ = c.conn.SetWriteDeadline(c.srv.started.Add(at))
}

// hurry says whether what is written must go before the deadline, however much
// of it is taken by then.
func (c *client) hurry(on bool) {
	if c.secure {
		c.conn.(*tls.Conn).NetConn().(*steadyConn).impatient.Store(on)
	}
}

func (c *client) write(b []byte) (n int, err error) {
	n, err = c.conn.Write(b)
	c.srv.stats.output.add(n)
	if c.unsent.Load() > 0 {
		c.unsent.Add(-int64(n))
	}
	return n, err
}

func (c *client) overOutputLimit(bytes int) {
	c.srv.log.Warn("closing a client whose unread replies passed client-output-buffer-limit", "client", c.id, "addr", c.addr, "bytes", bytes)
}

// HangUp ends the connection after the replies so far.
func (c *client) HangUp() { c.closing = true }

// kill ends the connection from another goroutine, at once: a command that waits
// is served nothing any more.
func (c *client) kill() {
	c.killed.Store(true)
	c.hungUp()
	if r := c.receiver.Load(); r != nil {
		r.gone.Store(true)
	}
	// The socket: to close TLS would wait for the peer to take that.
	_ = socketOf(c.conn).Close()
	c.wake() // after Close, which takes it out of the dormitory
}
