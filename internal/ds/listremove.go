package ds

import "slices"

// RemoveEqual removes the first n elements that equal elem, in reverse the last n, and returns how many went. It walks
// the list once. elem must not be a part of the list.
func (l *List) RemoveEqual(elem []byte, n int, reverse bool) (removed int) {
	chunks := len(l.chunks())
	first, last := chunks, -1 // the chunks that lost elements
	var offs []int
	for k := 0; k < chunks && removed < n; k++ {
		i := k
		if reverse {
			i = chunks - 1 - k
		}
		if offs = l.chunks()[i].appendEqual(offs[:0], elem, n-removed, reverse); len(offs) == 0 {
			continue
		}
		c := l.own(i)
		l.bytes -= len(c.buf)
		c.cutEach(offs, elemBytes(len(elem)))
		l.bytes += len(c.buf)
		removed += len(offs)
		first, last = min(first, i), max(last, i)
	}
	l.count -= removed
	if removed > 0 {
		l.compact(first, last+1)
	}
	return removed
}

// appendEqual appends the ascending offsets of the first n elements that equal elem, in reverse the last n.
func (c *chunk) appendEqual(offs []int, elem []byte, n int, reverse bool) []int {
	for off := c.lo; off < c.hi && (reverse || len(offs) < n); {
		e, end := c.next(off)
		if string(e) == string(elem) {
			offs = append(offs, off)
		}
		off = end
	}
	return offs[max(len(offs)-n, 0):]
}

// cutEach removes elements of size bytes each, packed, at ascending offsets.
func (c *chunk) cutEach(offs []int, size int) {
	to := offs[0]
	for i, off := range offs {
		end := c.hi
		if i+1 < len(offs) {
			end = offs[i+1]
		}
		to += copy(c.buf[to:], c.buf[off+size:end])
	}
	c.n -= len(offs)
	c.hi = to
	if kept := c.size(); len(c.buf) > 8*minChunkBytes && kept < len(c.buf)/4 {
		c.moveInto(make([]byte, 2*kept), false)
	}
}

// compact takes the empty ones of the chunks [i, j) out and joins neighbours, these and the ones beside them, that
// together fill at most half a chunk.
func (l *List) compact(i, j int) {
	chunks := l.chunks()
	i, j = max(i-1, 0), min(j+1, len(chunks))
	maxBytes, maxElems := l.chunkLimits()
	to := i
	for _, c := range chunks[i:j] {
		if c.n == 0 {
			l.bytes -= len(c.buf)
			continue
		}
		if to > i {
			if a := chunks[to-1]; a.size()+c.size() <= maxBytes/2 && a.n+c.n <= maxElems/2 {
				a = l.own(to - 1)
				l.bytes -= len(a.buf) + len(c.buf)
				copy(a.open(a.hi, c.size(), maxBytes), c.buf[c.lo:c.hi])
				l.bytes += len(a.buf)
				a.n += c.n
				continue
			}
		}
		chunks[to] = c
		to++
	}
	l.store = slices.Delete(l.store, l.head+to, l.head+j)
	if len(l.chunks()) == 0 {
		l.store, l.head = l.store[:0], 0
	}
}
