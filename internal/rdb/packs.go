package rdb

import (
	"encoding/binary"
	"math"
	"strconv"
)

// The packed encodings are one string each, which holds all elements. Every
// reader here checks each length that it meets and that what the header says is
// there. Elements are handed over as text, integers too, and are valid during the
// call only.

// eachListpack calls fn for every element of a listpack: total bytes (4) and
// number of elements (2), the elements, 0xff. An element is its encoding, its
// bytes, and the length of both, to be read backwards.
func eachListpack(b []byte, fn func(item []byte) error) error {
	const header = 6
	if len(b) < header+1 || uint64(binary.LittleEndian.Uint32(b)) != uint64(len(b)) || b[len(b)-1] != 0xff {
		return damaged("a listpack is not as long as it says")
	}
	items := b[header : len(b)-1]
	var text [20]byte
	n := 0
	for len(items) > 0 {
		item, size := listpackItem(items, text[:0])
		if size == 0 {
			return damaged("an element of a listpack is cut short or has no known encoding")
		}
		var back [5]byte
		w := len(appendBackLength(back[:0], size))
		if size+w > len(items) || string(appendBackLength(back[:0], size)) != string(items[size:size+w]) {
			return damaged("an element of a listpack does not end with its length")
		}
		if err := fn(item); err != nil {
			return err
		}
		items = items[size+w:]
		n++
	}
	if said := int(binary.LittleEndian.Uint16(b[4:])); said != math.MaxUint16 && said != n {
		return damaged("a listpack holds %d elements and says %d", n, said)
	}
	return nil
}

// listpackItem reads the element that b begins with, whose text it appends to
// text if it is a number, and returns its size without the length behind it, 0 if
// there is none.
func listpackItem(b, text []byte) (item []byte, size int) {
	first := b[0]
	switch {
	case first < 0x80:
		return strconv.AppendInt(text, int64(first), 10), 1
	case first < 0xc0:
		return packedText(b, 1, int(first&0x3f))
	case first < 0xe0:
		if len(b) < 2 {
			return nil, 0
		}
		v := int64(first&0x1f)<<8 | int64(b[1])
		if v >= 1<<12 {
			v -= 1 << 13
		}
		return strconv.AppendInt(text, v, 10), 2
	case first < 0xf0:
		if len(b) < 2 {
			return nil, 0
		}
		return packedText(b, 2, int(first&0x0f)<<8|int(b[1]))
	case first == 0xf0:
		if len(b) < 5 {
			return nil, 0
		}
		return packedText(b, 5, int(binary.LittleEndian.Uint32(b[1:])))
	case first == 0xf1:
		return packedNumber(b, text, 2)
	case first == 0xf2:
		return packedNumber(b, text, 3)
	case first == 0xf3:
		return packedNumber(b, text, 4)
	case first == 0xf4:
		return packedNumber(b, text, 8)
	}
	return nil, 0
}

// packedNumber reads an element that is a number of width bytes behind one byte,
// as listpackItem does.
func packedNumber(b, text []byte, width int) (item []byte, size int) {
	if len(b) < 1+width {
		return nil, 0
	}
	return strconv.AppendInt(text, littleEndian(b[1:1+width]), 10), 1 + width
}

// packedText reads an element that is n bytes behind a header, as listpackItem
// does.
func packedText(b []byte, header, n int) (item []byte, size int) {
	if n > len(b)-header {
		return nil, 0
	}
	return b[header : header+n], header + n
}

// littleEndian reads a signed number of len(b) bytes, at most 8.
func littleEndian(b []byte) int64 {
	var u uint64
	for i, c := range b {
		u |= uint64(c) << (8 * i)
	}
	unused := 64 - 8*len(b)
	return int64(u<<unused) >> unused
}

