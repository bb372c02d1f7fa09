package lualib_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/internal/script/lualib"
	luatest "kevy/tests/lua"
)

// maker makes scripts of numbers, texts and tables that no one would think of.
type maker struct{ *rand.Rand }

var oddNumbers = []float64{
	0, 1, -1, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 1 << 31, 1<<31 - 1, 1 << 32, 1<<32 - 1, 1 << 53, 1<<53 + 2, 1 << 62, 1 << 63,
	-32, -33, -128, -129, -32768, -32769, -(1 << 31), -(1 << 31) - 1, -(1 << 63), 0.5, 1.5, 2.5, -0.5, 0.1, 1e14, 1e15, 1e16, 1e17, 1e100, 1e-5, 1e-300,
	123456789012345, 99999999999999, 999999999999999, math.MaxFloat32, math.MaxFloat64, math.SmallestNonzeroFloat64,
}

func (m maker) number() string {
	var f float64
	switch m.IntN(6) {
	case 0:
		f = oddNumbers[m.IntN(len(oddNumbers))]
	case 1:
		f = float64(m.Int64N(1 << m.IntN(62)))
	case 2:
		f = -float64(m.IntN(1 << m.IntN(31)))
	case 3:
		f = m.NormFloat64() * math.Pow(10, float64(m.IntN(40)-20))
	case 4:
		f = float64(m.IntN(100000)) / 1000
	default:
		for f = math.NaN(); f != f || math.IsInf(f, 0); {
			f = math.Float64frombits(m.Uint64())
		}
	}
	return "(" + strconv.FormatFloat(f, 'g', 17, 64) + ")"
}

func (m maker) text() string {
	const letters = "abcxyzABC 0123456789+-.eExX%\"\\/\n\r\t\x00\x7f\x80\xff{}[]:,_"
	b := make([]byte, m.IntN(12))
	for i := range b {
		b[i] = letters[m.IntN(len(letters))]
	}
	return quote(string(b))
}

// numeral is a text that may be a number.
func (m maker) numeral() string {
	parts := []string{"", "-", "+", " ", "0x", "0X", "1", "42", "007", ".", ".5", "1.", "e", "e5", "E-3", "p4", "inf", "nan", "ff", "1e400", "99999999999999999999", " ", "\t"}
	var b strings.Builder
	for range 1 + m.IntN(4) {
		b.WriteString(parts[m.IntN(len(parts))])
	}
	return quote(b.String())
}

