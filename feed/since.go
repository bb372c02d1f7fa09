package feed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Limits and defaults of a read.
const (
	DefaultCount = 256
	MaxCount     = 65536
	DefaultBytes = 1 << 20
	MaxBytes     = MaxScanBytes
	// MaxScanBytes is how much log one read decodes at most.
	MaxScanBytes = 64 << 20
	// MaxScanTime is how long one read looks for frames at most, beside waiting, if
	// its filter has regular expressions, which may take long over few bytes.
	MaxScanTime = time.Second
	// clockBytes is how much log is decoded between two looks at the clock.
	clockBytes = 64 << 10
	// MaxBlock is how long one read waits at most.
	MaxBlock = time.Minute

	// filteredPause is the least time between two looks of a reader whose filter
	// let nothing pass: a rare filter must not cost a wake-up for every commit.
	filteredPause = time.Millisecond
	// durablePause is the time between two looks at the durable LSN.
	durablePause = 5 * time.Millisecond
)

// Request says what to read.
type Request struct {
	Stream int
	Cursor Cursor
	// Filter is the frames wanted, nil all. It must not change during the call.
	Filter *Filter
	// Count and Bytes bound the frames and their bytes, rounded up to a commit's
	// end; 0 takes the default, more than the limit the limit.
	Count, Bytes int
	// Durable asks for fsynced frames only.
	Durable bool
	// Block says how long to wait for a frame; 0 not at all.
	Block time.Duration
	// Strict refuses every generation but the current one.
	Strict bool
}

func (r *Request) count() int {
	if r.Count == 0 {
		return DefaultCount
	}
	return min(max(r.Count, 1), MaxCount)
}

func (r *Request) bytes() int {
	if r.Bytes == 0 {
		return DefaultBytes
	}
	return min(max(r.Bytes, 1), MaxBytes)
}

// Since reads on from a cursor into b, which it releases first. Without a frame
// to deliver, the cursor in b may still have moved, over frames that the filter
// left out or into the next generation; a reader has caught up when it has not.
// It returns ctx.Err() if ctx ends while it waits.
//
// The errors are *ResyncError, ErrAhead, ErrNeedsLog, ErrClosed, and what
// reading the log returned.
func (s *Source) Since(ctx context.Context, req *Request, b *Batch) error {
	b.Release()
	if req.Durable && s.opt.NeverDurable {
		return ErrNeedsLog
	}
	rd := read{
		ctx: ctx, source: s, keeper: &s.cache, req: req, batch: b, filter: req.Filter,
		count: req.count(), bytes: req.bytes(), large: largeCommitBytes, at: req.Cursor,
	}
	var deadline time.Time
	for {
		again, err := rd.once()
		if err != nil {
			return rd.resync(err)
		}
		if !again || req.Block <= 0 {
			return nil
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(min(req.Block, MaxBlock))
		}
		if ok, err := rd.wait(ctx, deadline); err != nil || !ok {
			return err
		}
	}
}

// read is one read on its way.
type read struct {
	ctx          context.Context
	source       *Source
	keeper       keeper
	req          *Request
	batch        *Batch
	filter       *Filter
	count, bytes int
	large        int // bytes above which a commit is not copied

	at      Cursor
	scanned int           // bytes of log
	clocked int           // of them, when the clock was looked at
	took    time.Duration // to scan them, with the wait for a turn
	turn    *turn         // while they are scanned with a slow filter

	// Of the last look:
	live    uint64 // draw of the current generation
	visible uint64 // last LSN published of the cursor's generation
	limit   uint64 // last LSN that could be delivered
	ended   bool   // the cursor's generation is a past one
	moved   bool   // frames were passed over that the filter left out
}

// once looks for frames once. again says that there is nothing to tell and that
// waiting may change that.
func (rd *read) once() (again bool, err error) {
	s, b := rd.source, rd.batch
	v := s.view.Load()
	g, err := v.locate(rd.req.Stream, rd.at)
	switch {
	case rd.req.Strict && g.ended:
		return false, &ResyncError{Reason: ReasonGeneration}
	case err != nil:
		return false, err
	case rd.at.Offset > g.end:
		return false, ErrAhead
	}
	rd.live, rd.ended, rd.visible, rd.limit = v.live.draw, g.ended, g.endLSN, g.endLSN
	if rd.req.Durable {
		rd.limit = min(rd.limit, s.archive.Durable())
	}
	if g.ended && rd.at.Offset == g.end && rd.limit == g.endLSN {
		b.Generation, b.Next, b.CompleteLSN = g.next, 0, g.endLSN
		return false, nil
	}
	sc, err := rd.look(&g)
	if err != nil {
		return false, err
	}
	if sc.pos.offset < rd.at.Offset && sc.pos.lsn > g.endLSN {
		// The frame before the cursor is being published right now.
		sc.close()
		return rd.retry()
	}
	rd.moved = sc.pos.offset > rd.at.Offset
	rd.at.Offset = max(rd.at.Offset, sc.pos.offset)
	b.Generation, b.Next, b.CompleteLSN = g.number, rd.at.Offset, sc.pos.lsn-1
	if b.large != nil {
		b.scan, b.keeper = sc, rd.keeper
	} else {
		rd.keeper.put(sc)
	}
	atEnd := g.ended && rd.at.Offset == g.end
	return b.Len() == 0 && !atEnd && !rd.stopped(), nil
}

