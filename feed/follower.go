package feed

import (
	"context"
	"sync"
	"time"
)

// MaxFollowedBytes bounds Request.Bytes of a Follower: what it has read waits in
// memory for somebody who may not read it for a long time.
const MaxFollowedBytes = 64 << 10

// Follower reads one stream on and on, beginning at a cursor. It keeps its place
// in the log between two reads, so that it never searches, unless it falls behind
// and does not come back for a while: then the log's memory, or its file, is let
// go and only the cursor stays. One goroutine reads; Lag is for any.
type Follower struct {
	source *Source
	req    Request
	rd     read
	place  followed
	idle   bool // the last read found the end

	// complete is Batch.CompleteLSN of the last read.
	complete uint64

	mu   sync.Mutex
	done Cursor // what lies before it has been dealt with; guarded by mu
}

// Follow returns a Follower whose first read begins at req.Cursor. Block and
// Strict do not count, and Bytes is at most MaxFollowedBytes; req.Filter must not
// change before Close. The errors are those of Since for a cursor that cannot be
// served.
func (s *Source) Follow(req Request) (*Follower, error) {
	if req.Durable && s.opt.NeverDurable {
		return nil, ErrNeedsLog
	}
	req.Block, req.Strict, req.Bytes = 0, false, min(req.bytes(), MaxFollowedBytes)
	f := &Follower{source: s, req: req, done: req.Cursor}
	f.rd = read{ctx: context.Background(), source: s, keeper: &f.place, req: &f.req, filter: req.Filter, bytes: req.bytes(), large: followedCommitBytes, at: req.Cursor}
	// Without a frame wanted, a look takes the place and nothing else.
	var nothing Batch
	f.rd.batch = &nothing
	if _, err := f.rd.once(); err != nil {
		err = f.rd.resync(err)
		f.place.close()
		return nil, err
	}
	f.rd.at, f.rd.count, f.complete = req.Cursor, req.count(), nothing.CompleteLSN
	s.followers.add(f)
	return f, nil
}

// Stream returns the number of the stream.
func (f *Follower) Stream() int { return f.req.Stream }

// Position returns the cursor at which the next read begins, and up to which LSN
// what was read is complete.
func (f *Follower) Position() (at Cursor, completeLSN uint64) { return f.rd.at, f.complete }

// Close gives up the place.
func (f *Follower) Close() {
	f.source.followers.remove(f)
	f.place.close()
}

// Next reads on into b, as Since does, without waiting, except for its turn if the
// filter has regular expressions; the error is ctx.Err() if ctx ends before that.
// It says that all that was read before has been dealt with.
func (f *Follower) Next(ctx context.Context, b *Batch) error {
	b.Release()
	f.Done()
	f.rd.ctx = ctx
	f.rd.batch, f.rd.moved = b, false
	f.rd.scanned, f.rd.clocked, f.rd.took = 0, 0, 0
	again, err := f.rd.once()
	if err != nil {
		return f.rd.resync(err)
	}
	f.idle = again
	f.rd.at, f.complete = Cursor{b.Generation, b.Next}, b.CompleteLSN
	return nil
}

// CaughtUp reports whether there is nothing to be read, without looking into the
// log. The Follower is then AtEnd.
func (f *Follower) CaughtUp() bool {
	v, stream := f.source.view.Load(), f.req.Stream
	if v.live.draw+uint64(stream) != f.rd.at.Generation {
		return false
	}
	// What is counted after this, Wait notices.
	last := v.live.last.Load()
	if v.live.nextOf(stream) != f.rd.at.Offset {
		return false
	}
	f.rd.live, f.rd.ended, f.rd.moved = v.live.draw, false, false
	f.rd.visible, f.rd.limit = last, last
	if f.req.Durable {
		f.rd.limit = min(last, f.source.archive.Durable())
	}
	f.idle = true
	return true
}

// Skip goes on at another cursor, with what lies before it known: somebody else
// has read that, and it is complete up to completeLSN.
func (f *Follower) Skip(at Cursor, completeLSN uint64) {
	f.rd.at, f.complete, f.idle = at, completeLSN, false
	f.place.release()
}

// Done says that all that was read has been dealt with.
func (f *Follower) Done() {
	f.mu.Lock()
	f.done = f.rd.at
	f.mu.Unlock()
}

// AtEnd reports whether the last read found nothing to tell: Wait then says when
// there may be more.
func (f *Follower) AtEnd() bool { return f.idle }

// Full reports whether the last read into b ended because of its limits, so that
// there is more to be read at once.
func (f *Follower) Full(b *Batch) bool {
	return b.large != nil || len(b.recs) >= f.rd.count || len(b.buf) >= f.rd.bytes || f.rd.stopped()
}

// Wait returns true once there may be more to read, false at the deadline. It
// comes after a read that was AtEnd. The errors are ctx.Err() and ErrClosed.
func (f *Follower) Wait(ctx context.Context, deadline time.Time) (bool, error) {
	return f.rd.wait(ctx, deadline)
}

// Cursor returns the cursor before which all has been dealt with. Any goroutine
// may ask.
func (f *Follower) Cursor() Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}

// followed is the place of a Follower. Its scan is taken away if it is not
// fetched for a while although the log goes on.
type followed struct {
	mu     sync.Mutex
	sc     *scan     // guarded by mu
	since  time.Time // when it came; guarded by mu
	closed bool      // guarded by mu
}

// maxFollowedIdle is how long the place of a Follower that is behind is kept.
const maxFollowedIdle = time.Second

func (p *followed) take(_ int, at Cursor) *scan {
	p.mu.Lock()
	defer p.mu.Unlock()
	sc := p.sc
	p.sc = nil
	if sc != nil && (sc.number != at.Generation || sc.pos.offset != at.Offset) {
		sc.close()
		return nil
	}
	return sc
}

func (p *followed) put(sc *scan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		sc.close()
		return
	}
	p.sc, p.since = sc, time.Now()
}

// expire lets the scan go if it stands behind the op last and came before a
// time.
func (p *followed) expire(last uint64, before time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sc != nil && p.sc.pos.lsn <= last && p.since.Before(before) {
		p.drop()
	}
}

// release lets the scan go.
func (p *followed) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

// close lets the scan go, and each that is still put there.
func (p *followed) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.drop()
}

// drop is release under mu.
func (p *followed) drop() {
	if p.sc != nil {
		p.sc.close()
		p.sc = nil
	}
}

// followers are the Followers that were not closed.
type followers struct {
	mu  sync.Mutex
	all map[*Follower]struct{} // guarded by mu
}

func (l *followers) add(f *Follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[*Follower]struct{})
	}
	l.all[f] = struct{}{}
}

func (l *followers) remove(f *Follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, f)
}

// each calls fn for every Follower.
func (l *followers) each(fn func(f *Follower)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.all {
		fn(f)
	}
}
