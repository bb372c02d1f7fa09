package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"kevy/internal/config"
	"kevy/internal/tlsconfig"
	"kevy/resp"
)

// tlsConfig reads what the settings name; nil if nothing is served over TLS.
func tlsConfig(cfg *config.Config) (*tls.Config, error) {
	if cfg.TLSPort.Load() == 0 && cfg.HTTPTLSPort.Load() == 0 {
		return nil, nil
	}
	clients := tlsconfig.ClientsMust
	switch cfg.TLSAuthClients.Load() {
	case config.TLSClientsNo:
		clients = tlsconfig.ClientsNot
	case config.TLSClientsOptional:
		clients = tlsconfig.ClientsMay
	}
	file := func(name string) string {
		if name == "" {
			return ""
		}
		return cfg.Path(name)
	}
	return tlsconfig.Options{
		CertFile: file(cfg.TLSCertFile.Load()), KeyFile: file(cfg.TLSKeyFile.Load()), KeyFilePass: cfg.TLSKeyFilePass.Load(),
		CACertFile: file(cfg.TLSCACertFile.Load()), CACertDir: file(cfg.TLSCACertDir.Load()), AuthClients: clients,
		Protocols: cfg.TLSProtocols.Load(), Ciphers: cfg.TLSCiphers.Load(), CipherSuites: cfg.TLSCipherSuites.Load(),
		SessionCaching: cfg.TLSSessionCaching.Load(),
	}.Config()
}

// loadTLS makes new connections use what the settings name now. If it cannot,
// they go on with what they used.
func (s *Server) loadTLS() error {
	c, err := tlsConfig(s.cfg)
	if err != nil {
		s.log.Warn("the TLS configuration stays as it was", "error", err)
		// Redis's words, and what Redis only logs.
		return &resp.Error{Text: "Unable to update TLS configuration. " + err.Error()}
	}
	s.tls.Store(c)
	if c != nil {
		s.warnOfValidity(c.Certificates[0].Leaf)
	}
	return nil
}

func (s *Server) warnOfValidity(cert *x509.Certificate) {
	if now := time.Now(); now.After(cert.NotAfter) || now.Before(cert.NotBefore) {
		s.log.Warn("the certificate of tls-cert-file is not valid now, and clients will refuse it", "from", cert.NotBefore, "to", cert.NotAfter)
	}
}

// webTLS is for HTTP, which asks for each connection.
func (s *Server) webTLS() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if c := s.tls.Load(); c != nil {
			return c, nil
		}
		return nil, errors.New("TLS was switched off")
	}}
}

const (
	// maxHandshakes is how many TLS handshakes are under way at once; more
	// connections wait to be accepted.
	maxHandshakes = 1024
	// handshakeTimeout is how long one may take, and hurriedTimeout how long while
	// more than half of them are under way: those that say nothing do not keep
	// others out for long.
	handshakeTimeout = 10 * time.Second
	hurriedTimeout   = time.Second
)

// handshakes are those under way.
type handshakes struct {
	slots         chan struct{} // a token for each, and for each listener one that it accepts next
	long, hurried time.Duration

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu
}

func newHandshakes(n int) handshakes {
	return handshakes{slots: make(chan struct{}, n), long: handshakeTimeout, hurried: hurriedTimeout, conns: make(map[net.Conn]struct{})}
}

// timeout returns how long one that begins now may take.
func (h *handshakes) timeout() time.Duration {
	if len(h.slots) > cap(h.slots)/2 {
		return h.hurried
	}
	return h.long
}

func (h *handshakes) add(nc net.Conn) {
	h.mu.Lock()
	h.conns[nc] = struct{}{}
	h.mu.Unlock()
}

func (h *handshakes) remove(nc net.Conn) {
	h.mu.Lock()
	delete(h.conns, nc)
	h.mu.Unlock()
}

// end ends all of them.
func (h *handshakes) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for nc := range h.conns {
		_ = nc.Close()
	}
}

// greet begins the handshake of a connection that was admitted.
func (s *Server) greet(pc *primedConn) {
	s.mu.Lock()
	if s.closed {
		s.admitted--
		s.mu.Unlock()
		_ = pc.Close()
		return
	}
	s.active.Add(1)
	s.handshakes.add(pc.Conn)
	s.mu.Unlock()
	go s.shakeHands(pc)
}

// shakeHands makes a client of a connection once it speaks TLS.
func (s *Server) shakeHands(pc *primedConn) {
	defer s.active.Done()
	c := s.secure(pc)
	s.handshakes.remove(pc.Conn)
	pc.release()
	if c == nil {
		_ = pc.Conn.Close()
		return
	}
	go c.serve() // with a stack that no handshake has grown
}

func (s *Server) secure(pc *primedConn) *client {
	nc, settings := pc.Conn, s.tls.Load()
	if settings == nil { // TLS was switched off in this moment
		s.turnAway()
		return nil
	}
	_ = nc.SetDeadline(time.Now().Add(s.handshakes.timeout()))
	secure := tls.Server(newSteadyConn(nc, s.writeTimeout), settings)
	if err := secure.Handshake(); err != nil {
		s.log.Log(context.Background(), config.LevelVerbose, "a TLS handshake failed", "addr", nc.RemoteAddr().String(), "error", err)
		s.turnAway()
		return nil
	}
	if s.isForeign(nc) {
		s.refuse(secure, denied)
		_ = secure.Close()
		s.turnAway()
		return nil
	}
	_ = nc.SetDeadline(time.Time{})
	return s.join(secure)
}

// steadyConn is what TLS writes to. A write of TLS that times out is its last, so
// one that goes on, though slowly, must not look like that.
type steadyConn struct {
	net.Conn
	timeout time.Duration
	// impatient is set, by who writes, while the deadline is not for progress.
	impatient atomic.Bool
	// moved says that something was taken since the deadline was set.
	moved atomic.Bool
}

func newSteadyConn(nc net.Conn, timeout time.Duration) *steadyConn {
	return &steadyConn{Conn: nc, timeout: timeout}
}

func (c *steadyConn) SetWriteDeadline(t time.Time) error {
	c.moved.Store(false)
	return c.Conn.SetWriteDeadline(t)
}

func (c *steadyConn) Write(p []byte) (n int, err error) {
	for {
		m, err := c.Conn.Write(p[n:])
		n += m
		if m > 0 {
			c.moved.Store(true)
		}
		if err == nil || c.impatient.Load() || !c.moved.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		_ = c.SetWriteDeadline(time.Now().Add(c.timeout))
	}
}

// socketOf returns the connection of the system beneath one that may speak TLS.
func socketOf(nc net.Conn) net.Conn {
	if secure, ok := nc.(*tls.Conn); ok {
		return secure.NetConn().(*steadyConn).Conn
	}
	return nc
}
