package op

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestSlotMatchesRedisCluster(t *testing.T) {
	// Figures from CLUSTER KEYSLOT of redis-server 7.0.15.
	for key, want := range map[string]int{
		"": 0, "foo": 12182, "123456789": 12739, "{foo}bar": 12182, "foo{}bar": 14292, "{}": 15257, "a{b}c{d}": 3300,
	} {
		if got := Slot([]byte(key)); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestVerbTextsRoundTrip(t *testing.T) {
	for v := Verb(1); v < numVerbs; v++ {
		if verbNames[v] == "" || verbOf([]byte(verbNames[v])) != v || minArgs[v] == 0 {
			t.Errorf("verb %d (%q) is not whole", v, verbNames[v])
		}
	}
}

// TestKeys: the key is where KeyAt says, which of XGROUP is behind the subcommand.
func TestKeys(t *testing.T) {
	for text, want := range map[string]string{
		"*3\r\n$4\r\nXDEL\r\n$1\r\ns\r\n$3\r\n1-1\r\n":                  "s",
		"*4\r\n$6\r\nXGROUP\r\n$7\r\nDESTROY\r\n$1\r\ns\r\n$1\r\ng\r\n": "s",
		"*1\r\n$8\r\nFLUSHALL\r\n":                                      "",
	} {
		var s Scanner
		s.Reset([]byte(text), 0)
		f, err := s.Next()
		if err != nil || string(f.Key()) != want {
			t.Errorf("%q: %v, %v", text, f, err)
		}
	}
}

type wantOp struct {
	db    int
	cause Cause
	first bool
	last  bool
	text  string
}

func TestCommitsScanBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var pos LogPosition
		var payload []byte
		var want []wantOp
		for k := range 1 + rng.IntN(6) {
			var c Commit
			c.Bind(&pos)
			n := 1 + rng.IntN(4)
			for i := range n {
				w := wantOp{db: rng.IntN(3), cause: Cause(rng.IntN(3)), first: i == 0, last: i == n-1}
				val := make([]byte, rng.IntN(40))
				for j := range val {
					val[j] = "\r\n*$#ab"[rng.IntN(7)]
				}
				if rng.IntN(2) == 0 {
					c.Begin(Set, w.db, 0, w.cause, 3)
					c.Arg([]byte("k"))
					c.Arg(val)
					w.text = fmt.Sprintf("SET k %q", val)
				} else {
					c.Begin(Del, w.db, 0, w.cause, 2)
					c.Arg(val)
					w.text = fmt.Sprintf("DEL %q", val)
				}
				c.End()
				want = append(want, w)
			}
			payload = c.AppendTo(payload, k == 0)
		}
		var s Scanner
		s.Reset(payload, 9)
		for i, w := range want {
			f, err := s.Next()
			if err != nil || f == nil {
				t.Fatalf("op %d: %v %v", i, f, err)
			}
			got := wantOp{f.DB, f.Cause, f.First, f.Last, fmt.Sprintf("DEL %q", f.Args[1])}
			if f.Verb == Set {
				got.text = fmt.Sprintf("SET k %q", f.Args[2])
			}
			if got != w {
				t.Fatalf("op %d: got %+v, want %+v", i, got, w)
			}
		}
		if f, err := s.Next(); f != nil || err != nil {
			t.Fatalf("after the end: %v %v", f, err)
		}
		// Every cut is an error or a shorter list of whole ops, never a wrong one.
		for cut := range payload {
			s.Reset(payload[:cut], 0)
			for i := 0; ; i++ {
				f, err := s.Next()
				if err != nil || f == nil {
					break
				}
				if i >= len(want) || want[i].db != f.DB {
					t.Fatalf("cut at %d yields a wrong op %d", cut, i)
				}
			}
		}
	}
}

func BenchmarkScan(b *testing.B) {
	var pos LogPosition
	var c Commit
	c.Bind(&pos)
	c.Begin(Set, 0, 0, User, 3)
	c.Arg([]byte("key:000000012345"))
	c.Arg(make([]byte, 64))
	c.End()
	var payload []byte
	for i := range 500 {
		payload = c.AppendTo(payload, i == 0)
	}
	var s Scanner
	b.ReportAllocs()
	for i := 0; i < b.N; i += 500 {
		s.Reset(payload, 0)
		for {
			f, _ := s.Next()
			if f == nil {
				break
			}
		}
	}
}

func TestCRC16TakesAnyLength(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		var want uint16
		for _, c := range b {
			want ^= uint16(c) << 8
			for range 8 {
				if want&0x8000 != 0 {
					want = want<<1 ^ 0x1021
				} else {
					want <<= 1
				}
			}
		}
		if got := crc16(b); got != want {
			t.Fatalf("crc16 of %d bytes is %04x, bit by bit %04x", n, got, want)
		}
	}
}

func BenchmarkSlot(b *testing.B) {
	key := []byte("key:000000012345")
	for range b.N {
		Slot(key)
	}
}
