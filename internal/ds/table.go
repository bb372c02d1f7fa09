package ds

import (
	"hash/maphash"
	"math/rand/v2"
)

// seed makes the order of hashes unpredictable to clients. It is one for the process, so that an entry keeps its hash
// when it moves between tables.
var seed = maphash.MakeSeed()

func hashOf(key []byte) uint64 { return maphash.Bytes(seed, key) }

const (
	// maxDepth bounds the directory. It must not exceed CursorBits.
	maxDepth = 32
	// The directory doubles only while the table holds this many entries per directory slot. Random hashes overflow a
	// segment long before; hashes that share more bits than that go to a chain instead of blowing up the directory.
	doublingLoad = 4
	// The directory halves when no segment needs its last bit and there are fewer entries than this per slot.
	halvingLoad = 8
	// Two buddies merge when they have this many entries together.
	mergedSlots = segmentSlots / 2
)

// Table maps keys to entries by extendible hashing: the top depth bits of a key's hash index a directory of segments
// of up to 48 entries. A full segment splits alone; when the directory must double, that is a copy of its pointers.
// Sparse neighbours merge again.
//
// A table can be frozen (Freeze): the view shares directory, segments and entries, and the table copies what it is the
// first to write. See sharing for the rule.
type Table struct {
	dir   []*segment // 1 << depth pointers; nil when the table is empty
	shift uint8      // 64 - depth
	depth uint8
	count int
	bytes int // of keys and value rooms
	// deepest counts the segments that use all depth bits: the directory cannot halve while there are any.
	deepest int

	epoch     uint64 // grows with every Freeze and fork
	dirEpoch  uint64 // the epoch when dir was made or last found to be unshared
	forkEpoch uint64 // what is of this epoch or older is shared with a fork for ever; 0 if there was none
	views     []*Frozen
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{shift: 64, epoch: 1, dirEpoch: 1} }

// Len returns the number of entries.
func (t *Table) Len() int { return t.count }

// MemBytes estimates the memory of the table with its keys and string values, in bytes; objects are not included.
func (t *Table) MemBytes() int {
	return tableBytes + 8*len(t.dir) + t.count*(entryBytes+slotShareBytes) + t.bytes
}

const tableBytes = 128

// Get returns the entry of key, nil if there is none. It is for reading only.
func (t *Table) Get(key []byte) *Entry {
	if t.count == 0 {
		return nil
	}
	h := hashOf(key)
	for s := t.dir[h>>t.shift]; s != nil; s = s.over {
		if i := s.find(uint8(h), key); i >= 0 {
			return s.slots[i]
		}
	}
	return nil
}

// locate returns the place of key: its directory slot, the segment in the chain, and the slot, -1 if key is missing.
func (t *Table) locate(h uint64, key []byte) (s *segment, i int) {
	if t.count == 0 {
		return nil, -1
	}
	for s = t.dir[h>>t.shift]; s != nil; s = s.over {
		if i = s.find(uint8(h), key); i >= 0 {
			return s, i
		}
	}
	return nil, -1
}

// locateOwned is locate for a mutation of the segment: the chain is unshared if the key is there.
func (t *Table) locateOwned(h uint64, key []byte) (s *segment, i int) {
	s, i = t.locate(h, key)
	if i >= 0 && s.epoch != t.epoch {
		t.unshare(h >> t.shift)
		s, i = t.locate(h, key)
	}
	return s, i
}

// Mutable returns the entry of key, nil if there is none, for mutation until the next Freeze: if a frozen view shares
// it, the table continues with a copy of the entry and a fork of its object.
func (t *Table) Mutable(key []byte) *Entry {
	h := hashOf(key)
	s, i := t.locateOwned(h, key)
	if i < 0 {
		return nil
	}
	if s.owned>>i&1 == 0 && t.shared(s, h>>t.shift) {
		s.slots[i] = s.slots[i].copyShared()
		s.owned |= 1 << i
	}
	return s.slots[i]
}

// Put sets key to a string and says whether the key is new. An existing entry keeps Aux and LRU, and loses its object
// and its Raw mark. value may be a slice of the entry's own value.
func (t *Table) Put(key, value []byte) (e *Entry, created bool) {
	h := hashOf(key)
	s, i := t.locateOwned(h, key)
	if i < 0 {
		e = newEntry(key, value)
		t.insert(h, e)
		return e, true
	}
	e = s.slots[i]
	t.bytes -= e.kvBytes()
	if s.owned>>i&1 == 1 || !t.shared(s, h>>t.shift) {
		e.setValue(value)
	} else {
		old := e
		e = newEntry(key, value)
		e.aux, e.lru = old.aux, old.lru
		s.slots[i] = e
		s.owned |= 1 << i
	}
	t.bytes += e.kvBytes()
	return e, false
}

