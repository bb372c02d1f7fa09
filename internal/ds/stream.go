package ds

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// Stream is a log of entries in the order of their ids, and the groups that read it.
//
// The entries are in blocks, which are begun and ended by the rules of the nodes of Redis: what XTRIM leaves that may
// only remove whole nodes is seen by clients. A deleted entry keeps its place in its block until that goes.
//
// A fork shares all blocks, groups and consumers; each is written only by the stream whose id it has.
type Stream struct {
	id     uint64
	blocks *btree.BTreeG[streamNode]
	// tail is the last block. A stream without entries has no block.
	tail  streamNode
	count int
	bytes int // of the blocks' buffers

	last       StreamID // of the last entry that was ever added, or what SetID said
	maxDeleted StreamID
	added      uint64

	groups      []*StreamGroup // by name
	groupsOwner uint64         // the id of the stream that may write the slice
	groupBytes  int            // of the groups, that of open as of when it was opened
	// open is the group that MutableGroup returned last: groupBytes has openBytes for it, until settleGroup sees to it.
	open      *StreamGroup
	openBytes int
}

// streamNode is a block at its place: the id of its first entry, deleted or not.
type streamNode struct {
	first StreamID
	b     *streamBlock
}

func streamNodeLess(a, b streamNode) bool { return a.first.Less(b.first) }

// streamBlock is a run of entries, as the elements that a node of Redis has behind its two counts: the names of the
// fields of the first entry, which most entries share, and the entries.
//
// The names are their number, the names, and 0. An entry is its flags, its id less that of the first entry (ms, then
// sequence number), its content and the number of these elements. The content is the values, if the names are those of
// the first entry, or the number of fields and each name with its value.
type streamBlock struct {
	owner   uint64
	buf     []byte
	entries uint32 // the offset of the first entry
	fields  uint32 // of the first entry
	n, dead int    // entries that are there, and deleted ones
	last    StreamID
}

// Flags of an entry.
const (
	entryDeleted    = 1
	entrySameFields = 2
)

const (
	// maxBlockBytes is the limit of a block where the setting gives none.
	maxBlockBytes = 1 << 30
	// MaxStreamEntryBytes is how long names and values of an entry may be together.
	MaxStreamEntryBytes = maxBlockBytes
	minBlockBytes       = 128
)

var lastStreamID atomic.Uint64

// NewStream returns a stream without entries.
func NewStream() *Stream {
	return &Stream{
		id:     lastStreamID.Add(1),
		blocks: btree.NewBTreeGOptions(streamNodeLess, btree.Options{NoLocks: true}),
	}
}

// Kind returns KindStream.
func (s *Stream) Kind() Kind { return KindStream }

// Len returns the number of entries.
func (s *Stream) Len() int { return s.count }

// Encoding returns "stream".
func (s *Stream) Encoding() string { return encodingStream }

// Fork implements Object in constant time.
func (s *Stream) Fork() Object {
	s.settleGroup()
	f := *s
	f.blocks = s.blocks.Copy()
	s.id, f.id = lastStreamID.Add(1), lastStreamID.Add(1)
	return &f
}

const (
	streamBytes      = 208
	streamBlockBytes = 80 + 36 // and its place in the tree
)

// MemBytes implements Object.
func (s *Stream) MemBytes() int {
	s.settleGroup()
	return streamBytes + streamBlockBytes*s.blocks.Len() + s.bytes + 8*len(s.groups) + s.groupBytes
}

// LastID returns the id that the next entry must be above.
func (s *Stream) LastID() StreamID { return s.last }

// MaxDeletedID returns the greatest id of an entry that was deleted otherwise than by trimming.
func (s *Stream) MaxDeletedID() StreamID { return s.maxDeleted }

// Added returns how many entries were ever added.
func (s *Stream) Added() uint64 { return s.added }

// SetID replaces the three.
func (s *Stream) SetID(last StreamID, added uint64, maxDeleted StreamID) {
	s.last, s.added, s.maxDeleted = last, added, maxDeleted
}

// FirstID returns the id of the first entry, 0-0 if there is none.
func (s *Stream) FirstID() StreamID { return s.edge(false) }

// TopID returns the id of the last entry that is there, 0-0 if there is none.
func (s *Stream) TopID() StreamID { return s.edge(true) }

func (s *Stream) edge(reverse bool) (id StreamID) {
	s.Each(StreamID{}, MaxStreamID, reverse, func(e *StreamEntry) bool {
		id = e.ID
		return false
	})
	return id
}

// Blocks returns the number of blocks.
func (s *Stream) Blocks() int { return s.blocks.Len() }

