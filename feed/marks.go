package feed

import (
	"sort"
	"sync"
)

const (
	// A mark is set after about markBytes of ops, or after markOps of them: what a
	// reader decodes at most to find its offset.
	markBytes = 64 << 10
	markOps   = 512

	maxMarks       = 4096    // in each ring
	maxMarksBytes  = 4 << 20 // of each ring, for stores with many shards
	minMarks       = 64
	sparseInterval = 16 // of so many old marks one is kept
)

// marks says at some LSNs which offset each shard stream has there, so that an
// offset can be found without reading the log from its beginning. New marks are
// dense; of those that fall out, one in sixteen is kept on. What lies before
// them all is found through the positions at the segments' beginnings. ALL needs
// no marks: its offset is the distance from the generation's first LSN.
type marks struct {
	shards               int
	everyOps, everyBytes int

	mu      sync.Mutex
	dense   ring // guarded by mu
	sparse  ring // guarded by mu
	dropped int  // from dense, since the last one that went to sparse; guarded by mu
}

// mark is a place in the log: offset of a stream before the op lsn.
type mark struct {
	lsn    uint64
	draw   uint64
	offset uint64
}

// ring is a queue of marks in LSN order.
type ring struct {
	lsns    []uint64
	draws   []uint64
	offsets []uint64 // shards for each mark
	head, n int
}

func (m *marks) init(shards int) {
	m.size(shards, markOps, markBytes, min(maxMarks, max(minMarks, maxMarksBytes/(8*(shards+2)))))
}

// size makes room for so many marks in each ring.
func (m *marks) size(shards, everyOps, everyBytes, size int) {
	m.shards, m.everyOps, m.everyBytes = shards, everyOps, everyBytes
	for _, r := range []*ring{&m.dense, &m.sparse} {
		r.lsns = make([]uint64, size)
		r.draws = make([]uint64, size)
		r.offsets = make([]uint64, size*shards)
	}
}

// due reports whether a mark is to be set so many ops and bytes after the last.
func (m *marks) due(ops, bytes int) bool { return ops >= m.everyOps || bytes >= m.everyBytes }

// add notes the offsets of the shard streams before the op lsn; offset i is
// next(i).
func (m *marks) add(lsn, draw uint64, next func(int) uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dense.n == len(m.dense.lsns) {
		m.demote()
	}
	to := m.dense.push(lsn, draw, m.shards)
	for i := range to {
		to[i] = next(i)
	}
}

// demote drops the oldest dense mark, or keeps it among the sparse ones. The
// caller holds mu.
func (m *marks) demote() {
	at := m.dense.head
	if m.dropped%sparseInterval == 0 {
		if m.sparse.n == len(m.sparse.lsns) {
			m.sparse.pop()
		}
		to := m.sparse.push(m.dense.lsns[at], m.dense.draws[at], m.shards)
		copy(to, m.dense.offsets[at*m.shards:])
	}
	m.dropped++
	m.dense.pop()
}

func (r *ring) push(lsn, draw uint64, shards int) (offsets []uint64) {
	at := (r.head + r.n) % len(r.lsns)
	r.n++
	r.lsns[at], r.draws[at] = lsn, draw
	return r.offsets[at*shards : (at+1)*shards]
}

func (r *ring) pop() {
	r.head = (r.head + 1) % len(r.lsns)
	r.n--
}

func (r *ring) get(i, stream, shards int) mark {
	at := (r.head + i) % len(r.lsns)
	return mark{lsn: r.lsns[at], draw: r.draws[at], offset: r.offsets[at*shards+stream]}
}

// atOffset returns the last mark of the generation at or before an offset of a
// shard stream.
func (m *marks) atOffset(stream int, draw, offset uint64) (mark, bool) {
	beyond := func(k mark) bool { return k.draw > draw || k.draw == draw && k.offset > offset }
	k, ok := m.lastBefore(stream, beyond)
	return k, ok && k.draw == draw
}

// atLSN returns the last mark at or before an LSN.
func (m *marks) atLSN(stream int, lsn uint64) (mark, bool) {
	return m.lastBefore(stream, func(k mark) bool { return k.lsn > lsn })
}

// lastBefore returns the last mark before the first one that is beyond.
func (m *marks) lastBefore(stream int, beyond func(mark) bool) (mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range []*ring{&m.dense, &m.sparse} {
		i := sort.Search(r.n, func(i int) bool { return beyond(r.get(i, stream, m.shards)) })
		if i > 0 {
			return r.get(i-1, stream, m.shards), true
		}
	}
	return mark{}, false
}

// afterLSN returns the first mark beyond an LSN.
func (m *marks) afterLSN(stream int, lsn uint64) (mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range []*ring{&m.sparse, &m.dense} {
		i := sort.Search(r.n, func(i int) bool { return r.get(i, stream, m.shards).lsn > lsn })
		if i < r.n {
			return r.get(i, stream, m.shards), true
		}
	}
	return mark{}, false
}
