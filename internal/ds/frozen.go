package ds

import (
	"slices"
	"sync/atomic"
)

// Frozen is an immutable view of a table: its entries as they were at Freeze, with their values, Aux and objects.
//
// Any goroutine may read it while the table is written; several may at the same time. Entries and their objects are
// valid until Release, or inside the callback for Drain.
type Frozen struct {
	dir   []*segment
	depth uint8
	count int
	epoch uint64 // the table's when it was frozen: the view has nothing that is younger

	// released is the end of all reading. drained is how far Drain has come in hash space, in units of 1/2^63 of it:
	// the view reads nothing below any more. Both are stored by the reader after its last access to what they cover,
	// and loaded by the writer before it writes there.
	released atomic.Bool
	drained  atomic.Uint64
}

// Freeze returns an immutable view of the table, in constant time. The table copies, segment by segment and entry by
// entry, what it is the first to write afterwards, until the view is released; so every view must be released.
func (t *Table) Freeze() *Frozen {
	t.dropReleased()
	f := &Frozen{dir: t.dir, depth: t.depth, count: t.count, epoch: t.epoch}
	t.views = append(t.views, f)
	t.epoch++
	return f
}

// fork returns a table with the same entries. Both tables copy what they are the first to write, for ever; neither
// entry may have an object, because two tables would fork it at the same time.
func (t *Table) fork() *Table {
	t.forkEpoch = t.epoch
	t.epoch++
	f := *t
	f.views = nil
	return &f
}

// Len returns the number of entries in the view.
func (f *Frozen) Len() int { return f.count }

// Each calls fn for every entry of the view, in no order, until it returns false. It must not run beside or after
// Drain or Release. Of an entry, LRU must not be read.
func (f *Frozen) Each(fn func(*Entry) bool) {
	eachSegment(f.dir, f.depth, 0, func(s *segment, _ uint64) bool { return s.each(fn) })
}

// Drain is Each for the only walk over the view: what it has passed, the table no longer copies. fn must not keep the
// entry or anything of it. After Drain, also one that fn stopped, the view can only be released.
func (f *Frozen) Drain(fn func(*Entry) bool) {
	eachSegment(f.dir, f.depth, 0, func(s *segment, next uint64) bool {
		if !s.each(fn) {
			return false
		}
		f.drained.Store(next << (63 - f.depth))
		return true
	})
}

// Release ends the use of the view, by all goroutines. It may be called from any of them, and more than once.
func (f *Frozen) Release() {
	if !f.released.Swap(true) {
		// The table may keep the view until it looks at its views again.
		f.dir = nil
	}
}

// reads says whether the view may still read what lies below end in hash space.
func (f *Frozen) reads(end uint64) bool {
	return !f.released.Load() && f.drained.Load() < end
}

func (t *Table) dropReleased() {
	if len(t.views) > 0 {
		t.views = slices.DeleteFunc(t.views, func(f *Frozen) bool { return f.released.Load() })
	}
}

// Who shares what.
//
// A segment is in a view only if it existed at Freeze: segment.epoch <= view.epoch. So a segment of the table's
// present epoch is in no view, and may be written; an older one may be written if every view that is not older than it
// has been released or has drained its range. Drain passes whole segments of the view, so that a drained position is a
// border of them: all that the view has below it has been read.
//
// A slot's owned bit says that no view that is older than the segment can reach the entry: it was made, or found to be
// read by nobody, after the segment's epoch began. Such an entry is in a view only if the segment itself is. An entry
// without the bit may be in a view of any age, and may be written only when no view reads its range any more.
//
// Forks are views that never end.

// segmentShared says whether someone else may read the chain at a directory slot.
func (t *Table) segmentShared(s *segment, at uint64) bool {
	if s.epoch <= t.forkEpoch {
		return true
	}
	end := t.end(s, at)
	for _, f := range t.views {
		if f.epoch >= s.epoch && f.reads(end) {
			return true
		}
	}
	return false
}

// entriesShared says whether someone else may read the entries without an owned bit at a directory slot.
func (t *Table) entriesShared(s *segment, at uint64) bool {
	if t.forkEpoch != 0 {
		return true
	}
	t.dropReleased()
	end := t.end(s, at)
	for _, f := range t.views {
		if f.reads(end) {
			return true
		}
	}
	return false
}

// end returns the end of the hash space of the segment at a directory slot, in units of 1/2^63 of it.
func (t *Table) end(s *segment, at uint64) uint64 {
	n := uint64(1) << (t.depth - s.depth)
	return (at&^(n-1) + n) << (63 - t.depth)
}

// shared says whether the entries without an owned bit in an unshared chain are shared; if they are not, it gives
// them the bit.
func (t *Table) shared(s *segment, at uint64) bool {
	if t.entriesShared(s, at) {
		return true
	}
	for s = t.dir[at]; s != nil; s = s.over {
		s.owned = ^uint64(0)
	}
	return false
}

// unshare makes the chain at a directory slot writable and returns it: as it is, if nobody else reads it any more, or
// a copy.
func (t *Table) unshare(at uint64) *segment {
	s := t.dir[at]
	if t.segmentShared(s, at) {
		t.ownDir()
		c := s.clone(t.epoch)
		first, n := t.span(at)
		t.point(first, n, c)
		return c
	}
	for c := s; c != nil; c = c.over {
		c.epoch = t.epoch
	}
	return s
}

// ownDir makes the directory writable.
func (t *Table) ownDir() {
	if t.dirEpoch == t.epoch {
		return
	}
	shared := t.dirEpoch <= t.forkEpoch
	for _, f := range t.views {
		shared = shared || f.epoch >= t.dirEpoch && !f.released.Load()
	}
	if shared {
		t.dir = slices.Clone(t.dir)
	}
	t.dirEpoch = t.epoch
}
