package ds

import (
	"bytes"
	"slices"
	"sync/atomic"
)

// List is a sequence of elements in chunks, with both ends at hand. Elements in the middle are found by the counts of
// the chunks.
type List struct {
	// id marks the chunks that this list may write: those whose owner it is.
	id uint64
	// The chunks are store[head:]; none is empty.
	store []*chunk
	head  int
	count int
	bytes int // of the chunks' buffers
	fill  int // Limits.ListMaxListpackSize
}

var lastListID atomic.Uint64

// NewList returns an empty list with chunks of 8 KiB.
func NewList() *List {
	return &List{id: lastListID.Add(1), fill: DefaultLimits().ListMaxListpackSize}
}

// SetLimits sets the size of the chunks that are made or lengthened from now on.
func (l *List) SetLimits(lim *Limits) { l.fill = lim.ListMaxListpackSize }

// Kind returns KindList.
func (l *List) Kind() Kind { return KindList }

// Len returns the number of elements.
func (l *List) Len() int { return l.count }

// Encoding returns "quicklist".
func (l *List) Encoding() string { return encodingQuicklist }

// Fork implements Object. It copies a pointer per chunk.
func (l *List) Fork() Object {
	f := *l
	f.store, f.head = slices.Clone(l.chunks()), 0
	l.id, f.id = lastListID.Add(1), lastListID.Add(1)
	return &f
}

const (
	listBytes       = 80
	chunkBytes      = 64
	perChunkBytes   = chunkBytes + 8
	maxCountedChunk = 8 << 10 // bytes of a chunk whose elements are counted
)

// MemBytes implements Object.
func (l *List) MemBytes() int { return listBytes + perChunkBytes*len(l.chunks()) + l.bytes }

func (l *List) chunks() []*chunk { return l.store[l.head:] }

// chunkLimits returns how many bytes and elements the fill setting allows to a chunk.
func (l *List) chunkLimits() (maxBytes, maxElems int) {
	switch {
	case l.fill > 0:
		return maxCountedChunk, l.fill
	case l.fill == 0:
		return maxCountedChunk, 1
	}
	return 4096 << (min(-l.fill, 5) - 1), int(^uint(0) >> 1)
}

// fits says whether a chunk takes another element of size bytes, packed.
func (l *List) fits(c *chunk, size int) bool {
	maxBytes, maxElems := l.chunkLimits()
	return c.n < maxElems && c.size()+size <= maxBytes
}

// own makes the i-th chunk writable and returns it.
func (l *List) own(i int) *chunk {
	c := l.store[l.head+i]
	if c.owner != l.id {
		copied := *c
		copied.owner = l.id
		copied.buf = bytes.Clone(c.buf)
		c = &copied
		l.store[l.head+i] = c
	}
	return c
}

// insertChunk makes c the i-th chunk.
func (l *List) insertChunk(i int, c *chunk) {
	l.bytes += len(c.buf)
	if i > 0 || len(l.chunks()) == 0 {
		l.store = slices.Insert(l.store, l.head+i, c)
		return
	}
	if l.head == 0 {
		n := len(l.store)
		store := make([]*chunk, n/2+4+n, n+n/2+8)
		l.head = copy(store[n/2+4:], l.store)
		l.head, l.store = n/2+4, store
	}
	l.head--
	l.store[l.head] = c
}

// removeChunks takes the chunks [i, j) out.
func (l *List) removeChunks(i, j int) {
	for _, c := range l.chunks()[i:j] {
		l.bytes -= len(c.buf)
	}
	if i == 0 {
		clear(l.store[l.head : l.head+j])
		l.head += j
		if l.head == len(l.store) {
			l.store, l.head = l.store[:0], 0
		}
	} else {
		l.store = slices.Delete(l.store, l.head+i, l.head+j)
	}
	if n := len(l.chunks()); cap(l.store) > 16 && n < cap(l.store)/4 {
		l.store, l.head = slices.Clone(l.chunks()), 0
	}
}

func (l *List) newChunk() *chunk { return &chunk{owner: l.id} }

