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

// The sizes that the accounts of memory and the layout by cache lines rest on.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		name string
		got  uintptr
		want int
	}{
		{"Entry", unsafe.Sizeof(Entry{}), headBytes},
		{"external", unsafe.Sizeof(external{}), externalBytes},
		{"segment", unsafe.Sizeof(segment{}), segmentHeadBytes},
		{"group", unsafe.Sizeof(group{}), groupBytes},
		{"segment1", unsafe.Sizeof(segment1{}), segmentHeadBytes + groupBytes},
		{"segment2", unsafe.Sizeof(segment2{}), segmentHeadBytes + 2*groupBytes},
		{"segment4", unsafe.Sizeof(segment4{}), segmentHeadBytes + 4*groupBytes},
		{"segment8", unsafe.Sizeof(segment8{}), segmentHeadBytes + maxGroups*groupBytes},
	} {
		if c.got != uintptr(c.want) {
			t.Errorf("%s has %d bytes, want %d", c.name, c.got, c.want)
		}
	}
	if n := unsafe.Sizeof(Table{}); n > tableBytes {
		t.Errorf("Table has %d bytes, want at most %d", n, tableBytes)
	}
}

// The groups of a full-size segment are cache lines. If this fails, look-ups are slower, and nothing else: the allocator
// has another layout.
func TestGroupsAreCacheLines(t *testing.T) {
	for _, s := range filled(5000).dir {
		if at := uintptr(unsafe.Pointer(s.group(0))); at%groupBytes != 0 {
			t.Fatalf("a group begins at %x", at)
		}
	}
}

// entriesOf returns the entries of one segment and verifies where they lie, their tags and the groups' counts.
func entriesOf(t *testing.T, s *segment) []*Entry {
	t.Helper()
	var entries []*Entry
	var passed [maxGroups]int
	for g := range uint64(s.last) + 1 {
		for j, e := range s.group(g).slots {
			tag := s.group(g).tags >> (8 * j) & 0xff
			if e == nil {
				if tag != 0 {
					t.Fatalf("tag %d of an empty slot", tag)
				}
				continue
			}
			h := hashOf(e.Key())
			if tag != tagOf(h) {
				t.Fatalf("tag %d of hash %x", tag, h)
			}
			for p := homeOf(h) & uint64(s.last); p != g; p = (p + 1) & uint64(s.last) {
				passed[p]++
			}
			if found, i := s.find(uint64(s.last), h, e.Key()); found != e || *s.slot(i) != e {
				t.Fatalf("%q is not found", e.Key())
			}
			entries = append(entries, e)
		}
	}
	for g := range uint64(s.last) + 1 {
		if n := s.group(g).tags >> 56; n != uint64(passed[g]) {
			t.Fatalf("group %d was passed by %d, counts %d", g, passed[g], n)
		}
	}
	if len(entries) != int(s.count) {
		t.Fatalf("segment of %d counts %d", len(entries), s.count)
	}
	return entries
}

// checkTable verifies the structure of a table and that it holds exactly want.
func checkTable(t *testing.T, tab *Table, want map[string]string) {
	t.Helper()
	if tab.Len() != len(want) {
		t.Fatalf("Len %d, want %d", tab.Len(), len(want))
	}
	if tab.last < maxGroups-1 && tab.depth > 0 {
		t.Fatalf("%d groups at depth %d", tab.last+1, tab.depth)
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
			if c != s && !tab.chained {
				t.Fatalf("a chain in a table without")
			}
			if c != s && c.count == 0 {
				t.Fatalf("empty segment in a chain")
			}
			if c.depth != s.depth || c.epoch != s.epoch || c.last != tab.last {
				t.Fatalf("chain of different depth, epoch or size")
			}
			for _, e := range entriesOf(t, c) {
				if at2 := hashOf(e.Key()) >> tab.shift; at2 < at || at2 >= at+n {
					t.Fatalf("entry %q in the wrong segment", e.Key())
				}
				if v, ok := want[string(e.Key())]; !ok || v != string(e.Value()) && e.Object() == nil {
					t.Fatalf("entry %q = %.40q, want %.40q (%v)", e.Key(), e.Value(), v, ok)
				}
				seen++
				total += e.allBytes()
			}
		}
		at += n
	}
	if seen != len(want) || total != counted(tab) || deepest != tab.deepest {
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
			v := bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(1<<rng.IntN(14)))
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
					n := rng.IntN(1 << rng.IntN(14))
					_, got := tab.Resize(e, n)
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
