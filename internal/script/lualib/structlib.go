package lualib

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

var structFunctions = map[string]lua.LGFunction{"pack": structPack, "unpack": structUnpack, "size": structSize}

// maxStructInt is how many bytes an integer may have.
const maxStructInt = 32

// layout reads a format of struct, option by option.
type layout struct {
	l      *lua.LState
	format string
	at     int
	big    bool
	align  int
}

func newLayout(l *lua.LState, format string) *layout {
	return &layout{l: l, format: cText(format), align: 1}
}

// number reads a number in the format.
func (f *layout) number(otherwise int) int {
	if f.at >= len(f.format) || !isDigit(f.format[f.at]) {
		return otherwise
	}
	n := 0
	for f.at < len(f.format) && isDigit(f.format[f.at]) {
		d := int(f.format[f.at] - '0')
		if n > math.MaxInt32/10 || n*10 > math.MaxInt32-d {
			fail(f.l, "integral size overflow")
		}
		n = n*10 + d
		f.at++
	}
	return n
}

// next reads an option and the size of what it stands for.
func (f *layout) next() (option byte, size int, ok bool) {
	if f.at >= len(f.format) {
		return 0, 0, false
	}
	option = f.format[f.at]
	f.at++
	switch option {
	case 'B', 'b', 'x':
		size = 1
	case 'H', 'h':
		size = 2
	case 'L', 'l', 'T', 'd':
		size = 8
	case 'f':
		size = 4
	case 'c':
		size = f.number(1)
	case 'i', 'I':
		size = f.number(4)
		if size > maxStructInt {
			fail(f.l, "integral size %d is larger than limit of %d", size, maxStructInt)
		}
	}
	return option, size, true
}

// padding is what aligns an item at a place.
func (f *layout) padding(at int, option byte, size int) int {
	if size == 0 || option == 'c' {
		return 0
	}
	size = min(size, f.align)
	return (size - at&(size-1)) & (size - 1)
}

// control takes an option that says how others are read.
func (f *layout) control(option byte) {
	switch option {
	case ' ':
	case '>':
		f.big = true
	case '<':
		f.big = false
	case '!':
		n := f.number(8)
		if n <= 0 || n&(n-1) != 0 {
			fail(f.l, "alignment %d is not a power of 2", n)
		}
		f.align = n
	default:
		argError(f.l, 1, fmt.Sprintf("invalid format option '%s'", []byte{option}))
	}
}

// bytes reverses what is little-endian if the format is not.
func (f *layout) bytes(b []byte) []byte {
	if f.big {
		for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
	}
	return b
}

func structPack(l *lua.LState) int {
	f := newLayout(l, checkString(l, 1))
	var b []byte
	arg, total := 2, 0
	for {
		option, size, ok := f.next()
		if !ok {
			break
		}
		padding := f.padding(total, option, size)
		b = append(b, make([]byte, padding)...)
		total += padding
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			b = append(b, f.integer(checkStructNumber(l, arg), size)...)
			arg++
		case 'x':
			b = append(b, 0)
		case 'f':
			v := math.Float32bits(float32(checkStructNumber(l, arg)))
			b = append(b, f.bytes(binary.LittleEndian.AppendUint32(nil, v))...)
			arg++
		case 'd':
			v := math.Float64bits(checkStructNumber(l, arg))
			b = append(b, f.bytes(binary.LittleEndian.AppendUint64(nil, v))...)
			arg++
		case 'c', 's':
			s := checkStructString(l, arg)
			arg++
			if size == 0 {
				size = len(s)
			}
			if len(s) < size {
				argError(l, arg, "string too short")
			}
			of(l).take(l, size)
			tooLarge(l, len(b)+size)
			b = append(b, s[:size]...)
			if option == 's' {
				b = append(b, 0)
				size++
			}
		default:
			f.control(option)
		}
		total += size
	}
	return text(l, string(b))
}

// Behind its arguments struct.pack of C has a nil, and then what it has packed.

