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
// of up to 56 entries. A full segment splits alone; when the directory must double, that is a copy of its pointers.
// Sparse neighbours merge again. A table that has a single segment may have a smaller one.
//
// A table can be frozen (Freeze): the view shares directory, segments and entries, and the table copies what it is the
// first to write. See sharing for the rule.
type Table struct {
	dir   []*segment // 1 << depth pointers; nil when the table is empty
	shift uint8      // 64 - depth
	depth uint8
	last  uint8 // the number of groups of each segment - 1; below maxGroups - 1 only at depth 0
	// chained says that a segment may have an over: otherwise a look-up does not read the heads of segments.
	chained bool
	count   int
	bytes   int // of entries with their objects, that of open as of when it was opened
	// deepest counts the segments that use all depth bits: the directory cannot halve while there are any.
	deepest int

	epoch     uint64 // grows with every Freeze and fork
	dirEpoch  uint64 // the epoch when dir was made or last found to be unshared
	forkEpoch uint64 // what is of this epoch or older is shared with a fork for ever; 0 if there was none
	views     []*Frozen

	// open is the object that the table's owner may be changing: the one that Mutable or PutObject returned last. bytes
	// has openBytes for it, until count sees to it.
	open      Object
	openBytes int
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{shift: 64, epoch: 1, dirEpoch: 1} }

// Len returns the number of entries.
func (t *Table) Len() int { return t.count }

// MemBytes estimates the memory of the table with its keys and values, in bytes, in constant time. It is the sum of what
// Entry.MemBytes says of each entry but for the table's own parts, of which an entry knows its share only.
func (t *Table) MemBytes() int {
	t.settle()
	return t.placesBytes() + t.bytes
}

// OverheadBytes is what of MemBytes is neither a key nor a value: heads of entries and places for them.
func (t *Table) OverheadBytes() int { return t.placesBytes() + t.count*headBytes }

// Recount is MemBytes by a walk over all entries.
func (t *Table) Recount() int {
	n := t.placesBytes()
	t.Each(func(e *Entry) bool {
		n += e.allBytes()
		return true
	})
	return n
}

// placesBytes is what the table takes beside its entries.
func (t *Table) placesBytes() int {
	n := tableBytes + 8*len(t.dir)
	if t.depth == 0 && t.dir != nil {
		return n + segmentHeadBytes + (int(t.last)+1)*groupBytes
	}
	return n + t.count*slotShareBytes
}

const tableBytes = 128

// settle counts what the open object has grown or shrunk by. It is called before anything else is opened, or what is
// counted is read: an object changes only while it is open.
func (t *Table) settle() {
	if t.open != nil {
		t.bytes += t.open.MemBytes() - t.openBytes
		t.open = nil
	}
}

// opened returns an entry whose object, if it has one, may be changed from now on.
func (t *Table) opened(e *Entry) *Entry {
	if o := e.Object(); o != nil && o != t.open {
		t.settle()
		t.open, t.openBytes = o, o.MemBytes()
	}
	return e
}

// Get returns the entry of key, nil if there is none. It is for reading only.
func (t *Table) Get(key []byte) *Entry {
	_, e, _ := t.locate(hashOf(key), key)
	return e
}

// locate returns the entry of key, its segment in the chain, and its slot; -1 if key is missing.
func (t *Table) locate(h uint64, key []byte) (s *segment, e *Entry, i int) {
	if t.count == 0 {
		return nil, nil, -1
	}
	for s = t.dir[h>>t.shift]; s != nil; s = s.over {
		if e, i = s.find(uint64(t.last), h, key); i >= 0 {
			return s, e, i
		}
		if !t.chained {
			break
		}
	}
	return nil, nil, -1
}

// locateOwned is locate for a mutation of the segment: the chain is unshared if the key is there.
func (t *Table) locateOwned(h uint64, key []byte) (s *segment, e *Entry, i int) {
	s, e, i = t.locate(h, key)
	if i >= 0 && s.epoch != t.epoch {
		t.unshare(h >> t.shift)
		s, e, i = t.locate(h, key)
	}
	return s, e, i
}

