package ds

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// world is a keyspace of two tables beside a model. A key's value is a string or a hash; the model has a text of it
// and of Aux.
type world struct {
	rng    *rand.Rand
	lim    Limits
	tables [2]*Table
	model  [2]map[string]string
	taken  []*Entry // deleted and not put back
	texts  []string // of taken
}

func newWorld(rng *rand.Rand) *world {
	return &world{
		rng:    rng,
		lim:    Limits{HashMaxListpackEntries: 8, HashMaxListpackValue: 64},
		tables: [2]*Table{NewTable(), NewTable()},
		model:  [2]map[string]string{{}, {}},
	}
}

// textOf is what the model has for an entry. It reads the entry as a walk of a view may.
func textOf(e *Entry) string {
	h, ok := e.Object().(*Hash)
	if !ok {
		return fmt.Sprintf("%d string %x raw %v", e.Aux(), e.Value(), e.Raw())
	}
	fields := map[string]string{}
	h.EachWithDeadline(func(f, v []byte, at int64) bool {
		fields[string(f)] = fmt.Sprint(at, string(v))
		return true
	})
	var order []int64
	h.EachDeadline(func(_ []byte, at int64) bool {
		order = append(order, at)
		return true
	})
	return fmt.Sprintf("%d hash %q, deadlines from %d: %d", e.Aux(), fields, h.NextDeadline(), order)
}

// step mutates one key of one table.
func (w *world) step(t *testing.T, keys int) {
	i := w.rng.IntN(2)
	tab, model := w.tables[i], w.model[i]
	k := key(w.rng.IntN(keys))
	value := bytes.Repeat([]byte{byte(w.rng.Uint32())}, w.rng.IntN(120))
	var e *Entry
	switch op := w.rng.IntN(16); op {
	case 0, 1, 2, 3, 4:
		e, _ = tab.Put(k, value)
	case 5:
		h := NewHash()
		h.Set([]byte("f"), value, &w.lim)
		e = tab.PutObject(k, h)
	case 6, 7, 8:
		if e = tab.Mutable(k); e == nil {
			break
		}
		if h, ok := e.Object().(*Hash); ok {
			field := fmt.Appendf(nil, "f%d", w.rng.IntN(20))
			switch w.rng.IntN(8) {
			case 0, 1:
				h.Delete(field)
			case 2, 3:
				h.SetDeadline(field, int64(w.rng.IntN(40)))
			case 4:
				h.DeleteDue(int64(w.rng.IntN(5)), 1)
			default:
				h.Set(field, value, &w.lim)
			}
		} else {
			n := w.rng.IntN(200)
			if w.rng.IntN(8) == 0 {
				n = w.rng.IntN(3 * maxInlineBytes)
			}
			var v []byte
			e, v = tab.Resize(e, n)
			clear(v)
			tab.SetRaw(e, w.rng.IntN(2) == 0)
		}
	case 9, 10:
		if e = tab.Mutable(k); e != nil {
			tab.SetAux(e, int64(w.rng.IntN(100)))
		}
	case 11, 12, 13:
		d := tab.Delete(k)
		want, ok := model[string(k)]
		if (d != nil) != ok || ok && textOf(d) != want {
			t.Fatalf("Delete %q", k)
		}
		delete(model, string(k))
		if d != nil && len(w.taken) < 20 {
			w.taken, w.texts = append(w.taken, d), append(w.texts, want)
		}
		return
	case 14:
		if n := len(w.taken) - 1; n >= 0 {
			e = w.taken[n]
			if got := textOf(e); got != w.texts[n] {
				t.Fatalf("a deleted entry has changed: %s, was %s", got, w.texts[n])
			}
			w.taken, w.texts = w.taken[:n], w.texts[:n]
			k = e.Key()
			e = moved(tab, k, e)
		}
	case 15:
		// As RENAME: the object goes to another key.
		if d := tab.Delete(k); d != nil {
			delete(model, string(k))
			k = append([]byte("renamed "), k...)
			e = moved(tab, k, d)
		}
	}
	if e != nil {
		e.SetLRU(w.rng.Uint32())
		model[string(k)] = textOf(e)
		if tab.Get(k) != e {
			t.Fatalf("Get %q does not return the entry that was mutated", k)
		}
	}
}