// PutObject sets key to a collection, which belongs to the table from then on. An existing entry keeps Aux and LRU.
func (t *Table) PutObject(key []byte, obj Object) *Entry {
	h := hashOf(key)
	s, i := t.locateOwned(h, key)
	if i < 0 {
		e := newEntry(key, nil)
		e.obj = obj
		t.insert(h, e)
		return e
	}
	e := s.slots[i]
	t.bytes -= e.kvBytes()
	if s.owned>>i&1 == 1 || !t.shared(s, h>>t.shift) {
		e.setObject(obj)
	} else {
		old := e
		e = newEntry(key, nil)
		e.obj, e.aux, e.lru = obj, old.aux, old.lru
		s.slots[i] = e
		s.owned |= 1 << i
	}
	t.bytes += e.kvBytes()
	return e
}

// SetAux sets the number kept beside the value of an entry that Mutable, Put or PutObject returned.
func (t *Table) SetAux(e *Entry, v int64) { e.aux = v }

// SetRaw sets or clears the Raw mark of an entry that Mutable or Put returned.
func (t *Table) SetRaw(e *Entry, raw bool) {
	if raw {
		e.room |= flagRaw
	} else {
		e.room &^= flagRaw
	}
}

// Resize cuts the string value of an entry that Mutable or Put returned to n bytes, or fills it with zeros up to n,
// and returns it for writing until the next mutation of the entry. Growth is amortized.
func (t *Table) Resize(e *Entry, n int) []byte {
	t.bytes -= e.kvBytes()
	value := e.resize(n)
	t.bytes += e.kvBytes()
	return value
}

// Delete removes key and returns its entry, nil if there was none. The entry is the caller's: it can be read for as
// long as it is kept, its object can be put elsewhere, and Adopt takes it back.
func (t *Table) Delete(key []byte) *Entry {
	h := hashOf(key)
	s, i := t.locateOwned(h, key)
	if i < 0 {
		return nil
	}
	e := s.slots[i]
	t.bytes -= e.kvBytes()
	if s.owned>>i&1 == 0 && t.shared(s, h>>t.shift) {
		e = e.copyShared()
	}
	t.count--
	if t.count == 0 {
		t.clear()
		return e
	}
	s.remove(i)
	at := h >> t.shift
	if len(s.slots) == 0 {
		t.dir[at].dropEmpty()
	}
	if len(s.slots) <= mergedSlots {
		t.merge(at)
	}
	return e
}

// dropEmpty takes the empty segments behind the first out of the chain.
func (s *segment) dropEmpty() {
	for s.over != nil {
		if len(s.over.slots) == 0 {
			s.over = s.over.over
		} else {
			s = s.over
		}
	}
}

// Adopt puts an entry that Delete returned, of this table or of another one, under its key, in the place of what is
// there. The entry belongs to the table from then on.
func (t *Table) Adopt(e *Entry) {
	h := hashOf(e.keyBytes())
	s, i := t.locateOwned(h, e.keyBytes())
	if i < 0 {
		t.insert(h, e)
		return
	}
	t.bytes += e.kvBytes() - s.slots[i].kvBytes()
	s.slots[i] = e
	s.owned |= 1 << i
}

func (t *Table) clear() {
	t.dir, t.shift, t.depth, t.deepest, t.dirEpoch = nil, 64, 0, 0, t.epoch
	t.count, t.bytes = 0, 0
}

// insert adds an entry whose key is not in the table. The table owns it.
func (t *Table) insert(h uint64, e *Entry) {
	t.count++
	t.bytes += e.kvBytes()
	if t.dir == nil {
		t.dir = []*segment{newSegment(0, minSlots, t.epoch)}
		t.deepest = 1
	}
	s := t.dir[h>>t.shift]
	for len(s.slots) == segmentSlots && (s.depth < t.depth || t.mayDouble()) {
		t.split(h >> t.shift)
		s = t.dir[h>>t.shift]
	}
	if s.epoch != t.epoch {
		s = t.unshare(h >> t.shift)
	}
	s.add(uint8(h), e, true)
}

func (t *Table) mayDouble() bool {
	return t.depth < maxDepth && t.count >= doublingLoad<<t.depth
}

// span returns the directory slots [first, first+n) of the segment that slot at points to.
func (t *Table) span(at uint64) (first, n uint64) {
	n = 1 << (t.depth - t.dir[at].depth)
	return at &^ (n - 1), n
}

// point makes the directory slots [first, first+n) point to s.
func (t *Table) point(first, n uint64, s *segment) {
	for i := first; i < first+n; i++ {
		t.dir[i] = s
	}
}

