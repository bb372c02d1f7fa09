package ds

import (
	"bytes"
	"strings"
	"testing"
)

// bufferOf identifies the allocation of a value.
func bufferOf(e *Entry) *byte { return &e.Key()[0] }

func TestPutInPlace(t *testing.T) {
	tab := NewTable()
	k := []byte("k")
	e, _ := tab.Put(k, make([]byte, 100))
	buffer := bufferOf(e)
	for _, n := range []int{100, 60, 99, 100} {
		if e2, created := tab.Put(k, bytes.Repeat([]byte("x"), n)); created || e2 != e || bufferOf(e) != buffer || len(e.Value()) != n {
			t.Errorf("value of %d bytes is not written in place", n)
		}
	}
	v := []byte("yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy")
	if a := testing.AllocsPerRun(100, func() { tab.Put(k, v) }); a != 0 {
		t.Errorf("%v allocations in place", a)
	}
	tab.Put(k, make([]byte, 40))
	if bufferOf(e) == buffer || e.kvBytes() > 64 {
		t.Errorf("a value of 40 bytes keeps %d", e.kvBytes())
	}
	// Small rooms are kept.
	tab.Put(k, make([]byte, 60))
	buffer = bufferOf(e)
	tab.Put(k, nil)
	if bufferOf(e) != buffer || len(e.Value()) != 0 {
		t.Error("a small room is given back")
	}
}

func TestPutOwnBytes(t *testing.T) {
	tab := NewTable()
	k := []byte("k")
	e, _ := tab.Put(k, []byte(strings.Repeat("0123456789", 30)))
	for _, cut := range [][2]int{{5, 290}, {100, 110}, {1, 2}} {
		want := string(e.Value()[cut[0]:min(cut[1], len(e.Value()))])
		tab.Put(k, e.Value()[cut[0]:min(cut[1], len(e.Value()))])
		if string(e.Value()) != want {
			t.Fatalf("%q, want %q", e.Value(), want)
		}
		tab.Put(k, []byte(strings.Repeat("0123456789", 30)))
	}
}

func TestEmptyKeyAndValue(t *testing.T) {
	tab := NewTable()
	e, created := tab.Put(nil, nil)
	if !created || e.Key() == nil || e.Value() == nil || len(e.Key())+len(e.Value()) != 0 {
		t.Errorf("key %#v, value %#v", e.Key(), e.Value())
	}
	if tab.Get([]byte{}) != e || tab.Len() != 1 {
		t.Error("the empty key is missing")
	}
	if got := tab.Resize(e, 3); string(got) != "\x00\x00\x00" {
		t.Errorf("resized to %q", got)
	}
}

func TestResizeIsAmortized(t *testing.T) {
	tab := NewTable()
	e, _ := tab.Put([]byte("k"), []byte("x"))
	moved := 0
	for n := 2; n <= 4<<20; n += 1 + n/1000 {
		before := bufferOf(e)
		v := tab.Resize(e, n)
		if v[n-1] != 0 {
			t.Fatal("not filled with zeros")
		}
		v[n-1] = 'x'
		if bufferOf(e) != before {
			moved++
		}
	}
	if moved > 40 {
		t.Errorf("the value was moved %d times", moved)
	}
	if got := e.kvBytes(); got > 5<<20+5<<18 {
		t.Errorf("a value of 4 MiB keeps %d bytes", got)
	}
	// Cut in place, then grown: what was cut is not seen again.
	v := tab.Resize(e, 3<<20)
	v[len(v)-1] = 'y'
	tab.Resize(e, 3<<20-1)
	if v = tab.Resize(e, 3<<20); v[len(v)-1] != 0 {
		t.Error("bytes that were cut are back")
	}
	tab.Resize(e, 100)
	if e.kvBytes() > 200 {
		t.Errorf("a value of 100 bytes keeps %d", e.kvBytes())
	}
	if tab.bytes != e.kvBytes() {
		t.Errorf("table counts %d bytes, entry has %d", tab.bytes, e.kvBytes())
	}
}

func TestPutKeepsAuxAndClearsRaw(t *testing.T) {
	tab := NewTable()
	k := []byte("k")
	e, _ := tab.Put(k, []byte("v"))
	tab.SetAux(e, 42)
	tab.SetRaw(e, true)
	e.SetLRU(7)
	if tab.Resize(e, 1000); !e.Raw() {
		t.Error("Resize clears Raw")
	}
	if e, _ = tab.Put(k, []byte("w")); e.Raw() || e.Aux() != 42 || e.LRU() != 7 {
		t.Errorf("Raw %v, Aux %d, LRU %d", e.Raw(), e.Aux(), e.LRU())
	}
	tab.SetRaw(e, true)
	f := tab.Freeze()
	if e, _ = tab.Put(k, []byte("w")); e.Raw() || e.Aux() != 42 || e.LRU() != 7 {
		t.Errorf("under a view: Raw %v, Aux %d, LRU %d", e.Raw(), e.Aux(), e.LRU())
	}
	if e = tab.PutObject(k, NewSet()); e.Raw() || e.Aux() != 42 || e.LRU() != 7 || len(e.Value()) != 0 || e.Kind() != KindSet {
		t.Errorf("object: Raw %v, Aux %d, LRU %d, Value %q", e.Raw(), e.Aux(), e.LRU(), e.Value())
	}
	if e, _ = tab.Put(k, []byte("w")); e.Object() != nil || e.Kind() != KindString {
		t.Error("Put keeps the object")
	}
	f.Release()
}

