package bitmap

import (
	"encoding/binary"
	"math"
)

// field is an integer of 1 to 64 bits (63 if unsigned) that begins at any bit
// of a string.
type field struct {
	signed bool
	bits   uint
	at     int64
}

// maxFieldBytes is how many bytes a field can touch.
const maxFieldBytes = 9

// bytes returns the first byte that the field touches and how many it does.
func (f field) bytes() (first int64, n int) {
	first = f.at >> 3
	return first, int((f.at+int64(f.bits)-1)>>3-first) + 1
}

// load returns the bytes that the field begins in; what is beyond the value's
// end is zero.
func (f field) load(value []byte) (b [maxFieldBytes]byte) {
	if first := f.at >> 3; first < int64(len(value)) {
		copy(b[:], value[first:])
	}
	return b
}

// get returns the field's content; an unsigned one fits an int64 as well.
func (f field) get(value []byte) int64 {
	b := f.load(value)
	shift := uint(f.at & 7)
	raw := binary.BigEndian.Uint64(b[:])<<shift | uint64(b[8])>>(8-shift)
	if f.signed {
		return int64(raw) >> (64 - f.bits)
	}
	return int64(raw >> (64 - f.bits))
}

// put returns the bytes that the field touches, from its first one on, with
// content n.
func (f field) put(value []byte, n int64) []byte {
	b := f.load(value)
	shift := uint(f.at & 7)
	content, mask := uint64(n)<<(64-f.bits), uint64(math.MaxUint64)<<(64-f.bits)
	head := binary.BigEndian.Uint64(b[:])&^(mask>>shift) | content>>shift
	binary.BigEndian.PutUint64(b[:], head)
	b[8] = b[8]&^byte(mask<<(8-shift)) | byte(content<<(8-shift))
	_, count := f.bytes()
	return b[:count]
}

// overflow says what becomes of a number that a field is too small for.
type overflow uint8

const (
	wrap overflow = iota
	saturate
	fail
)

// fit returns base + delta as the field holds it; ok is false if it does not
// fit and o is fail. base need not fit by itself if delta is 0.
func (f field) fit(base, delta int64, o overflow) (n int64, ok bool) {
	low, high := f.limits()
	// All four are within 64 bits of each other, so differences are exact
	// modulo 2^64.
	var side int
	switch {
	case !f.signed && base < 0: // an unsigned number of 64 bits
		side = 1
	case base > high || delta > 0 && uint64(delta) > uint64(high)-uint64(base):
		side = 1
	case base < low || delta < 0 && -uint64(delta) > uint64(base)-uint64(low):
		side = -1
	}
	switch {
	case side == 0:
		return base + delta, true
	case o == fail:
		return 0, false
	case o == saturate && side > 0:
		return high, true
	case o == saturate:
		return low, true
	}
	raw := uint64(base+delta) << (64 - f.bits)
	if f.signed {
		return int64(raw) >> (64 - f.bits), true
	}
	return int64(raw >> (64 - f.bits)), true
}

// limits returns the least and the greatest number that the field holds.
func (f field) limits() (low, high int64) {
	if !f.signed {
		return 0, int64(uint64(1)<<f.bits - 1)
	}
	high = int64(uint64(1)<<(f.bits-1) - 1)
	return -high - 1, high
}
