package changes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"kevy/resp"
)

const (
	// connectTimeout is how long it may take until a connection is logged in.
	connectTimeout = 15 * time.Second
	// writeTimeout is how long the server may leave a command unread.
	writeTimeout = 15 * time.Second
	// missedHeartbeats is after how many of them a connection on which nothing
	// comes is given up, but not before minStall.
	missedHeartbeats = 3
	minStall         = time.Second
)

// patientConn gives up when nothing comes for too long.
type patientConn struct {
	net.Conn
	stall time.Duration
}

func (c *patientConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// connection is a connection that is logged in.
type connection struct {
	nc net.Conn
	in *Reader // of the goroutine that reads
	// push says that the server speaks RESP3, so that it can push.
	push bool

	mu  sync.Mutex
	out []byte // guarded by mu
}

// open connects and logs in. Its errors are worth another try, but for a
// *refusedError.
func (o *Options) open(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	nc, err := o.dial(ctx)
	if err != nil {
		return nil, err
	}
	stall := max(missedHeartbeats*o.Heartbeat, minStall)
	c := &connection{nc: nc, in: NewReader(&patientConn{Conn: nc, stall: stall})}
	c.in.Keep = true
	c.in.MaxMessageBytes = o.MaxMessageBytes
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	err = c.hello(o)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (o *Options) dial(ctx context.Context) (net.Conn, error) {
	var nc net.Conn
	var err error
	if o.Dial != nil {
		nc, err = o.Dial(ctx)
	} else {
		nc, err = new(net.Dialer).DialContext(ctx, "tcp", o.Addr)
	}
	if err != nil || o.TLS == nil {
		return nc, err
	}
	config := o.TLS
	if config.ServerName == "" && !config.InsecureSkipVerify && o.Addr != "" {
		host, _, err := net.SplitHostPort(o.Addr)
		if err != nil {
			host = o.Addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	tc := tls.Client(nc, config)
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return tc, nil
}

// hello logs in and asks for RESP3; a server that has none is spoken to in
// RESP2, which is enough for SINCE.
func (c *connection) hello(o *Options) error {
	args := []string{"HELLO", "3"}
	user := o.Username
	if user == "" {
		user = "default"
	}
	if o.Username != "" || o.Password != "" {
		args = append(args, "AUTH", user, o.Password)
	}
	reply, err := c.do(args...)
	if err != nil {
		return err
	}
	refused, _ := reply.Err().(*resp.Error)
	switch {
	case refused == nil:
		c.push = true
		return nil
	case refused.Code != "NOPROTO" && !unknownCommand(refused):
		return refusal(refused)
	case len(args) == 2:
		return nil
	}
	reply, err = c.do("AUTH", user, o.Password)
	if err != nil {
		return err
	}
	if refused, _ := reply.Err().(*resp.Error); refused != nil {
		return refusal(refused)
	}
	return nil
}

// do sends a command and waits for its reply; only while nothing else is read
// from the connection.
func (c *connection) do(args ...string) (resp.Reply, error) {
	if err := c.send(args...); err != nil {
		return resp.Reply{}, err
	}
	for {
		m, err := c.in.Next()
		if err != nil {
			return resp.Reply{}, err
		}
		if m.Kind == KindReply {
			return m.Reply, nil
		}
	}
}

// cursor asks for a position: TAIL or OLDEST.
func (c *connection) cursor(which, stream string) (Cursor, error) {
	reply, err := c.do("CHANGES", which, stream)
	if err != nil {
		return Cursor{}, err
	}
	return replyCursor(reply)
}

// replyCursor reads [generation, offset].
func replyCursor(reply resp.Reply) (Cursor, error) {
	if refused, _ := reply.Err().(*resp.Error); refused != nil {
		return Cursor{}, refusal(refused)
	}
	if len(reply.Elems) != 2 || reply.Elems[0].Type != ':' || reply.Elems[1].Type != ':' || reply.Elems[0].Int < 0 || reply.Elems[1].Int < 0 {
		return Cursor{}, protocolError("%.100v for a cursor", reply)
	}
	return Cursor{Generation: uint64(reply.Elems[0].Int), Offset: uint64(reply.Elems[1].Int)}, nil
}

// send writes one command.
func (c *connection) send(args ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(args...)
}

// write writes one command; mu is held.
func (c *connection) write(args ...string) error {
	c.out = resp.AppendCommand(c.out[:0], args...)
	if err := c.nc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(c.out)
	return err
}

// refusedError is what the server will answer again, however often it is asked.
type refusedError struct{ err *resp.Error }

func (e *refusedError) Error() string { return fmt.Sprintf("changes: the server refuses: %v", e.err) }
func (e *refusedError) Unwrap() error { return e.err }

// refusal tells errors that pass by themselves from those that do not.
func refusal(e *resp.Error) error {
	switch e.Code {
	case "LOADING", "BUSY", "FEEDBEHIND", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "MISCONF", "OOM":
		return e
	}
	if strings.HasPrefix(e.Text, "max number of clients") {
		return e
	}
	return &refusedError{err: e}
}

func isRefused(err error) bool {
	var refused *refusedError
	return errors.As(err, &refused)
}

// unknownCommand reports whether a server is too old for a command.
func unknownCommand(e *resp.Error) bool {
	return e.Code == "ERR" && (strings.HasPrefix(e.Text, "unknown command") || strings.HasPrefix(e.Text, "unknown subcommand"))
}
