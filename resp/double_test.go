package resp

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestAppendDouble(t *testing.T) {
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0"},
		{math.Copysign(0, -1), "-0"},
		{math.Inf(1), "inf"},
		{math.Inf(-1), "-inf"},
		{math.NaN(), "nan"},
		{1, "1"},
		{-17, "-17"},
		{3, "3"},
		{0.1, "0.1"},
		{-0.1, "-0.1"},
		{3.141, "3.141"},
		{math.Pi, "3.141592653589793"},
		{-1.5, "-1.5"},
		{1e5, "100000"},
		{1e15, "1000000000000000"},
		{1e18, "1000000000000000000"},
		{123456789012345680, "123456789012345680"},
		{1 << 53, "9007199254740992"},
		{1<<53 + 2, "9007199254740994"},
		{1 << 62, "4611686018427387904"},
		{-1 << 62, "-4611686018427387904"},
		{1<<62 + 1024, "4611686018427389000"},
		{1 << 63, "9223372036854776000"},
		{-1 << 63, "-9223372036854776000"},
		{12345678901234567890, "12345678901234567000"},
		{1e19, "1e+19"},
		{1e20, "1e+20"},
		{1e21, "1e+21"},
		{1.5e300, "1.5e+300"},
		{1.2345e22, "1.2345e+22"},
		{1.7976931348623157e308, "1.7976931348623157e+308"},
		{5e-324, "5e-324"},
		{2.2250738585072014e-308, "2.2250738585072014e-308"},
		{1e-5, "0.00001"},
		{1e-6, "0.000001"},
		{1e-7, "1e-7"},
		{1.5e-7, "1.5e-7"},
		{0.001234, "0.001234"},
		{0.0001234, "1.234e-4"},
		{0.001234567, "0.001234567"},
		{0.0001234567, "1.234567e-4"},
		{1234.5678901, "1234.5678901"},
		{12345.678901, "12345.678901"},
		{12345.6789012, "1.23456789012e+4"},
		{12345.678901234, "1.2345678901234e+4"},
		{-98765.4321012345, "-9.87654321012345e+4"},
		{0.30000000000000004, "0.30000000000000004"},
		{9.87654321e15 + 0.5, "9876543210000000"},
	} {
		if got := string(AppendDouble([]byte("x"), c.f)); got != "x"+c.want {
			t.Errorf("AppendDouble(%v) = %s, want %s", c.f, got[1:], c.want)
		}
	}
}

// doubles returns numbers of many kinds.
func doubles(seed uint64, n int) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	var numbers []float64
	for len(numbers) < n {
		var f float64
		switch rng.IntN(5) {
		case 0:
			f = math.Float64frombits(rng.Uint64())
		case 1:
			f = float64(rng.Int64N(1<<uint(1+rng.IntN(62)))) / math.Pow10(rng.IntN(12))
		case 2:
			f = float64(rng.Int64() >> rng.IntN(63))
		case 3:
			f = math.Ldexp(1, rng.IntN(2000)-1000)
			f = []float64{f, math.Nextafter(f, 0), math.Nextafter(f, math.Inf(1))}[rng.IntN(3)]
		case 4:
			f, _ = strconv.ParseFloat(strconv.Itoa(rng.IntN(1000))+"e"+strconv.Itoa(rng.IntN(60)-30), 64)
		}
		if rng.IntN(2) == 0 {
			f = -f
		}
		if f == f {
			numbers = append(numbers, f)
		}
	}
	return numbers
}

func TestAppendDoubleRoundTrip(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, f := range doubles(seed, 200_000) {
		text := string(AppendDouble(nil, f))
		got, err := strconv.ParseFloat(text, 64)
		if err != nil || math.Float64bits(got) != math.Float64bits(f) {
			t.Fatalf("%v became %s (%v)", f, text, err)
		}
		if len(text) > 25 {
			t.Fatalf("%v became %s", f, text)
		}
		if strings.Contains(text, ".") && strings.HasSuffix(text, "0") && !strings.Contains(text, "e") {
			t.Fatalf("%v became %s", f, text)
		}
	}
}
