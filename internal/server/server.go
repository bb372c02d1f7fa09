// Package server puts a store on the network: listeners, connections and the
// commands that concern them.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidwall/redcon"

	"kevy/internal/config"
	"kevy/internal/engine"
	"kevy/internal/exec"
	"kevy/resp"
)

// Server serves one store.
type Server struct {
	cfg   *config.Config
	log   *slog.Logger
	store *engine.Engine
	exec  *exec.Executor
	redc  []*redcon.Server
	addrs []net.Addr

	started  time.Time
	runID    string
	nextID   atomic.Uint64
	stats    stats
	shutdown chan struct{} // closed by SHUTDOWN
	stopOnce sync.Once

	mu      sync.Mutex
	clients map[uint64]*client // guarded by mu
	closed  bool               // guarded by mu
	active  sync.WaitGroup     // one for each client's goroutine
}

type stats struct {
	connections atomic.Int64
	rejected    atomic.Int64
	inputBytes  atomic.Int64
	outputBytes atomic.Int64
	blocked     atomic.Int64
	peakMemory  atomic.Int64

	opsPerSecond atomic.Int64
}

// Run opens the store and serves it until ctx ends or a client sends SHUTDOWN,
// then closes both cleanly. ready is called with each address once connections
// are accepted. The error says what to do where something can be done.
func Run(ctx context.Context, cfg *config.Config, log *slog.Logger, ready func(addr string)) (err error) {
	// The ports first: a second server on them must not touch the directory.
	listeners, err := listen(cfg)
	if err != nil {
		return err
	}
	store, err := engine.Open(engineOptions(cfg, log))
	if err != nil {
		closeAll(listeners)
		return err
	}
	defer func() {
		if cerr := store.Close(); err == nil {
			err = cerr
		}
	}()
	s := newServer(cfg, log, store)
	if err := s.watchConfig(); err != nil {
		closeAll(listeners)
		return err
	}
	return s.serve(ctx, listeners, ready)
}

func newServer(cfg *config.Config, log *slog.Logger, store *engine.Engine) *Server {
	s := &Server{
		cfg: cfg, log: log, store: store, started: time.Now(), runID: newRunID(),
		shutdown: make(chan struct{}), clients: make(map[uint64]*client),
	}
	s.exec = exec.New(s.commandTable(), store, log)
	return s
}

// serve accepts connections until it is told to stop, then ends them.
func (s *Server) serve(ctx context.Context, listeners []net.Listener, ready func(addr string)) error {
	failed := make(chan error, len(listeners))
	for _, ln := range listeners {
		s.addrs = append(s.addrs, ln.Addr())
		r := redcon.NewServerNetwork(ln.Addr().Network(), ln.Addr().String(), s.takeOver, s.admit, nil)
		s.redc = append(s.redc, r)
		go func() { failed <- r.Serve(&primedListener{ln, s.log}) }()
		ready(ln.Addr().String())
	}
	stopCron := s.startCron()
	var err error
	select {
	case <-ctx.Done():
	case <-s.shutdown:
	case err = <-failed:
	}
	s.stop()
	stopCron()
	return err
}

// stop closes the listeners and every connection and waits for their ends.
func (s *Server) stop() {
	for _, r := range s.redc {
		_ = r.Close()
	}
	s.mu.Lock()
	s.closed = true
	for _, c := range s.clients {
		c.kill()
	}
	s.mu.Unlock()
	s.active.Wait()
}

// listen opens the configured addresses.
func listen(cfg *config.Config) (out []net.Listener, err error) {
	port := strconv.FormatInt(cfg.Port.Load(), 10)
	var lc net.ListenConfig
	for _, host := range cfg.Bind.Load() {
		optional := false
		if len(host) > 1 && host[0] == '-' {
			host, optional = host[1:], true
		}
		if host == "*" {
			host = "0.0.0.0"
		}
		ln, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
		switch {
		case err == nil:
			out = append(out, ln)
			if port == "0" {
				_, port, _ = net.SplitHostPort(ln.Addr().String())
			}
		case optional && errors.Is(err, syscall.EADDRNOTAVAIL):
		case errors.Is(err, syscall.EADDRINUSE):
			closeAll(out)
			return nil, fmt.Errorf("address %s is taken by another program: stop that one, or choose another with --port (--port 0 takes a free one)", net.JoinHostPort(host, port))
		default:
			closeAll(out)
			return nil, fmt.Errorf("cannot listen on %s: %w", net.JoinHostPort(host, port), err)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no address to listen on: set bind to an address of this machine")
	}
	return out, nil
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		_ = ln.Close()
	}
}

// admit decides whether redcon goes on with a new connection.
func (s *Server) admit(conn redcon.Conn) bool {
	s.mu.Lock()
	full := len(s.clients) >= int(s.cfg.MaxClients.Load())
	s.mu.Unlock()
	if !full {
		return true
	}
	s.stats.rejected.Add(1)
	refusal := redcon.AppendError(nil, "ERR max number of clients reached")
	nc := conn.NetConn()
	_ = nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = nc.Write(refusal)
	return false
}

// takeOver detaches a connection from redcon and gives it a goroutine of its
// own, so that redcon's buffers for it can go.
func (s *Server) takeOver(conn redcon.Conn, _ redcon.Command) {
	nc := conn.NetConn().(*primedConn).Conn
	conn.Detach()
	c := s.join(nc)
	if c == nil {
		_ = nc.Close()
		return
	}
	go c.serve()
}

// join makes a client of a connection; nil if the server stops.
func (s *Server) join(nc net.Conn) *client {
	c := &client{
		srv: s, id: s.nextID.Add(1), conn: nc, fd: -1,
		addr: nc.RemoteAddr().String(), laddr: nc.LocalAddr().String(), created: time.Now(),
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		s.tuneTCP(tcp)
		if raw, err := tcp.SyscallConn(); err == nil {
			c.raw = raw
			_ = raw.Control(func(fd uintptr) { c.fd = int(fd) })
		}
	}
	c.r = resp.NewReader(nc, s.readerLimits())
	c.w = resp.NewWriter(2)
	c.es = s.exec.NewSession(c, c.w)
	c.lastCommandMs.Store(c.created.UnixMilli())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.stats.connections.Add(1)
	s.clients[c.id] = c
	s.active.Add(1)
	return c
}

// leave forgets a client that has ended.
func (s *Server) leave(c *client) {
	_ = c.conn.Close()
	c.es.Close()
	s.mu.Lock()
	delete(s.clients, c.id)
	s.mu.Unlock()
	s.active.Done()
}

func (s *Server) tuneTCP(tcp *net.TCPConn) {
	_ = tcp.SetNoDelay(true)
	if sec := s.cfg.TCPKeepaliveSeconds.Load(); sec > 0 {
		idle := time.Duration(sec) * time.Second
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: max(idle/3, time.Second), Count: 3})
	} else {
		_ = tcp.SetKeepAlive(false)
	}
}

func (s *Server) readerLimits() resp.Limits {
	lim := resp.DefaultLimits()
	lim.MaxBulkBytes = s.cfg.ProtoMaxBulkBytes.Load()
	lim.MaxQueryBytes = s.cfg.ClientQueryBufferBytes.Load()
	return lim
}

// port returns the first TCP port that the server listens on.
func (s *Server) port() int64 {
	for _, a := range s.addrs {
		if tcp, ok := a.(*net.TCPAddr); ok {
			return int64(tcp.Port)
		}
	}
	return 0
}

// pid is the process that INFO names.
func pid() int { return os.Getpid() }
