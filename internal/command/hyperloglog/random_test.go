package hyperloglog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/strings"
)

// TestForms adds the same elements to values of both forms, at several bounds of
// the sparse one, and holds their registers to those of a plain array.
func TestForms(t *testing.T) {
	defer SparseMaxBytes.Store(SparseMaxBytes.Load())
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	for _, bound := range []int64{0, 18, 100, 3000, 20_000, 1 << 40} {
		SparseMaxBytes.Store(bound)
		var want maxima
		var s, full sketch
		s.reset()
		full.reset()
		full.toDense()
		for n := range 12_000 {
			index, run := rng.IntN(registers), byte(1+min(rng.ExpFloat64()*3, 31))
			if rng.IntN(3) == 0 {
				index = rng.IntN(300) // so that runs meet
				run = byte(1 + rng.IntN(2))
			}
			raised, ok := s.raise(index, run)
			if !ok || raised != (want[index] < run) || raised != denseSet(full.buf, index, run) {
				t.Fatalf("bound %d, element %d: register %d from %d to %d: raised %v, sound %v", bound, n, index, want[index], run, raised, ok)
			}
			want[index] = max(want[index], run)
			if n%1000 == 0 || n < 100 {
				var got maxima
				if !got.take(s.buf) || got != want {
					t.Fatalf("bound %d, element %d: the registers differ", bound, n)
				}
			}
			if !s.isDense() && n > 0 && int64(len(s.buf)) > max(bound, 18) {
				t.Fatalf("bound %d, element %d: %d bytes", bound, n, len(s.buf))
			}
		}
		var a, b maxima
		if !a.take(s.buf) || !b.take(full.buf) || a != want || b != want {
			t.Errorf("bound %d: the registers differ", bound)
		}
		if h, ok := histogramOf(s.buf); !ok || h != want.histogram() {
			t.Errorf("bound %d: the histogram of the value differs", bound)
		}
		if h, ok := histogramOf(full.buf); !ok || h != want.histogram() {
			t.Errorf("bound %d: the histogram of the dense value differs", bound)
		}
		if !s.toDense() || !bytes.Equal(s.buf[headerBytes:], full.buf[headerBytes:]) {
			t.Errorf("bound %d: the dense forms differ", bound)
		}
	}
}

// TestHostileValues runs every command on values of random bytes: whatever they
// answer, nothing goes wrong and what is recorded is what happened.
func TestHostileValues(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	header := "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for n := range 500 {
		r := commandtest.NewRunner(Commands(), strings.Commands())
		value := []byte(header)
		value = append(value, byte(rng.IntN(2)<<7))
		for covered := 0; covered < registers && rng.IntN(40) > 0; {
			var op [2]byte
			op[0], op[1] = byte(rng.Uint32()), byte(rng.Uint32())
			run := runAt(op[:], 0)
			value = append(value, op[:run.bytes]...)
			covered += run.length
			if covered > registers && rng.IntN(2) == 0 {
				value = value[:len(value)-1]
			}
		}
		r.Do("SET", "h", string(value))
		r.Do("SET", "d", string(value))
		for range 20 {
			e := fmt.Sprint(rng.Uint64())
			for _, args := range [][]string{
				{"PFADD", "h", e, e + "x"}, {"PFCOUNT", "h"}, {"PFCOUNT", "h", "d"}, {"PFMERGE", "d", "h"}, {"PFMERGE", "e", "h", "d"},
				{"PFDEBUG", "DECODE", "h"}, {"PFDEBUG", "ENCODING", "h"}, {"PFDEBUG", "TODENSE", "d"},
			} {
				if reply := r.Do(args...); reply == "" {
					t.Fatalf("value %d, %q: no reply", n, value)
				}
			}
		}
		r.CheckReplay(t)
	}
}

// TestAllocations holds the commands to what they need once the value is there.
func TestAllocations(t *testing.T) {
	r := commandtest.NewRunner(Commands())
	r.Do("PFADD", "sparse", "a", "b", "c")
	for i := range 30_000 {
		r.Do("PFADD", "dense", fmt.Sprint(i))
	}
	r.Do("PFCOUNT", "dense")
	for _, args := range [][]string{
		{"PFADD", "sparse", "a"}, {"PFADD", "dense", "1"}, {"PFCOUNT", "sparse"}, {"PFCOUNT", "dense"}, {"PFCOUNT", "dense", "sparse"},
	} {
		if n := r.Allocs(args...); n > 0 {
			t.Errorf("%q allocates %v times", args, n)
		}
	}
}

func TestSelfTest(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	if err := selfTest(rand.New(rand.NewPCG(seed, 6))); err != nil {
		t.Error(err)
	}
}

// FuzzValue holds that no bytes make the readers of a value fail.
func FuzzValue(f *testing.F) {
	var s sketch
	s.reset()
	f.Add(s.buf, "a")
	for _, e := range []string{"a", "b", "c"} {
		s.raise(place([]byte(e)))
	}
	f.Add(s.buf, "d")
	s.toDense()
	f.Add(s.buf, "e")
	f.Fuzz(func(t *testing.T, value []byte, element string) {
		if !isSketch(value) {
			return
		}
		var m maxima
		sound := m.take(value)
		if _, ok := histogramOf(value); ok != sound {
			t.Fatalf("sound for one reader and not for the other: %q", value)
		}
		var s sketch
		s.load(value)
		index, run := place([]byte(element))
		_, ok := s.raise(index, run)
		if sound && !ok {
			t.Fatalf("a sound value is corrupt: %q", value)
		}
		if sound {
			m[index] = max(m[index], run)
			var again maxima
			if !again.take(s.buf) || again != m {
				t.Fatalf("raising register %d to %d of %q gives %q", index, run, value, s.buf)
			}
		}
		if s.toDense() != sound && ok {
			t.Fatalf("%q: dense form of what is corrupt", value)
		}
		decode(value)
	})
}
