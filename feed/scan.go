package feed

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"kevy/internal/op"
)

// scan reads one stream of one generation out of the log: it stands at a border
// between commits and knows the stream's offset there.
type scan struct {
	stream, shards int
	number         uint64 // the generation
	archive        ArchiveReader

	pos     scanPos
	spanEnd uint64 // LSN after the span in hand
	unixMs  int64  // of the span in hand
}

// scanPos is what changes from op to op. A copy taken at a commit's border
// brings the scan back to it, as long as the span is the same.
type scanPos struct {
	ops    op.Scanner
	lsn    uint64 // of the next op
	offset uint64 // of the stream's next frame
}

// errLog is wrapped by errors that say that the log is not what was published.
var errLog = errors.New("the log cannot be read by the feed")

// startScan begins at or before the op lsn, where the stream's offset is
// offset; the scan stands there afterwards, unless the log ends before.
func (s *Source) startScan(stream int, number, lsn, offset uint64) (*scan, error) {
	r, err := s.archive.OpenAt(lsn)
	if err != nil {
		return nil, err
	}
	sc := &scan{stream: stream, shards: s.shards, number: number, archive: r, pos: scanPos{lsn: lsn, offset: offset}, spanEnd: lsn}
	if err := sc.skipTo(lsn); err != nil {
		sc.close()
		return nil, err
	}
	return sc, nil
}

// startAll is startScan for the stream ALL, whose offset follows from the LSN:
// the scan stands at the beginning of a commit at or before the op lsn, not
// before the generation's first op.
func (s *Source) startAll(g *generation, lsn uint64) (*scan, error) {
	r, err := s.archive.OpenAt(lsn)
	if err != nil {
		return nil, err
	}
	sc := &scan{stream: s.shards, shards: s.shards, number: g.number, archive: r, pos: scanPos{lsn: lsn, offset: lsn - g.firstLSN}, spanEnd: lsn}
	begin, err := sc.load()
	if err == nil && begin < g.firstLSN {
		err = sc.drop(begin, g.firstLSN)
		begin = g.firstLSN
	}
	if err != nil {
		sc.close()
		return nil, err
	}
	if begin < lsn {
		sc.pos.lsn, sc.pos.offset = begin, begin-g.firstLSN
	}
	return sc, nil
}

func (sc *scan) close() { sc.archive.Close() }

// load takes the span that holds the op in front and returns the LSN at which
// it begins, that of the op if the log ends before it.
func (sc *scan) load() (begin uint64, err error) {
	want := sc.pos.lsn
	for first := true; ; {
		span, ok, err := sc.archive.Next()
		if err != nil {
			return 0, err
		}
		if !ok {
			return want, nil
		}
		if span.Ops == 0 {
			continue
		}
		if span.FirstLSN > want || first && !span.BlockStart {
			return 0, fmt.Errorf("%w: asked for LSN %d it begins with %d", errLog, want, span.FirstLSN)
		}
		first = false
		sc.take(&span)
		if sc.spanEnd > want {
			return span.FirstLSN, nil
		}
		// The scanner must have seen it all: the next span may go on in the same
		// block, in the database that this one leaves.
		if err := sc.drop(span.FirstLSN, sc.spanEnd); err != nil {
			return 0, err
		}
	}
}

// skipTo takes the span that holds the op lsn and passes over what it has before
// it.
func (sc *scan) skipTo(lsn uint64) error {
	begin, err := sc.load()
	if err != nil {
		return err
	}
	return sc.drop(begin, lsn)
}

// drop passes over the ops from begin up to before lsn.
func (sc *scan) drop(begin, lsn uint64) error {
	for ; begin < lsn; begin++ {
		if f, err := sc.pos.ops.Next(); err != nil || f == nil {
			return sc.short(err)
		}
	}
	return nil
}

func (sc *scan) take(span *Span) {
	db := sc.pos.ops.DB()
	if span.BlockStart {
		db = 0
	}
	if span.Large != nil {
		sc.pos.ops.ResetInput(span.Large, db)
	} else {
		sc.pos.ops.Reset(span.Payload, db)
	}
	sc.spanEnd = span.FirstLSN + uint64(span.Ops)
	sc.unixMs = span.UnixMs
}