func TestTooLongPanics(t *testing.T) {
	if MaxValueBytes < 512<<20 {
		t.Errorf("MaxValueBytes is %d", MaxValueBytes)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	tab := NewTable()
	e, _ := tab.Put([]byte("k"), nil)
	tab.Resize(e, MaxValueBytes+1)
}

func TestAdoptReplaces(t *testing.T) {
	from, to := NewTable(), NewTable()
	from.Put([]byte("k"), []byte("moved"))
	to.Put([]byte("k"), []byte("a longer value that is replaced"))
	e := from.Delete([]byte("k"))
	to.Adopt(e)
	if got := to.Get([]byte("k")); got != e || string(got.Value()) != "moved" || to.Len() != 1 || to.bytes != e.kvBytes() {
		t.Errorf("%q, %d entries, %d bytes", got.Value(), to.Len(), to.bytes)
	}
	if from.Len() != 0 || from.Delete([]byte("k")) != nil {
		t.Error("still in the old table")
	}
}

func TestEntryMemBytes(t *testing.T) {
	tab := NewTable()
	lim := DefaultLimits()
	e, _ := tab.Put([]byte("k"), make([]byte, 1000))
	if n := e.MemBytes(); n < 1048 || n > 1300 {
		t.Errorf("a value of 1000 bytes takes %d", n)
	}
	h := NewHash()
	for i := range 1000 {
		h.Set(key(i), make([]byte, 100), &lim)
	}
	if n := tab.PutObject([]byte("k"), h).MemBytes(); n < 1000*(100+entryBytes) || n > 1000*250 {
		t.Errorf("a hash of 1000 fields takes %d bytes", n)
	}
	if e.Kind() != KindHash || tab.Get([]byte("k")).Object() != Object(h) {
		t.Error("the hash is not there")
	}
}

// A fork's first write of a part copies it, the second does not.
func TestForksCopyOnce(t *testing.T) {
	lim := DefaultLimits()
	hash, small, list, zset := NewHash(), NewHash(), NewList(), NewZSet()
	for i := range 1000 {
		hash.Set(key(i), []byte("value"), &lim)
		list.PushBack(key(i))
		zset.Set(key(i), float64(i), &lim)
	}
	small.Set([]byte("f"), []byte("value"), &lim)
	k, v := key(5), []byte("VALUE")
	for _, c := range []struct {
		name  string
		o     Object
		write func(o Object)
	}{
		{"hash", hash, func(o Object) { o.(*Hash).Set(k, v, &lim) }},
		{"packed hash", small, func(o Object) { o.(*Hash).Set([]byte("f"), v, &lim) }},
		{"list", list, func(o Object) { o.(*List).SetIndex(5, v) }},
		{"zset", zset, func(o Object) {
			z := o.(*ZSet)
			s, _ := z.Score(k)
			z.Set(k, s+0.1, &lim)
		}},
	} {
		fork := c.o.Fork()
		for _, o := range []Object{c.o, fork} {
			// AllocsPerRun makes one call before it counts.
			if a := testing.AllocsPerRun(3, func() { c.write(o) }); a != 0 {
				t.Errorf("%s: %v allocations for a second write", c.name, a)
			}
		}
		fork = c.o.Fork()
		if a := testing.AllocsPerRun(10, func() { fork = c.o.Fork() }); a > 3 {
			t.Errorf("%s: %v allocations for a fork", c.name, a)
		}
		_ = fork
	}
}

// Hot paths do not allocate.
func TestNoAllocations(t *testing.T) {
	lim := DefaultLimits()
	tab := filled(5000)
	hash, set, list, zset := NewHash(), NewSet(), NewList(), NewZSet()
	for i := range 5000 {
		hash.Set(key(i), []byte("value"), &lim)
		set.Add(key(i), &lim)
		list.PushBack(key(i))
		zset.Set(key(i), float64(i), &lim)
	}
	k, v := key(77), []byte("VALUE")
	score := 0.0
	for name, fn := range map[string]func(){
		"Table.Get":        func() { tab.Get(k) },
		"Table.Put":        func() { tab.Put(k, v) },
		"Table.Mutable":    func() { tab.Mutable(k) },
		"Table.Scan":       func() { tab.Scan(1<<39, 10, func(*Entry) {}) },
		"Hash.Get":         func() { hash.Get(k) },
		"Hash.Set":         func() { hash.Set(k, v, &lim) },
		"Set.Has":          func() { set.Has(k) },
		"Set.Add existing": func() { set.Add(k, &lim) },
		"List.Index":       func() { list.Index(2500) },
		"ZSet.Score":       func() { zset.Score(k) },
		"ZSet.Rank":        func() { zset.Rank(k) },
		"ZSet.SeekScore":   func() { zset.SeekScore(100.5, true) },
		"ZSet.At":          func() { zset.At(2500) },
		"ZSet.Set":         func() { score++; zset.Set(k, score, &lim) },
	} {
		if a := testing.AllocsPerRun(100, fn); a != 0 {
			t.Errorf("%s: %v allocations", name, a)
		}
	}
}