func checkStructNumber(l *lua.LState, n int) float64 {
	if n > l.GetTop() {
		argError(l, n, "number expected, got "+packedArgName(l, n))
	}
	return checkNumber(l, n)
}

func checkStructString(l *lua.LState, n int) string {
	if n > l.GetTop() {
		argError(l, n, "string expected, got "+packedArgName(l, n))
	}
	return checkString(l, n)
}

func packedArgName(l *lua.LState, n int) string {
	if n == l.GetTop()+1 {
		return "nil"
	}
	return "no value"
}

// integer is a number in so many bytes; beyond 8 they are zero.
func (f *layout) integer(n float64, size int) []byte {
	v := uint64(toInt64(n))
	if n >= 0 {
		v = toUint64(n)
	}
	b := make([]byte, size)
	for i := range min(size, 8) {
		b[i] = byte(v >> (8 * i))
	}
	return f.bytes(b)
}

func structUnpack(l *lua.LState) int {
	f := newLayout(l, checkString(l, 1))
	data := checkString(l, 2)
	start := optInteger(l, 3, 1)
	if start == 0 {
		argError(l, 3, "offset must be 1 or greater")
	}
	// C takes it without its sign: a negative one lies beyond any data.
	at := uint64(start) - 1
	n := uint64(len(data))
	var values []lua.LValue
	short := func(size uint64) {
		if size > n || at > n-size {
			argError(l, 2, "data string too short")
		}
	}
	for {
		option, size, ok := f.next()
		if !ok {
			break
		}
		at += uint64(f.padding(int(at&(1<<31-1)), option, size))
		short(uint64(size))
		if l.GetTop()+len(values)+2 > maxUnpacked {
			fail(l, "stack overflow (too many results)")
		}
		item := data[at : at+uint64(size)]
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			values = append(values, lua.LNumber(f.number64(item, option >= 'a')))
		case 'x':
		case 'f':
			v := binary.LittleEndian.Uint32(f.bytes([]byte(item)))
			values = append(values, lua.LNumber(math.Float32frombits(v)))
		case 'd':
			v := binary.LittleEndian.Uint64(f.bytes([]byte(item)))
			values = append(values, lua.LNumber(math.Float64frombits(v)))
		case 'c':
			if size == 0 {
				last := lua.LValue(lua.LNil)
				if len(values) > 0 {
					last = values[len(values)-1]
				}
				want, ok := toNumber(last)
				if !ok {
					fail(l, "format 'c0' needs a previous size")
				}
				values = values[:len(values)-1]
				size64 := toUint64(want)
				short(size64)
				size = int(size64)
				item = data[at : at+size64]
			}
			values = append(values, lua.LString(item))
		case 's':
			end := strings.IndexByte(data[at:], 0)
			if end < 0 {
				fail(l, "unfinished string in data")
			}
			values = append(values, lua.LString(data[at:int(at)+end]))
			size = end + 1
		default:
			f.control(option)
		}
		at += uint64(size)
	}
	push(l, values...)
	return len(values) + pushNumber(l, float64(int64(at+1)))
}

// number64 is the integer in some bytes, of which the lowest 64 bits count.
func (f *layout) number64(item string, signed bool) float64 {
	b := f.bytes([]byte(item))
	var v uint64
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	if !signed {
		return float64(v)
	}
	// C shifts by the size modulo 64.
	mask := ^uint64(0) << ((len(b)*8 - 1) & 63)
	if v&mask != 0 {
		v |= mask
	}
	return float64(int64(v))
}

func structSize(l *lua.LState) int {
	f := newLayout(l, checkString(l, 1))
	at := 0
	for {
		option, size, ok := f.next()
		if !ok {
			break
		}
		at += f.padding(at, option, size)
		switch {
		case option == 's':
			argError(l, 1, "option 's' has no fixed size")
		case option == 'c' && size == 0:
			argError(l, 1, "option 'c0' has no fixed size")
		case !isAlnum(option):
			f.control(option)
		}
		at += size
	}
	return pushNumber(l, float64(at))
}
