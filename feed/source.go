package feed

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kevy/internal/op"
	"kevy/persist"
)

// Source is the feed of one store. Publish, AppendPositions and Bump are called
// by whoever commits; everything else is for readers, from any goroutine.
type Source struct {
	shards int
	opt    Options

	archive Archive // set by Open
	view    atomic.Pointer[view]
	marks   *marks

	flushDraw uint64 // guarded by whoever commits
	// sinceOps and sinceBytes count from the last mark. Guarded by the log's
	// critical section.
	sinceOps, sinceBytes int

	waiting []waitList // one for each stream
	// untils is how many WaitUntil there are that wait.
	untils    atomic.Int32
	cache     scanCache
	followers followers
	segments  segmentOffsets
	pins      pins
	scanTime  time.Duration         // MaxScanTime, less in tests
	turns     turns                 // of readers with slow filters
	holds     atomic.Pointer[Holds] // nil without a log
	snapshots snapshots
	closed    chan struct{}
	close     sync.Once
}

// Options configure a Source.
type Options struct {
	// Shards is the number of shard streams; there is one more, ALL.
	Shards int
	// RetainBytes is how much log is kept on disk for readers; less than 0 sets no
	// limit. What recovery needs is kept in any case, and serves readers too.
	RetainBytes int64
	// RetainMs is for how long; 0 sets no limit.
	RetainMs int64
	// NeverDurable says that nothing is fsynced, so that DURABLE is refused.
	NeverDurable bool
}

// view is the history as of one moment. It is replaced as a whole, so that a
// reader never sees the offsets of one generation under the name of another.
type view struct {
	past []*past // oldest first
	live *live
}

// live is the current generation. Its counters go on until it ends; they are
// written in the log's critical section only.
type live struct {
	draw     uint64
	firstLSN uint64
	last     atomic.Uint64   // LSN of the last op, firstLSN-1 before the first
	next     []atomic.Uint64 // next offset of each shard stream
	// keyless is twice the number of ops that are frames of every stream; it is odd
	// while one is being counted.
	keyless atomic.Uint64
}

// past is a generation that has ended.
type past struct {
	draw             uint64
	firstLSN, endLSN uint64
	ends             []uint64 // one for each stream, unknownEnd where nobody knows
	why              persist.Why
}

const unknownEnd = math.MaxUint64

// New returns a Source that serves nobody until Open. Commits must not be
// published before either.
func New(opt Options) *Source {
	s := &Source{shards: opt.Shards, opt: opt, waiting: make([]waitList, opt.Shards+1), closed: make(chan struct{}), scanTime: MaxScanTime}
	s.turns.init(s.closed)
	for i := range s.waiting {
		s.waiting[i].init()
	}
	return s
}

// Open begins to serve what the archive holds: h is the history that
// persist.OpenContract decided on, r what the recovery counted, nil if nothing
// was recovered.
func (s *Source) Open(archive Archive, h persist.History, r *Recovery) error {
	if len(h.Streams) != s.shards+1 {
		return fmt.Errorf("a history of %d streams for %d shards", len(h.Streams), s.shards)
	}
	s.archive = archive
	if r != nil {
		s.marks = r.marks
	} else {
		s.marks = &marks{}
		s.marks.init(s.shards)
	}
	l := &live{draw: h.Draw, firstLSN: h.FirstLSN, next: make([]atomic.Uint64, s.shards)}
	l.last.Store(archive.Last())
	if err := l.begin(&h); err != nil {
		return err
	}
	s.view.Store(&view{past: pastOf(&h), live: l})
	return nil
}

// begin sets the counters as the history has them. That they add up is checked:
// a wrong one would give frames the names of others.
func (l *live) begin(h *persist.History) error {
	ops := l.last.Load() + 1 - l.firstLSN
	var frames uint64
	for i := range l.next {
		l.next[i].Store(h.Streams[i].Next)
		frames += h.Streams[i].Next
	}
	others := uint64(len(l.next) - 1)
	bad := frames < ops || h.Streams[len(l.next)].Next != ops
	if others == 0 {
		bad = bad || frames != ops
	} else {
		bad = bad || (frames-ops)%others != 0
		l.keyless.Store(2 * ((frames - ops) / others))
	}
	if bad {
		return fmt.Errorf("%w: %d ops since LSN %d do not make %d frames of %d shards", errLog, ops, l.firstLSN, frames, len(l.next))
	}
	return nil
}