// put writes elem before the element at off of an owned chunk.
func (l *List) put(c *chunk, off int, elem []byte) {
	maxBytes, _ := l.chunkLimits()
	l.bytes -= len(c.buf)
	putElem(c.open(off, elemBytes(len(elem)), maxBytes), elem)
	l.bytes += len(c.buf)
	c.n++
}

// PushFront adds elem at the beginning.
func (l *List) PushFront(elem []byte) {
	l.count++
	if chunks := l.chunks(); len(chunks) == 0 || !l.fits(chunks[0], elemBytes(len(elem))) {
		l.insertChunk(0, l.newChunk())
	}
	c := l.own(0)
	l.put(c, c.lo, elem)
}

// PushBack adds elem at the end.
func (l *List) PushBack(elem []byte) {
	l.count++
	chunks := l.chunks()
	if last := len(chunks) - 1; last < 0 || !l.fits(chunks[last], elemBytes(len(elem))) {
		l.insertChunk(len(chunks), l.newChunk())
	}
	c := l.own(len(l.chunks()) - 1)
	l.put(c, c.hi, elem)
}

// locate returns the chunk that holds the i-th element, and the element's index in it. 0 <= i < Len.
func (l *List) locate(i int) (at, in int) {
	chunks := l.chunks()
	if i <= l.count/2 {
		for at = 0; i >= chunks[at].n; at++ {
			i -= chunks[at].n
		}
		return at, i
	}
	i = l.count - i
	for at = len(chunks) - 1; i > chunks[at].n; at-- {
		i -= chunks[at].n
	}
	return at, chunks[at].n - i
}

// index resolves an index that counts from the end when negative.
func (l *List) index(i int) (int, bool) {
	if i < 0 {
		i += l.count
	}
	return i, i >= 0 && i < l.count
}

// Index returns the i-th element; a negative i counts from the end, -1 being the last.
func (l *List) Index(i int) (elem []byte, ok bool) {
	if i, ok = l.index(i); !ok {
		return nil, false
	}
	at, in := l.locate(i)
	c := l.chunks()[at]
	elem, _ = c.next(c.offset(in))
	return elem, true
}

// SetIndex replaces the i-th element, counted as in Index, and says whether there is one.
func (l *List) SetIndex(i int, elem []byte) bool {
	i, ok := l.index(i)
	if !ok {
		return false
	}
	at, in := l.locate(i)
	c := l.own(at)
	off := c.offset(in)
	old, end := c.next(off)
	switch size := elemBytes(len(elem)); {
	case len(old) == len(elem):
		putElem(c.buf[off:end], elem)
	case c.n == 1 || c.size()-(end-off)+size <= l.maxBytes():
		l.bytes -= len(c.buf)
		before := off - c.lo
		c.cut(off, end)
		l.bytes += len(c.buf)
		c.n--
		l.put(c, c.lo+before, elem)
	default:
		l.removeFrom(at, in, 1)
		l.InsertAt(i, elem)
	}
	return true
}

func (l *List) maxBytes() int {
	maxBytes, _ := l.chunkLimits()
	return maxBytes
}

// InsertAt inserts elem before the i-th element; i == Len adds it at the end. 0 <= i <= Len.
func (l *List) InsertAt(i int, elem []byte) {
	switch i {
	case 0:
		l.PushFront(elem)
	case l.count:
		l.PushBack(elem)
	default:
		at, in := l.locate(i)
		l.count++
		l.insertAt(at, in, elem)
	}
}

// insertAt inserts elem before the in-th element of a chunk.
func (l *List) insertAt(at, in int, elem []byte) {
	size := elemBytes(len(elem))
	chunks := l.chunks()
	switch {
	case l.fits(chunks[at], size):
	case in == 0 && at > 0 && l.fits(chunks[at-1], size):
		at, in = at-1, chunks[at-1].n
	case in == 0:
		l.insertChunk(at, l.newChunk())
	default:
		l.splitChunk(at, in)
		if l.fits(l.chunks()[at], size) {
			break
		}
		at, in = at+1, 0
		if !l.fits(l.chunks()[at], size) {
			l.insertChunk(at, l.newChunk())
		}
	}
	c := l.own(at)
	l.put(c, c.offset(in), elem)
}

