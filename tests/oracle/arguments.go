package oracle

import (
	"math"
	"strconv"
	"strings"
)

// times makes lo to hi arguments.
func (g *Generator) times(lo, hi int, f func() string) []string {
	out := make([]string, lo+g.rng.IntN(hi-lo+1))
	for i := range out {
		out[i] = f()
	}
	return out
}

// maybe gives the options in percent of the cases, else nothing.
func (g *Generator) maybe(percent int, opts ...string) []string {
	if g.p(percent) {
		return opts
	}
	return nil
}

// join makes the arguments of a command from texts and lists of texts.
func join(parts ...any) [][]byte {
	var out [][]byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, []byte(p))
		case []string:
			for _, s := range p {
				out = append(out, []byte(s))
			}
		}
	}
	return out
}

// key gives a key that mostly holds the wanted type, by the letter of its family.
func (g *Generator) key(kind byte) string {
	if g.p(88) {
		return g.oneOf(g.cat.keys[kind]...)
	}
	return g.anyKey()
}

// awkwardKeys are names that no family owns.
var awkwardKeys = []string{"", "\x00\xff\r\n", "{}x", "missing", "{tag}", "key with \"quotes\"", strings.Repeat("K", 300)}

func (g *Generator) anyKey() string {
	n := g.rng.IntN(2*len(g.cat.kinds) + 1)
	if n == 0 {
		return g.oneOf(awkwardKeys...)
	}
	return g.oneOf(g.cat.keys[g.cat.kinds[(n-1)/2]]...)
}

func (g *Generator) keys(kind byte, lo, hi int) []string {
	return g.times(lo, hi, func() string { return g.key(kind) })
}

// Numbers at the edges of what is accepted, and texts that are nearly numbers.
var oddInts = []string{
	"9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809", "18446744073709551615",
	"4294967295", "4294967296", "2147483647", "-2147483648", "01", "+1", " 1", "1 ", "-0", "", "1.0", "1e3", "0x10", "abc", "-", "--1",
	"99999999999999999999999", "1\x00", "９",
}

// integer gives mostly small numbers.
func (g *Generator) integer() string {
	switch n := g.rng.IntN(20); {
	case n < 2:
		return g.oneOf(oddInts...)
	case n < 4:
		return strconv.FormatInt(int64(g.rng.Uint64())>>g.rng.IntN(64), 10)
	}
	return strconv.Itoa(g.rng.IntN(14) - 4)
}

func (g *Generator) count() string {
	if g.p(6) {
		return g.oneOf("-9223372036854775808", "9223372036854775807", "-2", "abc", "", "0")
	}
	return strconv.Itoa(g.rng.IntN(7) - 1)
}

var oddFloats = []string{
	"inf", "-inf", "+inf", "Infinity", "nan", "1e308", "-1e308", "1e309", "-0", "-0.0", "0.1", "0.30000000000000004", "1e-320", "5e-324", "1e17", "1e21",
	"9007199254740993", "123456789012345678", "3.0", "3.0e3", ".5", "5.", "0x10", "0x1p-3", " 1", "1 ", "", "abc", "1e", "1_0", "+5", "1.7976931348623157e308",
}

// score gives a floating-point number; mostly multiples of a half, whose sums are exact in any order.
func (g *Generator) score() string {
	switch n := g.rng.IntN(20); {
	case n < 2:
		return g.oneOf(oddFloats...)
	case n < 4:
		return strconv.FormatFloat(g.rng.NormFloat64()*1000, 'g', -1, 64)
	case n < 8:
		return strconv.FormatFloat(float64(g.rng.IntN(40)-20)/2, 'g', -1, 64)
	}
	return strconv.Itoa(g.rng.IntN(12) - 3)
}

