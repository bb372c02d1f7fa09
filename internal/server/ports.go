package server

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/tidwall/redcon"
)

// ports are the addresses on which connections are accepted.
type ports struct {
	failed chan error // a listener that ended by itself; room for one

	mu   sync.Mutex
	bind []string // the setting they come from; guarded by mu
	open []*port  // guarded by mu
}

// port is one address; redcon accepts on it.
type port struct {
	ln      net.Listener
	redcon  *redcon.Server
	closing atomic.Bool
	ended   chan struct{}
}

// openPorts begins to accept on listeners, which come from the setting bind.
func (s *Server) openPorts(listeners []net.Listener, bind []string) {
	p := &s.ports
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bind = bind
	for _, ln := range listeners {
		one := &port{ln: ln, ended: make(chan struct{})}
		one.redcon = redcon.NewServerNetwork(ln.Addr().Network(), ln.Addr().String(), s.takeOver, s.admit, nil)
		p.open = append(p.open, one)
		go func() {
			defer close(one.ended)
			err := one.redcon.Serve(&primedListener{ln, s.log})
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

// closePorts ends accepting. The connections that were taken over stay.
func (s *Server) closePorts() {
	p := &s.ports
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.open {
		one.closing.Store(true)
		_ = one.redcon.Close()
		// redcon does not know the listener before it has begun to serve.
		_ = one.ln.Close()
		<-one.ended
	}
	p.open = nil
}

// where returns the setting that the addresses come from and their port.
func (p *ports) where() (bind []string, number int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.open {
		if tcp, ok := one.ln.Addr().(*net.TCPAddr); ok {
			return p.bind, int64(tcp.Port)
		}
	}
	return p.bind, 0
}

func (p *ports) addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, one := range p.open {
		out = append(out, one.ln.Addr().String())
	}
	return out
}
