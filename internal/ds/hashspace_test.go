package ds

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// scanAll runs a whole scan with a change of the table between any two calls, and returns how often each key came.
func scanAll(t *testing.T, tab *Table, count int, between func()) map[string]int {
	t.Helper()
	got := map[string]int{}
	cursor := uint64(0)
	for {
		n := 0
		next := tab.Scan(cursor, count, func(e *Entry) {
			got[string(e.Key())]++
			n++
		})
		if next >= 1<<CursorBits || next != 0 && next <= cursor {
			t.Fatalf("cursor %d after %d", next, cursor)
		}
		if n > count {
			t.Fatalf("%d entries for a count of %d", n, count)
		}
		if next == 0 {
			return got
		}
		cursor = next
		between()
	}
}

func TestScanReturnsWhatStays(t *testing.T) {
	rng := newRand(t)
	for range 40 {
		stay := 1 << rng.IntN(12)
		tab := NewTable()
		for i := range stay {
			tab.Put(key(i), nil)
		}
		// The table grows to many times its size and shrinks back, while the scan runs.
		others, growing := 0, true
		limit := 1 << (4 + rng.IntN(11))
		count := 1 << rng.IntN(8)
		perCall := 1 + 6*limit*count/(stay+limit)
		got := scanAll(t, tab, count, func() {
			for range rng.IntN(1 + perCall) {
				if growing {
					tab.Put(fmt.Appendf(nil, "other:%d", others), nil)
					others++
				} else {
					others--
					tab.Delete(fmt.Appendf(nil, "other:%d", others))
				}
				growing = growing && others < limit || others == 0
			}
		})
		for i := range stay {
			if n := got[string(key(i))]; n != 1 {
				t.Fatalf("%d of %d returned %d times (count %d)", i, stay, n, count)
			}
		}
	}
}

func TestScanOfUnchangedTable(t *testing.T) {
	for _, n := range []int{0, 1, 7, 48, 49, 1000, 20000} {
		for _, count := range []int{-1, 0, 1, 10, 1000, math.MaxInt} {
			if n*10 > 20000*max(count, 1) {
				continue
			}
			tab := filled(n)
			got := scanAll(t, tab, max(count, 1), func() {})
			if len(got) != n {
				t.Errorf("count %d: %d entries of %d", count, len(got), n)
			}
		}
	}
	tab := filled(1000)
	for _, cursor := range []uint64{1 << CursorBits, math.MaxUint64} {
		if next := tab.Scan(cursor, 10, func(*Entry) { t.Error("an entry beyond the last cursor") }); next != 0 {
			t.Errorf("cursor %d leads to %d", cursor, next)
		}
	}
}

// Entries whose hashes are equal in all bits of a cursor are not separated.
func TestCut(t *testing.T) {
	found := []scanned{{1, nil}, {2, nil}, {2, nil}, {2, nil}, {3, nil}, {4, nil}, {4, nil}}
	for n, want := range []int{0, 1, 4, 4, 4, 5, 7, 7} {
		if n > 0 && cut(found, n) != want {
			t.Errorf("cut at %d: %d, want %d", n, cut(found, n), want)
		}
	}
}

// collidingKeys returns n keys whose hashes begin with the same bits.
func collidingKeys(n, bits int) [][]byte {
	var keys [][]byte
	var prefix uint64
	for i := 0; len(keys) < n; i++ {
		k := key(i)
		h := hashOf(k) >> (64 - bits)
		if i == 0 {
			prefix = h
		}
		if h == prefix {
			keys = append(keys, k)
		}
	}
	return keys
}