// listpackBytes is the size of the block as Redis has it.
func (b *streamBlock) listpackBytes() int {
	return lpHeaderBytes + lpIntBytes(int64(b.n)) + lpIntBytes(int64(b.dead)) + len(b.buf) + 1
}

// takes says whether a block goes on with an entry whose names and values have size bytes.
func (b *streamBlock) takes(size int, lim *Limits) bool {
	return b.listpackBytes()+size < lim.streamNodeBytes() && (lim.StreamNodeMaxEntries == 0 || b.n+b.dead < lim.StreamNodeMaxEntries)
}

// streamNodeBytes is how large a block may grow.
func (lim *Limits) streamNodeBytes() int {
	if n := lim.StreamNodeMaxBytes; n > 0 && n < maxBlockBytes {
		return n
	}
	return maxBlockBytes
}

// Add appends an entry, given as name, value, name, value, …, of at most MaxStreamEntryBytes. id must be above LastID.
func (s *Stream) Add(id StreamID, pairs [][]byte, lim *Limits) {
	size := 0
	for _, p := range pairs {
		size += len(p)
	}
	if s.tail.b != nil && !s.tail.b.takes(size, lim) {
		s.shrinkTail()
		s.tail = streamNode{}
	}
	if s.tail.b == nil {
		s.begin(id, pairs, size)
	}
	b := s.own(s.tail)
	s.bytes -= cap(b.buf)
	b.reserve(size+(len(pairs)+6)*lpMaxHeadBytes, lim.streamNodeBytes())
	b.append(s.tail.first, id, pairs)
	s.bytes += cap(b.buf)
	s.count++
	s.added++
	s.last = id
}

// begin makes a block whose first entry will be id, and makes it the tail.
func (s *Stream) begin(id StreamID, pairs [][]byte, size int) {
	b := &streamBlock{owner: s.id, fields: uint32(len(pairs) / 2)}
	b.buf = make([]byte, 0, max(minBlockBytes, size+(len(pairs)+8)*lpMaxHeadBytes/2))
	b.buf = appendLpInt(b.buf, int64(b.fields))
	for i := 0; i < len(pairs); i += 2 {
		b.buf = appendLpItem(b.buf, pairs[i])
	}
	b.buf = appendLpInt(b.buf, 0)
	b.entries = uint32(len(b.buf))
	s.bytes += cap(b.buf)
	s.tail = streamNode{id, b}
	s.blocks.Set(s.tail)
}

// shrinkTail gives back the room of a block that gets no more entries.
func (s *Stream) shrinkTail() {
	if b := s.tail.b; b.owner == s.id && cap(b.buf)-len(b.buf) > len(b.buf)/8 {
		s.bytes -= cap(b.buf)
		b.buf = bytes.Clone(b.buf)
		s.bytes += cap(b.buf)
	}
}

// reserve makes room for about n more bytes. A block grows in few steps up to its limit of maxBytes; the little that
// its last entry may need beyond that is left to append.
func (b *streamBlock) reserve(n, maxBytes int) {
	have := len(b.buf)
	if cap(b.buf)-have >= n || cap(b.buf) >= maxBytes {
		return
	}
	want := max(have+n, min(4*have, 2*have+4096, maxBytes))
	b.buf = append(make([]byte, 0, want), b.buf...)
}

// append writes an entry. The block has room for it.
func (b *streamBlock) append(first, id StreamID, pairs [][]byte) {
	buf := b.buf
	same := b.sameFields(pairs)
	elems := len(pairs)/2 + 3
	flags := int64(entrySameFields)
	if !same {
		flags = 0
		elems += len(pairs)/2 + 1
	}
	buf = appendLpInt(buf, flags)
	buf = appendLpInt(buf, int64(id.Ms-first.Ms))
	buf = appendLpInt(buf, int64(id.Seq-first.Seq))
	if same {
		for i := 1; i < len(pairs); i += 2 {
			buf = appendLpItem(buf, pairs[i])
		}
	} else {
		buf = appendLpInt(buf, int64(len(pairs)/2))
		for _, p := range pairs {
			buf = appendLpItem(buf, p)
		}
	}
	b.buf = appendLpInt(buf, int64(elems))
	b.n++
	b.last = id
}

// sameFields says whether an entry has the names of the first one.
func (b *streamBlock) sameFields(pairs [][]byte) bool {
	if len(pairs) != 2*int(b.fields) {
		return false
	}
	off := lpNext(b.buf, 0)
	for i := 0; i < len(pairs); i += 2 {
		if !lpEquals(b.buf, off, pairs[i]) {
			return false
		}
		off = lpNext(b.buf, off)
	}
	return true
}