// stopped reports whether the read has looked at as much as one may.
func (rd *read) stopped() bool {
	return rd.scanned >= MaxScanBytes || rd.filter.slow() && rd.took >= rd.source.scanTime
}

// look collects frames and returns the scan that did, standing behind them.
func (rd *read) look(g *generation) (*scan, error) {
	s := rd.source
	sc := rd.keeper.take(rd.req.Stream, rd.at)
	for fresh := sc == nil; ; fresh = true {
		if fresh {
			var err error
			if sc, err = s.seek(rd.req.Stream, g, rd.at.Offset, g.endLSN); err != nil {
				return nil, err
			}
		}
		before := sc.pos.offset
		err := rd.collect(sc)
		if err == nil || errors.Is(err, ErrTruncated) && rd.batch.Len() > 0 {
			// What was read before the log was shortened is good.
			return sc, nil
		}
		sc.close()
		if !errors.Is(err, ErrTruncated) || fresh && sc.pos.offset == before {
			return nil, err
		}
		// It stood in a part that is gone, but the stream's next frame may lie behind
		// that.
		rd.at.Offset = max(rd.at.Offset, sc.pos.offset)
	}
}

// publishAttempts is how often a reader looks for a frame that is counted but
// not visible: the two are a few instructions apart.
const publishAttempts = 10000

func (rd *read) retry() (again bool, err error) {
	s := rd.source
	for range publishAttempts {
		if v := s.view.Load(); v.live.last.Load() > rd.visible || v.live.draw != rd.live {
			return rd.once()
		}
		runtime.Gosched()
	}
	return false, fmt.Errorf("%w: it ends before offset %d of stream %s", errLog, rd.at.Offset, s.StreamName(rd.req.Stream))
}