// splitChunk moves the elements of a chunk from the in-th on to a new chunk behind it. 0 < in < n.
func (l *List) splitChunk(at, in int) {
	c := l.own(at)
	off := c.offset(in)
	tail := &chunk{owner: l.id, buf: bytes.Clone(c.buf[off:c.hi]), n: c.n - in}
	tail.hi = len(tail.buf)
	l.bytes -= len(c.buf)
	c.cut(off, c.hi)
	l.bytes += len(c.buf)
	c.n = in
	l.insertChunk(at+1, tail)
}

// removeFrom removes n elements from an element of a chunk on.
func (l *List) removeFrom(at, in, n int) {
	l.count -= n
	for n > 0 {
		c := l.chunks()[at]
		k := min(n, c.n-in)
		n -= k
		if k == c.n {
			end := at + 1
			for end < len(l.chunks()) && n >= l.chunks()[end].n {
				n -= l.chunks()[end].n
				end++
			}
			l.removeChunks(at, end)
			continue
		}
		c = l.own(at)
		off := c.offset(in)
		end := c.hi
		if in+k < c.n {
			end = off
			for range k {
				_, end = c.next(end)
			}
		}
		l.bytes -= len(c.buf)
		c.cut(off, end)
		l.bytes += len(c.buf)
		c.n -= k
		at, in = at+1, 0
	}
	l.join(at)
	l.join(at - 1)
}

// join appends a chunk to the one before it if both together fill at most half a chunk.
func (l *List) join(at int) {
	chunks := l.chunks()
	if at <= 0 || at >= len(chunks) {
		return
	}
	maxBytes, maxElems := l.chunkLimits()
	a, b := chunks[at-1], chunks[at]
	if a.size()+b.size() > maxBytes/2 || a.n+b.n > maxElems/2 {
		return
	}
	a = l.own(at - 1)
	l.bytes -= len(a.buf)
	copy(a.open(a.hi, b.size(), maxBytes), b.buf[b.lo:b.hi])
	l.bytes += len(a.buf)
	a.n += b.n
	l.removeChunks(at, at+1)
}

// RemoveRange removes n elements from the i-th on, or as many as there are. i >= 0.
func (l *List) RemoveRange(i, n int) {
	if i < l.count && n > 0 {
		at, in := l.locate(i)
		l.removeFrom(at, in, min(n, l.count-i))
	}
}

// Trim keeps the elements from start to stop, both included; negative ones count from the end.
func (l *List) Trim(start, stop int) {
	if start < 0 {
		start = max(start+l.count, 0)
	}
	if stop < 0 {
		stop += l.count
	}
	stop = min(stop, l.count-1)
	if start > stop {
		l.RemoveRange(0, l.count)
		return
	}
	l.RemoveRange(stop+1, l.count)
	l.RemoveRange(0, start)
}

// Each calls fn for up to n elements from the one at index from on, until it returns false: towards the end or, in
// reverse, towards the beginning. from counts from the beginning in both cases.
func (l *List) Each(from, n int, reverse bool, fn func(elem []byte) bool) {
	if from < 0 || from >= l.count {
		return
	}
	at, in := l.locate(from)
	chunks := l.chunks()
	c := chunks[at]
	if !reverse {
		off := c.offset(in)
		for ; n > 0; n-- {
			if off == c.hi {
				if at++; at == len(chunks) {
					return
				}
				c = chunks[at]
				off = c.lo
			}
			var elem []byte
			if elem, off = c.next(off); !fn(elem) {
				return
			}
		}
		return
	}
	off := c.offset(in + 1)
	for ; n > 0; n-- {
		if off == c.lo {
			if at--; at < 0 {
				return
			}
			c = chunks[at]
			off = c.hi
		}
		off = c.prev(off)
		if elem, _ := c.next(off); !fn(elem) {
			return
		}
	}
}