// own makes a block writable and returns it.
func (s *Stream) own(n streamNode) *streamBlock {
	if n.b.owner == s.id {
		return n.b
	}
	c := *n.b
	c.owner = s.id
	c.buf = append(make([]byte, 0, cap(n.b.buf)), n.b.buf...)
	s.bytes += cap(c.buf) - cap(n.b.buf)
	s.blocks.Set(streamNode{n.first, &c})
	if s.tail.b == n.b {
		s.tail.b = &c
	}
	return &c
}

// drop takes a block out.
func (s *Stream) drop(n streamNode) {
	s.bytes -= cap(n.b.buf)
	s.blocks.Delete(n)
	if s.tail.first == n.first {
		s.tail, _ = s.blocks.Max()
	}
}

// seek returns the block that has the entries from id on, if id is in one, or the one before it.
func (s *Stream) seek(id StreamID) (n streamNode, ok bool) {
	if s.tail.b == nil || !id.Less(s.tail.first) {
		return s.tail, s.tail.b != nil
	}
	s.blocks.Descend(streamNode{first: id}, func(at streamNode) bool {
		n = at
		return false
	})
	return n, n.b != nil
}

// Has says whether there is an entry of that id.
func (s *Stream) Has(id StreamID) bool {
	n, ok := s.seek(id)
	if !ok {
		return false
	}
	var c entryCursor
	return c.find(n, id)
}

// Delete removes the entry of that id and says whether there was one.
func (s *Stream) Delete(id StreamID) bool {
	n, ok := s.seek(id)
	var c entryCursor
	if !ok || !c.find(n, id) {
		return false
	}
	if n.b.n == 1 {
		s.drop(n)
	} else {
		b := s.own(n)
		b.buf[c.off] |= entryDeleted
		b.n--
		b.dead++
	}
	s.count--
	if s.maxDeleted.Less(id) {
		s.maxDeleted = id
	}
	return true
}

// StreamTrim says what Trim removes.
type StreamTrim struct {
	// ByID: the entries below MinID go. Otherwise the first ones, until MaxLen are left.
	ByID   bool
	MinID  StreamID
	MaxLen uint64
	// Approximate: blocks go only whole, and at most Limit entries, if it is not 0.
	Approximate bool
	Limit       int64
}

// Trim removes entries from the beginning and returns how many.
func (s *Stream) Trim(t StreamTrim) (removed int64) {
	for s.tail.b != nil {
		if !t.ByID && uint64(s.count) <= t.MaxLen {
			break
		}
		n, _ := s.blocks.Min()
		entries := int64(n.b.n)
		if t.Limit != 0 && removed+entries > t.Limit {
			break
		}
		whole := n.b.last.Less(t.MinID)
		if !t.ByID {
			whole = uint64(s.count)-uint64(entries) >= t.MaxLen
		}
		if whole {
			s.drop(n)
			s.count -= int(entries)
			removed += entries
			continue
		}
		if !t.Approximate {
			removed += s.trimBlock(n, t)
		}
		break
	}
	return removed
}

// trimBlock removes the first entries of a block, of which at least one stays.
func (s *Stream) trimBlock(n streamNode, t StreamTrim) (removed int64) {
	var c entryCursor
	for c.start(n); c.next(); {
		if t.ByID && !c.e.ID.Less(t.MinID) || !t.ByID && uint64(s.count) <= t.MaxLen {
			break
		}
		b := s.own(n)
		n.b, c.n.b = b, b
		b.buf[c.off] |= entryDeleted
		b.n--
		b.dead++
		s.count--
		removed++
	}
	return removed
}

// StreamEntry is an entry while it is passed to a callback.
type StreamEntry struct {
	ID StreamID

	b      *streamBlock
	off    int // of the content
	fields int
	same   bool
	name   [maxIntText]byte
	value  [maxIntText]byte
}

// Len returns the number of fields.
func (e *StreamEntry) Len() int { return e.fields }

// Each calls fn with the fields in order. name and value are valid during the call only.
func (e *StreamEntry) Each(fn func(name, value []byte)) {
	buf := e.b.buf
	off := e.off
	var name, value []byte
	if e.same {
		at := lpNext(buf, 0)
		for range e.fields {
			name, at = lpItem(buf, at, &e.name)
			value, off = lpItem(buf, off, &e.value)
			fn(name, value)
		}
		return
	}
	for range e.fields {
		name, off = lpItem(buf, off, &e.name)
		value, off = lpItem(buf, off, &e.value)
		fn(name, value)
	}
}

