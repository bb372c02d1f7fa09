package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kevy/internal/command"
	"kevy/internal/command/connection"
	"kevy/internal/exec"
	"kevy/resp"
)

// pauses is CLIENT PAUSE. Commands that come while it lasts wait, each on its
// connection, and then run one behind the other in the order in which they came; what
// comes meanwhile waits behind them.
type pauses struct {
	srv *Server
	on  atomic.Bool // commands may have to wait; set under mu

	mu      sync.Mutex
	paused  bool                 // guarded by mu, as are the others
	mode    connection.PauseMode // of the pause, or of the last one while it is worked off
	until   time.Time
	timer   *time.Timer     // ends the pause at until
	queue   []*pausedClient // who waits, in order
	running *pausedClient   // whose command runs, nil: nobody's
}

// pausedClient is a command that waits.
type pausedClient struct {
	turn chan struct{} // closed when it may run
}

// Pause implements connection.Server: a pause that goes on becomes longer and stricter,
// never less so.
func (s *Server) Pause(mode connection.PauseMode, d time.Duration) {
	p := &s.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	until := time.Now().Add(d)
	if p.paused {
		mode = max(mode, p.mode)
		if until.Before(p.until) {
			until = p.until
		}
	}
	p.paused, p.mode, p.until = true, mode, until
	p.on.Store(true)
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(time.Until(until), func() { p.end(false) })
	s.keepOverdue(true)
}

// Unpause implements connection.Server.
func (s *Server) Unpause() { s.pauses.end(true) }

// keepOverdue makes keys whose time is over stay where they are, although nobody sees
// them any more: while writes are paused nothing changes.
func (s *Server) keepOverdue(keep bool) {
	s.store.Set().HoldExpiry(keep)
	s.observed.keepOverdue.Store(keep)
	_ = s.observeCommands()
}

// end ends the pause, if it is over or at once.
func (p *pauses) end(atOnce bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused || !atOnce && time.Now().Before(p.until) {
		return
	}
	p.paused = false
	p.timer.Stop()
	p.srv.keepOverdue(false)
	p.next()
}

// next lets the next one run, under mu.
func (p *pauses) next() {
	if p.paused || p.running != nil {
		return
	}
	if len(p.queue) == 0 {
		p.queue = nil
		p.on.Store(false)
		return
	}
	p.running = p.queue[0]
	p.queue = p.queue[1:]
	close(p.running.turn)
}

// done says that a command has run, or waits for something else now, or will not run.
func (p *pauses) done(w *pausedClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == w {
		p.running = nil
		p.next()
	} else if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
}

// stop ends the timer.
func (p *pauses) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}

// refusePaused makes commands wait that a pause is for. It refuses none, but for those
// whose client has gone meanwhile.
func (s *Server) refusePaused(es *exec.Session, spec *command.Spec, args [][]byte) *resp.Error {
	if !s.pauses.on.Load() {
		return nil
	}
	c, ok := es.Self().(*client)
	if !ok || spec.Name == "quit" || es.Context() == exec.InExec || es.Context() == exec.InScript {
		return nil
	}
	return s.pauses.wait(c, es.MayWrite(spec, args))
}

var errGone = &resp.Error{Code: "ERR", Text: "the connection is closed"}

func (p *pauses) wait(c *client, mayWrite bool) *resp.Error {
	p.mu.Lock()
	if !p.on.Load() || p.mode == connection.PauseWrites && !mayWrite {
		p.mu.Unlock()
		return nil
	}
	w := &pausedClient{turn: make(chan struct{})}
	p.queue = append(p.queue, w)
	p.next()
	p.mu.Unlock()
	ctx, ready, ok := c.Park() // not Block: CLIENT UNBLOCK does not end a pause
	if !ok {
		p.done(w)
		return errGone
	}
	c.srv.stats.blocked.Add(1)
	c.blocked.Store(true)
	gone := false
	select {
	case <-w.turn:
	case <-ctx.Done():
		gone = true
	}
	ready()
	c.blocked.Store(false)
	c.srv.stats.blocked.Add(-1)
	if gone {
		p.done(w)
		c.HangUp()
		return errGone
	}
	c.resumed = w
	return nil
}

// endResumed lets the next one run whose command was paused.
func (c *client) endResumed() {
	if w := c.resumed; w != nil {
		c.resumed = nil
		c.srv.pauses.done(w)
	}
}
