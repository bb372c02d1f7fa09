package exec

import (
	"context"
	"math"
	"sync"
	"time"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

// parker is a session whose connection can wait.
type parker interface {
	// Park prepares for waiting: the replies so far are sent, and ctx ends when
	// nobody wants the next one any more. done ends the waiting. ok is false if
	// that is so already.
	Park() (ctx context.Context, done func(), ok bool)
}

// HangUps knows which sessions' peers have hung up.
type HangUps interface {
	// Follow is called before a command of the session that may wait runs. From then on
	// Abandon is called for it once its peer hangs up.
	Follow(session command.Session)
	// Notice calls Abandon for all whose peer has hung up by now, and does not wait.
	Notice()
}

// NoticeWith makes h be asked who has hung up, before anyone is served. It must be
// called before there are sessions.
func (x *Executor) NoticeWith(h HangUps) { x.hangUps = h }

// outcome says how a wait ended.
type outcome uint8

const (
	waiting   outcome = iota
	served            // the reply is written
	timedOut          // in vain, by its timeout or by CLIENT UNBLOCK
	unblocked         // by CLIENT UNBLOCK with an error
	abandoned         // nobody wants the reply
)

// parked is a command that waits. Whoever changes one of its keys may serve it,
// on the goroutine that made the change; the session takes over what came of it.
//
// A parked command's mutex is taken after the locks of shards and before the
// log's. It is held while one tries to serve it, so that two who have changed
// different keys do not both do.
type parked struct {
	shard.Waiter
	x     *Executor
	spec  *command.Spec
	wait  command.Wait
	also  []int         // the shards of wait.Also, ascending
	ended chan struct{} // closed once outcome is another than waiting

	mu      sync.Mutex
	outcome outcome     // guarded by mu
	ctx     command.Ctx // of Try, guarded by mu

	// What came of it: written under mu before ended is closed, and no more
	// after that.
	w       *resp.Writer
	seen    uint64
	lsn     uint64 // of the commit that served it, 0: none
	streams []int  // that this is in
}

// enqueue makes the command that ran wait in the queues of its keys, whose
// shards are held.
func (x *Executor) enqueue(s *Session, w *command.Wait) *parked {
	p := &parked{x: x, spec: s.ctx.Spec, wait: *w, ended: make(chan struct{}), w: resp.NewWriter(s.W.Proto())}
	p.Kind, p.AwaitsEnd, p.Of = w.Kind, w.AwaitsEnd, p
	p.ctx = command.Ctx{Spec: s.ctx.Spec, Args: s.ctx.Args, W: p.w, Session: s.self}
	for _, key := range p.wait.Also {
		p.also = insertSorted(p.also, x.store.Set().ShardOf(key))
	}
	s.ctx.Unblock()
	s.parked.Store(p)
	x.stats.countBlocked(p, 1)
	if s.gone.Load() {
		p.end(abandoned) // Abandon found nothing to end
	}
	s.tx.Select(s.db) // those who were served may have waited in others
	s.tx.Wait(&p.Waiter, p.wait.Keys)
	return p
}

// park waits until the command is served or need not be any more, and replies.
// No shard is held.
func (x *Executor) park(s *Session, p *parked) {
	ctx, done, ok := s.parker.Park()
	if ok {
		p.await(ctx)
		done()
	} else {
		p.end(abandoned)
	}
	x.store.Set().Leave(&p.Waiter)
	s.parked.Store(nil)
	s.staleClock()
	start := s.W.Len()
	if p.outcome != abandoned {
		x.took(x.observing.Load(), s, p.spec, p.ctx.Args, s.tallies.last)
	}
	switch p.outcome {
	case served:
		s.W.Raw(p.w.Bytes())
		s.seen = max(s.seen, p.seen)
		if p.lsn != 0 {
			s.lastLSN, s.lastStreams = p.lsn, p.streams
			s.wrote(start, p.lsn)
		}
	case timedOut:
		p.wait.InVain(s.W)
	case unblocked:
		s.W.Error(errUnblocked)
	case abandoned:
		// What the client sent behind the command it sent for its reply.
		s.hangUp()
	}
}

var errUnblocked = &resp.Error{Code: "UNBLOCKED", Text: "client unblocked via CLIENT UNBLOCK"}

// await returns once the wait has ended.
func (p *parked) await(ctx context.Context) {
	var timeout <-chan time.Time
	if ms := p.wait.TimeoutMs; ms > 0 {
		timer := time.NewTimer(time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-p.ended:
	case <-timeout:
		p.end(timedOut)
	case <-ctx.Done():
		p.end(abandoned)
	}
}

// end ends the wait in vain. It reports false if it had ended already. The
// command stays in its queues, where it is passed over, until its session takes
// it out.
func (p *parked) end(as outcome) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outcome != waiting {
		return false
	}
	p.ends(as)
	return true
}

// ends notes how the wait ended; mu is held.
func (p *parked) ends(as outcome) {
	p.outcome = as
	p.x.stats.countBlocked(p, -1)
	close(p.ended)
}

// Parked reports whether a command of the session waits. Any goroutine may ask.
func (s *Session) Parked() bool {
	p := s.parked.Load()
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outcome == waiting
}

// Unblock ends the wait of the session's command, as its timeout would or with
// an error, and reports whether it waited. Any goroutine may call it.
func (s *Session) Unblock(withError bool) bool {
	p := s.parked.Load()
	as := timedOut
	if withError {
		as = unblocked
	}
	if p == nil || !p.end(as) {
		return false
	}
	s.x.stats.commands[p.spec.Number()].failed.Add(1)
	if withError {
		s.x.stats.CountError([]byte(errUnblocked.Code))
	}
	return true
}

// Abandon ends the wait of the session's command, if it waits, and of any that
// it begins from now on: its connection goes, and it is served nothing any more.
// Any goroutine may call it.
func (s *Session) Abandon() {
	s.gone.Store(true)
	if p := s.parked.Load(); p != nil {
		p.end(abandoned)
	}
}
