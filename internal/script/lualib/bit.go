package lualib

import (
	"math"
	"math/bits"

	lua "github.com/yuin/gopher-lua"
)

var bitFunctions = map[string]lua.LGFunction{
	"tobit":   func(l *lua.LState) int { return pushBits(l, bitArg(l, 1)) },
	"bnot":    func(l *lua.LState) int { return pushBits(l, ^bitArg(l, 1)) },
	"bswap":   func(l *lua.LState) int { return pushBits(l, bits.ReverseBytes32(bitArg(l, 1))) },
	"band":    bitFold(func(a, b uint32) uint32 { return a & b }),
	"bor":     bitFold(func(a, b uint32) uint32 { return a | b }),
	"bxor":    bitFold(func(a, b uint32) uint32 { return a ^ b }),
	"lshift":  bitShift(func(b uint32, n int) uint32 { return b << n }),
	"rshift":  bitShift(func(b uint32, n int) uint32 { return b >> n }),
	"arshift": bitShift(func(b uint32, n int) uint32 { return uint32(int32(b) >> n) }),
	"rol":     bitShift(func(b uint32, n int) uint32 { return bits.RotateLeft32(b, n) }),
	"ror":     bitShift(func(b uint32, n int) uint32 { return bits.RotateLeft32(b, -n) }),
	"tohex":   bitToHex,
}

// bitArg takes the lower 32 bits of a number, rounded, by adding what moves them
// to the end of the fraction: that is how the library is defined for numbers that
// do not fit, too.
func bitArg(l *lua.LState, n int) uint32 {
	f, ok := toNumber(l.Get(n))
	b := uint32(math.Float64bits(f + (1<<52 + 1<<51)))
	if b == 0 && !ok {
		argTypeError(l, n, "number")
	}
	return b
}

func pushBits(l *lua.LState, b uint32) int { return pushNumber(l, float64(int32(b))) }

func bitFold(fn func(a, b uint32) uint32) lua.LGFunction {
	return func(l *lua.LState) int {
		b := bitArg(l, 1)
		for i := l.GetTop(); i > 1; i-- {
			b = fn(b, bitArg(l, i))
		}
		return pushBits(l, b)
	}
}

func bitShift(fn func(b uint32, n int) uint32) lua.LGFunction {
	return func(l *lua.LState) int {
		b := bitArg(l, 1)
		return pushBits(l, fn(b, int(bitArg(l, 2)&31)))
	}
}

func bitToHex(l *lua.LState) int {
	b := bitArg(l, 1)
	n := 8
	if l.GetTop() >= 2 {
		n = int(int32(bitArg(l, 2)))
	}
	digits := "0123456789abcdef"
	if n < 0 {
		n, digits = -n, "0123456789ABCDEF"
	}
	n = min(n, 8)
	text := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		text[i] = digits[b&15]
		b >>= 4
	}
	return pushString(l, string(text))
}