// appendBackLength appends the length of a listpack's element: seven bits a byte,
// the lowest last; every byte but the first has its top bit set.
func appendBackLength(dst []byte, n int) []byte {
	switch {
	case n <= 127:
		return append(dst, byte(n))
	case n < 1<<14-1:
		return append(dst, byte(n>>7), byte(n)|0x80)
	case n < 1<<21-1:
		return append(dst, byte(n>>14), byte(n>>7)|0x80, byte(n)|0x80)
	case n < 1<<28-1:
		return append(dst, byte(n>>21), byte(n>>14)|0x80, byte(n>>7)|0x80, byte(n)|0x80)
	}
	return append(dst, byte(n>>28), byte(n>>21)|0x80, byte(n>>14)|0x80, byte(n>>7)|0x80, byte(n)|0x80)
}

// listpack gathers elements. The zero value is not ready: begin comes first.
type listpack struct {
	b []byte
	n int
}

func (l *listpack) begin() {
	l.b = append(l.b[:0], 0, 0, 0, 0, 0, 0)
	l.n = 0
}

// add appends an element; what is the text of an integer becomes one.
func (l *listpack) add(item []byte) {
	if v, ok := parseInt(item); ok {
		l.addInt(v)
		return
	}
	start := len(l.b)
	switch n := len(item); {
	case n < 1<<6:
		l.b = append(l.b, 0x80|byte(n))
	case n < 1<<12:
		l.b = append(l.b, 0xe0|byte(n>>8), byte(n))
	default:
		l.b = binary.LittleEndian.AppendUint32(append(l.b, 0xf0), uint32(n))
	}
	l.b = append(l.b, item...)
	l.end(start)
}

func (l *listpack) addInt(v int64) {
	start := len(l.b)
	switch {
	case v >= 0 && v < 1<<7:
		l.b = append(l.b, byte(v))
	case v >= -1<<12 && v < 1<<12:
		l.b = append(l.b, 0xc0|byte(v>>8)&0x1f, byte(v))
	case v >= math.MinInt16 && v <= math.MaxInt16:
		l.b = append(l.b, 0xf1, byte(v), byte(v>>8))
	case v >= -1<<23 && v < 1<<23:
		l.b = append(l.b, 0xf2, byte(v), byte(v>>8), byte(v>>16))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		l.b = binary.LittleEndian.AppendUint32(append(l.b, 0xf3), uint32(v))
	default:
		l.b = binary.LittleEndian.AppendUint64(append(l.b, 0xf4), uint64(v))
	}
	l.end(start)
}

func (l *listpack) end(start int) {
	l.b = appendBackLength(l.b, len(l.b)-start)
	l.n++
}

// bytes finishes the listpack; begin makes it ready for another one.
func (l *listpack) bytes() []byte {
	l.b = append(l.b, 0xff)
	binary.LittleEndian.PutUint32(l.b, uint32(len(l.b)))
	binary.LittleEndian.PutUint16(l.b[4:], uint16(min(l.n, math.MaxUint16)))
	return l.b
}

// maxItemBytes is the most that an element of n bytes takes in a listpack.
func maxItemBytes(n int) int { return n + 10 }

// eachZiplist calls fn for every element of a ziplist, which the listpack
// replaced in Redis 7: total bytes (4), offset of the last element (4), number of
// elements (2), the elements, 0xff. An element begins with the size of the one
// before it.
func eachZiplist(b []byte, fn func(item []byte) error) error {
	const header = 10
	if len(b) < header+1 || uint64(binary.LittleEndian.Uint32(b)) != uint64(len(b)) || b[len(b)-1] != 0xff {
		return damaged("a ziplist is not as long as it says")
	}
	end := len(b) - 1
	var text [20]byte
	n, before, last := 0, 0, header
	for at := header; at < end; n++ {
		prev, w := int(b[at]), 1
		if prev == 0xfe {
			if end-at < 5 {
				return damaged("an element of a ziplist is cut short")
			}
			prev, w = int(binary.LittleEndian.Uint32(b[at+1:])), 5
		}
		if prev != before || at+w >= end {
			return damaged("an element of a ziplist does not say how long the one before it is")
		}
		item, size := ziplistItem(b[at+w:end], text[:0])
		if size == 0 {
			return damaged("an element of a ziplist is cut short or has no known encoding")
		}
		if err := fn(item); err != nil {
			return err
		}
		last, before = at, w+size
		at += before
	}
	if uint64(binary.LittleEndian.Uint32(b[4:])) != uint64(last) {
		return damaged("a ziplist does not say where its last element is")
	}
	if said := int(binary.LittleEndian.Uint16(b[8:])); said != math.MaxUint16 && said != n {
		return damaged("a ziplist holds %d elements and says %d", n, said)
	}
	return nil
}

