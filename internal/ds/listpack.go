package ds

import (
	"encoding/binary"
	"math"
	"strconv"
)

// The elements of a listpack, the format in which Redis keeps small collections and the nodes of a stream (described in
// antirez' "listpack specification" and read back by redis-server, which loads what is encoded here). An element is an
// encoding byte, which holds a small integer or the length of a string or says how wide the integer behind it is; the
// rest of the data; and the size of these two as a varint that is read backwards. An integer in canonical decimal text
// is stored as a number.
//
// A whole listpack has its size in bytes and its number of elements before the elements, and a byte 0xff behind them.

const (
	lpHeaderBytes = 6
	lpEnd         = 0xff
	// lpManyElems stands for a number of elements that the header cannot hold.
	lpManyElems = math.MaxUint16

	lpInt16 = 0xf1
	lpInt24 = 0xf2
	lpInt32 = 0xf3
	lpInt64 = 0xf4
	lpStr32 = 0xf0

	// lpMaxHeadBytes is the most that an element takes beyond its text.
	lpMaxHeadBytes = 10
)

// lpIntBytes returns the size of the element of an integer.
func lpIntBytes(v int64) int {
	switch {
	case 0 <= v && v <= 127:
		return 1 + 1
	case -4096 <= v && v <= 4095:
		return 2 + 1
	case math.MinInt16 <= v && v <= math.MaxInt16:
		return 3 + 1
	case -1<<23 <= v && v < 1<<23:
		return 4 + 1
	case math.MinInt32 <= v && v <= math.MaxInt32:
		return 5 + 1
	}
	return 9 + 1
}

// appendLpInt appends the element of an integer.
func appendLpInt(dst []byte, v int64) []byte {
	switch lpIntBytes(v) {
	case 2:
		return append(dst, byte(v), 1)
	case 3:
		return append(dst, 0xc0|byte(v>>8)&0x1f, byte(v), 2)
	case 4:
		return append(dst, lpInt16, byte(v), byte(v>>8), 3)
	case 5:
		return append(dst, lpInt24, byte(v), byte(v>>8), byte(v>>16), 4)
	case 6:
		return append(dst, lpInt32, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), 5)
	}
	dst = binary.LittleEndian.AppendUint64(append(dst, lpInt64), uint64(v))
	return append(dst, 9)
}

// appendLpItem appends the element of a byte string: an integer if that is what its text says.
func appendLpItem(dst, item []byte) []byte {
	if v, ok := parseInt(item); ok {
		return appendLpInt(dst, v)
	}
	start, n := len(dst), len(item)
	switch {
	case n < 1<<6:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<12:
		dst = append(dst, 0xe0|byte(n>>8), byte(n))
	default:
		dst = binary.LittleEndian.AppendUint32(append(dst, lpStr32), uint32(n))
	}
	dst = append(dst, item...)
	return appendLpBacklen(dst, len(dst)-start)
}

// appendLpBacklen appends the size of an element: its lowest seven bits last, a set top bit saying that there are more
// before them.
func appendLpBacklen(dst []byte, size int) []byte {
	more := byte(0)
	if size < 1<<7 {
		return append(dst, byte(size))
	}
	for shift := 7 * (uvarintBytes(uint64(size)) - 1); shift >= 0; shift -= 7 {
		dst = append(dst, byte(size>>shift)&0x7f|more)
		more = 0x80
	}
	return dst
}

// lpNext returns the offset behind the element at off.
func lpNext(b []byte, off int) int {
	size := 0
	switch c := b[off]; {
	case c < 0x80:
		return off + 2
	case c < 0xc0:
		size = 1 + int(c&0x3f)
		return off + size + 1 // never more than 64 bytes
	case c < 0xe0:
		return off + 3
	case c < 0xf0:
		size = 2 + int(c&0x0f)<<8 + int(b[off+1])
	case c == lpStr32:
		size = 5 + int(binary.LittleEndian.Uint32(b[off+1:]))
	case c == lpInt64:
		return off + 10
	default:
		return off + int(c-lpInt16) + 4
	}
	return off + size + uvarintBytes(uint64(size))
}

// lpPrev returns the offset of the element that ends at end.
func lpPrev(b []byte, end int) int {
	size := 0
	for shift := 0; ; shift += 7 {
		end--
		size |= int(b[end]&0x7f) << shift
		if b[end] < 0x80 {
			return end - size
		}
	}
}

// lpString returns the bytes of the string element at off; ok is false for an integer.
func lpString(b []byte, off int) (item []byte, ok bool) {
	switch c := b[off]; {
	case c < 0x80:
		return nil, false
	case c < 0xc0:
		return b[off+1 : off+1+int(c&0x3f)], true
	case c < 0xe0:
		return nil, false
	case c < 0xf0:
		return b[off+2 : off+2+int(c&0x0f)<<8+int(b[off+1])], true
	case c == lpStr32:
		return b[off+5 : off+5+int(binary.LittleEndian.Uint32(b[off+1:]))], true
	}
	return nil, false
}

// lpInt returns the integer element at off.
func lpInt(b []byte, off int) int64 {
	switch c := b[off]; {
	case c < 0x80:
		return int64(c)
	case c < 0xe0:
		return int64(int16(uint16(c)<<11|uint16(b[off+1])<<3) >> 3)
	case c == lpInt16:
		return int64(int16(binary.LittleEndian.Uint16(b[off+1:])))
	case c == lpInt24:
		return int64(int32(uint32(b[off+1])<<8|uint32(b[off+2])<<16|uint32(b[off+3])<<24) >> 8)
	case c == lpInt32:
		return int64(int32(binary.LittleEndian.Uint32(b[off+1:])))
	}
	return int64(binary.LittleEndian.Uint64(b[off+1:]))
}

// lpItem returns the element at off as a byte string, which may be in scratch, and the offset behind it.
func lpItem(b []byte, off int, scratch *[maxIntText]byte) (item []byte, next int) {
	next = lpNext(b, off)
	if item, ok := lpString(b, off); ok {
		return item[:len(item):len(item)], next
	}
	return strconv.AppendInt(scratch[:0], lpInt(b, off), 10), next
}

// lpEquals says whether the element at off is item.
func lpEquals(b []byte, off int, item []byte) bool {
	if s, ok := lpString(b, off); ok {
		return string(s) == string(item)
	}
	v, ok := parseInt(item)
	return ok && v == lpInt(b, off)
}

// lpCount returns the number of elements.
func lpCount(b []byte) (n int) {
	for off := 0; off < len(b); n++ {
		off = lpNext(b, off)
	}
	return n
}
