package lualib

import (
	"encoding/binary"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// maxPackDepth is how deep tables are packed: what nests deeper is nil.
const maxPackDepth = 16

var packFunctions = map[string]lua.LGFunction{
	"pack": msgPack, "unpack": msgUnpack, "unpack_one": msgUnpackOne, "unpack_limit": msgUnpackLimit,
}

var packConstants = map[string]lua.LValue{
	"_NAME": lua.LString("cmsgpack"), "_VERSION": lua.LString("lua-cmsgpack 0.4.0"),
	"_COPYRIGHT":   lua.LString("Copyright (C) 2012, Salvatore Sanfilippo"),
	"_DESCRIPTION": lua.LString("MessagePack C implementation for Lua"),
}

func msgPack(l *lua.LState) int {
	if l.GetTop() == 0 {
		argError(l, 0, "MessagePack pack needs input.")
	}
	p := packer{l: l}
	for i := 1; i <= l.GetTop(); i++ {
		p.value(l.Get(i), 0)
	}
	return text(l, string(p.b))
}

type packer struct {
	l     *lua.LState
	b     []byte
	taken int
}

func (p *packer) value(v lua.LValue, depth int) {
	if n := len(p.b) - p.taken; n > lookBytes {
		p.taken = len(p.b)
		tooLarge(p.l, len(p.b))
		of(p.l).take(p.l, n)
	}
	switch v := v.(type) {
	case lua.LString:
		p.string(string(v))
	case lua.LBool:
		if v {
			p.b = append(p.b, 0xc3)
		} else {
			p.b = append(p.b, 0xc2)
		}
	case lua.LNumber:
		p.number(float64(v))
	case *lua.LTable:
		if depth == maxPackDepth {
			p.b = append(p.b, 0xc0)
			return
		}
		p.table(contents(p.l, v), depth)
	default:
		p.b = append(p.b, 0xc0)
	}
}

func (p *packer) string(s string) {
	tooLarge(p.l, len(p.b)+len(s))
	switch n := len(s); {
	case n < 32:
		p.b = append(p.b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		p.b = append(p.b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xda), uint16(n))
	default:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xdb), uint32(n))
	}
	p.b = append(p.b, s...)
}

// number packs a whole number as such, and any other in four bytes if they hold
// it.
func (p *packer) number(f float64) {
	if !math.IsInf(f, 0) && float64(toInt64(f)) == f {
		p.integer(toInt64(f))
		return
	}
	if f32 := float32(f); float64(f32) == f {
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xca), math.Float32bits(f32))
		return
	}
	p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcb), math.Float64bits(f))
}

func (p *packer) integer(n int64) {
	switch {
	case n >= -32 && n <= 127:
		p.b = append(p.b, byte(n))
	case n >= 0 && n <= math.MaxUint8:
		p.b = append(p.b, 0xcc, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xcd), uint16(n))
	case n >= 0 && n <= math.MaxUint32:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xce), uint32(n))
	case n >= 0:
		p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcf), uint64(n))
	case n >= math.MinInt8:
		p.b = append(p.b, 0xd0, byte(n))
	case n >= math.MinInt16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xd1), uint16(n))
	case n >= math.MinInt32:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xd2), uint32(n))
	default:
		p.b = binary.BigEndian.AppendUint64(append(p.b, 0xd3), uint64(n))
	}
}

// header begins an array or a map of n, whose shortest form is fixed.
func (p *packer) header(fixed, wide byte, n int) {
	switch {
	case n <= 15:
		p.b = append(p.b, fixed|byte(n))
	case n <= math.MaxUint16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, wide), uint16(n))
	default:
		p.b = binary.BigEndian.AppendUint32(append(p.b, wide+1), uint32(n))
	}
}

// table packs what has the keys 1 to n and no other as an array.
func (p *packer) table(t *lua.LTable, depth int) {
	count, largest, array := 0, 0.0, true
	each(t, func(k, _ lua.LValue) bool {
		n, ok := k.(lua.LNumber)
		if !ok || n <= 0 || !isInt32(float64(n)) {
			array = false
		}
		largest = max(largest, float64(n))
		count++
		return true
	})
	if array && largest == float64(count) {
		p.header(0x90, 0xdc, count)
		for i := 1; i <= count; i++ {
			p.value(t.RawGet(lua.LNumber(i)), depth+1)
		}
		return
	}
	p.header(0x80, 0xde, count)
	each(t, func(k, v lua.LValue) bool {
		p.value(k, depth+1)
		p.value(v, depth+1)
		return true
	})
}

func msgUnpack(l *lua.LState) int { return unpackAll(l, 0, 0) }

func msgUnpackOne(l *lua.LState) int { return unpackAll(l, 1, optInteger(l, 2, 0)) }

func msgUnpackLimit(l *lua.LState) int {
	return unpackAll(l, checkInteger(l, 2), optInteger(l, 3, 0))
}

