// Package feedhttp serves the change feed over plain HTTP, as JSON lines or as
// server-sent events, to programs without a Redis client. docs/http.md is its
// contract.
package feedhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"kevy/feed"
	"kevy/internal/command/changes"
)

// Limits of a connection. A stream lasts as long as its reader takes what is
// sent; everything before it is short.
const (
	// headerTimeout is how long a request may take to arrive.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection may be kept between two requests.
	idleTimeout = time.Minute
	// maxHeaderBytes bounds a request's line and headers together; net/http lets
	// 4 KiB more pass.
	maxHeaderBytes = 32 << 10
	// WriteTimeout is how long a reader may take none of what is sent to it.
	WriteTimeout = time.Minute
	// bodyTimeout is how long a body, which no request needs, is waited for.
	bodyTimeout = time.Second
	// refusalTimeout bounds the wait for a peer to take the reason why it is not
	// served.
	refusalTimeout = 100 * time.Millisecond
)

// Options say what is served, and to whom.
type Options struct {
	Source *feed.Source
	DBs    int // how many databases there are
	// MaxClients returns how many connections there may be at once, LocalOnly
	// whether only those from this machine are served. Both are asked for each.
	MaxClients func() int
	LocalOnly  func() bool
	// Login returns who asks, by the name and the password of Basic authentication if
	// those are given; nil if nobody may. If Login is nil everybody may read everything.
	Login func(name, password string, given bool) Reader
	// Subscribers lists those that follow, under a number of NextID each.
	Subscribers *changes.Subscribers
	NextID      func() uint64
	// Pause returns what is closed when a reader that keeps up is to look again.
	Pause  func() <-chan struct{}
	Logger *slog.Logger
	// TLS is spoken on the listeners of ServeTLS.
	TLS *tls.Config

	writeTimeout, headerTimeout time.Duration // 0: the constants
}

// Server serves the feed on listeners that it is given.
type Server struct {
	opt  Options
	http *http.Server
	end  context.CancelFunc // of every request

	conns sync.WaitGroup // one for each connection, counted by their states

	mu       sync.Mutex
	admitted int                       // connections that are open; guarded by mu
	serving  map[net.Listener]chan any // closed at the end of serving; guarded by mu
}

// New returns a server without a listener. Close must be called in the end.
func New(opt Options) *Server {
	if opt.writeTimeout == 0 {
		opt.writeTimeout = WriteTimeout
	}
	if opt.headerTimeout == 0 {
		opt.headerTimeout = headerTimeout
	}
	s := &Server{opt: opt, serving: map[net.Listener]chan any{}}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: opt.headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.conns.Add(1)
			case http.StateClosed:
				s.conns.Done()
			}
		},
		ErrorLog: slog.NewLogLogger(opt.Logger.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve accepts connections of a listener, which is the server's from now on.
func (s *Server) Serve(ln net.Listener) { s.serve(ln, &gate{Listener: ln, s: s}) }

// ServeTLS is Serve for clients that speak TLS. Those that are not let in learn
// no reason, as they would not understand it yet.
func (s *Server) ServeTLS(ln net.Listener) {
	s.serve(ln, tls.NewListener(&gate{Listener: ln, s: s, secure: true}, s.opt.TLS))
}

// serve accepts from entrance, which is ln behind a gate.
func (s *Server) serve(ln, entrance net.Listener) {
	ended := make(chan any)
	s.mu.Lock()
	s.serving[ln] = ended
	s.mu.Unlock()
	go func() {
		defer close(ended)
		_ = s.http.Serve(entrance) // it ends when the listener is closed
	}()
}

// Unlisten closes every listener; connections stay.
func (s *Server) Unlisten() {
	s.mu.Lock()
	serving := s.serving
	s.serving = map[net.Listener]chan any{}
	s.mu.Unlock()
	for ln, ended := range serving {
		_ = ln.Close()
		<-ended
	}
}

// Close ends listeners and connections, streams in the middle of a change
// included, and waits for their ends.
func (s *Server) Close() {
	s.Unlisten()
	s.end()
	_ = s.http.Close()
	s.conns.Wait()
}

// gate lets connections in.
type gate struct {
	net.Listener
	s      *Server
	secure bool // the peer is to speak TLS
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		switch {
		case g.s.opt.LocalOnly() && !isLocal(conn.RemoteAddr()):
			g.refuse(conn, "403 Forbidden", "protected-mode serves this machine only")
		case !g.s.admit():
			g.refuse(conn, "503 Service Unavailable", "too many connections: the limit is http-maxclients")
		default:
			return &admittedConn{Conn: conn, s: g.s}, nil
		}
	}
}

func (s *Server) admit() bool {
	limit := s.opt.MaxClients()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admitted >= limit {
		return false
	}
	s.admitted++
	return true
}

// admittedConn is a connection that counts until it is closed, and whose peer must
// take something of what is sent to it now and then.
type admittedConn struct {
	net.Conn
	s    *Server
	once sync.Once
}

// Write waits for a peer that takes what it is sent, however slowly: a slow line or
// machine is no reason to cut an answer.
func (c *admittedConn) Write(p []byte) (n int, err error) {
	for {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.s.opt.writeTimeout))
		m, err := c.Conn.Write(p[n:])
		n += m
		if m == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

func (c *admittedConn) Close() error {
	c.once.Do(func() {
		c.s.mu.Lock()
		c.s.admitted--
		c.s.mu.Unlock()
	})
	return c.Conn.Close()
}

// refuse answers a connection of which nothing was read, and closes it.
func (g *gate) refuse(conn net.Conn, status, why string) {
	if g.secure {
		_ = conn.Close()
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(refusalTimeout))
	_, _ = io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+errorText(why))
	_ = conn.Close()
}

func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
