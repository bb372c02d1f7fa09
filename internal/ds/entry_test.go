package ds

import (
	"bytes"
	"strings"
	"testing"
)

func TestPutInPlace(t *testing.T) {
	tab := NewTable()
	k := []byte("k")
	e, _ := tab.Put(k, make([]byte, 100))
	for _, n := range []int{100, 60, 99, 100} {
		if e2, created := tab.Put(k, bytes.Repeat([]byte("x"), n)); created || e2 != e || len(e.Value()) != n {
			t.Errorf("value of %d bytes is not written in place", n)
		}
	}
	v := []byte("yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy")
	if a := testing.AllocsPerRun(100, func() { tab.Put(k, v) }); a != 0 {
		t.Errorf("%v allocations in place", a)
	}
	if e2, _ := tab.Put(k, make([]byte, 40)); e2 == e || e2.bytes() > headBytes+64 {
		t.Errorf("a value of 40 bytes keeps %d", e2.bytes())
	}
	// Small rooms are kept.
	e, _ = tab.Put(k, make([]byte, 50))
	if e2, _ := tab.Put(k, nil); e2 != e || len(e.Value()) != 0 {
		t.Error("a small room is given back")
	}
	// What the allocator rounds up to is room.
	e, _ = tab.Put(k, make([]byte, 72))
	if e2, _ := tab.Put(k, make([]byte, 80)); e2 != e {
		t.Errorf("an entry of %d bytes has no room for more", e.bytes())
	}
}

