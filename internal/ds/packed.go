package ds

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// packed is a run of items in one allocation, for collections too small to deserve an index: every item is its length
// as an unsigned varint and its bytes. What is put between the items, and in what order, is the collection's.
type packed struct {
	b []byte
	// shared says that a fork has the same bytes: they are copied before they are written.
	shared bool
	// count is the collection's: how many elements it has here. It lies beside shared because that costs no memory.
	count uint32
}

// skip returns the offset behind the item at off.
func (p *packed) skip(off int) int {
	// The short form is apart so that it is inlined into the searches.
	if n := int(p.b[off]); n < 0x80 {
		return off + 1 + n
	}
	return p.skipLong(off)
}

func (p *packed) skipLong(off int) int {
	n, w := binary.Uvarint(p.b[off:])
	return off + w + int(n)
}

// itemAt returns the item at off and the offset behind it.
func (p *packed) itemAt(off int) (item []byte, next int) {
	next = p.skip(off)
	off++
	for p.b[off-1] >= 0x80 {
		off++
	}
	return p.b[off:next:next], next
}

// equalAt says whether the item from off to end is item, which is size bytes with its length.
func (p *packed) equalAt(off, end int, item []byte, size int) bool {
	return end-off == size && string(p.b[end-len(item):end]) == string(item)
}

// itemBytes is the size of an item of n bytes with its length.
func itemBytes(n int) int { return uvarintBytes(uint64(n)) + n }

func uvarintBytes(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// putItem writes an item to the start of dst and returns what is behind it.
func putItem(dst, item []byte) []byte {
	w := binary.PutUvarint(dst, uint64(len(item)))
	copy(dst[w:], item)
	return dst[w+len(item):]
}

// splice replaces the bytes from off to end by n bytes and returns these for writing.
func (p *packed) splice(off, end, n int) []byte {
	old := p.b
	size := len(old) - (end - off) + n
	switch {
	case p.shared || size > cap(old) || wasteful(size, cap(old)):
		want := size
		if size > cap(old) && len(old) > 0 {
			want += size / 4
		}
		p.b = slices.Grow([]byte(nil), want)[:size]
		copy(p.b, old[:off])
		copy(p.b[off+n:], old[end:])
		p.shared = false
	case size > len(old):
		p.b = old[:size]
		copy(p.b[off+n:], old[end:])
	default:
		copy(old[off+n:], old[end:])
		p.b = old[:size]
	}
	return p.b[off : off+n]
}

// fork returns a packed with the same bytes.
func (p *packed) fork() packed {
	p.shared = true
	return *p
}