// pastOf puts the lineages of all streams together. A stream may know fewer
// generations than another one.
func pastOf(h *persist.History) []*past {
	var all []*past
	for i, st := range h.Streams {
		for _, p := range st.Lineage {
			draw := p.Generation - uint64(i)
			at, ok := slices.BinarySearchFunc(all, draw, func(e *past, draw uint64) int {
				return cmp.Compare(e.draw, draw)
			})
			if !ok {
				e := &past{draw: draw, firstLSN: p.FirstLSN, endLSN: p.EndLSN, why: p.Why, ends: make([]uint64, len(h.Streams))}
				for j := range e.ends {
					e.ends[j] = unknownEnd
				}
				all = slices.Insert(all, at, e)
			}
			all[at].ends[i] = p.End
		}
	}
	return all
}

// Shards returns the number of shard streams.
func (s *Source) Shards() int { return s.shards }

// All returns the number of the stream ALL.
func (s *Source) All() int { return s.shards }

// Stream returns the number of the stream that a client names: a shard's number
// or ALL in any case. The error is a *NoStreamError.
func (s *Source) Stream(name []byte) (int, error) {
	if len(name) == 3 && name[0]|0x20 == 'a' && name[1]|0x20 == 'l' && name[2]|0x20 == 'l' {
		return s.shards, nil
	}
	n, err := strconv.Atoi(string(name))
	if err != nil || n < 0 || n >= s.shards || strconv.Itoa(n) != string(name) {
		return 0, &NoStreamError{Name: string(name)}
	}
	return n, nil
}

// StreamName returns the name that Stream takes.
func (s *Source) StreamName(stream int) string {
	if stream == s.shards {
		return "ALL"
	}
	return strconv.Itoa(stream)
}

// NeverDurable reports whether nothing is ever fsynced.
func (s *Source) NeverDurable() bool { return s.opt.NeverDurable }

// Publish counts a commit whose first op has the LSN firstLSN. It is called in
// the log's critical section, once the commit's bytes are in, so that calls come
// in LSN order. It neither allocates nor waits.
func (s *Source) Publish(firstLSN uint64, c *op.Commit) {
	l := s.view.Load().live
	n := c.Ops()
	keyless := uint64(0)
	for i := range n {
		if stream := c.Stream(i); stream != op.EveryStream {
			next := &l.next[stream]
			next.Store(next.Load() + 1)
			continue
		}
		if keyless == 0 {
			l.keyless.Store(l.keyless.Load() + 1)
		}
		keyless++
		for j := range l.next {
			next := &l.next[j]
			next.Store(next.Load() + 1)
		}
	}
	// Readers look no further than last, so this comes after the offsets.
	l.last.Store(firstLSN + uint64(n) - 1)
	if c.FlushesAll() {
		s.Bump(s.flushDraw, persist.FlushAll)
		return
	}
	if keyless > 0 {
		l.keyless.Store(l.keyless.Load() - 1 + 2*keyless)
	}

	s.sinceOps += n
	s.sinceBytes += len(c.Bytes())
	if s.marks.due(s.sinceOps, s.sinceBytes) {
		s.mark(l)
	}
	s.wake(c, n, keyless > 0)
}

// ExpectFlushAll says which generation begins after the next commit that holds
// FLUSHALL. The change belongs to that commit's critical section: a file of the
// log that begins right behind it states the new generation.
func (s *Source) ExpectFlushAll(draw uint64) { s.flushDraw = draw }

// lastLSN returns that of the last op of the current generation.
func (s *Source) lastLSN() uint64 { return s.view.Load().live.last.Load() }

// LastEnd returns how the generation before the current one ended: the LSN of
// its last op and the offset of each stream. There must be one.
func (s *Source) LastEnd() (endLSN uint64, ends []uint64) {
	past := s.view.Load().past
	last := past[len(past)-1]
	return last.endLSN, slices.Clone(last.ends)
}

// mark notes the offsets after the last op of the current generation.
func (s *Source) mark(l *live) {
	s.marks.add(l.last.Load()+1, l.draw, func(i int) uint64 { return l.next[i].Load() })
	s.sinceOps, s.sinceBytes = 0, 0
}

func (s *Source) wake(c *op.Commit, n int, every bool) {
	s.waiting[s.shards].wake()
	if every {
		for i := range s.shards {
			s.waiting[i].wake()
		}
		return
	}
	for i := range n {
		s.waiting[c.Stream(i)].wake()
	}
}

// Bump ends the current generation of every stream with the op published last
// and begins the one of draw. It returns that op's LSN and the offset at which
// each stream ended. No commit may be published at the same time.
func (s *Source) Bump(draw uint64, why persist.Why) (endLSN uint64, ends []uint64) {
	v := s.view.Load()
	l := v.live
	endLSN = l.last.Load()
	ends = s.NextOffsets()
	ended := &past{draw: l.draw, firstLSN: l.firstLSN, endLSN: endLSN, ends: ends, why: why}
	earlier := v.past[max(0, len(v.past)-persist.MaxPast+1):]
	fresh := &live{draw: draw, firstLSN: endLSN + 1, next: make([]atomic.Uint64, s.shards)}
	fresh.last.Store(endLSN)
	s.view.Store(&view{past: append(slices.Clone(earlier), ended), live: fresh})
	for i := range s.waiting {
		s.waiting[i].wake()
	}
	return endLSN, slices.Clone(ends)
}

