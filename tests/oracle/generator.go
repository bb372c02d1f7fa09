package oracle

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Generator makes random commands. The same seed makes the same commands, except that absolute expiries
// follow the clock that it is given.
type Generator struct {
	rng   *rand.Rand
	nowMs int64
	conns []connState
	// current is the connection of the running turn, turn how many more commands it sends.
	current, turn int
	opt           Options
}

// Options say what a Generator makes.
type Options struct {
	// Conns is the number of connections that take turns.
	Conns int
	// Plain leaves out connection state: no MULTI, WATCH, SELECT, HELLO, RESET, and no malformed commands.
	Plain bool
	// Names limits the commands to these; all if empty.
	Names []string
}

// connState is what the generator believes of a connection; the runner follows the replies instead.
type connState struct{ inMulti bool }

// NewGenerator makes a generator; nowMs is the time that absolute expiries are made from.
func NewGenerator(seed uint64, nowMs int64, opt Options) *Generator {
	if opt.Conns < 1 {
		opt.Conns = 1
	}
	return &Generator{rng: rand.New(rand.NewPCG(seed, 0x6b657679)), nowMs: nowMs, conns: make([]connState, opt.Conns), opt: opt}
}

// maker makes the arguments of one command.
type maker struct {
	name   string
	weight int
	make   func(g *Generator) [][]byte
	// inMulti says that the command may be queued: its reply does not need work on both sides around it.
	inMulti bool
	// plain says that the command only reads or writes keys of the selected database.
	plain bool
}

// makers is the closed list of commands, by family.
var makers = func() []maker {
	var all []maker
	for _, family := range [][]maker{stringMakers, bitMakers, keyMakers, hashMakers, listMakers, setMakers, zsetMakers, connMakers} {
		all = append(all, family...)
	}
	return all
}()

// Names lists all commands that a Generator makes.
func Names() []string {
	var out []string
	for _, m := range makers {
		out = append(out, m.name)
	}
	return out
}

// Next makes the next step.
func (g *Generator) Next() Step {
	if g.turn <= 0 {
		g.current = g.rng.IntN(len(g.conns))
		g.turn = 1 + g.rng.IntN(12)
	}
	g.turn--
	c := &g.conns[g.current]
	for {
		m := g.pick(c)
		s := Step{Conn: g.current, Args: m.make(g)}
		if !g.opt.Plain && g.p(5) && m.name != "FLUSHALL" && m.name != "FLUSHDB" {
			s.Args = g.spoil(s.Args)
		}
		if !g.safe(s.Args) {
			continue
		}
		if m.name == "MULTI" {
			c.inMulti = true
		}
		if m.name == "EXEC" || m.name == "DISCARD" || m.name == "RESET" {
			c.inMulti = false
		}
		if m.name == "PEXPIRE" && g.p(2) && !c.inMulti && !g.opt.Plain {
			// A key that has expired on both sides when the next command comes.
			return Step{Conn: g.current, Args: cmd("PEXPIRE", g.anyKey(), "1"), PauseMs: 4}
		}
		return s
	}
}

