package rdb

import (
	"encoding/binary"
	"io"
	"math"
	"strconv"

	"kevy/internal/ds"
	"kevy/shard"
)

// encoder writes values. Without out everything stays in buf; with it, buf is
// written from time to time, also in the middle of a large collection.
type encoder struct {
	buf     []byte
	out     io.Writer
	err     error // the first one of out
	crc     uint64
	written int64

	lzf  compressor
	pack listpack
}

// encodeBytes is how much of a file is gathered before it is written.
const encodeBytes = 256 << 10

// flush writes what has been gathered.
func (e *encoder) flush() {
	if e.out == nil || e.err != nil {
		return
	}
	e.crc = checksum(e.crc, e.buf)
	_, e.err = e.out.Write(e.buf)
	e.written += int64(len(e.buf))
	if cap(e.buf) > keptBytes {
		e.buf = nil
	}
	e.buf = e.buf[:0]
}

func (e *encoder) flushIfFull() {
	if len(e.buf) >= encodeBytes {
		e.flush()
	}
}

func (e *encoder) byte(b byte)  { e.buf = append(e.buf, b) }
func (e *encoder) length(n int) { e.buf = appendLength(e.buf, uint64(n)) }

const (
	// maxIntText is how long a string may be that is written as a number of up to
	// 32 bits.
	maxIntText = 11
	// minCompressed is how long a string must be to be compressed, and lzfSaving
	// how much that must save.
	minCompressed = 21
	lzfSaving     = 4
)

// str writes a string: as a number if it is the text of a small one, compressed
// if that is shorter.
func (e *encoder) str(b []byte) {
	defer e.flushIfFull()
	if len(b) <= maxIntText {
		if v, ok := parseInt(b); ok && v >= math.MinInt32 && v <= math.MaxInt32 {
			e.smallInt(v)
			return
		}
	}
	if len(b) >= minCompressed {
		start := len(e.buf)
		// The header is written where it will stand, for the largest it can be.
		e.buf = append(e.buf, encLZF|0xc0)
		e.length(len(b))
		e.length(len(b))
		body := len(e.buf)
		if out, ok := e.lzf.compress(e.buf, b, len(b)-lzfSaving); ok {
			e.buf = out
			packed := len(out) - body
			var head [11]byte
			h := appendLength(appendLength(append(head[:0], encLZF|0xc0), uint64(packed)), uint64(len(b)))
			copy(e.buf[start:], h)
			e.buf = append(e.buf[:start+len(h)], e.buf[body:]...)
			return
		}
		e.buf = e.buf[:start]
	}
	e.length(len(b))
	e.buf = append(e.buf, b...)
}

func (e *encoder) smallInt(v int64) {
	switch {
	case v >= math.MinInt8 && v <= math.MaxInt8:
		e.buf = append(e.buf, 0xc0|encInt8, byte(v))
	case v >= math.MinInt16 && v <= math.MaxInt16:
		e.buf = append(e.buf, 0xc0|encInt16, byte(v), byte(v>>8))
	default:
		e.buf = binary.LittleEndian.AppendUint32(append(e.buf, 0xc0|encInt32), uint32(v))
	}
}

// typeOf returns the type that a value is written as, and the version of the
// format that has it.
func typeOf(v shard.Value) (typ byte, ver int) {
	switch o := v.Object.(type) {
	case nil:
		return typeString, version
	case *ds.List:
		return typeListQuicklist2, version
	case *ds.Set:
		if o.Encoding() == "intset" {
			return typeSetIntset, version
		}
		return typeSet, version
	case *ds.ZSet:
		if o.Encoding() == "listpack" {
			return typeZSetListpack, version
		}
		return typeZSet2, version
	case *ds.Hash:
		packed := o.Encoding() != "hashtable"
		switch {
		case o.NextDeadline() != 0 && packed:
			return typeHashListpackEx, fieldExpiryVersion
		case o.NextDeadline() != 0:
			return typeHashExpiry, fieldExpiryVersion
		case packed:
			return typeHashListpack, version
		}
		return typeHash, version
	case *ds.Stream:
		return typeStream2, version
	}
	panic("rdb: no type for a " + v.Object.Encoding())
}

// value writes a value as the type that typeOf gave.
func (e *encoder) value(typ byte, v shard.Value) {
	switch o := v.Object.(type) {
	case nil:
		e.str(v.Text)
	case *ds.List:
		e.list(o)
	case *ds.Set:
		e.set(typ, o)
	case *ds.ZSet:
		e.zset(typ, o)
	case *ds.Hash:
		e.hash(typ, o)
	case *ds.Stream:
		e.stream(o)
	}
}

// nodeBytes is about how long the nodes of a list are, as Redis has them by
// default. An element that is longer is a node of its own.
const nodeBytes = 8 << 10