func TestPutOwnBytes(t *testing.T) {
	tab := NewTable()
	k := []byte("k")
	e, _ := tab.Put(k, []byte(strings.Repeat("0123456789", 30)))
	for _, cut := range [][2]int{{5, 290}, {100, 110}, {1, 2}} {
		want := string(e.Value()[cut[0]:min(cut[1], len(e.Value()))])
		e, _ = tab.Put(k, e.Value()[cut[0]:min(cut[1], len(e.Value()))])
		if string(e.Value()) != want {
			t.Fatalf("%q, want %q", e.Value(), want)
		}
		e, _ = tab.Put(k, []byte(strings.Repeat("0123456789", 30)))
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
	if _, got := tab.Resize(e, 3); string(got) != "\x00\x00\x00" {
		t.Errorf("resized to %q", got)
	}
}

// counted returns what the table has counted for its entries.
func counted(t *Table) int {
	t.settle()
	return t.bytes
}

// Keys and values of all lengths around the limit between inline and external, as strings and as objects.
func TestBothKinds(t *testing.T) {
	const long = 3 * maxInlineBytes
	text := []byte(strings.Repeat("0123456789abcdef", long/16+10))
	for _, keyBytes := range []int{0, 1, 7, 8, 9, maxInlineBytes - headBytes - 1, maxInlineBytes - headBytes, maxInlineBytes, long} {
		for _, valueBytes := range []int{0, 1, 8, maxInlineBytes - headBytes - 9, maxInlineBytes - headBytes - 8, maxInlineBytes, long} {
			tab := NewTable()
			k, v := text[:keyBytes], text[100:][:valueBytes]
			check := func(e *Entry, want string, obj Object) {
				t.Helper()
				if tab.Get(k) != e || !bytes.Equal(e.Key(), k) || string(e.Value()) != want || e.Object() != obj || e.Aux() != 5 || counted(tab) != e.allBytes() {
					t.Fatalf("key of %d, value of %d: Key %.20q…, Value %.20q…, Object %v, Aux %d", keyBytes, valueBytes, e.Key(), e.Value(), e.Object(), e.Aux())
				}
				if inline := e.external() == nil; inline && e.bytes() > maxInlineBytes || inline && obj != nil {
					t.Fatalf("key of %d, value of %d: inline", keyBytes, valueBytes)
				}
			}
			e, _ := tab.Put(k, v)
			tab.SetAux(e, 5)
			check(e, string(v), nil)
			if headBytes+keyBytes+valueBytes <= maxInlineBytes != (e.external() == nil) {
				t.Fatalf("key of %d, value of %d: external %v", keyBytes, valueBytes, e.external() != nil)
			}
			set := NewSet()
			check(tab.PutObject(k, set), "", set)
			e, _ = tab.Put(k, nil)
			check(e, "", nil)
			want := string(text[:long]) + string(make([]byte, 100))
			e, got := tab.Resize(e, long)
			copy(got, text)
			check(e, want[:long], nil)
			e, _ = tab.Resize(e, long+100)
			check(e, want, nil)
			f := tab.Freeze()
			e, _ = tab.Resize(tab.Mutable(k), 5)
			check(e, want[:5], nil)
			f.Each(func(e *Entry) bool {
				if string(e.Value()) != want {
					t.Fatalf("the view has %.20q…", e.Value())
				}
				return true
			})
			f.Release()
		}
	}
}

// A long string is not copied for a change beside it while a view has it, and is before it is written.
func TestLongStringIsShared(t *testing.T) {
	tab := NewTable()
	k, v := []byte("k"), bytes.Repeat([]byte("v"), 100_000)
	old, _ := tab.Put(k, v)
	f := tab.Freeze()
	e := tab.Mutable(k)
	tab.SetAux(e, 1)
	if e == old || &e.Value()[0] != &old.Value()[0] {
		t.Error("the value is copied for SetAux")
	}
	for _, write := range []func(){
		func() { e, v = tab.Resize(e, len(v)); v[0] = 'x' },
		func() { e, _ = tab.Put(k, v[:len(v)-1]) },
	} {
		write()
		if old.Value()[0] != 'v' || old.Aux() != 0 {
			t.Fatal("the view sees a write")
		}
	}
	f.Release()
}

func TestResizeIsAmortized(t *testing.T) {
	tab := NewTable()
	e, _ := tab.Put([]byte("k"), []byte("x"))
	moved := 0
	for n := 2; n <= 4<<20; n += 1 + n/1000 {
		before := e
		var v []byte
		e, v = tab.Resize(e, n)
		if v[n-1] != 0 {
			t.Fatal("not filled with zeros")
		}
		v[n-1] = 'x'
		if e != before {
			moved++
		}
	}
	if moved > 40 {
		t.Errorf("the value was moved %d times", moved)
	}
	if got := e.bytes(); got > 5<<20+5<<18 {
		t.Errorf("a value of 4 MiB keeps %d bytes", got)
	}
	// Cut in place, then grown: what was cut is not seen again.
	e, v := tab.Resize(e, 3<<20)
	v[len(v)-1] = 'y'
	e, _ = tab.Resize(e, 3<<20-1)
	if e, v = tab.Resize(e, 3<<20); v[len(v)-1] != 0 {
		t.Error("bytes that were cut are back")
	}
	e, _ = tab.Resize(e, 100)
	if e.bytes() > headBytes+200 {
		t.Errorf("a value of 100 bytes keeps %d", e.bytes())
	}
	if tab.bytes != e.bytes() {
		t.Errorf("table counts %d bytes, entry has %d", tab.bytes, e.bytes())
	}
}

func TestPutKeepsAuxAndClearsRaw(t *testing.T) {
	tab := NewTable()
	k := []byte("k")
	e, _ := tab.Put(k, []byte("v"))
	tab.SetAux(e, 42)
	tab.SetRaw(e, true)
	e.SetLRU(7)
	if e, _ = tab.Resize(e, 2000); !e.Raw() || e.Aux() != 42 || e.LRU() != 7 {
		t.Errorf("resized: Raw %v, Aux %d, LRU %d", e.Raw(), e.Aux(), e.LRU())
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

func TestEntryMemBytes(t *testing.T) {
	tab := NewTable()
	lim := DefaultLimits()
	e, _ := tab.Put([]byte("k"), make([]byte, 1000))
	if n := e.MemBytes(); n < 1024 || n > 1300 {
		t.Errorf("a value of 1000 bytes takes %d", n)
	}
	h := NewHash()
	for i := range 1000 {
		h.Set(key(i), make([]byte, 100), &lim)
	}
	e = tab.PutObject([]byte("k"), h)
	if n := e.MemBytes(); n < 1000*(100+headBytes) || n > 1000*250 {
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
