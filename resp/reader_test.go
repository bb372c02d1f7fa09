package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func encode(args ...string) string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&sb, "$%d\r\n%s\r\n", len(a), a)
	}
	return sb.String()
}

var ping = encode("PING")

// protocolCases are inputs with what Redis makes of them: the commands, one a
// line with arguments quoted by %q, and the protocol error, if any, after "! ".
// TestOracleProtocol holds redis-server to the same table.
var protocolCases = []struct {
	name, in, want string
}{
	{"nothing", "", ""},
	{"one", ping, `["PING"]`},
	{"two", ping + ping, "[\"PING\"]\n[\"PING\"]"},
	{"binary", encode("ECHO", "a\x00\r\n\xff"), `["ECHO" "a\x00\r\n\xff"]`},
	{"empty argument", encode("ECHO", ""), `["ECHO" ""]`},
	{"empty name", encode(""), `[""]`},
	{"two-digit lengths", encode("ECHO", "0123456789", "", "0123456789a"), `["ECHO" "0123456789" "" "0123456789a"]`},
	{"unfinished", "*2\r\n$4\r\nECHO\r\n$3\r\nab", ""},
	{"unfinished end", "*1\r\n$4\r\nPING\r", ""},

	{"count 0", "*0\r\n" + ping, `["PING"]`},
	{"count -1", "*-1\r\n" + ping, `["PING"]`},
	{"count min int64", "*-9223372036854775808\r\n" + ping, `["PING"]`},
	{"count below int64", "*-9223372036854775809\r\n" + ping, "! invalid multibulk length"},
	{"count -0", "*-0\r\n" + ping, "! invalid multibulk length"},
	{"count +1", "*+1\r\n$4\r\nPING\r\n", "! invalid multibulk length"},
	{"count 01", "*01\r\n$4\r\nPING\r\n", "! invalid multibulk length"},
	{"count 00", "*00\r\n" + ping, "! invalid multibulk length"},
	{"count empty", "*\r\n", "! invalid multibulk length"},
	{"count -", "*-\r\n", "! invalid multibulk length"},
	{"count space", "* 1\r\n$4\r\nPING\r\n", "! invalid multibulk length"},
	{"count space after", "*1 \r\n$4\r\nPING\r\n", "! invalid multibulk length"},
	{"count text", "*x\r\n", "! invalid multibulk length"},
	{"count 20 digits", "*18446744073709551617\r\n", "! invalid multibulk length"},
	{"count over int64", "*9223372036854775808\r\n", "! invalid multibulk length"},
	{"count max int64", "*9223372036854775807\r\n", "! invalid multibulk length"},
	{"count over int", "*2147483648\r\n", "! invalid multibulk length"},
	{"count max int", "*2147483647\r\n", ""},
	{"count ten digits", "*1000000001\r\n", ""},
	{"count line with \\n only", "*1\n$4\r\nPING\r\n", "! invalid multibulk length"},
	{"count line with any byte after \\r", "*1\rx$4\rxPINGxx" + ping, "[\"PING\"]\n[\"PING\"]"},
	{"count max int is waited for", "*2147483647\r\n$4\r\nPING\r\n", ""},

	{"bulk -1", "*1\r\n$-1\r\n", "! invalid bulk length"},
	{"bulk -2", "*1\r\n$-2\r\n", "! invalid bulk length"},
	{"bulk min int64", "*1\r\n$-9223372036854775808\r\n", "! invalid bulk length"},
	{"bulk max int64", "*1\r\n$9223372036854775807\r\n", "! invalid bulk length"},
	{"bulk wraps to 3", "*1\r\n$18446744073709551619\r\nabc\r\n", "! invalid bulk length"},
	{"bulk over limit", "*1\r\n$536870913\r\n", "! invalid bulk length"},
	{"bulk at limit", "*1\r\n$536870912\r\n", ""},
	{"bulk 04", "*1\r\n$04\r\nPING\r\n", "! invalid bulk length"},
	{"bulk empty", "*1\r\n$\r\n", "! invalid bulk length"},
	{"bulk text", "*1\r\n$x\r\nPING\r\n", "! invalid bulk length"},
	{"bulk +4", "*1\r\n$+4\r\nPING\r\n", "! invalid bulk length"},
	{"bulk of null", "*1\r\n$$\r\n", "! invalid bulk length"},
	{"bulk end is not looked at", "*1\r\n$4\r\nPINGxx" + ping, "[\"PING\"]\n[\"PING\"]"},
	{"bulk shorter than said", "*1\r\n$5\r\nPING\r\n" + ping, "[\"PING\\r\"]\n[\"1\"]\n[\"$4\"]\n[\"PING\"]"},

	{"integer as argument", "*1\r\n:4\r\nPING\r\n", "! expected '$', got ':'"},
	{"nested array", "*1\r\n*1\r\n$4\r\nPING\r\n", "! expected '$', got '*'"},
	{"no bulk header", "*1\r\nPING\r\n", "! expected '$', got 'P'"},
	{"empty bulk line", "*1\r\n\r\n", "! expected '$', got ' '"},
	{"newline as bulk line", "*1\r\n\nx\r\n", "! expected '$', got ' '"},
	{"quote as bulk line", "*1\r\n'\r\n", "! expected '$', got '''"},
	{"high byte as bulk line", "*1\r\n\xff\r\n", "! expected '$', got '\xff'"},
	{"wrong type is seen at the line's end only", "*1\r\n:4", ""},

	{"error after commands", ping + "*1\r\n$4\r\nPING\r\nPING\r\n*x\r\n" + ping, "[\"PING\"]\n[\"PING\"]\n[\"PING\"]\n! invalid multibulk length"},
	{"error within a command", ping + "*2\r\n$4\r\nECHO\r\n$z\r\n" + ping, "[\"PING\"]\n! invalid bulk length"},

	{"inline", "PING\r\n", `["PING"]`},
	{"inline with \\n only", "PING\n", `["PING"]`},
	{"inline with arguments", "  ECHO\t a  \r\n", `["ECHO" "a"]`},
	{"inline, two", "ECHO a\r\nECHO b\n", "[\"ECHO\" \"a\"]\n[\"ECHO\" \"b\"]"},
	{"inline, blank lines", "\r\n\n  \r\n\t\nPING\r\n", `["PING"]`},
	{"inline, \\r within", "ECHO\ra\r\n", `["ECHO" "a"]`},
	{"inline, \\r twice", "PING\r\r\n", `["PING"]`},
	{"inline, only \\r", "\r\r\nPING\r\n", `["PING"]`},
	{"inline, unfinished", "PING", ""},
	{"inline, unfinished with \\r", "PING\r", ""},
	{"inline, zero byte", "PI\x00NG\r\nPING\r\n", ""},
	{"inline, zero byte first", "\x00\r\nPING\r\n", ""},
	{"inline, zero byte in the next", "PING\r\n\x00PING\r\nPING\r\n", `["PING"]`},
	{"inline, then array", "PING\r\n" + ping, "[\"PING\"]\n[\"PING\"]"},
	{"inline, looks like bulk", "$4\r\nPING\r\n", "[\"$4\"]\n[\"PING\"]"},
	{"inline, looks like status", "+PING\r\n", `["+PING"]`},
	{"inline, space before array", " *1\r\n$4\r\nPING\r\n", "[\"*1\"]\n[\"$4\"]\n[\"PING\"]"},
	{"inline, quotes", `ECHO "a b"` + "\r\n", `["ECHO" "a b"]`},
	{"inline, single quotes", `ECHO 'a "b" \n'` + "\r\n", `["ECHO" "a \"b\" \\n"]`},
	{"inline, single quote escaped", `ECHO 'it\'s'` + "\r\n", `["ECHO" "it's"]`},
	{"inline, escapes", `ECHO "\n\r\t\b\a\x41\xfF\q\"\\\x4"` + "\r\n", `["ECHO" "\n\r\t\b\aA\xffq\"\\x4"]`},
	{"inline, empty quotes", `ECHO "" ''` + "\r\n", `["ECHO" "" ""]`},
	{"inline, quotes within a word", `ECHO ab"c d"` + "\r\n", `["ECHO" "abc d"]`},
	{"inline, backslash outside quotes", `ECHO a\nb` + "\r\n", `["ECHO" "a\\nb"]`},
	{"inline, zero byte by escape", `ECHO "a\x00b"` + "\r\n", `["ECHO" "a\x00b"]`},
	{"inline, vertical space", "\v\fECHO a\vb\f\r\n", `["ECHO" "a\vb\f"]`},
	{"inline, vertical space behind quotes", "ECHO \"a\"\vb\r\n", `["ECHO" "a" "b"]`},
	{"inline, open quote", `ECHO "a` + "\r\n", "! unbalanced quotes in request"},
	{"inline, open single quote", `ECHO 'a` + "\r\n", "! unbalanced quotes in request"},
	{"inline, text behind quote", `ECHO "a"b` + "\r\n", "! unbalanced quotes in request"},
	{"inline, quote behind quote", `ECHO "a"'b'` + "\r\n", "! unbalanced quotes in request"},
	{"inline, backslash at the end", `ECHO "a\` + "\r\n", "! unbalanced quotes in request"},
	{"inline, backslash quote at the end", `ECHO "a\"` + "\r\n", "! unbalanced quotes in request"},
	{"inline, error after command", "PING\r\nECHO '\r\nPING\r\n", "[\"PING\"]\n! unbalanced quotes in request"},

	{"zero byte in count line", "*1\x00\r\n$4\r\nPING\r\n", ""},
	{"zero byte in bulk line", "*1\r\n$4\x00\r\nPING\r\n", ""},
	{"inline at limit", strings.Repeat("a", 65536) + "\n", fmt.Sprintf(`[%q]`, strings.Repeat("a", 65536))},
	{"inline over limit", strings.Repeat("a", 65537), "! too big inline request"},
	{"inline over limit by blanks", strings.Repeat(" ", 65537), "! too big inline request"},
	{"inline over limit behind zero byte", "\x00\r\n" + strings.Repeat("a", 65534), "! too big inline request"},
	{"count line at limit", "*" + strings.Repeat("1", 65535), ""},
	{"count line at limit, ended", "*" + strings.Repeat("1", 65535) + "\r\n", "! invalid multibulk length"},
	{"count line over limit", "*" + strings.Repeat("1", 65536), "! too big mbulk count string"},
	{"count line over limit behind zero byte", "*\x00\r\n" + strings.Repeat("1", 65533), "! too big mbulk count string"},
	{"bulk line at limit", "*1\r\n$" + strings.Repeat("1", 65535), ""},
	{"bulk line at limit, ended", "*1\r\n$" + strings.Repeat("1", 65535) + "\r\n", "! invalid bulk length"},
	{"bulk line over limit", "*1\r\n$" + strings.Repeat("1", 65536), "! too big bulk count string"},
	{"bulk line over limit, of wrong type", "*1\r\nx" + strings.Repeat("1", 65536), "! too big bulk count string"},
}

func describe(commands [][]string, problem string) string {
	var lines []string
	for _, c := range commands {
		lines = append(lines, fmt.Sprintf("%q", c))
	}
	if problem != "" {
		lines = append(lines, "! "+problem)
	}
	return strings.Join(lines, "\n")
}

func TestProtocol(t *testing.T) {
	for _, c := range protocolCases {
		t.Run(c.name, func(t *testing.T) {
			if got := describe(referenceParse(c.in, Limits{})); got != c.want {
				t.Errorf("reference: got %.200s, want %.200s", got, c.want)
			}
			for name, next := range cuts(1) {
				got := describe(readAll(t, NewReader(&cutReader{c.in, next}, DefaultLimits())))
				if got != c.want {
					t.Errorf("cut into %s: got %.200s\nwant %.200s", name, got, c.want)
				}
			}
		})
	}
}

// unauthenticatedCases are for a client that must log in first.
var unauthenticatedCases = []struct {
	name, in, want string
}{
	{"ten arguments", "*10\r\n", ""},
	{"eleven arguments", "*11\r\n", "! unauthenticated multibulk length"},
	{"max int arguments", "*2147483647\r\n", "! unauthenticated multibulk length"},
	{"too many for anyone", "*2147483648\r\n", "! invalid multibulk length"},
	{"no arguments", "*-11\r\n", ""},
	{"16 KiB", "*1\r\n$16384\r\n", ""},
	{"16 KiB and one", "*1\r\n$16385\r\n", "! unauthenticated bulk length"},
	{"512 MiB", "*1\r\n$536870912\r\n", "! unauthenticated bulk length"},
	{"too long for anyone", "*1\r\n$536870913\r\n", "! invalid bulk length"},
	{"negative", "*1\r\n$-1\r\n", "! invalid bulk length"},
	{"text", "*x\r\n", "! invalid multibulk length"},
	{"wrong type", "*1\r\n:4\r\n", "! expected '$', got ':'"},
	{"inline over limit", strings.Repeat("a", 65537), "! too big inline request"},
}

func TestProtocolUnauthenticated(t *testing.T) {
	for _, c := range unauthenticatedCases {
		t.Run(c.name, func(t *testing.T) {
			for name, next := range cuts(1) {
				got := describe(readAll(t, NewReader(&cutReader{c.in, next}, UnauthenticatedLimits())))
				if got != c.want {
					t.Errorf("cut into %s: got %s, want %s", name, got, c.want)
				}
			}
		})
	}
}

func TestOwnLimits(t *testing.T) {
	lim := Limits{MaxArgs: 3, MaxBulkBytes: 5, MaxInlineBytes: 20}
	for in, want := range map[string]string{
		encode("a", "b", "c"):                `["a" "b" "c"]`,
		encode("a", "b", "c", "d"):           "! invalid multibulk length",
		encode("12345"):                      `["12345"]`,
		encode("123456"):                     "! invalid bulk length",
		strings.Repeat("a", 20) + "\n":       `["aaaaaaaaaaaaaaaaaaaa"]`,
		strings.Repeat("a", 21) + "\n":       "! too big inline request",
		"*1" + strings.Repeat("0", 20):       "! too big mbulk count string",
		"*1\r\n$1" + strings.Repeat("0", 20): "! too big bulk count string",
	} {
		for name, next := range cuts(1) {
			if got := describe(readAll(t, NewReader(&cutReader{in, next}, lim))); got != want {
				t.Errorf("%q cut into %s: got %s, want %s", in, name, got, want)
			}
		}
	}
}

func TestSetLimits(t *testing.T) {
	in := encode("ECHO", "123456789") + encode("ECHO", "123456789")
	r := NewReader(strings.NewReader(in), Limits{MaxBulkBytes: 9})
	if err := r.Fill(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := r.Next(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r.SetLimits(Limits{MaxBulkBytes: 8})
	if _, ok, err := r.Next(); ok || err != errBulkLength {
		t.Fatal(ok, err)
	}

	r = NewReader(strings.NewReader(encode("HELLO")+encode(strings.Split("MSET a b c d e f g h i j", " ")...)), UnauthenticatedLimits())
	if err := r.Fill(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := r.Next(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r.SetLimits(DefaultLimits())
	if args, ok, err := r.Next(); !ok || err != nil || len(args) != 11 {
		t.Fatal(args, ok, err)
	}
}

func TestLimitsThatOverflow(t *testing.T) {
	huge := Limits{MaxBulkBytes: 1<<63 - 1, MaxQueryBytes: 1<<63 - 1, MaxInlineBytes: 1<<63 - 1, MaxArgs: 1<<63 - 1}
	for _, in := range []string{"*1\r\n$9223372036854775807\r\nabc", "*1\r\n$4611686018427387904\r\nabc", "*1\r\n$2305843009213693951\r\nabc", "*9223372036854775807\r\nabc"} {
		for _, next := range cuts(1) {
			r := NewReader(&cutReader{in, next}, huge)
			commands, problem := readAll(t, r)
			if len(commands) > 0 {
				t.Errorf("%q: %q, %s", in, commands, problem)
			}
			if r.MemBytes() > 1<<17 {
				t.Errorf("%q: holds %d bytes", in, r.MemBytes())
			}
		}
	}
}

func TestErrorIsFinal(t *testing.T) {
	r := NewReader(strings.NewReader("*x\r\n"+ping), DefaultLimits())
	if err := r.Fill(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if args, ok, err := r.Next(); args != nil || ok || err != errMultibulkLength {
			t.Fatal(args, ok, err)
		}
		if err := r.Fill(); err != errMultibulkLength {
			t.Fatal(err)
		}
	}
}

func TestMaxQueryBytes(t *testing.T) {
	const limit = 100_000
	for name, in := range map[string]string{
		"one argument":     "*2\r\n$3\r\nSET\r\n$400000\r\n" + strings.Repeat("x", 400000),
		"many arguments":   "*500000\r\n" + strings.Repeat("$8\r\n12345678\r\n", 30000),
		"empty arguments":  "*500000\r\n" + strings.Repeat("$0\r\n\r\n", 70000),
		"pieces of either": "*500000\r\n" + strings.Repeat("$40000\r\n"+strings.Repeat("y", 40000)+"\r\n", 10),
	} {
		r := NewReader(strings.NewReader(in), Limits{MaxQueryBytes: limit})
		for {
			_, ok, err := r.Next()
			if ok || err != nil {
				t.Fatal(name, ok, err)
			}
			if err := r.Fill(); err == ErrQueryTooBig {
				break
			} else if err != nil {
				t.Fatal(name, err)
			}
		}
		if n := r.MemBytes(); n > 3*limit {
			t.Errorf("%s: holds %d bytes", name, n)
		}
	}

	// A client that waits for a reply may send on: that is bounded as well.
	r := NewReader(strings.NewReader(strings.Repeat(ping, limit)), Limits{MaxQueryBytes: limit})
	var err error
	for err == nil {
		err = r.Fill()
	}
	if err != ErrQueryTooBig || r.Buffered() > 3*limit {
		t.Fatal(err, r.Buffered())
	}
}

func TestPiledUpCommands(t *testing.T) {
	const n = 20_000
	r := NewReader(strings.NewReader(strings.Repeat(encode("SET", "key", "value"), n)), DefaultLimits())
	size := n * len(encode("SET", "key", "value"))
	if err := r.Fill(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := r.Next(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for r.Fill() == nil {
	}
	if got, want := r.Buffered(), size-size/n; got != want {
		t.Fatalf("Buffered() = %d, want %d", got, want)
	}
	commands, problem := readAll(t, r)
	if len(commands) != n-1 || problem != "" {
		t.Fatal(len(commands), problem)
	}
	if r.Buffered() != 0 || r.MemBytes() > 2*readAheadBytes {
		t.Fatal(r.Buffered(), r.MemBytes())
	}
}

func TestBufferedCountsUnfinished(t *testing.T) {
	large := strings.Repeat("x", 3*largeBulkBytes)
	for _, c := range []string{encode("SET", "key", large), encode(append(make([]string, 20000), large, "a")...)} {
		for name, next := range cuts(3) {
			in := ping + c[:len(c)-1]
			r := NewReader(&cutReader{in, next}, DefaultLimits())
			readAll(t, r)
			if got, want := r.Buffered(), len(c)-1; got != want {
				t.Errorf("cut into %s: Buffered() = %d, want %d", name, got, want)
			}
		}
	}
}

// TestArgsStay holds on to the arguments of all commands between two Fills.
func TestArgsStay(t *testing.T) {
	large := strings.Repeat("y", 2*largeBulkBytes)
	in := encode("SET", "k", large) + encode("SET", "a", "b") + `ECHO "in\x41line"` + "\r\n" + encode("GET", "c")
	for name, next := range cuts(5) {
		r := NewReader(&cutReader{in, next}, DefaultLimits())
		var want [][]string
		var held [][][]byte
		for {
			args, ok, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				want = append(want, copyArgs(args))
				held = append(held, append([][]byte(nil), args...))
				for _, a := range args {
					if cap(a) != len(a) {
						t.Fatalf("cut into %s: append to an argument would write into the buffer", name)
					}
				}
				continue
			}
			for i := range held {
				if got := copyArgs(held[i]); !sameCommands([][]string{got}, want[i:i+1]) {
					t.Fatalf("cut into %s: command %d became %.50q", name, i, got)
				}
			}
			held, want = nil, nil
			if r.Fill() != nil {
				break
			}
		}
	}
}

// TestCommandAtBufferEnd puts a command across the end of the buffer at every
// place, its length lines being of the unusual sort.
func TestCommandAtBufferEnd(t *testing.T) {
	for _, command := range []string{
		"*1000000001\r\n$" + strings.Repeat("1", 40) + "\r\n",
		"*1000000001\r\n$3\r\nSET\r\n$" + strings.Repeat("1", 40) + "\r\n",
		"*3\r\n$3\r\nSET\r\n:" + strings.Repeat("1", 40) + "\r\n",
		encode("SET", "key", "value") + "ECHO 'a b'\r\n",
	} {
		for pad := firstBufferBytes - len(command) - 2; pad <= firstBufferBytes; pad++ {
			checkCuts(t, strings.Repeat("x", pad)+"\n"+command, DefaultLimits(), 1)
		}
	}
}

// TestRandomStreams cuts streams of commands of all sizes at random.
func TestRandomStreams(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	filler := strings.Repeat("0123456789abcdef", 1<<20/16)
	for range 10 {
		var sb strings.Builder
		for sb.Len() < 200_000 {
			switch rng.IntN(12) {
			case 0:
				sb.WriteString("ECHO 'a b' \"c\\x41\"\r\n")
			case 1:
				sb.WriteString([]string{"\r\n", "*0\r\n", "*-1\r\n", "\n"}[rng.IntN(4)])
			default:
				args := make([]string, 1+rng.IntN(1<<rng.IntN(13)))
				for i := range args {
					args[i] = filler[:rng.IntN(1<<rng.IntN(7))]
				}
				if rng.IntN(4) == 0 {
					args[rng.IntN(len(args))] = filler[:rng.IntN(1<<rng.IntN(19))]
				}
				sb.WriteString(encode(args...))
			}
		}
		in := sb.String()
		want, problem := referenceParse(in, Limits{})
		if problem != "" {
			t.Fatal(problem)
		}
		for name, next := range cuts(seed) {
			if name == "twos" || name == "small pieces" {
				continue
			}
			got, problem := readAll(t, NewReader(&cutReader{in, next}, DefaultLimits()))
			if problem != "" || !sameCommands(got, want) {
				t.Fatalf("seed %d, cut into %s: %d commands, want %d; %s", seed, name, len(got), len(want), problem)
			}
		}
	}
}

// TestLinearWork sends what an implementation that starts over at each packet
// needs minutes for.
func TestLinearWork(t *testing.T) {
	const timeLimit = 3 * time.Second
	for name, in := range map[string]string{
		"2 MiB argument":       encode("SET", "k", strings.Repeat("x", 2<<20)),
		"60 KB inline":         strings.Repeat("x", 60_000) + "\n",
		"60 KB of quotes":      strings.Repeat(`"x" `, 15_000) + "\n",
		"50,000 arguments":     encode(append(make([]string, 25_000), strings.Split(strings.Repeat("abcdef ", 25_000), " ")...)...),
		"65,536 digits":        "*1\r\n$" + strings.Repeat("1", 65_537),
		"65,536 digits, count": "*" + strings.Repeat("1", 65_537),
		"line with zero byte":  "\x00" + strings.Repeat("\n", 65_537),
		"count with zero byte": "*\x00" + strings.Repeat("\r", 65_537),
	} {
		start := time.Now()
		readAll(t, NewReader(iotest.OneByteReader(strings.NewReader(in)), DefaultLimits()))
		if d := time.Since(start); d > timeLimit {
			t.Errorf("%s in one-byte packets took %v", name, d)
		}
	}
}

// zeroes is n bytes without a memory of their own.
func zeroes(n int64) io.Reader { return io.LimitReader(zeroSource{}, n) }

type zeroSource struct{}

func (zeroSource) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

func TestAnnouncedCostsNothing(t *testing.T) {
	for _, in := range []string{
		"*1\r\n$536870912\r\nabc",
		"*2147483647\r\n$3\r\nSET\r\n",
		"*2147483647\r\n$3\r\nSET\r\n$536870912\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8388608\r\n" + strings.Repeat("x", 10_000),
	} {
		got := allocated(func() {
			readAll(t, NewReader(strings.NewReader(in), DefaultLimits()))
		})
		if limit := int64(4*len(in) + 8<<10); got > limit {
			t.Errorf("%.40q cost %d bytes, want at most %d", in, got, limit)
		}
	}
}

// TestUnfinishedCommandMemory bounds all memory that is ever allocated for a
// command of which 64 MiB have arrived, so that the garbage collector's mood
// does not matter.
func TestUnfinishedCommandMemory(t *testing.T) {
	const arrived = 64 << 20
	t.Run("one argument", func(t *testing.T) {
		var r *Reader
		got := allocated(func() {
			src := io.MultiReader(strings.NewReader("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n"), zeroes(arrived))
			r = NewReader(src, DefaultLimits())
			readAll(t, r)
		})
		if got > arrived+arrived/16 {
			t.Errorf("cost %d bytes, %d arrived", got, arrived)
		}
		if n := int64(r.MemBytes()); n < arrived || n > arrived+arrived/16 {
			t.Errorf("MemBytes() = %d, %d arrived", n, arrived)
		}
	})
	t.Run("many arguments", func(t *testing.T) {
		arg := "$1000\r\n" + strings.Repeat("v", 1000) + "\r\n"
		n := arrived / len(arg)
		var r *Reader
		src := io.MultiReader(strings.NewReader("*2000000\r\n"), strings.NewReader(strings.Repeat(arg, n)))
		got := allocated(func() {
			r = NewReader(src, DefaultLimits())
			readAll(t, r)
		})
		if got > arrived+arrived/4 {
			t.Errorf("cost %d bytes, %d arrived", got, arrived)
		}
	})
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMemoryReturns(t *testing.T) {
	const size = 32 << 20
	for name, in := range map[string]func() io.Reader{
		"large argument": func() io.Reader {
			return io.MultiReader(strings.NewReader(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", size)), zeroes(size), strings.NewReader("\r\n"))
		},
		"medium argument": func() io.Reader {
			return strings.NewReader(encode("SET", "k", strings.Repeat("x", 6<<20)))
		},
		"many arguments": func() io.Reader {
			return strings.NewReader(encode(make([]string, 1<<17)...))
		},
	} {
		for _, way := range []string{"Fill", "Shrink", "Release"} {
			t.Run(name+", "+way, func(t *testing.T) {
				before := heapBytes()
				r := NewReader(in(), DefaultLimits())
				for {
					_, ok, err := r.Next()
					if err != nil {
						t.Fatal(err)
					}
					if ok {
						break
					}
					if err := r.Fill(); err != nil {
						t.Fatal(err)
					}
				}
				switch way {
				case "Fill":
					r.src = strings.NewReader("x")
					if err := r.Fill(); err != nil {
						t.Fatal(err)
					}
				case "Shrink":
					r.src = nil
					r.Shrink()
				case "Release":
					r.src = nil
					r.Release()
				}
				if n := r.MemBytes(); n > readAheadBytes+keptArgs*int(argSlotBytes) {
					t.Errorf("MemBytes() = %d", n)
				}
				if n := heapBytes() - before; n > 1<<20 {
					t.Errorf("%d bytes are still in use", n)
				}
				r.src = strings.NewReader(ping)
				if way == "Fill" {
					r.src = strings.NewReader("\r\n" + ping)
				}
				commands, _ := readAll(t, r)
				if len(commands) == 0 || commands[len(commands)-1][0] != "PING" {
					t.Errorf("after %s: %q", way, commands)
				}
			})
		}
	}
}

func TestIdleConnectionIsSmall(t *testing.T) {
	r := NewReader(strings.NewReader(ping), DefaultLimits())
	if r.MemBytes() != 0 {
		t.Errorf("before the first byte: %d bytes", r.MemBytes())
	}
	readAll(t, r)
	if r.MemBytes() > 2<<10 {
		t.Errorf("after a PING: %d bytes", r.MemBytes())
	}
}

func TestSourceErrors(t *testing.T) {
	t.Run("time-out", func(t *testing.T) {
		in := encode("SET", "k", strings.Repeat("x", 100_000))
		r := NewReader(iotest.TimeoutReader(&cutReader{in, func() int { return 100 }}), DefaultLimits())
		timeouts := 0
		for {
			args, ok, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				if len(args) != 3 || len(args[2]) != 100_000 {
					t.Fatal(len(args))
				}
				break
			}
			if err := r.Fill(); err == iotest.ErrTimeout {
				timeouts++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if timeouts == 0 {
			t.Fatal("no time-out happened")
		}
	})
	t.Run("with data", func(t *testing.T) {
		r := NewReader(iotest.DataErrReader(strings.NewReader(ping)), DefaultLimits())
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := r.Next(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		for range 2 {
			if err := r.Fill(); err != io.EOF {
				t.Fatal(err)
			}
		}
	})
	t.Run("no progress", func(t *testing.T) {
		r := NewReader(readerFunc(func([]byte) (int, error) { return 0, nil }), DefaultLimits())
		if err := r.Fill(); err != io.ErrNoProgress {
			t.Fatal(err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		r := NewReader(iotest.ErrReader(os.ErrClosed), DefaultLimits())
		if err := r.Fill(); !errors.Is(err, os.ErrClosed) {
			t.Fatal(err)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// endless repeats data.
type endless struct {
	data []byte
	off  int
	size int // of a read, at most
}

func (e *endless) Read(p []byte) (int, error) {
	p = p[:min(len(p), e.size)]
	n := copy(p, e.data[e.off:])
	e.off = (e.off + n) % len(e.data)
	return n, nil
}

func TestReaderAllocs(t *testing.T) {
	for name, command := range map[string]string{
		"SET":         encode("SET", "key:000000000001", strings.Repeat("x", 64)),
		"5 KB":        encode("SET", "key:000000000001", strings.Repeat("x", 5_000)),
		"30 KB":       encode("SET", "key:000000000001", strings.Repeat("x", 30_000)),
		"inline":      "SET 'key' \"value\"\r\n",
		"20 elements": encode(make([]string, 20)...),
	} {
		for _, readBytes := range []int{37, 1500, 1 << 20} {
			src := &endless{data: bytes.Repeat([]byte(command), 1+100_000/len(command)), size: readBytes}
			r := NewReader(src, DefaultLimits())
			next := func() {
				for {
					args, ok, err := r.Next()
					if err != nil {
						t.Fatal(err)
					}
					if ok {
						if len(args) < 3 {
							t.Fatal(len(args))
						}
						return
					}
					if err := r.Fill(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 3_000 {
				next() // the buffer finds its size
			}
			if n := testing.AllocsPerRun(500, next); n != 0 {
				t.Errorf("%s, reads of %d: %v allocations a command", name, readBytes, n)
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, c := range protocolCases {
		if len(c.in) < 1000 {
			f.Add([]byte(c.in), uint64(1))
		}
	}
	f.Add([]byte("*10000000\r0"), uint64(1))
	f.Add([]byte("*1\r\n$6\r\n123456\r\n*4\r\n$1\r\na\r\n"), uint64(2))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		checkCuts(t, string(in), DefaultLimits(), seed)
		// Limits that short inputs reach.
		checkCuts(t, string(in), Limits{MaxArgs: 3, MaxBulkBytes: 5, MaxInlineBytes: 16}, seed)
		checkCuts(t, string(in), Limits{MaxArgs: 3, MaxBulkBytes: 5, MaxInlineBytes: 16, Unauthenticated: true}, seed)
	})
}

func FuzzSplitInline(f *testing.F) {
	for _, line := range []string{`a "b c" 'd'`, `"\x41\n" 'it\'s'`, `"open`, "a\x00b", `"a"b`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		in := string(line)
		got, err := SplitInline(line)
		want, ok := referenceSplit(in)
		if ok != (err == nil) || ok && !sameCommands([][]string{copyArgs(got)}, [][]string{want}) {
			t.Fatalf("SplitInline(%q) = %q, %v; want %q, %v", in, got, err, want, ok)
		}
		if string(line) != in {
			t.Fatal("the input was changed")
		}
	})
}

func BenchmarkReaderSet(b *testing.B) {
	command := encode("SET", "key:000000000001", strings.Repeat("x", 64))
	src := &endless{data: []byte(strings.Repeat(command, 1000)), size: 1 << 20}
	r := NewReader(src, DefaultLimits())
	b.SetBytes(int64(len(command)))
	b.ReportAllocs()
	for range b.N {
		for {
			_, ok, err := r.Next()
			if err != nil {
				b.Fatal(err)
			}
			if ok {
				break
			}
			if err := r.Fill(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// countedSource hands out one batch after the other, as a client that waits for
// its replies does, and counts the reads.
type countedSource struct {
	batch   []byte
	left    []byte
	batches int
	reads   int
}

func (s *countedSource) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		s.left, s.batches = s.batch, s.batches+1
	}
	s.reads++
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

// A batch that is a little longer than the buffer leaves half a command in it:
// the buffer must grow all the same, or each batch costs two reads, and two
// writes of replies, for as long as the connection lasts.
func TestBufferGrowsToTheBatch(t *testing.T) {
	const commands = 16
	for _, size := range []int{40, 64, 100, 500, 1500} {
		src := &countedSource{batch: []byte(strings.Repeat(encode("SET", "key", strings.Repeat("x", size)), commands))}
		r := NewReader(src, DefaultLimits())
		const settling, measured = 8, 100
		got, before := 0, 0
		for got < commands*(settling+measured) {
			_, ok, err := r.Next()
			switch {
			case err != nil:
				t.Fatal(err)
			case ok:
				got++
				if got == commands*settling {
					before = src.reads
				}
			default:
				if err := r.Fill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := src.reads - before; n != measured {
			t.Errorf("values of %d bytes: %d reads for %d batches of %d bytes", size, n, measured, len(src.batch))
		}
	}
}

// What is allocated for an argument counts, not only what of it has arrived; and what has
// not been parsed is the argument's bytes without the lines before it.
func TestMemBytesOfUnfinishedArgument(t *testing.T) {
	for _, want := range []int{2 * largeBulkBytes, 1 << 20, 4 * exactBulkBytes} {
		for have := largeBulkBytes; have < want; have += want / 16 {
			head := "*2\r\n$4\r\nECHO\r\n$" + strconv.Itoa(want) + "\r\n"
			r := NewReader(strings.NewReader(head+strings.Repeat("x", have)), DefaultLimits())
			readAll(t, r)
			if got := r.Unparsed(); got != have {
				t.Errorf("%d of %d bytes: Unparsed() = %d", have, want, got)
			}
			allocated := len(r.buf) + len(r.large.whole)
			for _, c := range r.large.chunks {
				allocated += len(c)
			}
			if got := r.MemBytes(); got < allocated || got > allocated+readAheadBytes {
				t.Errorf("%d of %d bytes: MemBytes() = %d, allocated are %d", have, want, got, allocated)
			}
		}
	}
}