func (w *world) check(t *testing.T) {
	t.Helper()
	for i, tab := range w.tables {
		got := map[string]string{}
		tab.Each(func(e *Entry) bool {
			got[string(e.Key())] = textOf(e)
			return true
		})
		if diff := diffOf(got, w.model[i]); diff != "" || tab.Len() != len(got) {
			t.Fatalf("table %d of %d: %s", i, tab.Len(), diff)
		}
	}
}

func diffOf(got, want map[string]string) string {
	var b strings.Builder
	for k, v := range want {
		if got[k] != v {
			fmt.Fprintf(&b, "%s = %.60s, want %.60s; ", k, got[k], v)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			fmt.Fprintf(&b, "%s too much; ", k)
		}
	}
	return b.String()
}

// checkView walks a view with a method of it and compares.
func checkView(f *Frozen, walk func(func(*Entry) bool), want map[string]string) error {
	got := map[string]string{}
	n := 0
	walk(func(e *Entry) bool {
		got[string(e.Key())] = textOf(e)
		n++
		if n%16 == 0 {
			runtime.Gosched()
		}
		return true
	})
	if diff := diffOf(got, want); diff != "" || n != len(want) || f.Len() != n {
		return fmt.Errorf("view of %d, walked %d, want %d: %s", f.Len(), n, len(want), diff)
	}
	return nil
}

// Views are walked in other goroutines while the tables are written. The race detector sees what the comparison
// misses.
func TestFrozenWalksWhileWritten(t *testing.T) {
	rng := newRand(t)
	for range 8 {
		w := newWorld(rng)
		keys := 1 << (3 + rng.IntN(8))
		var readers sync.WaitGroup
		var held []*Frozen
		for range 60 {
			for range rng.IntN(200) {
				w.step(t, keys)
			}
			w.check(t)
			for i := range w.tables {
				if rng.IntN(2) == 0 {
					continue
				}
				f, want := w.tables[i].Freeze(), maps.Clone(w.model[i])
				switch rng.IntN(4) {
				case 0:
					readers.Go(func() {
						if err := checkView(f, f.Drain, want); err != nil {
							t.Error("Drain: ", err)
						}
						f.Release()
					})
				case 1:
					readers.Go(func() {
						var both sync.WaitGroup
						for range 2 {
							both.Go(func() {
								if err := checkView(f, f.Each, want); err != nil {
									t.Error("Each: ", err)
								}
							})
						}
						both.Wait()
						f.Release()
					})
				case 2:
					f.Release()
				case 3:
					// Stopped before the end.
					readers.Go(func() {
						n := rand.IntN(len(want) + 1)
						f.Drain(func(e *Entry) bool {
							if want[string(e.Key())] != textOf(e) {
								t.Errorf("Drain: %q", e.Key())
							}
							n--
							return n > 0
						})
						f.Release()
					})
				}
				if rng.IntN(4) == 0 {
					held = append(held, w.tables[i].Freeze())
				}
			}
			if len(held) > 3 {
				held[0].Release()
				held = held[1:]
			}
		}
		readers.Wait()
		for _, f := range held {
			f.Release()
		}
		for range 500 {
			w.step(t, keys)
		}
		w.check(t)
	}
}

// The writer writes between any two entries of a walk, in front of it and behind it.
func TestFrozenInterleaved(t *testing.T) {
	rng := newRand(t)
	for round := range 60 {
		w := newWorld(rng)
		keys := 1 << (2 + rng.IntN(9))
		for range 3 * keys {
			w.step(t, keys)
		}
		older, olderWant := w.tables[0].Freeze(), maps.Clone(w.model[0])
		for range rng.IntN(keys) {
			w.step(t, keys)
		}
		f, want := w.tables[0].Freeze(), maps.Clone(w.model[0])
		walk := f.Each
		if round%2 == 0 {
			walk = f.Drain
		}
		stop := -1
		if rng.IntN(3) == 0 {
			stop = rng.IntN(keys)
		}
		n := 0
		walk(func(e *Entry) bool {
			if got := textOf(e); got != want[string(e.Key())] {
				t.Fatalf("%q is %s, was %s", e.Key(), got, want[string(e.Key())])
			}
			for range rng.IntN(8) {
				w.step(t, keys)
			}
			if rng.IntN(500) == 0 {
				younger := w.tables[0].Freeze()
				if err := checkView(younger, younger.Each, w.model[0]); err != nil {
					t.Fatal(err)
				}
				if rng.IntN(2) == 0 {
					younger.Release()
				} else {
					defer younger.Release()
				}
			}
			n++
			return n != stop
		})
		if stop < 0 && n != len(want) {
			t.Fatalf("walked %d of %d", n, len(want))
		}
		w.check(t)
		if err := checkView(older, older.Drain, olderWant); err != nil {
			t.Fatal(err)
		}
		older.Release()
		f.Release()
	}
}

