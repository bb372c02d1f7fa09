package server

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"kevy/internal/exec"
	"kevy/resp"
)

const (
	// flushBytes is how many bytes of replies are gathered before they are sent
	// although more commands wait.
	flushBytes = 64 << 10
	// writeTimeout is how long a client may take none of what is sent to it.
	writeTimeout = 60 * time.Second
	// deadlineSlack is how much earlier than writeTimeout a write may fail: it
	// saves setting a timer on every write.
	deadlineSlack = writeTimeout / 4
)

// clientBytes is about what a connection occupies besides its buffers.
const clientBytes = 2 << 10

// client is one connection: its socket, its commands and its replies. The
// goroutine that runs serve owns it; what others read or set is atomic or
// guarded by mu.
type client struct {
	srv     *Server
	id      uint64
	conn    net.Conn
	raw     syscall.RawConn // nil if the connection has no file descriptor
	fd      int
	addr    string
	laddr   string
	created time.Time
	r       *resp.Reader
	w       *resp.Writer
	es      *exec.Session

	closing       bool // after the replies so far
	writeDeadline time.Time

	lastCommandMs atomic.Int64
	killed        atomic.Bool

	mu      sync.Mutex
	name    string // guarded by mu
	libName string // guarded by mu
	libVer  string // guarded by mu
	info    clientInfo
}

// clientInfo is what CLIENT LIST shows of a client's own state. The client
// refreshes it before it waits for more input, so that others may read it.
type clientInfo struct { // guarded by client.mu
	db, multi, watch int
	proto            int
	lastCommand      string
	queryBuffered    int
	replyBytes       int
	multiBytes       int
	memBytes         int
}

// ID implements command.Session.
func (c *client) ID() uint64 { return c.id }

// DB implements command.Session.
func (c *client) DB() int { return c.es.DB() }

// Exec gives the transaction commands their session.
func (c *client) Exec() *exec.Session { return c.es }

// serve reads commands and sends replies until the connection ends.
func (c *client) serve() {
	defer c.srv.leave(c)
	for !c.closing {
		args, ok, err := c.r.Next()
		switch {
		case err != nil:
			c.srv.log.Debug("protocol error", "client", c.id, "addr", c.addr, "error", err)
			c.w.Err(err)
			c.closing = true
		case ok:
			c.srv.exec.Do(c.es, args)
			if c.w.Len() < flushBytes {
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
	c.flush()
}

// fill waits for more input.
func (c *client) fill() bool {
	c.r.Shrink()
	now := time.Now()
	c.lastCommandMs.Store(now.UnixMilli())
	c.publishInfo()
	if timeout := c.srv.cfg.TimeoutSeconds.Load(); timeout > 0 {
		_ = c.conn.SetReadDeadline(now.Add(time.Duration(timeout) * time.Second))
	}
	err := c.r.Fill()
	if err == nil {
		return true
	}
	var protocol *resp.Error
	switch {
	case errors.Is(err, resp.ErrQueryTooBig):
		// As in Redis, without a reply.
		c.srv.log.Warn("closing a client whose unfinished command passed client-query-buffer-limit", "client", c.id, "addr", c.addr)
	case errors.As(err, &protocol):
		c.w.Error(protocol)
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
	if c.w.Len() == 0 {
		return true
	}
	c.es.Settle()
	if now := time.Now(); c.writeDeadline.Sub(now) < writeTimeout-deadlineSlack {
		c.writeDeadline = now.Add(writeTimeout)
		_ = c.conn.SetWriteDeadline(c.writeDeadline)
	}
	n, err := c.conn.Write(c.w.Bytes())
	c.srv.stats.outputBytes.Add(int64(n))
	c.w.Reset()
	return err == nil && !c.killed.Load()
}

// Close ends the connection after the replies so far.
func (c *client) Close() { c.closing = true }

// kill ends the connection from another goroutine, at once.
func (c *client) kill() {
	c.killed.Store(true)
	_ = c.conn.Close()
}

// publishInfo refreshes what others see of the client.
func (c *client) publishInfo() {
	name := c.es.LastCommand()
	c.mu.Lock()
	c.info = clientInfo{
		db: c.es.DB(), multi: c.es.QueuedCommands(), watch: c.es.WatchedKeys(), proto: c.w.Proto(),
		lastCommand: name, queryBuffered: c.r.Buffered(), replyBytes: c.w.Len(),
		multiBytes: c.es.QueuedBytes(), memBytes: c.r.MemBytes() + cap(c.w.Bytes()) + c.es.QueuedBytes() + clientBytes,
	}
	c.mu.Unlock()
}

// SetName implements what CLIENT SETNAME and HELLO SETNAME need.
func (c *client) SetName(name string) {
	c.mu.Lock()
	c.name = name
	c.mu.Unlock()
}

// Name returns the connection's name, empty if it has none.
func (c *client) Name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// SetLib notes what CLIENT SETINFO says of the client library: attribute is
// "lib-name" or "lib-ver".
func (c *client) SetLib(attribute, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.EqualFold(attribute, "lib-name") {
		c.libName = value
	} else {
		c.libVer = value
	}
}
