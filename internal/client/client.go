// Package client is a connection to a Redis server, for programs of this tree
// that send commands of their own: one command and its reply, or many commands
// and then their replies. Package changes, which others import, has a connection
// of its own, on which pushes come; it may use nothing of this tree but resp.
package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"kevy/resp"
)

// Options say how a server is reached.
type Options struct {
	Addr string // host:port
	// Username and Password log in; a password without a name is that of the
	// default user.
	Username, Password string
	TLS                *tls.Config   // nil: plain TCP
	DialTimeout        time.Duration // 0: 10 s
	// Timeout bounds the wait for a reply, and the sending of commands; 0: 30 s.
	Timeout time.Duration
}

const (
	defaultDialTimeout = 10 * time.Second
	defaultTimeout     = 30 * time.Second
	bufferBytes        = 32 << 10
)

// Conn is a connection. It is not safe for concurrent use, but for Close.
type Conn struct {
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	timeout time.Duration
	unbind  func() bool
}

// Dial connects, and logs in if a password is given. The connection is cut when
// ctx ends.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	dialing, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	dialer := &net.Dialer{}
	var raw net.Conn
	var err error
	if o.TLS != nil {
		raw, err = (&tls.Dialer{NetDialer: dialer, Config: o.TLS}).DialContext(dialing, "tcp", o.Addr)
	} else {
		raw, err = dialer.DialContext(dialing, "tcp", o.Addr)
	}
	if err != nil {
		return nil, err
	}
	c := &Conn{conn: raw, in: bufio.NewReaderSize(raw, bufferBytes), timeout: o.Timeout}
	c.unbind = context.AfterFunc(ctx, func() { _ = raw.Close() })
	if err := c.logIn(o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Conn) logIn(o Options) error {
	if o.Password == "" && o.Username == "" {
		return nil
	}
	args := []string{"AUTH", o.Password}
	if o.Username != "" {
		args = []string{"AUTH", o.Username, o.Password}
	}
	r, err := c.Do(args...)
	if err != nil {
		return err
	}
	return r.Err()
}

// Close ends the connection.
func (c *Conn) Close() error {
	c.unbind()
	if err := c.conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Append adds a command to those that Flush sends.
func (c *Conn) Append(args ...string) { c.out = resp.AppendCommand(c.out, args...) }

// AppendBytes is Append for byte strings, which it copies.
func (c *Conn) AppendBytes(args ...[]byte) { c.out = resp.AppendCommand(c.out, args...) }

// maxKeptBytes is how large a buffer for commands stays.
const maxKeptBytes = 1 << 20

// Flush sends what Append has gathered.
func (c *Conn) Flush() error {
	// The timeout is for progress: what a busy server takes late it takes in the end.
	out := c.out
	for len(out) > 0 {
		if err := c.conn.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return err
		}
		n, err := c.conn.Write(out[:min(len(out), maxKeptBytes)])
		if err != nil {
			return err
		}
		out = out[n:]
	}
	c.out = c.out[:0]
	if cap(c.out) > maxKeptBytes {
		c.out = nil
	}
	return nil
}

// Receive reads the next reply. An error that the server answers is a reply, see
// Reply.Err.
func (c *Conn) Receive() (resp.Reply, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return resp.Reply{}, err
	}
	return resp.ReadReply(c.in)
}

// Do sends a command and reads its reply.
func (c *Conn) Do(args ...string) (resp.Reply, error) {
	c.Append(args...)
	if err := c.Flush(); err != nil {
		return resp.Reply{}, err
	}
	return c.Receive()
}

// Call is Do with an error that the server answers as the error.
func (c *Conn) Call(args ...string) (resp.Reply, error) {
	r, err := c.Do(args...)
	if err == nil {
		err = r.Err()
	}
	return r, err
}

// ErrReply says that a reply is not of the shape that the command promises.
var ErrReply = errors.New("the server answered something else than the command promises")

// Uint reads a number out of a reply.
func Uint(r resp.Reply) (uint64, error) {
	if r.Type == ':' && r.Int >= 0 {
		return uint64(r.Int), nil
	}
	n, err := strconv.ParseUint(string(r.Str), 10, 64)
	if err != nil || r.Type == ':' {
		return 0, fmt.Errorf("%w: %s", ErrReply, r.String())
	}
	return n, nil
}