// collect decodes commits into the batch until one of the limits is reached.
func (rd *read) collect(sc *scan) (err error) {
	b := rd.batch
	slow, began := rd.filter.slow(), time.Now()
	if slow && rd.count > 0 && sc.pos.lsn <= rd.limit {
		turns := &rd.source.turns
		if rd.turn, err = turns.take(rd.ctx, rd.source.lastLSN); err != nil {
			return err
		}
		defer func() {
			if rd.turn != nil {
				turns.give(rd.turn)
				rd.turn = nil
			}
		}()
	}
	defer func() { rd.took += time.Since(began) }()
	for b.large == nil && len(b.recs) < rd.count && len(b.buf) < rd.bytes && rd.scanned < MaxScanBytes && sc.pos.lsn <= rd.limit {
		if slow && rd.scanned-rd.clocked >= clockBytes {
			rd.clocked = rd.scanned
			if rd.took+time.Since(began) >= rd.source.scanTime {
				return nil
			}
		}
		ok, err := sc.fill()
		if err != nil || !ok {
			return err
		}
		if more, err := rd.commit(sc); err != nil || !more {
			return err
		}
		if turns := &rd.source.turns; rd.turn != nil && turns.over(rd.turn) {
			turns.give(rd.turn)
			if rd.turn, err = turns.take(rd.ctx, rd.source.lastLSN); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit decodes the commit in front. more is false if it has to be left for
// the next read.
func (rd *read) commit(sc *scan) (more bool, err error) {
	b := rd.batch
	border, recs, bytes := sc.pos, len(b.recs), len(b.buf)
	leave := func() (bool, error) {
		b.truncate(recs, bytes)
		sc.pos = border
		return false, nil
	}
	large, frames := false, 0
	for last := false; !last; {
		f, in, err := sc.next()
		if err != nil {
			_, _ = leave() // no part of it is delivered
			return false, err
		}
		last = f.Last
		if !in {
			continue
		}
		if sc.pos.offset <= rd.at.Offset {
			continue // before a cursor inside the commit
		}
		if rd.filter.losesTrack(f) {
			if recs > 0 {
				return leave()
			}
			return false, &ResyncError{Reason: ReasonSwapDB}
		}
		passes := rd.filter.passes(f)
		if rd.turn != nil {
			rd.turn.rest.Look()
		}
		if !passes {
			continue
		}
		frames++
		if large {
			continue
		}
		if len(b.buf)-bytes+len(f.Raw) > rd.large {
			if recs > 0 {
				return leave()
			}
			large = true
			b.truncate(0, 0)
			continue
		}
		b.add(f, sc.pos.offset-1, sc.pos.lsn-1, sc.unixMs)
	}
	if sc.pos.lsn-1 > rd.limit {
		return leave()
	}
	rd.scanned += border.ops.Rest() - sc.pos.ops.Rest()
	if large {
		b.large = &largeCommit{
			border: border, from: rd.at.Offset, first: border.offset, last: sc.pos.offset - 1, filter: rd.filter, frames: frames,
			source: rd.source,
		}
		return true, nil
	}
	for i := recs; i < len(b.recs); i++ {
		b.recs[i].first, b.recs[i].last = border.offset, sc.pos.offset-1
	}
	return true, nil
}

// wait returns true once there may be more to read, false at the deadline.
func (rd *read) wait(ctx context.Context, deadline time.Time) (bool, error) {
	s := rd.source
	left := time.Until(deadline)
	if left <= 0 {
		return false, nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	if rd.moved {
		if err := s.pause(ctx, min(filteredPause, left)); err != nil {
			return false, err
		}
	}
	list := &s.waiting[rd.req.Stream]
	all := list.join()
	defer list.leave()
	for {
		v := s.view.Load()
		if v.live.draw != rd.live {
			return true, nil
		}
		if unread := rd.ended || v.live.nextOf(rd.req.Stream) > rd.at.Offset; unread && rd.req.Durable {
			if s.archive.Durable() > rd.limit {
				return true, nil
			}
			// Nothing announces that the log was fsynced.
			pause := min(durablePause, time.Until(deadline))
			if pause <= 0 {
				return false, nil
			}
			if err := s.pause(ctx, pause); err != nil {
				return false, err
			}
			continue
		} else if unread && v.live.last.Load() > rd.limit {
			return true, nil
		}
		select {
		case <-list.token:
			list.wakeOthers()
			all = list.current()
		case <-all:
			all = list.current()
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		case <-s.closed:
			return false, ErrClosed
		}
	}
}

// pause waits; the error says that ctx or the source ended meanwhile.
func (s *Source) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return ErrClosed
	}
}

// resync completes an error of the reader.
func (rd *read) resync(err error) error {
	return rd.source.completeError(rd.req.Stream, rd.req.Strict, err)
}

// completeError completes an error of reading a stream with where the reader can
// go.
func (s *Source) completeError(stream int, strict bool, err error) error {
	if errors.Is(err, ErrTruncated) {
		err = &ResyncError{Reason: ReasonEvicted}
	}
	var e *ResyncError
	if !errors.As(err, &e) {
		return err
	}
	e.Strict = strict
	e.Tail = s.Tail(stream)
	e.Oldest = e.Tail
	if !e.Strict {
		oldest, err := s.Oldest(stream)
		if err != nil {
			return err
		}
		e.Oldest = oldest
	}
	return e
}

// Get reads the whole commit that holds an offset into b, and returns the
// offsets of its first and last frame. The errors are *NotFoundError if the
// offset is not written yet, and those of Since.
func (s *Source) Get(stream int, at Cursor, b *Batch) (first, last uint64, err error) {
	b.Release()
	req := Request{Stream: stream, Cursor: at}
	rd := read{ctx: context.Background(), source: s, keeper: &s.cache, req: &req, batch: b, count: 1, bytes: MaxBytes, large: largeCommitBytes, at: at}
	g, err := s.view.Load().locate(stream, at)
	switch {
	case err != nil:
		return 0, 0, rd.resync(err)
	case at.Offset >= g.end && g.ended:
		return 0, 0, rd.resync(&ResyncError{Reason: ReasonLost})
	case at.Offset >= g.end:
		return 0, 0, &NotFoundError{Tail: s.Tail(stream)}
	}
	sc, err := s.seek(stream, &g, at.Offset, g.endLSN)
	if err != nil {
		return 0, 0, rd.resync(err)
	}
	rd.limit = g.endLSN
	rd.at.Offset = 0 // all of the commit, whatever the offset in it
	if err := rd.collect(sc); err != nil {
		sc.close()
		return 0, 0, rd.resync(err)
	}
	if b.Len() == 0 {
		// It is counted and not yet visible.
		sc.close()
		return 0, 0, &NotFoundError{Tail: Cursor{g.number, at.Offset}}
	}
	b.Generation, b.Next, b.CompleteLSN = g.number, sc.pos.offset, sc.pos.lsn-1
	if b.large != nil {
		b.scan, b.keeper = sc, rd.keeper
		return b.large.first, b.large.last, nil
	}
	s.cache.put(sc)
	return b.recs[0].first, b.recs[0].last, nil
}