func filled(n int) *Table {
	tab := NewTable()
	for i := range n {
		tab.Put(key(i), []byte("value"))
	}
	return tab
}

// writeAllocs counts the allocations of one write in place to every key.
func writeAllocs(tab *Table, n int) float64 {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = key(i)
	}
	value := []byte("VALUE")
	// AllocsPerRun calls the function once before it counts: a pass that counts must not be preceded by another.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, k := range keys {
		tab.Put(k, value)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs)
}

// The writer copies while a view may be read, once, and not after Release or behind a Drain.
func TestCopyingEnds(t *testing.T) {
	const n = 3000
	few := float64(n / 50) // the runtime's own allocations are counted too
	tab := filled(n)
	if a := writeAllocs(tab, n); a > few {
		t.Errorf("%v allocations without a view", a)
	}
	f := tab.Freeze()
	if a := writeAllocs(tab, n); a < n {
		t.Errorf("%v allocations with a view of %d entries", a, n)
	}
	if a := writeAllocs(tab, n); a > few {
		t.Errorf("%v allocations for the second write", a)
	}
	f.Release()
	if a := writeAllocs(tab, n); a > few {
		t.Errorf("%v allocations after Release", a)
	}
	tab.Freeze().Release()
	if a := writeAllocs(tab, n); a > few {
		t.Errorf("%v allocations after an unread view", a)
	}
	f = tab.Freeze()
	f.Drain(func(*Entry) bool { return true })
	if a := writeAllocs(tab, n); a > few {
		t.Errorf("%v allocations behind a Drain", a)
	}
	f.Release()

	// Half drained: half is copied, the part in the hash space behind the walk is not.
	f = tab.Freeze()
	seen := 0
	f.Drain(func(*Entry) bool { seen++; return seen < n/2 })
	if a := writeAllocs(tab, n); a < n/4 || a > 2*n*2/3 {
		t.Errorf("%v allocations behind half a Drain of %d", a, n)
	}
	f.Release()

	// A younger view that is released does not leave copying to an older one's drained half, nor the other way.
	old := tab.Freeze()
	young := tab.Freeze()
	young.Drain(func(*Entry) bool { return true })
	if a := writeAllocs(tab, n); a < n {
		t.Errorf("%v allocations with an unread view behind a drained one", a)
	}
	old.Release()
	young.Release()
	if a := writeAllocs(tab, n); a > few {
		t.Errorf("%v allocations after both", a)
	}
	if len(tab.views) > 2 {
		t.Errorf("%d views kept", len(tab.views))
	}
}

// Freeze costs the same whatever the size: it allocates the view and nothing else.
func TestFreezeIsConstant(t *testing.T) {
	tab := filled(100_000)
	if a := testing.AllocsPerRun(100, func() { tab.Freeze().Release() }); a > 2 {
		t.Errorf("%v allocations", a)
	}
}

func TestFreezeOfEmptyTable(t *testing.T) {
	tab := NewTable()
	f := tab.Freeze()
	tab.Put([]byte("a"), nil)
	f.Each(func(*Entry) bool { t.Error("an entry"); return true })
	f.Release()
	f = tab.Freeze()
	tab.Delete([]byte("a"))
	if err := checkView(f, f.Each, map[string]string{"a": "0 string  raw false"}); err != nil {
		t.Error(err)
	}
	f.Release()
}

// moved puts what a deleted entry holds under a key.
func moved(tab *Table, key []byte, from *Entry) *Entry {
	if from.Object() != nil {
		return tab.PutObject(key, from.Object())
	}
	e, _ := tab.Put(key, from.Value())
	return e
}
