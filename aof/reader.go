package aof

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"kevy/internal/vfs"
)

// Span is a stretch of the log: whole commits of one block.
type Span struct {
	FirstLSN uint64
	Ops      int   // in Payload
	UnixMs   int64 // of the block
	// BlockStart: Payload is the beginning of its block, so that the database is
	// selected in it. Otherwise it goes on where the span before ended.
	BlockStart bool
	// Payload is whole commits, valid until the next call of Next or Close. It must
	// not be changed.
	Payload []byte
	// Large is the payload, instead of Payload, where it is too large to be held in
	// memory; valid as long.
	Large *LargePayload
	// Position holds, at the beginning of a file, the position of each stream
	// before this span.
	Position []Position
	// Draw is the number of the generation that begins with this span, 0 if none
	// does.
	Draw uint64
}

// Reader reads the log from an LSN on: from memory what is there, up to the last
// commit, and the files for the rest. One goroutine may use it.
type Reader struct {
	log  *Log
	next uint64 // LSN that comes next

	// The block that was read last, and how much of its payload. It may have been
	// the open one, and have grown since.
	block uint64 // its first LSN
	taken int

	chunk *chunk        // held for the payload of the last span
	large *LargePayload // of the last span

	segment *segment // being read; nil if no file is open
	file    vfs.File
	window  window
	at      int64
	before  uint64 // LSN of the last op before at
	crc     uint32 // of the block before at
	guessed bool   // it was entered at a mark that was guessed

	// What stood before the block that comes next.
	position []Position
	draw     uint64
}

// NewReader returns a reader whose first span is the block that holds lsn, or
// begins with it. lsn may be one beyond the end. The error is ErrTruncated if
// the log does not reach back to lsn.
func (l *Log) NewReader(lsn uint64) (*Reader, error) {
	if last := l.last.Load(); lsn > last+1 {
		return nil, fmt.Errorf("aof: a reader at LSN %d, and the log ends with %d", lsn, last)
	}
	if lsn < l.OldestLSN() {
		return nil, ErrTruncated
	}
	return &Reader{log: l, next: lsn}, nil
}

// Next returns the next span; ok is false if there is none yet. Errors are
// ErrTruncated, when what comes next was removed or cannot be read any more, a
// *DamageError, or those of reading a file.
func (r *Reader) Next() (s Span, ok bool, err error) {
	if r.log == nil {
		return Span{}, false, ErrClosed
	}
	r.endLarge()
	s, ok, there := r.fromMemory()
	if there {
		return s, ok, nil
	}
	return r.fromDisk()
}

// LSN is that of the op that comes next.
func (r *Reader) LSN() uint64 { return r.next }

// Close gives up what the reader holds.
func (r *Reader) Close() {
	if r.log == nil {
		return
	}
	r.log.mu.Lock()
	r.letGo()
	r.log.mu.Unlock()
	r.endLarge()
	r.closeFile()
	r.log = nil
}

func (r *Reader) endLarge() {
	if r.large != nil {
		r.large.release()
		r.large = nil
	}
}

// letGo gives up the chunk of the last span. The caller holds the log's mu.
func (r *Reader) letGo() {
	if r.chunk != nil {
		r.log.mem.release(r.chunk)
		r.chunk = nil
	}
}

func (r *Reader) closeFile() {
	if r.file != nil {
		_ = r.file.Close() // it was only read
	}
	r.file, r.segment = nil, nil
	r.window.reset(nil, 0)
}

// fromMemory reads the next span if it is in memory; there is false if it is to
// be found on disk.
func (r *Reader) fromMemory() (s Span, ok, there bool) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	r.letGo()
	if r.next > l.last.Load() {
		return Span{}, false, true
	}
	ci, bi, ok := l.mem.find(r.next)
	if !ok {
		return Span{}, false, false
	}
	for ; ci < len(l.mem.chunks); ci, bi = ci+1, 0 {
		c := l.mem.chunks[ci]
		for ; bi < len(c.blocks); bi++ {
			b := &c.blocks[bi]
			if b.extra != nil {
				eachLine(b.extra.lines, r.line)
			}
			if b.ops > 0 {
				c.refs++
				r.chunk = c
				return r.take(b.first, int(b.ops), b.unixMs, b.payload(c), nil), true, true
			}
		}
	}
	// The mutex was held since the last LSN was read.
	panic("aof: the log's memory does not reach to its end")
}

// line notes an annotation without checksum.
func (r *Reader) line(text []byte) {
	switch {
	case bytes.HasPrefix(text, []byte(positionPrefix)):
		if p, ok := parsePosition(text); ok {
			// A new file's lines replace those of one that held nothing.
			if len(r.position) > 0 && r.position[len(r.position)-1].Stream >= p.Stream {
				r.position = nil
			}
			r.position = append(r.position, p)
		}
	case bytes.HasPrefix(text, []byte(drawPrefix)):
		if draw, ok := parseDraw(text); ok {
			r.draw = draw
		}
	}
}

// take makes a span of what was not yet taken of a block.
func (r *Reader) take(first uint64, ops int, unixMs int64, payload []byte, large *LargePayload) Span {
	size := len(payload)
	if large != nil {
		size = int(large.size)
	}
	s := Span{FirstLSN: first, Ops: ops, UnixMs: unixMs, BlockStart: true, Payload: payload, Large: large, Position: r.position, Draw: r.draw}
	if r.taken > 0 && r.block == first {
		// What stands before the block was handed on with its beginning.
		s = Span{FirstLSN: r.next, Ops: ops - int(r.next-first), UnixMs: unixMs, Large: large}
		if large != nil {
			large.skip = int64(r.taken)
		} else {
			s.Payload = payload[r.taken:]
		}
	}
	r.block, r.taken = first, size
	r.next = first + uint64(ops)
	r.position, r.draw = nil, 0
	return s
}