// unpackAll unpacks up to limit values from an offset on; neither of both means
// all of them, and then no offset is returned.
func unpackAll(l *lua.LState, limit, offset int64) int {
	s := checkString(l, 1)
	all := limit == 0 && offset == 0
	switch {
	case offset < 0 || limit < 0:
		fail(l, "Invalid request to unpack with offset of %d and limit of %d.", int32(offset), int32(len(s)))
	case offset > int64(len(s)):
		fail(l, "Start offset %d greater than input length %d.", int32(offset), len(s))
	}
	if all {
		limit = math.MaxInt32
	}
	u := unpacker{l: l, b: s[offset:], slots: 1}
	var values []lua.LValue
	for int64(len(values)) < limit && len(u.b) > 0 {
		values = append(values, u.value())
		u.slots++
		switch u.fault {
		case missingBytes:
			fail(l, "Missing bytes in input.")
		case badFormat:
			fail(l, "Bad data format in input.")
		}
	}
	n := 0
	if !all {
		if u.slots+1 > maxUnpacked {
			fail(l, "stack overflow (in function mp_unpack_full)")
		}
		at := float64(-1)
		if len(u.b) > 0 {
			at = float64(len(s) - len(u.b))
		}
		n = pushNumber(l, at)
	}
	return n + push(l, values...)
}

// What can be wrong with packed data.
const (
	missingBytes = 1 + iota
	badFormat
)

type unpacker struct {
	l     *lua.LState
	b     string
	fault int
	slots int // that C would have on Lua's stack
	n     int
}

// need reports whether n bytes are left.
func (u *unpacker) need(n int) bool {
	if len(u.b) < n {
		u.fault = missingBytes
		return false
	}
	return true
}

// number takes a big-endian number of n bytes behind the first.
func (u *unpacker) number(n int) uint64 {
	if !u.need(1 + n) {
		return 0
	}
	var v uint64
	for i := 1; i <= n; i++ {
		v = v<<8 | uint64(u.b[i])
	}
	u.b = u.b[1+n:]
	return v
}

// value unpacks a value; with a fault it is none.
func (u *unpacker) value() lua.LValue {
	if !u.need(1) {
		return lua.LNil
	}
	if u.slots+1 > maxUnpacked {
		fail(u.l, "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)")
	}
	u.n++
	if u.n&(TickInstructions-1) == 0 {
		of(u.l).take(u.l, TickInstructions*64)
	}
	switch c := u.b[0]; c {
	case 0xcc:
		return lua.LNumber(u.number(1))
	case 0xcd:
		return lua.LNumber(u.number(2))
	case 0xce:
		return lua.LNumber(u.number(4))
	case 0xcf:
		// C pushes it as an integer with a sign.
		return lua.LNumber(int64(u.number(8)))
	case 0xd0:
		return lua.LNumber(int8(u.number(1)))
	case 0xd1:
		return lua.LNumber(int16(u.number(2)))
	case 0xd2:
		return lua.LNumber(int32(u.number(4)))
	case 0xd3:
		return lua.LNumber(int64(u.number(8)))
	case 0xc0:
		u.b = u.b[1:]
		return lua.LNil
	case 0xc2, 0xc3:
		u.b = u.b[1:]
		return lua.LBool(c == 0xc3)
	case 0xca:
		return lua.LNumber(math.Float32frombits(uint32(u.number(4))))
	case 0xcb:
		return lua.LNumber(math.Float64frombits(u.number(8)))
	case 0xd9:
		return u.string(1)
	case 0xda:
		return u.string(2)
	case 0xdb:
		return u.string(4)
	case 0xdc:
		return u.array(u.number(2))
	case 0xdd:
		return u.array(u.number(4))
	case 0xde:
		return u.hash(u.number(2))
	case 0xdf:
		return u.hash(u.number(4))
	default:
		switch {
		case c < 0x80:
			u.b = u.b[1:]
			return lua.LNumber(c)
		case c >= 0xe0:
			u.b = u.b[1:]
			return lua.LNumber(int8(c))
		case c&0xe0 == 0xa0:
			u.b = u.b[1:]
			return u.text(int(c & 0x1f))
		case c&0xf0 == 0x90:
			u.b = u.b[1:]
			return u.array(uint64(c & 15))
		case c&0xf0 == 0x80:
			u.b = u.b[1:]
			return u.hash(uint64(c & 15))
		}
	}
	u.fault = badFormat
	return lua.LNil
}

// string takes a string whose length stands in n bytes behind the first.
func (u *unpacker) string(n int) lua.LValue {
	length := int(u.number(n))
	if u.fault != 0 {
		return lua.LNil
	}
	return u.text(length)
}

// text takes a string of so many bytes.
func (u *unpacker) text(length int) lua.LValue {
	if !u.need(length) {
		return lua.LNil
	}
	s := u.b[:length]
	u.b = u.b[length:]
	return lua.LString(s)
}

func (u *unpacker) array(n uint64) lua.LValue {
	if u.fault != 0 {
		return lua.LNil
	}
	t := newTable(int(min(n, uint64(len(u.b)), 1<<10)), 0)
	if u.slots+2 > maxUnpacked {
		fail(u.l, "stack overflow (in function mp_decode_to_lua_array)")
	}
	u.slots += 2 // the table and the index
	for i := uint64(1); i <= n; i++ {
		v := u.value()
		if u.fault != 0 {
			return lua.LNil
		}
		t.RawSet(lua.LNumber(i), v)
	}
	u.slots -= 2
	return t
}

func (u *unpacker) hash(n uint64) lua.LValue {
	if u.fault != 0 {
		return lua.LNil
	}
	t := newTable(0, int(min(n, uint64(len(u.b)), 1<<10)))
	u.slots++
	for range n {
		k := u.value()
		if u.fault != 0 {
			return lua.LNil
		}
		u.slots++
		v := u.value()
		u.slots--
		if u.fault != 0 {
			return lua.LNil
		}
		setRaw(u.l, t, k, v)
	}
	u.slots--
	return t
}