// entryCursor walks over the entries of a block that are there.
type entryCursor struct {
	n   streamNode
	off int // of the entry's flags
	end int // behind the entry
	e   StreamEntry
}

// start puts the cursor before the first entry.
func (c *entryCursor) start(n streamNode) { c.n, c.end = n, int(n.b.entries) }

// startBack puts it behind the last one.
func (c *entryCursor) startBack(n streamNode) { c.n, c.off = n, len(n.b.buf) }

// next moves to the next entry, if there is one.
func (c *entryCursor) next() bool {
	for c.end < len(c.n.b.buf) {
		c.off = c.end
		if deleted := c.read(); !deleted {
			return true
		}
	}
	return false
}

// prev moves to the entry before, if there is one.
func (c *entryCursor) prev() bool {
	buf := c.n.b.buf
	for c.off > int(c.n.b.entries) {
		c.off = lpPrev(buf, c.off)
		for elems := lpInt(buf, c.off); elems > 0; elems-- {
			c.off = lpPrev(buf, c.off)
		}
		if deleted := c.read(); !deleted {
			return true
		}
	}
	return false
}

// read reads the entry at off and finds its end.
func (c *entryCursor) read() (deleted bool) {
	b := c.n.b
	buf := b.buf
	flags := buf[c.off]
	off := c.off + 2
	c.e.ID.Ms = c.n.first.Ms + uint64(lpInt(buf, off))
	off = lpNext(buf, off)
	c.e.ID.Seq = c.n.first.Seq + uint64(lpInt(buf, off))
	off = lpNext(buf, off)
	elems := int(b.fields)
	c.e.same = flags&entrySameFields != 0
	c.e.fields = elems
	if !c.e.same {
		c.e.fields = int(lpInt(buf, off))
		elems = 2 * c.e.fields
		off = lpNext(buf, off)
	}
	c.e.b, c.e.off = b, off
	for range elems + 1 {
		off = lpNext(buf, off)
	}
	c.end = off
	return flags&entryDeleted != 0
}

// find moves to the entry of that id in a block, if it is there.
func (c *entryCursor) find(n streamNode, id StreamID) bool {
	if n.b.last.Less(id) {
		return false
	}
	for c.start(n); c.next(); {
		if !c.e.ID.Less(id) {
			return c.e.ID == id
		}
	}
	return false
}

// Each calls fn for the entries from one id to another, both included, until it returns false: in the order of their
// ids or, in reverse, against it. The entry is valid during the call only.
func (s *Stream) Each(from, to StreamID, reverse bool, fn func(e *StreamEntry) bool) {
	if s.tail.b == nil || to.Less(from) {
		return
	}
	var c entryCursor
	if reverse {
		n, ok := s.seek(to)
		if !ok {
			return
		}
		if n.first == s.tail.first && !from.Less(n.first) {
			c.eachBack(n, from, to, fn)
			return
		}
		s.blocks.Descend(n, func(n streamNode) bool { return c.eachBack(n, from, to, fn) })
		return
	}
	n, ok := s.seek(from)
	switch {
	case !ok:
		s.blocks.Scan(func(n streamNode) bool { return c.each(n, from, to, fn) })
	case n.first == s.tail.first:
		c.each(n, from, to, fn)
	default:
		s.blocks.Ascend(n, func(n streamNode) bool { return c.each(n, from, to, fn) })
	}
}

// each calls fn for the entries of a block and says whether to go on with the next block.
func (c *entryCursor) each(n streamNode, from, to StreamID, fn func(e *StreamEntry) bool) bool {
	if n.b.last.Less(from) {
		return true
	}
	for c.start(n); c.next(); {
		if to.Less(c.e.ID) {
			return false
		}
		if !c.e.ID.Less(from) && !fn(&c.e) {
			return false
		}
	}
	return true
}

// eachBack is each in reverse.
func (c *entryCursor) eachBack(n streamNode, from, to StreamID, fn func(e *StreamEntry) bool) bool {
	for c.startBack(n); c.prev(); {
		if c.e.ID.Less(from) {
			return false
		}
		if !to.Less(c.e.ID) && !fn(&c.e) {
			return false
		}
	}
	return true
}

// EachBlock calls fn with the blocks in order, as the nodes of Redis are stored: the id of the first entry, deleted or
// not, and a whole listpack, which is valid during the call only.
func (s *Stream) EachBlock(fn func(first StreamID, listpack []byte) bool) {
	var lp []byte
	s.blocks.Scan(func(n streamNode) bool {
		lp = n.b.appendListpack(lp[:0])
		return fn(n.first, lp)
	})
}

