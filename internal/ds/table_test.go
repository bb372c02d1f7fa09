package ds

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"unsafe"
)

// newRand returns a seeded generator and has the seed printed if the test fails. DS_SEED repeats a run.
func newRand(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("DS_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = v
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("DS_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

func key(i int) []byte { return fmt.Appendf(nil, "key:%d", i) }

func TestEntryIs48Bytes(t *testing.T) {
	if n := unsafe.Sizeof(Entry{}); n != entryBytes {
		t.Errorf("Entry has %d bytes, want %d", n, entryBytes)
	}
	if n := unsafe.Sizeof(segment{}); n != segmentBytes {
		t.Errorf("segment has %d bytes, want %d", n, segmentBytes)
	}
	if n := unsafe.Sizeof(Table{}); n > tableBytes {
		t.Errorf("Table has %d bytes, want at most %d", n, tableBytes)
	}
}

// checkTable verifies the structure of a table and that it holds exactly want.
func checkTable(t *testing.T, tab *Table, want map[string]string) {
	t.Helper()
	if tab.Len() != len(want) {
		t.Fatalf("Len %d, want %d", tab.Len(), len(want))
	}
	seen, total, deepest := 0, 0, 0
	for at := uint64(0); at < uint64(len(tab.dir)); {
		s := tab.dir[at]
		first, n := tab.span(at)
		if first != at {
			t.Fatalf("segment at %d begins at %d", at, first)
		}
		if s.depth == tab.depth {
			deepest++
		}
		for i := at; i < at+n; i++ {
			if tab.dir[i] != s {
				t.Fatalf("directory slot %d is not its segment's", i)
			}
		}
		for c := s; c != nil; c = c.over {
			if c != s && len(c.slots) == 0 {
				t.Fatalf("empty segment in a chain")
			}
			if c.depth != s.depth || c.epoch != s.epoch {
				t.Fatalf("chain of different depth or epoch")
			}
			for i, e := range c.slots {
				h := hashOf(e.Key())
				if h>>tab.shift < at || h>>tab.shift >= at+n || c.tag(i) != uint8(h) {
					t.Fatalf("entry %q in the wrong place", e.Key())
				}
				if v, ok := want[string(e.Key())]; !ok || v != string(e.Value()) && e.Object() == nil {
					t.Fatalf("entry %q = %.40q, want %.40q (%v)", e.Key(), e.Value(), v, ok)
				}
				seen++
				total += e.kvBytes()
			}
		}
		at += n
	}
	if seen != len(want) || total != tab.bytes || deepest != tab.deepest {
		t.Fatalf("entries %d, bytes %d, deepest %d; want %d, %d, %d", seen, total, deepest, len(want), tab.bytes, tab.deepest)
	}
}

func TestTableAgainstMap(t *testing.T) {
	rng := newRand(t)
	tab, model := NewTable(), map[string]string{}
	for round := range 40 {
		n := 1 << rng.IntN(14)
		deleting := round%2 == 1
		for range n {
			k := key(rng.IntN(1 << rng.IntN(14)))
			v := bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(1<<rng.IntN(9)))
			switch op := rng.IntN(10); {
			case op < 6 == deleting:
				e := tab.Delete(k)
				want, ok := model[string(k)]
				if (e != nil) != ok || ok && string(e.Value()) != want {
					t.Fatalf("Delete %q", k)
				}
				delete(model, string(k))
			case op == 9:
				if e := tab.Mutable(k); e != nil {
					old := model[string(k)]
					n := rng.IntN(300)
					got := tab.Resize(e, n)
					want := make([]byte, n)
					copy(want, old)
					if !bytes.Equal(got, want) {
						t.Fatalf("Resize %q to %d: %q", k, n, got)
					}
					model[string(k)] = string(want)
				}
			default:
				_, created := tab.Put(k, v)
				if _, ok := model[string(k)]; created == ok {
					t.Fatalf("Put %q: created %v", k, created)
				}
				model[string(k)] = string(v)
			}
			k = key(rng.IntN(1 << 13))
			want, ok := model[string(k)]
			if e := tab.Get(k); (e != nil) != ok || ok && string(e.Value()) != want {
				t.Fatalf("Get %q", k)
			}
		}
		checkTable(t, tab, model)
	}
}
