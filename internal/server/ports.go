package server

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/tidwall/redcon"
)

// way is one of the ways in which clients come in.
type way int

const (
	byTCP way = iota
	byTLS
	byUnix
	ways
)

// entrances are the listeners of each way.
type entrances [ways][]net.Listener

func (e entrances) close() {
	for _, listeners := range e {
		closeAll(listeners)
	}
}

// ports are the addresses on which connections are accepted.
type ports struct {
	failed chan error // a listener that ended by itself; room for one
	// free is the port that was taken where the setting was 0 at the start; 0: none was. It
	// is set before any is open.
	free int64

	mu     sync.Mutex
	groups [ways]group // guarded by mu
}

// group are the addresses of one way.
type group struct {
	bind []string // the setting they come from
	open []*port
}

// port is one address; redcon accepts on it.
type port struct {
	ln      net.Listener
	redcon  *redcon.Server
	closing atomic.Bool
	quit    chan struct{} // closed with it
	ended   chan struct{}
}

// openPorts begins to accept on listeners, which come from the setting bind.
func (s *Server) openPorts(w way, listeners []net.Listener, bind []string) {
	p := &s.ports
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.groups[w]
	g.bind = bind
	for _, ln := range listeners {
		one := &port{ln: ln, quit: make(chan struct{}), ended: make(chan struct{})}
		one.redcon = redcon.NewServerNetwork(ln.Addr().Network(), ln.Addr().String(), s.takeOver, s.admit, nil)
		g.open = append(g.open, one)
		primed := &primedListener{Listener: ln, log: s.log, quit: one.quit}
		if w == byTLS {
			primed.handshakes = &s.handshakes
		}
		go func() {
			defer close(one.ended)
			err := one.redcon.Serve(primed)
			if one.closing.Load() {
				return
			}
			select {
			case p.failed <- err:
			default:
			}
		}()
	}
}

// closePorts ends accepting in one way. The connections that were taken over stay.
func (s *Server) closePorts(w way) {
	p := &s.ports
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.groups[w]
	for _, one := range g.open {
		one.closing.Store(true)
		close(one.quit)
		_ = one.redcon.Close()
		// redcon does not know the listener before it has begun to serve.
		_ = one.ln.Close()
		<-one.ended
	}
	g.open = nil
}

// where returns the setting that the addresses come from and their port; 0 if
// there is none.
func (p *ports) where(w way) (bind []string, number int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.groups[w]
	for _, one := range g.open {
		if tcp, ok := one.ln.Addr().(*net.TCPAddr); ok {
			return g.bind, int64(tcp.Port)
		}
	}
	return g.bind, 0
}

// number returns the port that clients are told: that of TLS if there is no
// other.
func (p *ports) number() int64 {
	if _, n := p.where(byTCP); n != 0 {
		return n
	}
	_, n := p.where(byTLS)
	return n
}

func (p *ports) addresses(w way) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, one := range p.groups[w].open {
		out = append(out, one.ln.Addr().String())
	}
	return out
}