// owns says whether the entry in a slot of an unshared segment may be written.
func (t *Table) owns(h uint64, s *segment, i int) bool {
	return s.owned>>i&1 == 1 || !t.shared(s, h>>t.shift)
}

// replace puts an entry that the table owns in the place of another one with the same key.
func (t *Table) replace(s *segment, i int, e *Entry) {
	at := s.slot(i)
	if (*at).Object() != nil {
		t.settle()
	}
	t.bytes += e.allBytes() - (*at).allBytes()
	*at = e
	s.owned |= 1 << i
}

// Mutable returns the entry of key, nil if there is none, for mutation until the next Freeze: if a frozen view shares
// it, the table continues with a copy of the entry and a fork of its object.
func (t *Table) Mutable(key []byte) *Entry {
	h := hashOf(key)
	s, e, i := t.locateOwned(h, key)
	if i >= 0 && !t.owns(h, s, i) {
		e = e.copyShared()
		t.replace(s, i, e)
	}
	if i >= 0 && e.external() != nil {
		t.opened(e)
	}
	return e
}

// Put sets key to a string and says whether the key is new. What is kept of an existing entry is Aux and LRU; it may
// be replaced by another one. value may be a slice of the key's present value.
func (t *Table) Put(key, value []byte) (e *Entry, created bool) {
	h := hashOf(key)
	s, e, i := t.locateOwned(h, key)
	if i < 0 {
		e = newEntry(key, value)
		t.insert(h, e)
		return e, true
	}
	if !t.owns(h, s, i) || !e.setValue(value) {
		e = newEntry(key, value).inherit(e)
		t.replace(s, i, e)
	}
	return e, false
}

// PutObject sets key to a collection, which belongs to the table from then on. Of an existing entry it keeps Aux and
// LRU.
func (t *Table) PutObject(key []byte, obj Object) *Entry {
	h := hashOf(key)
	fresh := newObject(key, obj)
	s, e, i := t.locateOwned(h, key)
	if i < 0 {
		t.insert(h, fresh)
		return t.opened(fresh)
	}
	// The slot is the table's, whoever has the entry that was in it.
	t.replace(s, i, fresh.inherit(e))
	return t.opened(fresh)
}

// SetAux sets the number kept beside the value of an entry that Mutable, Put, PutObject or Resize returned.
func (t *Table) SetAux(e *Entry, v int64) { e.aux = v }

// SetRaw sets or clears the Raw mark of an entry that Mutable, Put or Resize returned.
func (t *Table) SetRaw(e *Entry, raw bool) {
	if raw {
		e.room |= flagRaw
	} else {
		e.room &^= flagRaw
	}
}

// Resize cuts the string value of an entry that Mutable, Put or Resize returned to n bytes, or fills it with zeros up to
// n. It returns the key's entry, which is another one if the value had to move, and the value for writing until the next
// mutation of the entry. Growth is amortized.
func (t *Table) Resize(e *Entry, n int) (*Entry, []byte) {
	if r := e.resize(n); r != e {
		s, _, i := t.locate(hashOf(e.keyBytes()), e.keyBytes())
		t.replace(s, i, r)
		e = r
	}
	return e, e.roomBytes(n)
}

// Delete removes key and returns its entry, nil if there was none. The entry is the caller's: it can be read for as
// long as it is kept, and its object can be put elsewhere.
func (t *Table) Delete(key []byte) *Entry {
	h := hashOf(key)
	s, e, i := t.locateOwned(h, key)
	if i < 0 {
		return nil
	}
	if e.Object() != nil {
		t.settle()
	}
	t.bytes -= e.allBytes()
	if !t.owns(h, s, i) {
		e = e.copyShared()
	}
	t.count--
	if t.count == 0 {
		t.clear()
		return e
	}
	s.remove(h, i)
	at := h >> t.shift
	if s.count == 0 {
		t.dir[at].dropEmpty()
	}
	if s.count <= mergedSlots {
		t.merge(at)
	}
	return e
}