// Keys that share more bits of their hash than the directory may grow to go to a chain.
func TestCollidingHashes(t *testing.T) {
	rng := newRand(t)
	keys := collidingKeys(400, 10)
	tab, model := NewTable(), map[string]string{}
	chained := false
	put := func(k []byte, v string) {
		tab.Put(k, []byte(v))
		model[string(k)] = v
		if len(tab.dir) > len(model) {
			t.Fatalf("directory of %d for %d entries", len(tab.dir), len(model))
		}
		chained = chained || tab.dir[hashOf(k)>>tab.shift].over != nil
	}
	for _, k := range keys {
		put(k, "1")
	}
	checkTable(t, tab, model)
	if !chained {
		t.Fatal("no chain")
	}

	// A chain in a view: copied, mutated, freed.
	f, want := tab.Freeze(), map[string]string{}
	for k, v := range model {
		want[k] = fmt.Sprintf("0 string %x raw false", v)
	}
	for range 3000 {
		k := keys[rng.IntN(len(keys))]
		switch rng.IntN(3) {
		case 0:
			if (tab.Delete(k) != nil) != (model[string(k)] != "") {
				t.Fatalf("Delete %q", k)
			}
			delete(model, string(k))
		default:
			put(k, fmt.Sprint(rng.IntN(100)))
		}
	}
	checkTable(t, tab, model)
	if err := checkView(f, f.Drain, want); err != nil {
		t.Fatal(err)
	}
	f.Release()
	for _, k := range keys {
		put(k, "2")
	}

	// Segments that the chain does not need any more leave it.
	head := tab.dir[hashOf(keys[0])>>tab.shift]
	second := head.over
	for _, e := range entriesOf(t, second) {
		tab.Delete(e.Key())
		delete(model, string(e.Key()))
	}
	if head.over == second {
		t.Error("an empty segment in the chain")
	}
	for _, i := range rng.Perm(len(keys))[:len(keys)-20] {
		tab.Delete(keys[i])
		delete(model, string(keys[i]))
	}
	checkTable(t, tab, model)
	for _, k := range keys {
		put(k, "2")
	}

	got := scanAll(t, tab, len(keys), func() {})
	if len(got) != len(model) {
		t.Errorf("scan returns %d of %d", len(got), len(model))
	}
	for range 1000 {
		if tab.Random(rng) == nil {
			t.Fatal("no random entry")
		}
	}

	// The chain is taken apart when the table has grown.
	for i := range 40000 {
		put(fmt.Appendf(nil, "other:%d", i), "3")
	}
	checkTable(t, tab, model)
	n := 0
	for s := tab.dir[hashOf(keys[0])>>tab.shift]; s != nil; s = s.over {
		n++
	}
	if n > len(keys)/segmentSlots/2 {
		t.Errorf("still a chain of %d", n)
	}
	for k := range maps.Clone(model) {
		tab.Delete([]byte(k))
		delete(model, k)
	}
	checkTable(t, tab, model)
}

func TestRandomOfTableIsFair(t *testing.T) {
	rng := newRand(t)
	for _, c := range []struct{ fill, keep int }{{3, 3}, {200, 200}, {2000, 2000}, {50000, 300}} {
		tab := filled(c.fill)
		for i := c.keep; i < c.fill; i++ {
			tab.Delete(key(i))
		}
		hits := map[string]int{}
		const expected = 300
		for range expected * c.keep {
			hits[string(tab.Random(rng).Key())]++
		}
		for i := range c.keep {
			n := hits[string(key(i))]
			if math.Abs(float64(n-expected)) > 6*math.Sqrt(expected) {
				t.Errorf("%d of %d: drawn %d times, expected %d", i, c.keep, n, expected)
			}
		}
	}
	if NewTable().Random(rng) != nil {
		t.Error("an entry of an empty table")
	}
}

// A table whose directory is deeper than its entries need (one corner is full, the rest is gone) still finds one.
func TestRandomOfLopsidedTable(t *testing.T) {
	rng := newRand(t)
	tab := NewTable()
	corner := map[string]bool{}
	for i := range 40000 {
		k := key(i)
		tab.Put(k, nil)
		if hashOf(k)>>53 == 0 {
			corner[string(k)] = true
		}
	}
	depth := tab.depth
	for i := range 40000 {
		if k := key(i); !corner[string(k)] {
			tab.Delete(k)
		}
	}
	t.Logf("%d entries, depth %d of %d", tab.Len(), tab.depth, depth)
	for range 1000 {
		if e := tab.Random(rng); e == nil || !corner[string(e.Key())] {
			t.Fatal("no entry")
		}
	}
}

func TestMassDeletionShrinks(t *testing.T) {
	const n = 100_000
	tab := filled(n)
	grown := len(tab.dir)
	model := map[string]string{}
	for i := range n {
		if i%100 != 0 {
			tab.Delete(key(i))
		} else {
			model[string(key(i))] = "value"
		}
	}
	checkTable(t, tab, model)
	if len(tab.dir) > grown/16 {
		t.Errorf("directory of %d, was %d", len(tab.dir), grown)
	}
	segments := 0
	eachSegment(tab.dir, tab.depth, 0, func(*segment, uint64) bool { segments++; return true })
	if segments > len(model)/8 {
		t.Errorf("%d segments for %d entries", segments, len(model))
	}
	for k := range maps.Clone(model) {
		tab.Delete([]byte(k))
	}
	if tab.dir != nil || tab.bytes != 0 {
		t.Errorf("empty table has a directory of %d and %d bytes", len(tab.dir), tab.bytes)
	}
}

