package ds

import "encoding/binary"

// chunk is a run of list elements in one buffer with free space at either end. An element is its length as an
// unsigned varint, its bytes, and the size of these two as a varint that is read backwards, so that a chunk can be
// walked from both ends.
type chunk struct {
	owner  uint64 // the id of the list that may write the chunk
	buf    []byte
	lo, hi int // the elements are buf[lo:hi]
	n      int
}

const minChunkBytes = 32

// elemBytes is the size of a packed element of n bytes.
func elemBytes(n int) int {
	n = itemBytes(n)
	return n + uvarintBytes(uint64(n))
}

// putElem writes a packed element to the start of dst.
func putElem(dst, elem []byte) {
	w := binary.PutUvarint(dst, uint64(len(elem)))
	w += copy(dst[w:], elem)
	// The byte nearest to the end has the lowest seven bits; a set top bit says that there is another one before it.
	back := uint64(w)
	for i := w + uvarintBytes(back) - 1; i >= w; i-- {
		dst[i] = byte(back) & 0x7f
		if back >>= 7; back > 0 {
			dst[i] |= 0x80
		}
	}
}

// next returns the element at off and the offset behind it.
func (c *chunk) next(off int) (elem []byte, end int) {
	n, w := int(c.buf[off]), 1
	if n >= 0x80 {
		var v uint64
		v, w = binary.Uvarint(c.buf[off:])
		n = int(v)
	}
	end = off + w + n
	return c.buf[off+w : end : end], end + uvarintBytes(uint64(w+n))
}

// prev returns the offset of the element that ends at end.
func (c *chunk) prev(end int) (off int) {
	var back uint64
	for shift := 0; ; shift += 7 {
		end--
		b := c.buf[end]
		back |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return end - int(back)
		}
	}
}

// offset returns the offset of the i-th element, the end for i == n.
func (c *chunk) offset(i int) int {
	if i <= c.n/2 {
		off := c.lo
		for ; i > 0; i-- {
			_, off = c.next(off)
		}
		return off
	}
	off := c.hi
	for ; i < c.n; i++ {
		off = c.prev(off)
	}
	return off
}

func (c *chunk) size() int { return c.hi - c.lo }

// reserve makes room for n more bytes in front of the elements or behind them. limit is the size that the buffer does
// not exceed without need.
func (c *chunk) reserve(n int, front bool, limit int) {
	if front && c.lo >= n || !front && len(c.buf)-c.hi >= n {
		return
	}
	size := c.size()
	buf := c.buf
	if size+n > len(buf) {
		want := max(size+n, min(max(2*(size+n), minChunkBytes), limit))
		buf = append([]byte(nil), make([]byte, want)...)
		buf = buf[:cap(buf)]
	}
	c.moveInto(buf, front)
}

// moveInto moves the elements to the end of buf if front, else to its start.
func (c *chunk) moveInto(buf []byte, front bool) {
	lo := 0
	if front {
		lo = len(buf) - c.size()
	}
	hi := lo + copy(buf[lo:], c.buf[c.lo:c.hi])
	c.buf, c.lo, c.hi = buf, lo, hi
}

// open makes room for n bytes before the element at off and returns it. Whatever is shorter moves: what is before off
// or what is behind it.
func (c *chunk) open(off, n, limit int) []byte {
	front := off-c.lo < c.hi-off
	at := off - c.lo
	c.reserve(n, front, limit)
	off = c.lo + at
	if front {
		copy(c.buf[c.lo-n:], c.buf[c.lo:off])
		c.lo -= n
		return c.buf[off-n : off]
	}
	copy(c.buf[off+n:], c.buf[off:c.hi])
	c.hi += n
	return c.buf[off : off+n]
}

// cut removes the bytes from off to end. A buffer that is left mostly empty is replaced.
func (c *chunk) cut(off, end int) {
	if off-c.lo < c.hi-end {
		copy(c.buf[c.lo+end-off:], c.buf[c.lo:off])
		c.lo += end - off
	} else {
		copy(c.buf[off:], c.buf[end:c.hi])
		c.hi -= end - off
	}
	if size := c.size(); len(c.buf) > 8*minChunkBytes && size < len(c.buf)/4 {
		c.moveInto(make([]byte, 2*size), off == c.lo)
	}
}
