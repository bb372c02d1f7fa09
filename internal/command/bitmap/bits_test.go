package bitmap

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"kevy/internal/command"
	"kevy/internal/command/commandtest"
	"kevy/internal/command/strings"
)

// TestFieldPutGet writes random fields into random bytes: the field reads back
// and no other bit moves.
func TestFieldPutGet(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		f := field{signed: rng.IntN(2) == 0, at: rng.Int64N(80)}
		f.bits = 1 + uint(rng.IntN(64))
		if !f.signed {
			f.bits = min(f.bits, 63)
		}
		old := make([]byte, rng.IntN(24))
		for i := range old {
			old[i] = byte(rng.Uint32())
		}
		low, high := f.limits()
		n := low + int64(rng.Uint64N(uint64(high)-uint64(low)))
		first, size := f.bytes()
		value := make([]byte, max(len(old), int(first)+size))
		copy(value, old)
		copy(value[first:], f.put(old, n))
		if got := f.get(value); got != n {
			t.Fatalf("%+v: wrote %d, read %d (seed %d)", f, n, got, seed)
		}
		for i := range int64(len(value)) * 8 {
			if (i < f.at || i >= f.at+int64(f.bits)) && bitAt(value, i) != bitAt(old, i) {
				t.Fatalf("%+v: bit %d moved (seed %d)", f, i, seed)
			}
		}
	}
}

// TestFieldFit compares the overflow of random sums with unbounded arithmetic.
func TestFieldFit(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	number := func() int64 {
		switch rng.IntN(4) {
		case 0:
			return []int64{0, 1, -1, math.MaxInt64, math.MinInt64}[rng.IntN(5)]
		case 1:
			return rng.Int64N(512) - 256
		}
		return int64(rng.Uint64()) >> rng.IntN(64)
	}
	for range 50_000 {
		f := field{signed: rng.IntN(2) == 0}
		f.bits = 1 + uint(rng.IntN(64))
		if !f.signed {
			f.bits = min(f.bits, 63)
		}
		low, high := f.limits()
		base, delta := number(), int64(0)
		if rng.IntN(2) == 0 {
			base, delta = max(low, min(high, base)), number()
		}
		// SET reads its number as 64 bits without sign where the field has none.
		exact := big.NewInt(base)
		if !f.signed && base < 0 {
			exact.SetUint64(uint64(base))
		}
		exact.Add(exact, big.NewInt(delta))
		fits := exact.Cmp(big.NewInt(low)) >= 0 && exact.Cmp(big.NewInt(high)) <= 0
		over := exact.Cmp(big.NewInt(high)) > 0
		mod := new(big.Int).Lsh(big.NewInt(1), f.bits)
		wrapped := new(big.Int).Mod(exact, mod)
		if f.signed && wrapped.Cmp(big.NewInt(high)) > 0 {
			wrapped.Sub(wrapped, mod)
		}
		for _, o := range []overflow{wrap, saturate, fail} {
			want, wantOK := wrapped.Int64(), true
			switch {
			case fits:
				want = exact.Int64()
			case o == fail:
				want, wantOK = 0, false
			case o == saturate && over:
				want = high
			case o == saturate:
				want = low
			}
			if n, ok := f.fit(base, delta, o); n != want || ok != wantOK {
				t.Fatalf("%+v.fit(%d, %d, %d) = %d, %v, want %d, %v (seed %d)", f, base, delta, o, n, ok, want, wantOK, seed)
			}
		}
	}
}

// TestRangesBitByBit compares BITCOUNT and BITPOS with looking at every bit.
func TestRangesBitByBit(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		value := make([]byte, rng.IntN(30))
		fill := []byte{0, 0xff, byte(rng.Uint32())}[rng.IntN(3)]
		for i := range value {
			value[i] = fill
			if rng.IntN(4) == 0 {
				value[i] = byte(rng.Uint32())
			}
		}
		n := int64(len(value))
		start, end, inBits := rng.Int64N(80)-40, rng.Int64N(80)-40, rng.IntN(2) == 0
		s := spanOf(n, start, end, inBits)
		if !s.empty() && (s.first < 0 || s.last >= 8*n) {
			t.Fatalf("spanOf(%d, %d, %d, %v) = %+v (seed %d)", n, start, end, inBits, s, seed)
		}
		ones, first := int64(0), [2]int64{-1, -1}
		for i := s.first; i <= s.last; i++ {
			bit := bitAt(value, i)
			ones += bit
			if first[bit] < 0 {
				first[bit] = i
			}
		}
		if got := countIn(value, s); got != ones {
			t.Fatalf("%x has %d ones in %+v, counted %d (seed %d)", value, ones, s, got, seed)
		}
		if s.empty() {
			continue
		}
		for bit, want := range first {
			if got := firstBit(value, s, bit == 1); got != want {
				t.Fatalf("%x: the first %d in %+v is at %d, got %d (seed %d)", value, bit, s, want, got, seed)
			}
		}
	}
}

// TestBitLimit reaches the last bit that a string may have, and passes it.
func TestBitLimit(t *testing.T) {
	const limit = 100
	command.MaxStringBytes.Store(limit)
	defer command.MaxStringBytes.Store(0)
	r := commandtest.NewRunner(Commands(), strings.Commands())
	const refused = "-ERR bit offset is not an integer or out of range\r\n"
	for _, c := range []struct {
		want string
		args []string
	}{
		{":0\r\n", []string{"SETBIT", "k", "799", "1"}},
		{refused, []string{"SETBIT", "k", "800", "1"}},
		{":1\r\n", []string{"GETBIT", "k", "799"}},
		{refused, []string{"GETBIT", "k", "800"}},
		{"*1\r\n:1\r\n", []string{"BITFIELD", "k", "GET", "u1", "799"}},
		{refused, []string{"BITFIELD", "k", "GET", "u1", "800"}},
		{refused, []string{"BITFIELD", "k", "GET", "u8", "#100"}},
		// A field that begins within the limit may end beyond it, as in Redis;
		// the bit that was set is its sign.
		{"*1\r\n:-9223372036854775808\r\n", []string{"BITFIELD", "k", "SET", "i64", "799", "5"}},
		{":108\r\n", []string{"STRLEN", "k"}},
	} {
		got := r.Do(c.args...)
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestHotCommandsDoNotAllocate(t *testing.T) {
	r := commandtest.NewRunner(Commands())
	for _, args := range [][]string{
		{"SETBIT", "k", "100", "1"}, {"GETBIT", "k", "100"}, {"BITCOUNT", "k"}, {"BITCOUNT", "k", "0", "-1", "BIT"}, {"BITPOS", "k", "1"},
	} {
		r.Do(args...)
		if n := r.Allocs(args...); n != 0 {
			t.Errorf("%q allocates %v times", args, n)
		}
	}
}
