package lualib

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// random is the generator of math.random: lrand48 of C, whose numbers are the
// same on every machine.
type random struct{ x uint64 }

func (r *random) seed(n int32) { r.x = uint64(uint32(n))<<16 | 0x330e }

// firstSeed is what a state begins with. It goes on from script to script.
const firstSeed = 0x1234abcd

// next returns 31 bits.
func (r *random) next() int64 {
	r.x = (r.x*0x5deece66d + 0xb) & (1<<48 - 1)
	return int64(r.x >> 17)
}

// mathConstants of the library math.
var mathConstants = map[string]lua.LValue{"pi": lua.LNumber(math.Pi), "huge": lua.LNumber(math.Inf(1))}

var mathFunctions = func() map[string]lua.LGFunction {
	m := map[string]lua.LGFunction{
		"atan2": mathBinary(math.Atan2), "fmod": mathBinary(math.Mod), "pow": mathBinary(pow), "mod": mathBinary(math.Mod),
		"frexp": mathFrexp, "ldexp": mathLdexp, "max": mathMax, "min": mathMin, "modf": mathModf,
		"random": mathRandom, "randomseed": mathRandomSeed,
	}
	for name, fn := range map[string]func(float64) float64{
		"abs": math.Abs, "acos": math.Acos, "asin": math.Asin, "atan": math.Atan, "ceil": math.Ceil, "cos": exactCos,
		"cosh": math.Cosh, "exp": exactExp, "floor": math.Floor, "log": exactLog, "log10": exactLog10, "sin": exactSin,
		"sinh": math.Sinh, "sqrt": math.Sqrt, "tan": exactTan, "tanh": math.Tanh,
		"deg": func(f float64) float64 { return f / (math.Pi / 180) },
		"rad": func(f float64) float64 { return f * (math.Pi / 180) },
	} {
		m[name] = func(l *lua.LState) int { return pushNumber(l, cNaN(fn(checkNumber(l, 1)), l, 1)) }
		if name == "acos" || name == "asin" || name == "log10" {
			// Of these the C library computes the NaN another way.
			m[name] = func(l *lua.LState) int {
				f := fn(checkNumber(l, 1))
				if f != f {
					f = math.Abs(f)
				}
				return pushNumber(l, f)
			}
		}
	}
	return m
}()

// cNaN gives a NaN the sign that C's functions give it: that of an argument that
// is one, else the minus of an invalid operation.
func cNaN(f float64, l *lua.LState, args int) float64 {
	if f == f {
		return f
	}
	for i := 1; i <= args; i++ {
		if a, _ := toNumber(l.Get(i)); a != a {
			return a
		}
	}
	return negativeNaN
}

// negativeNaN is what an invalid operation makes.
var negativeNaN = math.Float64frombits(0xfff8 << 48)

func mathBinary(fn func(a, b float64) float64) lua.LGFunction {
	return func(l *lua.LState) int {
		a, b := checkNumber(l, 1), checkNumber(l, 2)
		return pushNumber(l, cNaN(fn(a, b), l, 2))
	}
}

func mathFrexp(l *lua.LState) int {
	f, e := math.Frexp(checkNumber(l, 1))
	return pushNumber(l, f) + pushNumber(l, float64(e))
}

func mathLdexp(l *lua.LState) int {
	return pushNumber(l, math.Ldexp(checkNumber(l, 1), checkInt(l, 2)))
}

func mathModf(l *lua.LState) int {
	f := checkNumber(l, 1)
	if math.IsInf(f, 0) {
		return pushNumber(l, f) + pushNumber(l, math.Copysign(0, f))
	}
	whole := math.Trunc(f)
	return pushNumber(l, whole) + pushNumber(l, math.Copysign(f-whole, f))
}

func mathMax(l *lua.LState) int {
	most := checkNumber(l, 1)
	for i := 2; i <= l.GetTop(); i++ {
		if f := checkNumber(l, i); f > most {
			most = f
		}
	}
	return pushNumber(l, most)
}

func mathMin(l *lua.LState) int {
	least := checkNumber(l, 1)
	for i := 2; i <= l.GetTop(); i++ {
		if f := checkNumber(l, i); f < least {
			least = f
		}
	}
	return pushNumber(l, least)
}

func mathRandom(l *lua.LState) int {
	s := of(l)
	if s.host == nil {
		fail(l, "math.random can only be called inside a script invocation")
	}
	const largest = 1<<31 - 1
	r := float64(s.random.next()%largest) / largest
	switch l.GetTop() {
	case 0:
		return pushNumber(l, r)
	case 1:
		high := checkInt(l, 1)
		if high < 1 {
			argError(l, 1, "interval is empty")
		}
		return pushNumber(l, math.Floor(r*float64(high))+1)
	case 2:
		low, high := checkInt(l, 1), checkInt(l, 2)
		if low > high {
			argError(l, 2, "interval is empty")
		}
		// C computes the width in 32 bits.
		return pushNumber(l, math.Floor(r*float64(int32(high-low+1)))+float64(low))
	}
	fail(l, "wrong number of arguments")
	return 0
}

func mathRandomSeed(l *lua.LState) int {
	s := of(l)
	if s.host == nil {
		fail(l, "math.randomseed can only be called inside a script invocation")
	}
	s.random.seed(int32(checkInt(l, 1)))
	return 0
}

// pow is C's: Go's own is not as exact.
func pow(a, b float64) float64 {
	if b == 2 {
		return a * a
	}
	if f := exactPow(a, b); f == f || a != a || b != b {
		return f
	}
	return negativeNaN
}

// mod is a % b.
func mod(a, b float64) float64 { return a - math.Floor(a/b)*b }