// Segments merge although a view has them, and their entries stay the view's.
func TestMergeUnderView(t *testing.T) {
	const n = 5000
	rng := newRand(t)
	for _, drain := range []bool{false, true} {
		tab := filled(n)
		f, want := tab.Freeze(), map[string]string{}
		for i := range n {
			want[string(key(i))] = fmt.Sprintf("0 string %x raw false", "value")
		}
		left := map[string]string{}
		mutate := func() {
			for _, i := range rng.Perm(n) {
				if i%50 != 0 {
					tab.Delete(key(i))
				}
			}
			for i := 0; i < n; i += 50 {
				tab.Put(key(i), []byte("VALUE"))
				left[string(key(i))] = "VALUE"
			}
		}
		if drain {
			seen := 0
			got := map[string]string{}
			f.Drain(func(e *Entry) bool {
				if seen++; seen == n/2 {
					mutate()
				}
				got[string(e.Key())] = textOf(e)
				return true
			})
			if diff := diffOf(got, want); diff != "" {
				t.Fatal(diff)
			}
		} else {
			mutate()
			if err := checkView(f, f.Each, want); err != nil {
				t.Fatal(err)
			}
		}
		f.Release()
		checkTable(t, tab, left)
	}
}

// A segment merges with a sparse neighbour that only the view has touched: what moves is still the view's.
func TestMergeWithSharedBuddy(t *testing.T) {
	const n = 4000
	rng := newRand(t)
	for range 10 {
		tab := filled(n)
		model, want := map[string]string{}, map[string]string{}
		alive := rng.Perm(n)
		gone := n/2 + rng.IntN(n/4)
		for _, i := range alive[:gone] {
			tab.Delete(key(i))
		}
		alive = alive[gone:]
		for _, i := range alive {
			want[string(key(i))] = fmt.Sprintf("0 string %x raw false", "value")
		}
		f := tab.Freeze()
		for _, i := range alive[:len(alive)/10] {
			tab.Delete(key(i))
		}
		for _, i := range alive[len(alive)/10:] {
			tab.Put(key(i), []byte("VALUE"))
			model[string(key(i))] = "VALUE"
		}
		if err := checkView(f, f.Each, want); err != nil {
			t.Fatal(err)
		}
		f.Release()
		checkTable(t, tab, model)
	}
}

// A key of 16 bytes with a value of 64 takes at most 140 bytes, the table included; the text is 80 of them.
func TestBytesPerKey(t *testing.T) {
	const n = 140_000
	keys := benchKeyList(n)
	value := []byte(strings.Repeat("v", 64))
	worst := 0.0
	before := heapBytes()
	tab := NewTable()
	for i, k := range keys {
		tab.Put(k, value)
		// Segments are emptiest just after most of them have split.
		if i+1 == 70_000 || i+1 == 100_000 || i+1 == n {
			perKey := float64(heapBytes()-before) / float64(i+1)
			estimate := float64(tab.MemBytes()) / float64(i+1)
			if math.Abs(estimate-perKey) > 0.1*perKey {
				t.Errorf("MemBytes says %.1f bytes a key, measured %.1f", estimate, perKey)
			}
			worst = max(worst, perKey)
		}
	}
	runtime.KeepAlive(keys)
	if worst > 140 {
		t.Errorf("%.1f bytes a key", worst)
	}
	t.Logf("%.1f bytes a key", worst)
}

func TestSmallTablesAreSmall(t *testing.T) {
	const n = 2000
	tables := make([]*Table, n)
	before := heapBytes()
	for i := range tables {
		tables[i] = NewTable()
		tables[i].Put([]byte("m"), nil)
	}
	if per := float64(heapBytes()-before) / n; per > 450 {
		t.Errorf("a table of one entry takes %.0f bytes", per)
	}
	runtime.KeepAlive(tables)
}

func BenchmarkScanWhole(b *testing.B) {
	tab := filled(100_000)
	for b.Loop() {
		cursor, rng := uint64(0), rand.New(rand.NewPCG(1, 1))
		for {
			cursor = tab.Scan(cursor, 10+rng.IntN(10), func(*Entry) {})
			if cursor == 0 {
				break
			}
		}
	}
}
