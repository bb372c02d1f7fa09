package server

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/tidwall/redcon"

	"kevy/resp"
)

// refusalTimeout bounds the wait for a client to take the reason why it is not
// served.
const refusalTimeout = 100 * time.Millisecond

// denied is what Redis tells those that protected-mode keeps out.
const denied = "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. " +
	"In this mode connections are only accepted from the loopback interface. " +
	"If you want to connect from external computers to Redis you may adopt one of the following solutions: " +
	"1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface " +
	"by connecting to Redis from the same host the server is running, " +
	"however MAKE SURE Redis is not publicly accessible from internet if you do so. " +
	"Use CONFIG REWRITE to make this change permanent. " +
	"2) Alternatively you can just disable the protected mode by editing the Redis configuration file, " +
	"and setting the protected mode option to 'no', and then restarting the server. " +
	"3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. " +
	"4) Setup a an authentication password for the default user. " +
	"NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside."

// admit decides whether redcon goes on with a new connection. One that is to speak
// TLS is refused without a word, as it would not understand any yet.
func (s *Server) admit(conn redcon.Conn) bool {
	pc := conn.NetConn().(*primedConn)
	secure := pc.handshakes != nil
	s.mu.Lock()
	full := s.admitted >= int(s.cfg.MaxClients.Load())
	foreign := !secure && s.isForeign(pc)
	if !full && !foreign {
		s.admitted++
	}
	s.mu.Unlock()
	switch {
	case full && secure:
		s.stats.rejected.Add(1)
	case full:
		s.refuse(pc, "ERR max number of clients reached")
	case foreign:
		s.refuse(pc, denied)
	}
	return !full && !foreign
}

// isForeign reports whether protected-mode keeps a peer out.
func (s *Server) isForeign(nc net.Conn) bool {
	return s.localOnly() && !isLocal(nc.RemoteAddr())
}

// turnAway forgets a connection that was admitted and becomes no client.
func (s *Server) turnAway() {
	s.mu.Lock()
	s.admitted--
	s.mu.Unlock()
}

// localOnly reports whether those from elsewhere are kept out: protected-mode does
// as long as no password does.
func (s *Server) localOnly() bool { return s.cfg.ProtectedMode.Load() && !s.users.NeedsPassword() }

func (s *Server) refuse(nc net.Conn, text string) {
	s.stats.rejected.Add(1)
	_ = nc.SetWriteDeadline(time.Now().Add(refusalTimeout))
	_, _ = nc.Write(redcon.AppendError(nil, text))
}

// isLocal reports whether a peer is on this machine.
func isLocal(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// takeOver detaches a connection that was admitted from redcon and gives it a
// goroutine of its own, so that redcon's buffers for it can go.
func (s *Server) takeOver(conn redcon.Conn, _ redcon.Command) {
	pc := conn.NetConn().(*primedConn)
	conn.Detach()
	if pc.handshakes != nil {
		s.greet(pc)
		return
	}
	c := s.join(pc.Conn)
	if c == nil {
		_ = pc.Conn.Close()
		return
	}
	go c.serve()
}

// join makes a client of a connection; nil if the server stops.
func (s *Server) join(nc net.Conn) *client {
	c := &client{
		srv: s, id: s.nextID.Add(1), conn: nc, fd: -1, local: isLocal(nc.RemoteAddr()), joined: s.uptime(),
	}
	socket := socketOf(nc)
	_, c.secure = nc.(*tls.Conn)
	switch conn := socket.(type) {
	case *net.TCPConn:
		s.tuneTCP(conn)
		c.raw, _ = conn.SyscallConn()
	case *net.UnixConn:
		c.unix = true
		c.raw, _ = conn.SyscallConn()
	}
	if c.raw != nil {
		_ = c.raw.Control(func(fd uintptr) { c.fd = int(fd) })
	}
	if c.unix {
		c.addr = s.cfg.UnixSocket.Load() + ":0" // as Redis shows both ends
		c.laddr = c.addr
	} else {
		c.addr, c.laddr = nc.RemoteAddr().String(), nc.LocalAddr().String()
	}
	c.input.conn = nc
	c.limits = s.limits.Load()
	c.r = resp.NewReader(&c.input, *c.limits)
	c.w = resp.NewWriter(2)
	c.es = s.exec.NewSession(c, c.w)
	c.es.Begin(s.users)
	c.holdToLimits()
	c.state = c.look()
	c.idleSince.Store(busy) // until it reads
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.admitted--
		return nil
	}
	s.stats.connections.Add(1)
	s.clients[c.id] = c
	s.active.Add(1)
	c.counted.Store(int64(c.state.totalBytes))
	s.clientBytes.Add(int64(c.state.totalBytes))
	s.store.Outside().Add(int64(c.state.totalBytes))
	return c
}

// leave forgets a client that has ended.
func (s *Server) leave(c *client) {
	_ = c.conn.Close()
	s.mu.Lock()
	c.left = true
	s.mu.Unlock()
	c.endMonitor()
	c.endTracking()
	if r := c.receiver.Load(); r != nil {
		r.subs.Close()
		c.endMessages(r)
	}
	c.deliver()
	c.es.Close()
	c.uncountMemory()
	s.mu.Lock()
	s.admitted--
	if s.clients[c.id] == c {
		s.countMessages(s.queuedBytes - c.queued)
		s.forget(c)
	}
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