// NextOffsets returns the offset of the next frame of each stream. It is exact
// only while no commit is published.
func (s *Source) NextOffsets() []uint64 {
	l := s.view.Load().live
	next := make([]uint64, s.shards+1)
	for i := range next {
		next[i] = l.nextOf(i)
	}
	return next
}

// nextOf returns the offset of a stream's next frame.
func (l *live) nextOf(stream int) uint64 {
	if stream == len(l.next) {
		return l.last.Load() + 1 - l.firstLSN
	}
	return l.next[stream].Load()
}

// AppendPositions appends the lines that say, at the beginning of a file of the
// log, where each stream stands after all that was published; nothing before
// Open. It is called in the log's critical section.
func (s *Source) AppendPositions(dst []byte) []byte {
	v := s.view.Load()
	if v == nil {
		return dst
	}
	for i := range s.shards + 1 {
		dst = append(dst, "#kevy-pos "...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, ' ')
		dst = strconv.AppendUint(dst, v.live.draw+uint64(i), 10)
		dst = append(dst, ' ')
		dst = strconv.AppendUint(dst, v.live.nextOf(i), 10)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// Tail returns where a fresh reader of a stream starts.
func (s *Source) Tail(stream int) Cursor {
	l := s.view.Load().live
	return Cursor{Generation: l.draw + uint64(stream), Offset: l.nextOf(stream)}
}

// Close lets every reader that waits return ErrClosed, ends the snapshots, and
// gives back what the readers held of the log.
func (s *Source) Close() {
	s.close.Do(func() {
		close(s.closed)
		s.turns.close()
	})
	s.snapshots.close()
	s.cache.clear()
	s.followers.each(func(f *Follower) { f.place.close() })
}

// generation is a generation as one stream has it.
type generation struct {
	number   uint64 // draw + stream
	draw     uint64
	firstLSN uint64
	// endLSN is that of the last op and end the number of frames, once it has
	// ended; before that they are as of now.
	endLSN uint64
	end    uint64
	ended  bool
	why    persist.Why
	next   uint64 // number of the generation after, if this one has ended
}

// current returns the live generation of a stream.
func (v *view) current(stream int) generation {
	l := v.live
	// The offset is read last: it then is not below what endLSN covers.
	g := generation{number: l.draw + uint64(stream), draw: l.draw, firstLSN: l.firstLSN, endLSN: l.last.Load()}
	g.end = l.nextOf(stream)
	return g
}

// ended returns past generation k of a stream.
func (v *view) ended(stream, k int) generation {
	p := v.past[k]
	g := generation{
		number: p.draw + uint64(stream), draw: p.draw, firstLSN: p.firstLSN, endLSN: p.endLSN, end: p.ends[stream],
		ended: true, why: p.why, next: v.live.draw + uint64(stream),
	}
	if k+1 < len(v.past) {
		g.next = v.past[k+1].draw + uint64(stream)
	}
	return g
}

// find returns the generation with a number.
func (v *view) find(stream int, number uint64) (generation, bool) {
	if number == v.live.draw+uint64(stream) {
		return v.current(stream), true
	}
	for k := len(v.past) - 1; k >= 0 && v.past[k].ends[stream] != unknownEnd; k-- {
		if v.past[k].draw+uint64(stream) == number {
			return v.ended(stream, k), true
		}
	}
	return generation{}, false
}

// locate returns the generation that a cursor is of. The error is a *ResyncError
// if that is not of the stream's history, or ended before the cursor.
func (v *view) locate(stream int, at Cursor) (generation, error) {
	g, ok := v.find(stream, at.Generation)
	switch {
	case !ok:
		return g, &ResyncError{Reason: ReasonGeneration}
	case g.ended && at.Offset > g.end:
		return g, &ResyncError{Reason: ReasonLost}
	}
	return g, nil
}

// holding returns the generation that holds an LSN, the oldest one if the LSN
// lies before all that the stream knows, and the current one if it lies beyond.
func (v *view) holding(stream int, lsn uint64) generation {
	g := v.current(stream)
	for k := len(v.past) - 1; k >= 0 && v.past[k].ends[stream] != unknownEnd && g.firstLSN > lsn; k-- {
		g = v.ended(stream, k)
	}
	return g
}