// list writes a list, in nodes. How many they are stands before them, so they
// are counted first.
func (e *encoder) list(l *ds.List) {
	nodes, size := 0, 0
	l.Each(0, l.Len(), false, func(item []byte) bool {
		if nodes == 0 || size+maxItemBytes(len(item)) > nodeBytes {
			nodes++
			size = 0
		}
		size += maxItemBytes(len(item))
		return true
	})
	e.length(nodes)
	size = 0
	e.pack.begin()
	flush := func() {
		e.length(nodePacked)
		e.str(e.pack.bytes())
		e.pack.begin()
		size = 0
	}
	l.Each(0, l.Len(), false, func(item []byte) bool {
		if size > 0 && size+maxItemBytes(len(item)) > nodeBytes {
			flush()
		}
		e.pack.add(item)
		size += maxItemBytes(len(item))
		return e.err == nil
	})
	if e.pack.n > 0 {
		flush()
	}
	e.endPack()
}

// endPack gives up a large scratch.
func (e *encoder) endPack() {
	if cap(e.pack.b) > keptBytes {
		e.pack.b = nil
	}
}

func (e *encoder) set(typ byte, s *ds.Set) {
	if typ == typeSetIntset {
		e.intset(s)
		return
	}
	e.length(s.Len())
	s.Each(func(member []byte) bool {
		e.str(member)
		return e.err == nil
	})
}

func (e *encoder) intset(s *ds.Set) {
	members := make([]int64, 0, s.Len())
	width := 2
	s.Each(func(member []byte) bool {
		v, _ := parseInt(member)
		members = append(members, v)
		switch {
		case v < math.MinInt32 || v > math.MaxInt32:
			width = 8
		case v < math.MinInt16 || v > math.MaxInt16:
			width = max(width, 4)
		}
		return true
	})
	b := binary.LittleEndian.AppendUint32(e.pack.b[:0], uint32(width))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(members)))
	for _, v := range members {
		for i := range width {
			b = append(b, byte(v>>(8*i)))
		}
	}
	e.pack.b = b
	e.str(b)
	e.endPack()
}

func (e *encoder) zset(typ byte, z *ds.ZSet) {
	if typ == typeZSetListpack {
		e.pack.begin()
		z.EachRank(0, z.Len(), false, func(member []byte, score float64) bool {
			e.pack.add(member)
			e.addScore(score)
			return true
		})
		e.str(e.pack.bytes())
		e.endPack()
		return
	}
	e.length(z.Len())
	// Redis builds its list fastest from the end.
	z.EachRank(z.Len()-1, z.Len(), true, func(member []byte, score float64) bool {
		e.str(member)
		e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(score))
		return e.err == nil
	})
}

// addScore adds a score to the listpack, as an integer if it is one.
func (e *encoder) addScore(score float64) {
	const exact = 1 << 53
	switch {
	case score >= -exact && score <= exact && score == math.Trunc(score):
		e.pack.addInt(int64(score))
	case math.IsInf(score, 1):
		e.pack.add([]byte("inf"))
	case math.IsInf(score, -1):
		e.pack.add([]byte("-inf"))
	default:
		var text [32]byte
		e.pack.add(strconv.AppendFloat(text[:0], score, 'g', -1, 64))
	}
}

func (e *encoder) hash(typ byte, h *ds.Hash) {
	switch typ {
	case typeHashListpackEx:
		e.expiringListpack(h)
		return
	case typeHashExpiry:
		e.expiringHash(h)
		return
	case typeHashListpack:
		e.pack.begin()
		h.Each(func(field, value []byte) bool {
			e.pack.add(field)
			e.pack.add(value)
			return true
		})
		e.str(e.pack.bytes())
		e.endPack()
		return
	}
	e.length(h.Len())
	h.Each(func(field, value []byte) bool {
		e.str(field)
		e.str(value)
		return e.err == nil
	})
}

// expiringListpack writes a packed hash whose fields have deadlines: those that
// have one first, in the order of these, as Redis relies on.
func (e *encoder) expiringListpack(h *ds.Hash) {
	e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(h.NextDeadline()))
	e.pack.begin()
	h.EachDeadline(func(field []byte, at int64) bool {
		value, _ := h.Get(field)
		e.pack.add(field)
		e.pack.add(value)
		e.pack.addInt(at)
		return true
	})
	h.EachWithDeadline(func(field, value []byte, at int64) bool {
		if at == 0 {
			e.pack.add(field)
			e.pack.add(value)
			e.pack.addInt(0)
		}
		return true
	})
	e.str(e.pack.bytes())
	e.endPack()
}

func (e *encoder) expiringHash(h *ds.Hash) {
	earliest := h.NextDeadline()
	e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(earliest))
	e.length(h.Len())
	h.EachWithDeadline(func(field, value []byte, at int64) bool {
		if at == 0 {
			e.length(0)
		} else {
			e.buf = appendLength(e.buf, uint64(at-earliest)+1)
		}
		e.str(field)
		e.str(value)
		return e.err == nil
	})
}