// dropEmpty takes the empty segments behind the first out of the chain.
func (s *segment) dropEmpty() {
	for s.over != nil {
		if s.over.count == 0 {
			s.over = s.over.over
		} else {
			s = s.over
		}
	}
}

func (t *Table) clear() {
	t.dir, t.shift, t.depth, t.last, t.chained, t.deepest, t.dirEpoch = nil, 64, 0, 0, false, 0, t.epoch
	t.count, t.bytes, t.open = 0, 0, nil
}

// insert adds an entry whose key is not in the table. The table owns it.
func (t *Table) insert(h uint64, e *Entry) {
	t.count++
	t.bytes += e.allBytes()
	if t.dir == nil {
		t.dir = []*segment{newSegment(0, 1, t.epoch)}
		t.deepest = 1
	}
	s := t.dir[h>>t.shift]
	for int(s.count) == s.room() {
		if t.last < maxGroups-1 {
			t.regroup(2 * (int(t.last) + 1))
		} else if s.depth < t.depth || t.mayDouble() {
			t.split(h >> t.shift)
		} else {
			t.chained = true
			break
		}
		s = t.dir[h>>t.shift]
	}
	if s.epoch != t.epoch {
		s = t.unshare(h >> t.shift)
	}
	s.add(h, e, true)
}

// regroup gives the only segment of a table another number of groups, which hold its entries.
func (t *Table) regroup(groups int) {
	s := t.dir[0]
	exclusive := s.epoch == t.epoch || !t.segmentShared(s, 0)
	t.ownDir()
	other := newSegment(0, groups, t.epoch)
	s.moveTo(exclusive, func(uint64) *segment { return other })
	t.dir[0] = other
	t.last = uint8(groups - 1)
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
	low := newSegment(s.depth+1, maxGroups, t.epoch)
	high := newSegment(s.depth+1, maxGroups, t.epoch)
	bit := 63 - s.depth
	s.moveTo(exclusive, func(h uint64) *segment {
		if h>>bit&1 == 0 {
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
		for t.deepest == 0 && t.depth > 0 && t.count < halvingLoad<<t.depth {
			t.halve()
			at >>= 1
		}
		s := t.dir[at]
		n := s.total()
		if t.depth == 0 && t.last > 0 && n <= s.room()/4 {
			t.regroup((int(t.last) + 1) / 2)
			return
		}
		if s.depth == 0 || n > mergedSlots {
			return
		}
		first, width := t.span(at)
		buddyAt := first ^ width
		buddy := t.dir[buddyAt]
		if buddy.depth != s.depth || n+buddy.total() > mergedSlots {
			return
		}
		both := newSegment(s.depth-1, maxGroups, t.epoch)
		pick := func(uint64) *segment { return both }
		s.moveTo(true, pick)
		buddy.moveTo(buddy.epoch == t.epoch || !t.segmentShared(buddy, buddyAt), pick)
		t.ownDir()
		t.point(min(first, buddyAt), 2*width, both)
		if s.depth == t.depth {
			t.deepest -= 2
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
func (t *Table) Random(rng *rand.Rand) (e *Entry) {
	if t.count == 0 {
		return nil
	}
	for range randomTries {
		s := t.dir[rng.Uint64N(uint64(len(t.dir)))]
		room := uint64(0)
		for c := s; c != nil; c = c.over {
			room += uint64(c.room())
		}
		// A segment that fills 2^k directory slots is met 2^k times as often: its entries get 1/2^k of the chance.
		i := rng.Uint64N(max(room, uint64(s.room())<<(t.depth-s.depth)))
		if i >= room {
			continue
		}
		for ; i >= uint64(s.room()); s = s.over {
			i -= uint64(s.room())
		}
		if e = s.group(i / groupSlots).slots[i%groupSlots]; e != nil {
			return e
		}
	}
	for at := rng.Uint64N(uint64(len(t.dir))); ; at = (at + 1) % uint64(len(t.dir)) {
		if n := t.dir[at].total(); n > 0 {
			skip := rng.IntN(n)
			t.dir[at].each(func(x *Entry) bool {
				e = x
				skip--
				return skip >= 0
			})
			return e
		}
	}
}