func (b *streamBlock) appendListpack(dst []byte) []byte {
	dst = append(dst, make([]byte, lpHeaderBytes)...)
	dst = appendLpInt(dst, int64(b.n))
	dst = appendLpInt(dst, int64(b.dead))
	dst = append(append(dst, b.buf...), lpEnd)
	binary.LittleEndian.PutUint32(dst, uint32(len(dst)))
	binary.LittleEndian.PutUint16(dst[4:], uint16(min(2+lpCount(b.buf), lpManyElems)))
	return dst
}

// RadixNodes returns how many nodes the radix tree has in which Redis keeps these blocks by the id of their first entry
// (16 bytes, most significant first): one for each place at which keys part, one for each run of bytes between such
// places, and one at the end of each key.
func (s *Stream) RadixNodes() int {
	if s.blocks.Len() == 0 {
		return 1
	}
	const keyBytes = 16
	nodes := 0
	// parts are the depths at which the keys seen last part from ones before, each below the one before.
	var parts []int
	// run counts the bytes between depth from and the place at depth to, of which a parting place takes one itself.
	run := func(from, to int) {
		if to > from {
			nodes++
		}
	}
	// leave closes what lies below depth: the place at hand, whose parent is the next one up or a new one at depth.
	leave := func(at, depth int) int {
		for len(parts) > 0 && parts[len(parts)-1] > depth {
			up := parts[len(parts)-1]
			parts = parts[:len(parts)-1]
			run(up+1, at)
			nodes++ // the parting place
			at = up
		}
		return at
	}
	var prev streamNode
	s.blocks.Scan(func(n streamNode) bool {
		if prev.b != nil {
			depth := commonBytes(prev.first, n.first)
			at := leave(keyBytes, depth)
			if len(parts) == 0 || parts[len(parts)-1] < depth {
				parts = append(parts, depth)
			}
			run(depth+1, at)
		}
		nodes++ // the end of the key
		prev = n
		return true
	})
	at := leave(keyBytes, -1)
	run(0, at)
	return nodes
}

// commonBytes returns how many leading bytes two different ids share.
func commonBytes(a, b StreamID) int {
	if x := a.Ms ^ b.Ms; x != 0 {
		return bits.LeadingZeros64(x) / 8
	}
	return 8 + bits.LeadingZeros64(a.Seq^b.Seq)/8
}

// tombstonesFrom says whether an entry at id or after it was deleted otherwise than by trimming, as far as the greatest
// such id and the first entry tell.
func (s *Stream) tombstonesFrom(id StreamID) bool {
	return s.count > 0 && !s.maxDeleted.IsZero() && !s.maxDeleted.Less(s.FirstID()) && !s.maxDeleted.Less(id)
}

// UnknownRead stands for a number of entries read that is not known.
const UnknownRead = -1

// ReadUpTo estimates how many entries were ever added up to id, id included, or returns UnknownRead: they are known at
// the ends of a stream, as long as no deletion can have fallen between.
func (s *Stream) ReadUpTo(id StreamID) int64 {
	if s.added == 0 {
		return 0
	}
	top := id.Compare(s.last)
	if s.count == 0 && top <= 0 {
		return int64(s.added)
	}
	switch {
	case top == 0:
		return int64(s.added)
	case top > 0:
		return UnknownRead
	}
	first := s.FirstID()
	if s.maxDeleted.IsZero() || s.maxDeleted.Less(first) {
		switch id.Compare(first) {
		case -1:
			return int64(s.added) - int64(s.count)
		case 0:
			return int64(s.added) - int64(s.count) + 1
		}
	}
	return UnknownRead
}

// ReadNext returns how many entries a group has read that had read before of them and reads the entry id.
func (s *Stream) ReadNext(before int64, id StreamID) int64 {
	switch {
	case before == math.MaxInt64:
		// In Redis it turns negative, which no command of its own takes back.
		return before
	case before != UnknownRead && !s.tombstonesFrom(id):
		return before + 1
	case s.added != 0:
		return s.ReadUpTo(id)
	}
	return before
}

// Lag returns how many entries a group has still to read that has read so many and up to last; ok is false if that is
// not known.
func (s *Stream) Lag(read int64, last StreamID) (lag int64, ok bool) {
	if s.added == 0 {
		return 0, true
	}
	if read == UnknownRead || s.tombstonesFrom(last) {
		if read = s.ReadUpTo(last); read == UnknownRead {
			return 0, false
		}
	}
	return int64(s.added) - read, true
}