func (g *Generator) pick(c *connState) maker {
	if c.inMulti && g.p(25) {
		if g.p(15) {
			return byName["DISCARD"]
		}
		return byName["EXEC"]
	}
	for {
		m := makers[g.weighted()]
		if c.inMulti && !m.inMulti {
			continue
		}
		if g.opt.Plain && !m.plain {
			continue
		}
		if len(g.opt.Names) > 0 && !contains(g.opt.Names, m.name) {
			continue
		}
		return m
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

var byName = func() map[string]maker {
	out := map[string]maker{}
	for _, m := range makers {
		out[m.name] = m
	}
	return out
}()

var cumulative = func() []int {
	sums, n := make([]int, len(makers)), 0
	for i, m := range makers {
		n += m.weight
		sums[i] = n
	}
	return sums
}()

func (g *Generator) weighted() int {
	n := g.rng.IntN(cumulative[len(cumulative)-1])
	for i, c := range cumulative {
		if n < c {
			return i
		}
	}
	return len(cumulative) - 1
}

// p is true in percent of the cases.
func (g *Generator) p(percent int) bool { return g.rng.IntN(100) < percent }

func (g *Generator) oneOf(list ...string) string { return list[g.rng.IntN(len(list))] }

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

// The names of keys: few, so that commands meet; some that hash tags send to the same slot; some awkward.
var keyPools = map[byte][]string{
	's': {"s0", "s1", "s2", "s3", "{tag}s", "s5"},
	'h': {"h0", "h1", "h2", "{tag}h"},
	'l': {"l0", "l1", "l2", "{tag}l"},
	't': {"t0", "t1", "t2", "{tag}t"},
	'z': {"z0", "z1", "z2", "{tag}z"},
	'x': {"x0", "{tag}x"}, // sorted sets of one score, for the ranges of members
	'o': {"", "\x00\xff\r\n", "{}x", "missing", "{tag}", "key with \"quotes\"", strings.Repeat("K", 300)},
}

// key gives a key that mostly holds the wanted type.
func (g *Generator) key(kind byte) string {
	if g.p(88) {
		return g.oneOf(keyPools[kind]...)
	}
	return g.anyKey()
}

func (g *Generator) anyKey() string {
	kinds := "sshhllttzzxo"
	return g.oneOf(keyPools[kinds[g.rng.IntN(len(kinds))]]...)
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
	return strconv.FormatInt(100_000+g.rng.Int64N(1_000_000_000), 10)
}

func (g *Generator) milliseconds() string {
	switch n := g.rng.IntN(20); {
	case n == 0:
		return g.oneOf("0", "-1", "-9223372036854775808")
	case n == 1:
		return g.oneOf("9223372036854775807", "9223370000000000000", "abc", "", "9223372036854775808")
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

// soonMs is the span around now in which an expiry would fall into the run.
const soonMs = 2_000_000

// safe refuses what cannot be compared: an expiry that would fall into the run, which both sides would reach
// at different times; what would cost hundreds of megabytes; and what versions of Redis treat differently with
// effects beyond the reply.
func (g *Generator) safe(args [][]byte) bool {
	near := func(text []byte, unitMs, baseMs int64) bool {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || n > (1<<62)/unitMs || n < -(1<<62)/unitMs {
			return false
		}
		if baseMs == 0 && n <= 0 {
			return false
		}
		d := n*unitMs - baseMs
		return d > -soonMs && d < soonMs
	}
	switch n := name(args); n {
	case "EXPIRE", "SETEX", "PEXPIRE", "PSETEX", "EXPIREAT", "PEXPIREAT":
		if len(args) < 3 {
			return true
		}
		unit, base := int64(1000), int64(0)
		if n[0] == 'P' {
			unit = 1
		}
		if strings.HasSuffix(n, "AT") {
			base = g.nowMs
		}
		return !near(args[2], unit, base)
	case "SET", "GETEX":
		for i := 2; i+1 < len(args); i++ {
			switch strings.ToUpper(string(args[i])) {
			case "EX":
				if near(args[i+1], 1000, 0) {
					return false
				}
			case "PX":
				if near(args[i+1], 1, 0) {
					return false
				}
			case "EXAT":
				if near(args[i+1], 1000, g.nowMs) {
					return false
				}
			case "PXAT":
				if near(args[i+1], 1, g.nowMs) {
					return false
				}
			}
		}
	case "LPOS":
		// 7.0 turns the sign of a RANK around, which C cannot do to the smallest one.
		return !bytes.Contains(bytes.Join(args, nil), []byte("-9223372036854775808"))
	case "ZRANK", "ZREVRANK":
		// WITHSCORE came with 7.2: for 7.0 this is a wrong number of arguments, which aborts a transaction.
		return len(args) != 4
	case "HELLO":
		// 7.0 keeps the name of a HELLO that it then refuses, later versions do not.
		return len(args) <= 2 || len(args) == 4
	case "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER":
		// Redis would answer with as many elements.
		for _, a := range args[min(2, len(args)):] {
			if v, err := strconv.ParseInt(string(a), 10, 64); err == nil && v < -1000 && v != math.MinInt64 {
				return false
			}
		}
	case "SETRANGE", "SETBIT", "BITFIELD", "BITFIELD_RO":
		for _, a := range args[min(2, len(args)):] {
			v, err := strconv.ParseInt(strings.TrimPrefix(string(a), "#"), 10, 64)
			// Offsets that are allowed but would cost hundreds of megabytes.
			if err == nil && v > 8<<20 && v <= 1<<32 {
				return false
			}
			// BITFIELD of 7.0 overflows in C when it looks how far such a value is from the largest of a
			// signed field, and saturates at the wrong end.
			if err == nil && v < -1<<62 {
				return false
			}
		}
	}
	return true
}

// spoil makes a well-formed command wrong, or at least odd.
func (g *Generator) spoil(args [][]byte) [][]byte {
	out := append([][]byte{}, args...)
	at := g.rng.IntN(len(out))
	switch g.rng.IntN(6) {
	case 0:
		if at > 0 {
			return append(out[:at], out[at+1:]...)
		}
		return out[:1]
	case 1:
		return append(out, []byte(g.oneOf("NX", "XX", "GT", "LT", "GET", "COUNT", "LIMIT", "WITHSCORES", "BOGUS", "0", "-1", "", "REV", "CH")))
	case 2:
		if at > 0 {
			out[at] = []byte(g.oneOf(oddInts...))
		}
	case 3:
		if at > 0 {
			out[at] = []byte(g.oneOf("", "\x00", "NX", "limit", "WITHSCORES", "(", "[", "-", "+", "inf", "nan", g.anyKey()))
		}
	case 4:
		out[0] = []byte(strings.ToLower(string(out[0])))
		if g.p(10) {
			out[0] = []byte(g.oneOf("NOSUCH", "", "get\xff", "GETT", strings.Repeat("x", 200)))
		}
	case 5:
		b := g.rng.IntN(len(out))
		if at > 0 && b > 0 {
			out[at], out[b] = out[b], out[at]
		}
	}
	return out
}
