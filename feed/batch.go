package feed

import (
	"context"
	"unsafe"

	"kevy/internal/op"
)

// Frame is one change as a stream shows it.
type Frame struct {
	Offset uint64
	// Raw is the op as a RESP array of bulk strings. It is valid until the batch is
	// read again or released.
	Raw []byte
	// LSN is the op's number in the log, UnixMs the time of the block it is in.
	LSN    uint64
	UnixMs int64
	DB     int
	// First and Last are the offsets of the commit's first and last frame in this
	// stream and generation.
	First, Last uint64
	Cause       op.Cause
}

// Batch is what one read returns. The zero value is ready; used again, it keeps
// its memory. One goroutine at a time may use it.
type Batch struct {
	// Generation and Next are the cursor to go on with.
	Generation uint64
	Next       uint64
	// CompleteLSN: no op up to it is missing from what was read of this stream.
	CompleteLSN uint64

	recs []frameRecord
	buf  []byte // the bytes of all frames

	large  *largeCommit
	scan   *scan  // of large
	keeper keeper // where scan goes then
}

// frameRecord is a frame whose bytes end at end in the batch's buffer and begin
// where the one before ended.
type frameRecord struct {
	offset, lsn, first, last uint64
	unixMs                   int64
	end                      int
	db                       int32
	cause                    op.Cause
}

// largeCommit is a commit that is not copied but decoded again from the log's
// own bytes.
type largeCommit struct {
	border      scanPos
	from        uint64 // offset of the first frame wanted
	first, last uint64
	filter      *Filter
	frames      int
	source      *Source
}

const (
	// largeCommitBytes is the size from which a commit is delivered on its own and
	// without a copy; followedCommitBytes is that for a Follower, whose copy may have
	// to be kept for as long as somebody does not read.
	largeCommitBytes    = 4 << 20
	followedCommitBytes = 64 << 10
	// maxKeptBytes is the largest buffer that a batch keeps.
	maxKeptBytes = 4 << 20
	// idleBytes is the largest buffer that Shrink keeps.
	idleBytes   = 16 << 10
	recordBytes = int(unsafe.Sizeof(frameRecord{}))
)

// Len returns the number of frames.
func (b *Batch) Len() int {
	if b.large != nil {
		return b.large.frames
	}
	return len(b.recs)
}

// Bytes returns the size of the frames' bytes, 0 for a commit that is too large
// to be copied.
func (b *Batch) Bytes() int { return len(b.buf) }

// Large reports whether the batch is one commit that is not copied: Each reads it
// from the log again, and may fail.
func (b *Batch) Large() bool { return b.large != nil }

// Each calls fn for every frame in order until it returns an error. The frame
// is valid during the call.
func (b *Batch) Each(fn func(*Frame) error) error {
	if b.large != nil {
		return b.eachOfLarge(fn)
	}
	var f Frame
	start := 0
	for i := range b.recs {
		r := &b.recs[i]
		f = Frame{
			Offset: r.offset, Raw: b.buf[start:r.end:r.end], LSN: r.lsn, UnixMs: r.unixMs,
			DB: int(r.db), First: r.first, Last: r.last, Cause: r.cause,
		}
		start = r.end
		if err := fn(&f); err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) eachOfLarge(fn func(*Frame) error) error {
	end := b.scan.pos
	defer func() { b.scan.pos = end }()
	b.scan.pos = b.large.border
	for b.scan.pos.lsn < end.lsn {
		f, in, err := b.scan.next()
		if err != nil {
			return err
		}
		offset := b.scan.pos.offset - 1
		if !in || offset < b.large.from {
			continue
		}
		if passes, err := b.large.passes(f); err != nil {
			return err
		} else if !passes {
			continue
		}
		frame := Frame{
			Offset: offset, Raw: f.Raw, LSN: b.scan.pos.lsn - 1, UnixMs: b.scan.unixMs,
			DB: f.DB, First: b.large.first, Last: b.large.last, Cause: f.Cause,
		}
		if err := fn(&frame); err != nil {
			return err
		}
	}
	return nil
}

// passes is that of the filter, and waits for its turn to look if that is slow: who
// takes the frames may take them slowly, so that no turn is kept between two.
func (l *largeCommit) passes(f *op.Frame) (bool, error) {
	if !l.filter.slow() {
		return l.filter.passes(f), nil
	}
	mine, err := l.source.turns.take(context.Background(), l.source.lastLSN)
	if err != nil {
		return false, err
	}
	defer l.source.turns.give(mine)
	passes := l.filter.passes(f)
	mine.rest.Look()
	return passes, nil
}

// Release gives back what the batch holds of the log. A batch that is read
// again is released by that.
func (b *Batch) Release() {
	if b.scan != nil {
		b.keeper.put(b.scan)
		b.scan, b.large, b.keeper = nil, nil, nil
	}
	if cap(b.buf) > maxKeptBytes {
		b.buf = nil
	}
	if cap(b.recs) > maxKeptBytes/recordBytes {
		b.recs = nil
	}
	b.buf, b.recs = b.buf[:0], b.recs[:0]
}

// Shrink lets memory go that only large batches need. The batch is released.
func (b *Batch) Shrink() {
	b.Release()
	if cap(b.buf) > idleBytes {
		b.buf = nil
	}
	if cap(b.recs) > idleBytes/recordBytes {
		b.recs = nil
	}
}

// add copies a frame.
func (b *Batch) add(f *op.Frame, offset, lsn uint64, unixMs int64) {
	b.buf = append(b.buf, f.Raw...)
	b.recs = append(b.recs, frameRecord{
		offset: offset, lsn: lsn, unixMs: unixMs, end: len(b.buf), db: int32(f.DB), cause: f.Cause,
	})
}

func (b *Batch) truncate(recs, bytes int) {
	b.recs, b.buf = b.recs[:recs], b.buf[:bytes]
}