// ziplistItem reads encoding and bytes of an element, as listpackItem does.
func ziplistItem(b, text []byte) (item []byte, size int) {
	first := b[0]
	switch {
	case first < 0x40:
		return packedText(b, 1, int(first))
	case first < 0x80:
		if len(b) < 2 {
			return nil, 0
		}
		return packedText(b, 2, int(first&0x3f)<<8|int(b[1]))
	case first < 0xc0:
		if len(b) < 5 {
			return nil, 0
		}
		return packedText(b, 5, int(binary.BigEndian.Uint32(b[1:])))
	case first == 0xc0:
		return packedNumber(b, text, 2)
	case first == 0xd0:
		return packedNumber(b, text, 4)
	case first == 0xe0:
		return packedNumber(b, text, 8)
	case first == 0xf0:
		return packedNumber(b, text, 3)
	case first == 0xfe:
		return packedNumber(b, text, 1)
	case first > 0xf0 && first < 0xfe:
		return strconv.AppendInt(text, int64(first-0xf1), 10), 1
	}
	return nil, 0
}

// eachZipmap calls fn for every field and value of a zipmap, which hashes were
// before Redis 2.6: number of pairs (1), the pairs, 0xff. A field or a value is
// its length and its bytes; between a value's length and its bytes stands how
// many bytes behind it are unused.
func eachZipmap(b []byte, fn func(item []byte) error) error {
	if len(b) < 2 || b[len(b)-1] != 0xff {
		return damaged("a zipmap does not end as one")
	}
	rest := b[1 : len(b)-1]
	n := 0
	for len(rest) > 0 {
		field, behind, ok := zipmapItem(rest, false)
		if !ok {
			return damaged("a field of a zipmap is cut short")
		}
		value, behind2, ok := zipmapItem(behind, true)
		if !ok {
			return damaged("a value of a zipmap is cut short")
		}
		if err := fn(field); err != nil {
			return err
		}
		if err := fn(value); err != nil {
			return err
		}
		rest = behind2
		n++
	}
	if said := int(b[0]); said != zipmapManyFields && said != n {
		return damaged("a zipmap holds %d fields and says %d", n, said)
	}
	return nil
}

// zipmapManyFields in place of the number of pairs says that it is not kept.
const zipmapManyFields = 254

func zipmapItem(b []byte, free bool) (item, rest []byte, ok bool) {
	if len(b) == 0 || b[0] == 0xff {
		return nil, nil, false
	}
	n, at := uint64(b[0]), 1
	if b[0] == 0xfe {
		if len(b) < 5 {
			return nil, nil, false
		}
		n, at = uint64(binary.LittleEndian.Uint32(b[1:])), 5
	}
	unused := 0
	if free {
		if at >= len(b) {
			return nil, nil, false
		}
		unused = int(b[at])
		at++
	}
	if n > uint64(len(b)-at) || unused > len(b)-at-int(n) {
		return nil, nil, false
	}
	end := at + int(n)
	return b[at:end], b[end+unused:], true
}

// eachInt calls fn for every member of an intset: width of a member in bytes (4),
// number of members (4), the members in ascending order.
func eachInt(b []byte, fn func(v int64) error) error {
	const header = 8
	if len(b) < header {
		return damaged("an intset is cut short")
	}
	width, n := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if width != 2 && width != 4 && width != 8 || uint64(len(b)-header) != uint64(width)*uint64(n) {
		return damaged("an intset is not as long as it says")
	}
	var last int64
	for at := header; at < len(b); at += int(width) {
		v := littleEndian(b[at : at+int(width)])
		if at > header && v <= last {
			return damaged("an intset is not in order")
		}
		if err := fn(v); err != nil {
			return err
		}
		last = v
	}
	return nil
}
