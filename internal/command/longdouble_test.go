package command

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The sums are those of redis-server 7.0.15 on x86-64.
func TestLongDoubleSums(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"0.1", "0.2", "0.3"},
		{"128", "0.1", "128.10000000000000001"},
		{"1000", "-0.1", "999.90000000000000002"},
		{"10.50", "0.1", "10.6"},
		{"1000", "1.8", "1001.79999999999999999"},
		{"5200", "10.43", "5210.43000000000000016"},
		{"3", "-3", "0"},
		{"-1e-30", "0", "0"},
		{"-0", "-0", "0"},
		{"5.0e3", "200", "5200"},
		{"+1", ".5", "1.5"},
		{"1.", "0x.8", "1.5"},
		{"0x1p4", "0XFF", "271"},
		{"0e99999999999", "1", "1"},
		{"18446744073709551615", "0", "18446744073709551615"},
		{"18446744073709551617", "0", "18446744073709551616"},
		{"9007199254740993.25", "0", "9007199254740993.25"},
		{"1e22", "1", "10000000000000000000000"},
		{"1e4932", "1e4932", "no finite number"},
		{"inf", "1", "no finite number"},
		{"1", "-Infinity", "no finite number"},
		{"1e4933", "1", "not read"},
		{"1e-4952", "1", "not read"},
		{"1e-4950", "1", "1"},
		{"0x1p-16446", "1", "not read"},
		{"0x1.8p-16446", "1", "1"},
		{"1e99999999999999999999", "1", "not read"},
		{"1e-99999999999999999999", "1", "not read"},
		{"", "1", "not read"}, {" 1", "1", "not read"}, {"1 ", "1", "not read"}, {"nan", "1", "not read"},
		{"1e", "1", "not read"}, {"1e+", "1", "not read"}, {".", "1", "not read"}, {"0x", "1", "not read"},
		{"0x.", "1", "not read"}, {"--1", "1", "not read"}, {"1_000", "1", "not read"}, {"0b1", "1", "not read"},
		{"1p3", "1", "not read"}, {"0x1e+3", "1", "not read"}, {"1.2.3", "1", "not read"}, {"1\x00", "1", "not read"},
		{strings.Repeat("0", maxLongDoubleBytes-1) + "7", "1", "8"},
		{strings.Repeat("0", maxLongDoubleBytes) + "7", "1", "not read"},
	} {
		if got := longDoubleSum(c.a, c.b); got != c.want {
			t.Errorf("%.40s + %s = %s, want %s", c.a, c.b, got, c.want)
		}
	}
}

func longDoubleSum(a, b string) string {
	x, okX := ParseLongDouble([]byte(a))
	y, okY := ParseLongDouble([]byte(b))
	if !okX || !okY {
		return "not read"
	}
	sum, ok := x.Add(y)
	if !ok {
		return "no finite number"
	}
	return sum.String()
}

func TestLongDoubleReadsWhatItWrites(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		text := fmt.Sprintf("%d.%017d", rng.Int64()>>rng.IntN(64), rng.Int64N(1e17))
		x, ok := ParseLongDouble([]byte(text))
		if !ok {
			t.Fatalf("%s is not read", text)
		}
		once := x.Append([]byte("x"))
		y, ok := ParseLongDouble(once[1:])
		if !ok || !bytes.Equal(y.Append([]byte("x")), once) {
			t.Fatalf("%s becomes %s and then %s (seed %d)", text, once, y, seed)
		}
	}
}

func TestLongDoubleOfInt(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 1<<63 - 1, -1 << 63} {
		if got := LongDoubleOf(n).String(); got != fmt.Sprint(n) {
			t.Errorf("%d becomes %s", n, got)
		}
	}
}