// split replaces the segment at a directory slot by two of one bit more, and doubles the directory if it must.
func (t *Table) split(at uint64) {
	s := t.dir[at]
	if s.depth == t.depth {
		t.double()
		at <<= 1
	}
	exclusive := s.epoch == t.epoch || !t.segmentShared(s, at)
	t.ownDir()
	low := newSegment(s.depth+1, segmentSlots/2, t.epoch)
	high := newSegment(s.depth+1, segmentSlots/2, t.epoch)
	bit := 63 - s.depth
	s.moveTo(exclusive, func(e *Entry) *segment {
		if hashOf(e.keyBytes())>>bit&1 == 0 {
			return low
		}
		return high
	})
	first, n := t.span(at)
	t.point(first, n/2, low)
	t.point(first+n/2, n/2, high)
	if low.depth == t.depth {
		t.deepest += 2
	}
}

func (t *Table) double() {
	dir := make([]*segment, 2*len(t.dir))
	for i, s := range t.dir {
		dir[2*i], dir[2*i+1] = s, s
	}
	t.dir, t.dirEpoch = dir, t.epoch
	t.depth++
	t.shift--
	t.deepest = 0
}

// merge joins the unshared segment at a directory slot with its buddy while both are sparse, and halves the directory
// when nothing needs its last bit.
func (t *Table) merge(at uint64) {
	for {
		s := t.dir[at]
		n := s.total()
		if s.depth == 0 || n > mergedSlots {
			return
		}
		first, width := t.span(at)
		buddyAt := first ^ width
		buddy := t.dir[buddyAt]
		if buddy.depth != s.depth || n+buddy.total() > mergedSlots {
			return
		}
		both := newSegment(s.depth-1, n+buddy.total(), t.epoch)
		pick := func(*Entry) *segment { return both }
		s.moveTo(true, pick)
		buddy.moveTo(buddy.epoch == t.epoch || !t.segmentShared(buddy, buddyAt), pick)
		t.ownDir()
		t.point(min(first, buddyAt), 2*width, both)
		if s.depth == t.depth {
			t.deepest -= 2
		}
		for t.deepest == 0 && t.depth > 0 && t.count < halvingLoad<<t.depth {
			t.halve()
			at >>= 1
		}
	}
}

func (t *Table) halve() {
	dir := make([]*segment, len(t.dir)/2)
	for i := range dir {
		dir[i] = t.dir[2*i]
	}
	t.dir, t.dirEpoch = dir, t.epoch
	t.depth--
	t.shift++
	t.deepest = 0
	for at := uint64(0); at < uint64(len(dir)); {
		_, n := t.span(at)
		if n == 1 {
			t.deepest++
		}
		at += n
	}
}

// Each calls fn for every entry, in no order, until it returns false.
func (t *Table) Each(fn func(*Entry) bool) {
	eachSegment(t.dir, t.depth, 0, func(s *segment, _ uint64) bool { return s.each(fn) })
}

func (s *segment) each(fn func(*Entry) bool) bool {
	for ; s != nil; s = s.over {
		for _, e := range s.slots {
			if !fn(e) {
				return false
			}
		}
	}
	return true
}

// eachSegment calls fn for every segment from a directory slot on, with the slot behind it.
func eachSegment(dir []*segment, depth uint8, at uint64, fn func(s *segment, next uint64) bool) {
	for at < uint64(len(dir)) {
		s := dir[at]
		at += 1 << (depth - s.depth)
		if !fn(s, at) {
			return
		}
	}
}

// randomTries bounds the search for a random entry. A table that is not nearly empty in places needs a handful.
const randomTries = 128

// Random returns an entry, every one with the same probability (nearly so in a table that has lost most of its
// entries), nil if the table is empty.
func (t *Table) Random(rng *rand.Rand) *Entry {
	if t.count == 0 {
		return nil
	}
	for range randomTries {
		s := t.dir[rng.Uint64N(uint64(len(t.dir)))]
		n := uint64(s.total())
		// A segment that fills 2^k directory slots is met 2^k times as often: its entries get 1/2^k of the chance.
		chances := uint64(segmentSlots) << (t.depth - s.depth)
		if t.depth == 0 {
			chances = n
		}
		if i := rng.Uint64N(chances); i < n {
			return s.at(int(i))
		}
	}
	for at := rng.Uint64N(uint64(len(t.dir))); ; at = (at + 1) % uint64(len(t.dir)) {
		if n := t.dir[at].total(); n > 0 {
			return t.dir[at].at(rng.IntN(n))
		}
	}
}

// at returns the i-th entry of the chain.
func (s *segment) at(i int) *Entry {
	for i >= len(s.slots) {
		i -= len(s.slots)
		s = s.over
	}
	return s.slots[i]
}