// value is a value; tables have at most one key that is no index, for the order
// of several is another.
func (m maker) value(depth int) string {
	switch n := m.IntN(10); {
	case n < 4:
		return m.number()
	case n < 6:
		return m.text()
	case n == 6:
		return []string{"true", "false", "cjson.null"}[m.IntN(3)]
	case depth > 3:
		return "1"
	case n == 7:
		return "{[" + m.text() + "]=" + m.value(depth+1) + "}"
	}
	var parts []string
	for range m.IntN(5) {
		parts = append(parts, m.value(depth+1))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (m maker) pick(words ...string) string { return words[m.IntN(len(words))] }

// json is text that may be JSON.
func (m maker) json(depth int) string {
	switch n := m.IntN(9); {
	case n < 2:
		return m.pick("1", "-0", "1.5e3", "0x1F", "010", "1e999", "nan", "-Infinity", "1.", "-", "12345678901234567890", "0.1")
	case n < 4:
		return m.pick(`"a"`, `"\u0041\u00e9\u20ac"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\x"`, `"a`, `"\n\/\\"`, "\"a\x00\"", `""`)
	case n == 4:
		return m.pick("true", "false", "null", "nul", "TRUE", "x", "")
	case depth > 3:
		return "1"
	case n == 5:
		return `{"` + m.pick("a", "b", "") + `"` + m.pick(":", ":", ":", " : ", ",") + m.json(depth+1) + m.pick("}", "}", "}", "", ",}")
	}
	var parts []string
	for range m.IntN(4) {
		parts = append(parts, m.json(depth+1))
	}
	return m.pick("[", "[ ") + strings.Join(parts, m.pick(",", " , ", ",", " ")) + m.pick("]", "]", "]", "", "]]")
}

func (m maker) structFormat() string {
	var b strings.Builder
	for range 1 + m.IntN(5) {
		b.WriteString(m.pick("b", "B", "h", "H", "l", "L", "T", "i", "I", "i3", "I7", "i8", "f", "d", "x", "s", "c3", "c0", ">", "<", "!", "!4", "!2", " ", "i16", "?"))
	}
	return quote(b.String())
}

func (m maker) packed() string {
	b := make([]byte, m.IntN(12))
	for i := range b {
		if b[i] = byte(m.IntN(256)); m.IntN(3) == 0 {
			b[i] = []byte{0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3, 0xa1, 0x91, 0x81, 0xc0, 0xc3, 0xd9, 0xdc, 0xde}[m.IntN(18)]
		}
	}
	return quote(string(b))
}

// show makes a value a text, its shape included.
const show = `local function show(v, d) if type(v) == 'number' then return string.format('%.17g', v) elseif type(v) == 'table' and d < 12 then local t = {} ` +
	`for k, x in pairs(v) do t[#t+1] = (type(k) == 'table' and show(k, d + 1) or tostring(k)) .. '=' .. show(x, d + 1) end table.sort(t) return '{' .. table.concat(t, ',') .. '}' end return tostring(v) end ` +
	`local function all(...) local t = {} for i = 1, select('#', ...) do t[i] = show((select(i, ...)), 0) end return table.concat(t, ';') end `

// source is Lua, or nearly.
func (m maker) source() string {
	var b strings.Builder
	b.WriteString(m.pick("", "return ", "x = ", "local x ", "local a, b = 1 ", "if x then ", "for i = 1, 2 do ", "for k in x do ", "function f(a, b) ", "while x do ", "repeat ", "do ", "x(", "return {"))
	for range m.IntN(6) {
		b.WriteString(m.pick("x", "a.b", "1", "0x1f", ".5", "3e2", "'s'", "\"t\"", "[[u]]", "[=[", "]=]", "--c", "nil", "true", "...", "..", ".", "=", "==", "~", "~=", "<", "<=",
			"+", "-", "*", "/", "%", "^", "#", "not", "and", "or", "(", ")", "{", "}", "[", "]", ",", ";", ":", "end", "return", "break", "then", "else", "elseif x", "do", "in", "until x",
			"function(", "local", "if", "\x00", "\x00", "\x01", "\x7f", "\xff", "@", "$", "\\", "'", "\"", "1x", "1e", "\n", "goto"))
		b.WriteString(m.pick(" ", " ", "", "\n"))
	}
	b.WriteString(m.pick("", "", " end", ")", "}", " until x"))
	return b.String()
}

func (m maker) script() string {
	call := func(fn string, args ...string) string {
		return show + "return all(pcall(" + fn + ", " + strings.Join(args, ", ") + "))"
	}
	switch m.IntN(14) {
	case 0:
		return call("cjson.encode", m.value(0))
	case 1:
		return call("cjson.decode", quote(m.json(0)))
	case 2:
		return call("cmsgpack.pack", m.value(0), m.value(0))
	case 3:
		return call("cmsgpack.unpack", m.packed())
	case 4:
		return call("struct.pack", m.structFormat(), m.number(), m.number(), m.number(), m.text(), m.number())
	case 5:
		return call("struct.unpack", m.structFormat(), m.packed(), strconv.Itoa(m.IntN(4)))
	case 6:
		return call("bit."+m.pick("tobit", "tohex", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "bswap"), m.number(), m.number())
	case 7:
		return call("string.format", quote("%"+m.pick("", "-", "+", " ", "#", "0", "-+", "#0")+m.pick("", "5", "12")+m.pick("", ".0", ".3", ".17")+m.pick("d", "i", "u", "x", "X", "o", "e", "E", "f", "g", "G", "s", "q", "c")), m.number())
	case 8:
		return "return tostring(" + m.number() + m.pick("+", "-", "*", "/", "%") + m.number() + ")"
	case 9:
		return call("tonumber", m.numeral())
	case 10:
		return call("tonumber", m.numeral(), strconv.Itoa(2+m.IntN(35)))
	case 12:
		return "local f, e = loadstring(" + quote(m.source()) + ") return e or 'it compiles'"
	case 11:
		return "return {" + m.number() + "," + m.number() + ",{double=" + m.pick("1.5", "3", "-0.25") + "}," + m.text() + "}"
	}
	return call("string."+m.pick("sub", "byte"), m.text(), m.number(), m.number())
}

// TestRandom compares random calls with redis-server. KEVY_SEED repeats one run,
// KEVY_LUA_SCRIPTS sets how many there are.
func TestRandom(t *testing.T) {
	o := luatest.StartOracle(t)
	if o == nil {
		t.Skip("redis-server 7.0.15 is not installed")
	}
	seed := uint64(time.Now().UnixNano())
	if v, err := strconv.ParseUint(os.Getenv("KEVY_SEED"), 10, 64); err == nil {
		seed = v
	}
	n := 3000
	if v, err := strconv.Atoi(os.Getenv("KEVY_LUA_SCRIPTS")); err == nil {
		n = v
	}
	t.Logf("KEVY_SEED=%d, %d scripts", seed, n)
	m := maker{rand.New(rand.NewPCG(seed, 0))}
	s := lualib.New()
	defer s.Close()
	differ := 0
	for i := range n {
		source := m.script()
		proto := 2 + i&1
		if want, got := o.Eval(t, proto, source), evalOurs(s, proto, source); want != got {
			differ++
			t.Errorf("%s", fmt.Sprintf("%s\nin RESP%d is  %q\n      must be %q", strings.TrimPrefix(source, show), proto, got, want))
			if differ == 10 {
				t.Fatal("and maybe more")
			}
		}
	}
}
