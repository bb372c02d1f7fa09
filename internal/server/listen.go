package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"kevy/internal/config"
	"kevy/resp"
)

// listenAll opens everything that the settings name.
func listenAll(cfg *config.Config) (e entrances, err error) {
	if port := cfg.Port.Load(); port != 0 && port == cfg.TLSPort.Load() {
		return e, fmt.Errorf("port and tls-port are both %d: choose two, or turn one off with --port 0", port)
	}
	for w := range ways {
		if e[w], err = listenBy(cfg, w, cfg.Bind.Load(), portOf(cfg, w)); err != nil {
			e.close()
			return entrances{}, err
		}
	}
	return e, nil
}

// noPort is the port of a way in which no client comes.
const noPort = -1

// portOf returns the port of the settings, 0 for a free one.
func portOf(cfg *config.Config, w way) int64 {
	port := cfg.Port.Load()
	if w == byTLS {
		port = cfg.TLSPort.Load()
	}
	if port == 0 && (w == byTLS || !cfg.FreePort()) {
		return noPort
	}
	return port
}

// listenBy opens the addresses of one way; none where there is no port.
func listenBy(cfg *config.Config, w way, bind []string, port int64) ([]net.Listener, error) {
	backlog := int(cfg.TCPBacklog.Load())
	switch {
	case w == byUnix && cfg.UnixSocket.Load() != "":
		ln, err := listenUnix(cfg)
		if err != nil {
			return nil, err
		}
		return []net.Listener{ln}, nil
	case w == byUnix, port == noPort:
		return nil, nil
	case w == byTLS:
		return listenAs(bind, port, backlog, "--tls-port")
	}
	return listen(bind, port, backlog)
}

// listen opens the addresses of the setting bind. A port of 0 is one free port,
// the same for all.
func listen(bind []string, port int64, backlog int) ([]net.Listener, error) {
	return listenAs(bind, port, backlog, "--port (--port 0 takes a free one)")
}

// listenAs is listen, which says what to change if the port is taken.
// A backlog of 0 is what the system allows.
func listenAs(bind []string, port int64, backlog int, change string) (out []net.Listener, err error) {
	text := strconv.FormatInt(port, 10)
	var lc net.ListenConfig
	for _, word := range bind {
		host, optional := strings.CutPrefix(word, "-")
		network, host := family(host)
		addr := net.JoinHostPort(host, text)
		ln, err := lc.Listen(context.Background(), network, addr)
		switch {
		case err == nil:
			out = append(out, ln)
			setBacklog(ln, backlog)
			if text == "0" {
				_, text, _ = net.SplitHostPort(ln.Addr().String())
			}
		case optional && errors.Is(err, syscall.EADDRNOTAVAIL), unsupported(err):
		case errors.Is(err, syscall.EADDRINUSE):
			closeAll(out)
			return nil, fmt.Errorf("address %s is taken by another program: stop that one, or choose another with %s", addr, change)
		case errors.Is(err, syscall.EACCES):
			closeAll(out)
			return nil, fmt.Errorf("cannot listen on %s: %w: ports below 1024 need root, or CAP_NET_BIND_SERVICE; choose another with %s", addr, err, change)
		default:
			closeAll(out)
			return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no address to listen on: set bind to an address of this machine")
	}
	return out, nil
}

// setBacklog changes how many connections may wait to be accepted: to listen
// again is how.
func setBacklog(ln net.Listener, backlog int) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok || backlog <= 0 {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.Listen(int(fd), backlog) })
	}
}

// family returns the network of an address of the setting bind: *, like 0.0.0.0,
// is every IPv4 address, ::*, like ::, every IPv6 one. The two do not overlap.
func family(host string) (network, address string) {
	switch {
	case host == "*":
		return "tcp4", "0.0.0.0"
	case host == "::*":
		return "tcp6", "::"
	case strings.Contains(host, ":"):
		return "tcp6", host
	case net.ParseIP(host) != nil:
		return "tcp4", host // with "tcp" Go would serve IPv6 too on 0.0.0.0
	}
	return "tcp", host
}

// unsupported reports whether the machine does not have the kind of address at
// all, as where IPv6 is off.
func unsupported(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.ENOPROTOOPT, syscall.EPROTONOSUPPORT, syscall.ESOCKTNOSUPPORT, syscall.EPFNOSUPPORT, syscall.EAFNOSUPPORT,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		_ = ln.Close()
	}
}

