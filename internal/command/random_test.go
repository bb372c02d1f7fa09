package command

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"kevy/resp"
)

func TestSample(t *testing.T) {
	const n, wanted, rounds = 10, 3, 20_000
	var taken [n]int
	for range rounds {
		s := NewSample(wanted, n)
		count := 0
		for i := range n {
			if s.Take() {
				taken[i]++
				count++
			}
			if s.Done() != (count == wanted) {
				t.Fatalf("done is %v after %d of %d", s.Done(), count, wanted)
			}
		}
		if count != wanted {
			t.Fatalf("%d chosen, want %d", count, wanted)
		}
	}
	// Six standard deviations: once in half a billion runs.
	mean := float64(rounds) * wanted / n
	spread := 6 * math.Sqrt(mean*(1-float64(wanted)/n))
	for i, k := range taken {
		if math.Abs(float64(k)-mean) > spread {
			t.Errorf("element %d was chosen %d times, want %.0f ± %.0f", i, k, mean, spread)
		}
	}
}

func TestRandomCount(t *testing.T) {
	for _, c := range []struct {
		text   string
		n      int64
		repeat bool
		err    string
	}{
		{"3", 3, false, ""},
		{"0", 0, false, ""},
		{"-3", 3, true, ""},
		{"9223372036854775807", math.MaxInt64, false, ""},
		{"-9223372036854775807", math.MaxInt64, true, ""},
		{"-9223372036854775808", 0, false, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"},
		{"1.5", 0, false, "ERR value is not an integer or out of range"},
	} {
		a := Args{rest: [][]byte{[]byte(c.text)}}
		n, repeat := a.RandomCount()
		if err := a.Err(); err != nil || c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v, want %s", c.text, err, c.err)
			}
			continue
		}
		if n != c.n || repeat != c.repeat {
			t.Errorf("%s: %d %v", c.text, n, repeat)
		}
	}
}

func TestRandomCountWith(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"3", "3 false false"},
		{"-3 withvalues", "3 true true"},
		{"4611686018427387903 WITHVALUES", "4611686018427387903 false true"},
		{"4611686018427387904 WITHVALUES", "ERR value is out of range"},
		{"-4611686018427387904 WITHVALUES", "ERR value is out of range"},
		{"4611686018427387904", "4611686018427387904 false false"},
		{"4611686018427387904 WITHVALUES x", "ERR syntax error"},
		{"x WITHSCORES", "ERR value is not an integer or out of range"},
		{"1 WITHSCORES", "ERR syntax error"},
		{"1 WITHVALUES WITHVALUES", "ERR syntax error"},
	} {
		var a Args
		for _, arg := range strings.Fields(c.text) {
			a.rest = append(a.rest, []byte(arg))
		}
		n, repeat, with := a.RandomCountWith("WITHVALUES")
		got := fmt.Sprint(n, repeat, with)
		if err := a.Err(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}

func TestRepeatIsBounded(t *testing.T) {
	elem := []byte(strings.Repeat("x", 1<<20))
	for _, c := range []struct {
		name  string
		count int64
		elem  []byte
		fits  bool
	}{
		{"none", 0, nil, true},
		{"three", 3, []byte("x"), true},
		{"up to the limit", MaxRepeatedBytes>>20 - 1, elem, true},
		{"too many bytes", MaxRepeatedBytes >> 20, elem, false},
		{"too many whatever they are", MaxRepeatedBytes/6 + 1, nil, false},
		{"the largest", math.MaxInt64, nil, false},
	} {
		ctx := &Ctx{W: resp.NewWriter(2)}
		ctx.W.OK()
		calls := int64(0)
		ctx.Repeat(c.count, ctx.W.Array, func() { calls++; ctx.W.Bulk(c.elem) })
		refused := string(ctx.W.Bytes()[:min(ctx.W.Len(), 64)]) == "+OK\r\n-ERR value is out of range\r\n"
		if refused == c.fits {
			t.Errorf("%s: refused is %v", c.name, refused)
		}
		if c.fits && calls != c.count {
			t.Errorf("%s: %d elements", c.name, calls)
		}
	}
}