// fill makes sure that an op is in hand; false at the tail.
func (sc *scan) fill() (bool, error) {
	for sc.pos.lsn >= sc.spanEnd {
		span, ok, err := sc.archive.Next()
		if err != nil || !ok {
			return false, err
		}
		if span.Ops == 0 {
			continue
		}
		// A scan that began at the tail is given the block that held the last op then,
		// if the next one has joined it.
		if span.FirstLSN > sc.pos.lsn || span.FirstLSN < sc.pos.lsn && !span.BlockStart {
			return false, fmt.Errorf("%w: LSN %d follows where %d should", errLog, span.FirstLSN, sc.pos.lsn)
		}
		sc.take(&span)
		if err := sc.drop(span.FirstLSN, min(sc.pos.lsn, sc.spanEnd)); err != nil {
			return false, err
		}
	}
	return true, nil
}

// next takes the next op in hand and reports whether it is a frame of the
// stream; its offset is then pos.offset-1 and its LSN pos.lsn-1.
func (sc *scan) next() (f *op.Frame, in bool, err error) {
	f, err = sc.pos.ops.Next()
	if err != nil || f == nil {
		return nil, false, sc.short(err)
	}
	sc.pos.lsn++
	in = sc.stream == sc.shards || !f.Verb.Keyed() || op.ShardOf(f.Key(), sc.shards) == sc.stream
	if in {
		sc.pos.offset++
	}
	return f, in, nil
}

func (sc *scan) short(err error) error {
	if err == nil {
		err = errors.New("a block has fewer ops than it says")
	}
	return fmt.Errorf("%w: in the block that ends with LSN %d: %w", errLog, sc.spanEnd-1, err)
}

// advance goes on, commit by commit, until the next frame is offset or the
// commit in front holds it, but not past the op limit.
func (sc *scan) advance(offset, limit uint64) error {
	for sc.pos.offset < offset && sc.pos.lsn <= limit {
		ok, err := sc.fill()
		if err != nil || !ok {
			return err
		}
		border := sc.pos
		for last := false; !last; {
			f, _, err := sc.next()
			if err != nil {
				return err
			}
			last = f.Last
		}
		if sc.pos.offset > offset {
			sc.pos = border
			return nil
		}
	}
	return nil
}

// count goes on to the op lsn, which begins a commit, and returns how many
// frames of the stream were passed.
func (sc *scan) count(lsn uint64) (frames uint64, err error) {
	before := sc.pos.offset
	for sc.pos.lsn < lsn {
		ok, err := sc.fill()
		if err != nil {
			return 0, err
		}
		if !ok {
			return 0, fmt.Errorf("%w: it ends with LSN %d, before %d", errLog, sc.pos.lsn-1, lsn)
		}
		if _, _, err := sc.next(); err != nil {
			return 0, err
		}
	}
	return sc.pos.offset - before, nil
}

// keeper keeps scans between two reads.
type keeper interface {
	// take returns a scan that stands at the cursor, nil if there is none. It is the
	// caller's from then on.
	take(stream int, at Cursor) *scan
	// put keeps a scan, which stands at a commit's border.
	put(sc *scan)
}

const (
	// maxCachedScans bounds what readers that may never come back hold of the log:
	// an open file or a piece of memory each.
	maxCachedScans = 32
	// maxIdle is how long they hold it.
	maxIdle = 10 * time.Second
)

// scanCache keeps scans for readers that come back with the cursor they were
// given, so that a sequential reader never searches.
type scanCache struct {
	mu     sync.Mutex
	idle   []idleScan // oldest first; guarded by mu
	closed bool       // guarded by mu
}

type idleScan struct {
	*scan
	since time.Time
}

func (c *scanCache) take(stream int, at Cursor) *scan {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.idle) - 1; i >= 0; i-- {
		sc := c.idle[i].scan
		if sc.stream == stream && sc.number == at.Generation && sc.pos.offset == at.Offset {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			return sc
		}
	}
	return nil
}

func (c *scanCache) put(sc *scan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		sc.close()
		return
	}
	if len(c.idle) == maxCachedScans {
		c.idle[0].close()
		c.idle = append(c.idle[:0], c.idle[1:]...)
	}
	c.idle = append(c.idle, idleScan{sc, time.Now()})
}

// expire closes what was idle for too long.
func (c *scanCache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := time.Now().Add(-maxIdle)
	n := 0
	for n < len(c.idle) && c.idle[n].since.Before(limit) {
		c.idle[n].close()
		n++
	}
	if n > 0 {
		c.idle = append(c.idle[:0], c.idle[n:]...)
	}
}

func (c *scanCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sc := range c.idle {
		sc.close()
	}
	c.idle, c.closed = nil, true
}