// wakeCommand is what redcon reads first on every connection. It makes redcon
// call its handler, which takes the connection over before any byte of the
// client is read: redcon's reader is not safe against hostile bytes.
const wakeCommand = "*1\r\n$4\r\nKEVY\r\n"

// primedConn yields wakeCommand once and is then no longer read.
type primedConn struct {
	net.Conn
	primed bool
	// handshakes is set if the peer is to speak TLS; held, while the connection has
	// a slot there.
	handshakes *handshakes
	held       atomic.Bool
}

func (c *primedConn) Read(p []byte) (int, error) {
	if c.primed {
		return 0, errors.New("the connection was taken over")
	}
	c.primed = true
	return copy(p, wakeCommand), nil
}

// release gives the slot back.
func (c *primedConn) release() {
	if c.held.CompareAndSwap(true, false) {
		<-c.handshakes.slots
	}
}

func (c *primedConn) Close() error {
	c.release()
	return c.Conn.Close()
}

const (
	minAcceptBackoff = 5 * time.Millisecond
	maxAcceptBackoff = 500 * time.Millisecond
)

// primedListener hands redcon primed connections. When the process is out of
// file descriptors it waits, longer each time, instead of asking again at once.
type primedListener struct {
	net.Listener
	log        *slog.Logger
	handshakes *handshakes   // nil: no TLS
	quit       chan struct{} // closed when the listener is about to be
}

func (l *primedListener) Accept() (net.Conn, error) {
	// What was accepted before comes first: a flood of connections must not queue
	// thousands of goroutines in front of the clients that are there.
	runtime.Gosched()
	if l.handshakes == nil {
		conn, err := l.accept()
		if err != nil {
			return nil, err
		}
		return &primedConn{Conn: conn}, nil
	}
	select {
	case l.handshakes.slots <- struct{}{}:
	case <-l.quit:
		return nil, net.ErrClosed
	}
	conn, err := l.accept()
	if err != nil {
		<-l.handshakes.slots
		return nil, err
	}
	pc := &primedConn{Conn: conn, handshakes: l.handshakes}
	pc.held.Store(true)
	return pc, nil
}

func (l *primedListener) accept() (net.Conn, error) {
	backoff := minAcceptBackoff
	for {
		conn, err := l.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		l.log.Warn("cannot accept a connection", "error", err, "retry_ms", backoff.Milliseconds())
		select {
		case <-time.After(backoff):
		case <-l.quit:
		}
		backoff = min(2*backoff, maxAcceptBackoff)
	}
}

// What CONFIG SET answers, in the words of Redis.
var (
	errListenPort = &resp.Error{Text: "Unable to listen on this port. Check server logs."}
	errListenBind = &resp.Error{Text: "Failed to bind to specified addresses."}
)

// rebind makes the server listen, in one way, where the settings say now. If it
// cannot, it goes on where it did. Connections stay.
func (s *Server) rebind(w way) error {
	p := &s.ports
	bind, port := s.cfg.Bind.Load(), portOf(s.cfg, w)
	if w == byTCP && s.cfg.Port.Load() == 0 {
		// As in Redis none, whether or not there is another way in: but where a free one was
		// taken at the start, 0 goes on to stand for that.
		port = noPort
		if p.free != 0 {
			port = p.free
		}
	}
	oldBind, oldPort := p.where(w)
	if oldPort == 0 {
		oldPort = noPort
	}
	if port == oldPort && (port == noPort || slices.Equal(bind, oldBind)) {
		return nil
	}
	s.closePorts(w)
	listeners, err := listenBy(s.cfg, w, bind, port)
	if err == nil {
		s.openPorts(w, listeners, bind)
		s.log.Info("listening elsewhere", "addresses", p.addresses(w), "tls", w == byTLS)
		if s.cfg.Port.Load() == 0 && p.free == 0 && s.cfg.FreePort() {
			s.log.Warn("nobody can connect any more, as port and tls-port are 0 and there is no unixsocket: those who are connected can set port")
		}
		return nil
	}
	s.log.Warn("cannot listen where it was asked to", "error", err)
	old, oldErr := listenBy(s.cfg, w, oldBind, oldPort)
	if oldErr != nil {
		s.log.Error("cannot listen where it did before: no connections are accepted", "error", oldErr)
	} else {
		s.openPorts(w, old, oldBind)
	}
	if port != oldPort {
		return errListenPort
	}
	return errListenBind
}
