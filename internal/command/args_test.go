package command

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/resp"
)

func TestArgsCounts(t *testing.T) {
	small := &resp.Error{Code: "ERR", Text: "too small"}
	few := &resp.Error{Code: "ERR", Text: "too few"}
	atLeast := func(a *Args) any { return a.AtLeast(1, small) }
	keys := func(a *Args) any { return fmt.Sprintf("%s", a.CountedKeys(few)) }
	for _, c := range []struct {
		text string
		read func(*Args) any
		want any // or the error
		left int
	}{
		{"1 x", atLeast, int64(1), 1},
		{"9223372036854775807", atLeast, int64(math.MaxInt64), 0},
		{"0", atLeast, "ERR too small", 0},
		{"-1", atLeast, "ERR too small", 0},
		{"x", atLeast, "ERR too small", 0},
		{"", atLeast, "ERR syntax error", 0},
		{"1 a", keys, "[a]", 0},
		{"2 a b c", keys, "[a b]", 1},
		{"2 a", keys, "ERR too few", 1},
		{"9223372036854775807 a", keys, "ERR too few", 1},
		{"0 a", keys, "ERR numkeys should be greater than 0", 1},
		{"01 a", keys, "ERR numkeys should be greater than 0", 1},
		{"", keys, "ERR syntax error", 0},
	} {
		var a Args
		for _, arg := range strings.Fields(c.text) {
			a.rest = append(a.rest, []byte(arg))
		}
		got := c.read(&a)
		if err := a.Err(); err != nil {
			got = err.Error()
		}
		if got != c.want || a.Len() != c.left {
			t.Errorf("%q: %v with %d left, want %v with %d", c.text, got, a.Len(), c.want, c.left)
		}
	}
}

func TestParseFloat(t *testing.T) {
	// What redis-server 7.0.15 makes of these as a score, and as the bound of a
	// range where that differs.
	for _, c := range []struct {
		text    string
		score   string
		clamped string
	}{
		{"1", "1", ""}, {"+1", "1", ""}, {"-1.5", "-1.5", ""}, {"5.", "5", ""}, {".5", "0.5", ""}, {"00012", "12", ""},
		{"-0", "-0", ""}, {"0.1", "0.1", ""}, {"1e5", "100000", ""}, {"1E-2", "0.01", ""}, {"123456789012345", "123456789012345", ""},
		{"1234567890123456", "1234567890123456", ""}, {"0.30000000000000004", "0.30000000000000004", ""},
		{"0.000000000000001", "1e-15", ""}, {".1234567890123456789", "0.12345678901234568", ""},
		{"inf", "+Inf", ""}, {"+Inf", "+Inf", ""}, {"-infinity", "-Inf", ""}, {"0x10", "16", ""}, {"-0X1P-2", "-0.25", ""}, {"0x.8", "0.5", ""},
		{"1e-320", "1e-320", ""}, {"0e-400", "0", ""}, {"0x0p-2000", "0", ""}, {strings.Repeat("0", 300) + "1", "1", ""},
		{"1e400", "", "+Inf"}, {"-1e309", "", "-Inf"}, {"1e-400", "", "0"}, {"2e-324", "", "0"}, {"-1e-400", "", "-0"}, {"0x1p-1080", "", "0"},
		{"nan", "", ""}, {"-nan", "", ""}, {"", "", ""}, {".", "", ""}, {"+", "", ""}, {" 1", "", ""}, {"1 ", "", ""}, {"1e", "", ""}, {"0x", "", ""},
		{"0xp1", "", ""}, {"0x1p", "", ""}, {"1_000", "", ""}, {"0x_1", "", ""}, {"--1", "", ""}, {"1.2.3", "", ""}, {"infinit", "", ""}, {"1\x00", "", ""},
		{strings.Repeat("0", maxFloatBytes) + "1", "", ""},
	} {
		got := ""
		if f, ok := ParseFloat([]byte(c.text)); ok {
			got = fmt.Sprintf("%v", f)
		}
		clamped := ""
		if f, ok := ParseFloatClamped([]byte(c.text)); ok {
			clamped = fmt.Sprintf("%v", f)
		}
		if c.clamped == "" {
			c.clamped = c.score
		}
		if want := parsed(c.score); got != want {
			t.Errorf("%.40q: %s, want %s", c.text, got, want)
		}
		if want := parsed(c.clamped); clamped != want {
			t.Errorf("%.40q clamped: %s, want %s", c.text, clamped, want)
		}
	}
}

// parsed prints the number in the way of the test.
func parsed(text string) string {
	if text == "" {
		return ""
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%v", f)
}

func TestParseFloatShortDecimals(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 50_000 {
		text := strconv.AppendInt(nil, rng.Int64N(1<<rng.IntN(63)+1), 10)
		if at := rng.IntN(len(text) + 1); rng.IntN(3) > 0 {
			text = slices.Insert(text, at, '.')
		}
		if rng.IntN(2) > 0 {
			text = slices.Insert(text, 0, '-')
		}
		want, err := strconv.ParseFloat(string(text), 64)
		if got, ok := ParseFloat(text); ok != (err == nil) || got != want {
			t.Fatalf("seed %d: %s: %v %v, want %v", seed, text, got, ok, want)
		}
	}
}

func TestParseFloatAllocates(t *testing.T) {
	for _, text := range []string{"1", "-17.25", "0.30000000000000004", "1e5", "inf"} {
		b := []byte(text)
		if n := testing.AllocsPerRun(100, func() { ParseFloat(b) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}