// decimal gives an operand of INCRBYFLOAT, whose result is text that must agree to the last digit.
func (g *Generator) decimal() string {
	switch n := g.rng.IntN(20); {
	case n < 2:
		return g.oneOf(oddFloats...)
	case n < 5:
		return strconv.FormatFloat(g.rng.NormFloat64()*float64(int64(1)<<g.rng.IntN(50)), 'g', -1, 64)
	case n < 9:
		return strconv.FormatFloat(float64(g.rng.IntN(200000)-100000)/1000, 'f', 3, 64)
	case n < 11:
		return strconv.FormatFloat(g.rng.Float64(), 'e', g.rng.IntN(20), 64)
	}
	return strconv.FormatFloat(float64(g.rng.IntN(400)-200)/10, 'f', 1, 64)
}

var binary = func() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}()

// value gives a string value.
func (g *Generator) value() string {
	switch n := g.rng.IntN(40); {
	case n < 2:
		return ""
	case n < 4:
		return g.oneOf(oddInts...)
	case n < 6:
		return g.oneOf(oddFloats...)
	case n < 8:
		return binary[:1+g.rng.IntN(256)]
	case n < 9:
		// Around the bounds of the encodings of strings and of packed collections.
		return strings.Repeat("x", g.oneOfInt(20, 21, 43, 44, 45, 63, 64, 65, 66))
	case n < 10:
		return strings.Repeat(g.oneOf("a", "b", "ab\x00"), 1+g.rng.IntN(1500))
	case n < 20:
		return strconv.Itoa(g.rng.IntN(30000) - 10000)
	case n < 24:
		return g.oneOf("ohmytext", "mynewtext", "foobar", "\xff\xf0\x00", "\x00\xff\xf0", "10.5", "hello world")
	case n == 24 && g.p(10):
		return strings.Repeat("h", 20000+g.rng.IntN(80000))
	}
	return g.oneOf("a", "b", "c", "foo", "bar") + strconv.Itoa(g.rng.IntN(5))
}

func (g *Generator) oneOfInt(list ...int) int { return list[g.rng.IntN(len(list))] }

// field gives a field of a hash or a member of a set or sorted set; wide ones come from a larger space,
// so that collections outgrow their packed form.
func (g *Generator) field() string {
	switch n := g.rng.IntN(30); {
	case n < 1:
		return g.oneOf("", "\x00", "\xff\xfe", binary, "field with space", strings.Repeat("F", 64), strings.Repeat("F", 65))
	case n < 6:
		return strconv.Itoa(g.rng.IntN(12))
	case n < 7:
		return g.oneOf(oddInts...)
	}
	return "f" + strconv.Itoa(g.rng.IntN(14))
}

// member gives a member of a set: numbers more often than field, for the integer encoding.
func (g *Generator) member() string {
	if g.p(55) {
		return strconv.Itoa(g.rng.IntN(20) - 5)
	}
	return g.field()
}

// many gives n elements prefix0…, for collections beyond the packed bounds.
func many(prefix string, start, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = prefix + strconv.Itoa(start+i)
	}
	return out
}

// Relative expiries are far away, and so widely spread that two of them never fall into the same
// millisecond on one side and into two on the other.
func (g *Generator) seconds() string {
	switch n := g.rng.IntN(20); {
	case n == 0:
		return g.oneOf("0", "-1", "-100", "-9223372036854775808")
	case n == 1:
		return g.oneOf("9223372036854775807", "9223372036854775", "9223372036854776", "9223370000000000", "abc", "", "1.5", "-9223372036854776", "18446744073709551616")
	}
	if g.p(3) {
		// Around the largest span that does not carry the clock beyond 64 bits of milliseconds.
		return strconv.FormatInt((math.MaxInt64-g.nowMs)/1000+int64(g.oneOfInt(-20_000, -10_000, 10_000, 20_000)), 10)
	}
	return strconv.FormatInt(100_000+g.rng.Int64N(1_000_000_000), 10)
}

func (g *Generator) milliseconds() string {
	switch n := g.rng.IntN(20); {
	case n == 0:
		return g.oneOf("0", "-1", "-9223372036854775808")
	case n == 1:
		return g.oneOf("9223372036854775807", "9223370000000000000", "abc", "", "9223372036854775808")
	}
	if g.p(3) {
		return strconv.FormatInt(math.MaxInt64-g.nowMs+int64(g.oneOfInt(-20_000_000, -10_000_000, 10_000_000, 20_000_000)), 10)
	}
	return strconv.FormatInt(100_000_000+g.rng.Int64N(1_000_000_000_000), 10)
}