// fromDisk reads the next span from the files.
func (r *Reader) fromDisk() (Span, bool, error) {
	for {
		if err := r.reach(); err != nil {
			return Span{}, false, err
		}
		at := r.at
		it, err := r.item()
		if errors.Is(err, errGuess) {
			continue
		}
		if err != nil {
			return Span{}, false, err
		}
		if it.kind != itemBlock {
			continue
		}
		h := it.header
		r.markBlock(&h, at)
		if h.Ops == 0 {
			continue
		}
		if h.LastLSN() < r.next {
			r.position, r.draw = nil, 0
			continue
		}
		if it.large != nil {
			r.hold(it.large)
		}
		return r.take(h.FirstLSN, h.Ops, h.UnixMs, it.payload, it.large), true, nil
	}
}

// hold makes a payload of the open file the one of the span that comes next.
func (r *Reader) hold(p *LargePayload) {
	s := r.segment
	p.changed = func(at int64) error { return r.broken(s, at, wrongChecksum) }
	r.large = p
	r.window.buf = nil // while it is read, which may take long
}

// errGuess says that the open file was entered where no block begins, or was
// damaged since. It is closed, to be read in order.
var errGuess = errors.New("a place in the log was guessed wrong")

// item reads what stands in front in the open file, and goes on behind it.
func (r *Reader) item() (item, error) {
	it, err := readItem(&r.window, r.at, r.segment.random, r.before)
	if err != nil {
		return item{}, err
	}
	switch it.kind {
	case itemFault:
		return item{}, r.damaged(r.at, it.reason)
	case itemForeign:
		reg, err := foreignRegion(&r.window, r.at)
		if err != nil {
			return item{}, err
		}
		if reg.left != whole || reg.stop == r.at {
			return item{}, r.damaged(reg.end, reg.reason)
		}
		it.end = reg.stop
	case itemLine:
		r.line(it.text)
	case itemBlock:
		r.before, r.crc = it.header.LastLSN(), it.header.CRC
	}
	r.at = it.end
	return it, nil
}

// reach makes the file that holds the next LSN the open one, with something
// left to read in it.
func (r *Reader) reach() error {
	d := &r.log.dir
	for range 2 {
		if r.segment != nil {
			d.segMu.Lock()
			r.window.size = r.segment.bytes
			d.segMu.Unlock()
			if r.at < r.window.size {
				return nil
			}
		}
		if err := r.open(); err != nil {
			return err
		}
	}
	return fmt.Errorf("aof: LSN %d is missing in %s", r.next, r.segment.name)
}

// open opens the file that holds the next LSN, at or before its block.
func (r *Reader) open() error {
	r.closeFile()
	d := &r.log.dir
	d.segMu.Lock()
	s := d.find(r.next)
	if s == nil {
		d.segMu.Unlock()
		return ErrTruncated
	}
	file, err := d.fs.Open(s.name)
	// The block that was read last may hold the next LSN too.
	target, size := max(r.block, s.first), s.bytes
	if r.taken == 0 {
		target = r.next
	}
	d.segMu.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return ErrTruncated
	}
	if err != nil {
		return err
	}
	r.segment, r.file = s, file
	r.window.reset(file, size)
	// Of several blocks with one LSN the first is sought: the others may stand
	// behind a line that belongs to it.
	start, err := d.narrow(s, file, func(m *mark) bool { return m.lsn > target })
	if err == nil {
		d.segMu.Lock()
		if first := s.before(target); first.at < start.at && first.lsn == start.lsn {
			start = first
		}
		d.segMu.Unlock()
		err = r.startAt(start)
	}
	if err != nil {
		r.closeFile()
	}
	return err
}

// startAt makes the open file be read from a mark on.
func (r *Reader) startAt(start mark) error {
	r.at, r.before, r.guessed = start.at, start.lsn-1, start.guessed
	if r.at > 0 {
		return nil
	}
	_, n, ok, err := readFileLine(&r.window)
	if err != nil {
		return err
	}
	if !ok {
		return r.damaged(0, "the file does not begin as a log of kevy does")
	}
	r.at = n
	return nil
}

// damaged says that the open file is not what was written. If there is one behind
// it, nobody is led into it again: the history that is served begins with the
// next one, and to this reader the error is ErrTruncated too.
func (r *Reader) damaged(at int64, reason string) error {
	if r.guessed {
		r.log.dir.distrust(r.segment)
		r.closeFile()
		return errGuess
	}
	return r.broken(r.segment, at, reason)
}

// broken is damaged for a place that was not guessed.
func (r *Reader) broken(s *segment, at int64, reason string) error {
	damage := &DamageError{File: s.name, Offset: at, Reason: reason}
	if !r.log.dir.beginHistoryBehind(s) {
		return damage
	}
	r.log.opt.Logger.Error("the log is damaged: readers are served from behind it, and a rewrite makes it whole", "file", damage.File, "offset", at, "reason", reason)
	return fmt.Errorf("%w: %w", ErrTruncated, damage)
}

// markBlock notes where a block begins in a file that was not indexed when it
// was written or recovered.
func (r *Reader) markBlock(h *BlockHeader, at int64) {
	if len(r.position) > 0 || r.draw != 0 {
		return // whoever starts at the mark would miss what stands before it
	}
	d := &r.log.dir
	d.segMu.Lock()
	r.segment.mark(mark{lsn: h.FirstLSN, at: at, unixMs: h.UnixMs, guessed: r.guessed})
	d.segMu.Unlock()
}
