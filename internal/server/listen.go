package server

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// wakeCommand is what redcon reads first on every connection. It makes redcon
// call its handler, which takes the connection over before any byte of the
// client is read: redcon's reader is not safe against hostile bytes.
const wakeCommand = "*1\r\n$4\r\nKEVY\r\n"

// primedConn yields wakeCommand once and is then no longer read.
type primedConn struct {
	net.Conn
	primed bool
}

func (c *primedConn) Read(p []byte) (int, error) {
	if c.primed {
		return 0, errors.New("the connection was taken over")
	}
	c.primed = true
	return copy(p, wakeCommand), nil
}

const (
	minAcceptBackoff = 5 * time.Millisecond
	maxAcceptBackoff = 500 * time.Millisecond
)

// primedListener hands redcon primed connections. When the process is out of
// file descriptors it waits, longer each time, instead of asking again at once.
type primedListener struct {
	net.Listener
	log *slog.Logger
}

func (l *primedListener) Accept() (net.Conn, error) {
	backoff := minAcceptBackoff
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			return &primedConn{Conn: conn}, nil
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		l.log.Warn("cannot accept a connection", "error", err, "retry_ms", backoff.Milliseconds())
		time.Sleep(backoff)
		backoff = min(2*backoff, maxAcceptBackoff)
	}
}