func (g *Generator) unixSeconds() string {
	switch n := g.rng.IntN(12); {
	case n == 0:
		return g.oneOf("0", "-1", "1", "1000000000", "9223372036854775807", "9223372036854775", "9223372036854776", "abc", "", "-9223372036854775808")
	case n == 1:
		return strconv.FormatInt(g.nowMs/1000-10_000-g.rng.Int64N(1_000_000), 10)
	}
	return strconv.FormatInt(g.nowMs/1000+100_000+g.rng.Int64N(1_000_000_000), 10)
}

func (g *Generator) unixMilliseconds() string {
	switch n := g.rng.IntN(12); {
	case n == 0:
		return g.oneOf("0", "-1", "1", "1000000000000", "9223372036854775807", "abc", "", "-9223372036854775808")
	case n == 1:
		return strconv.FormatInt(g.nowMs-10_000_000-g.rng.Int64N(1_000_000_000), 10)
	}
	return strconv.FormatInt(g.nowMs+100_000_000+g.rng.Int64N(1_000_000_000_000), 10)
}

// randomCount is the count of a random pick, or nothing, with its option.
func (g *Generator) randomCount(option string) []string {
	if g.p(35) {
		return nil
	}
	n := strconv.Itoa(g.rng.IntN(16) - 8)
	if g.p(6) {
		n = g.oneOf("abc", "", "-9223372036854775808", "0", "9223372036854775807")
	}
	if option == "" {
		return []string{n}
	}
	return append([]string{n}, g.maybe(50, option)...)
}

func (g *Generator) cursor() string {
	if g.p(6) {
		return g.oneOf("abc", "", "-1", "18446744073709551616", "1.5")
	}
	return "0"
}

func (g *Generator) scanOptions(types bool) []string {
	out := g.maybe(40, "MATCH", g.pattern())
	if g.p(40) {
		out = append(out, "COUNT", g.oneOf("1", "2", "5", "10", "100", "1000", "0", "-1", "abc"))
	}
	if types && g.p(25) {
		out = append(out, "TYPE", g.oneOf("string", "list", "set", "zset", "hash", "STRING", "nosuch"))
	}
	return out
}

func (g *Generator) pattern() string {
	return g.oneOf("*", "s*", "f1*", "?0", "*[0-4]", "[^s]*", "h[a", "{tag}*", "\\*", "*\xff*", "", "f?", "*1*2*", "[z-a]*", "m*", "[-5]*", "\\")
}

// numbered is numkeys and that many keys, sometimes not as many.
func (g *Generator) numbered(kind byte) []string {
	keys := g.keys(kind, 1, 3)
	n := strconv.Itoa(len(keys))
	if g.p(5) {
		n = g.oneOf("0", "-1", "abc", "4", "1", "9223372036854775807", "2147483648")
	}
	return append([]string{n}, keys...)
}

// soonMs is the span around now in which an expiry would fall into the run.
const soonMs = 2_000_000

// near tells of an argument that is an expiry so close that both sides would reach it at different times in
// the run. It counts in units of unitMs from baseMs, which is 0 for a span from now.
func (g *Generator) near(args [][]byte, at int, unitMs, baseMs int64) bool {
	if at >= len(args) {
		return false
	}
	n, err := strconv.ParseInt(string(args[at]), 10, 64)
	if err != nil || n > (1<<62)/unitMs || n < -(1<<62)/unitMs {
		return false
	}
	if baseMs == 0 && n <= 0 {
		return false
	}
	d := n*unitMs - baseMs
	return d > -soonMs && d < soonMs
}

// manyPicks tells of a negative count that asks for so many elements that Redis would answer for long.
func manyPicks(_ *Generator, args [][]byte) bool {
	for _, a := range args[min(2, len(args)):] {
		if v, err := strconv.ParseInt(string(a), 10, 64); err == nil && v < -1000 && v != math.MinInt64 {
			return true
		}
	}
	return false
}
