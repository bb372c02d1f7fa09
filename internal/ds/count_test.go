package ds

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// seedOf returns the seed of a random test, which it prints.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KEVY_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	return seed
}

// Whatever happens to entries and to what they hold, also beside views and by forks, what the table has counted is what
// a recount finds.
func TestTableCountsItsObjects(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	tab, lim := NewTable(), DefaultLimits()
	lim.HashMaxListpackEntries, lim.ZSetMaxListpackEntries, lim.SetMaxIntsetEntries = 8, 8, 8
	text := func(max int) []byte { return []byte(fmt.Sprintf("%0*d", 1+rng.IntN(max), rng.IntN(50))) }
	var views []*Frozen
	seen := map[Kind]int{}
	for step := range 40_000 {
		k := []byte("k" + strconv.Itoa(rng.IntN(40)))
		switch rng.IntN(20) {
		case 0:
			tab.Put(k, text(200))
		case 1:
			tab.Delete(k)
		case 2:
			if len(views) < 3 {
				views = append(views, tab.Freeze())
			}
		case 3:
			if len(views) > 0 {
				views[0].Release()
				views = views[1:]
			}
		case 4:
			tab.PutObject(k, []Object{NewHash(), NewSet(), NewList(), NewZSet(), NewStream()}[rng.IntN(5)])
		case 5:
			if e := tab.Get(k); e != nil && e.Object() != nil {
				tab.PutObject([]byte("copy"), tab.Mutable(k).Object().Fork())
			}
		default:
			e := tab.Mutable(k)
			if e == nil {
				continue
			}
			seen[e.Kind()]++
			for range 1 + rng.IntN(4) {
				changeAtRandom(rng, tab, e, step, text, &lim)
				if e = tab.Mutable(k); e == nil {
					break
				}
			}
		}
		if rng.IntN(3) == 0 {
			if got, want := tab.MemBytes(), tab.Recount(); got != want {
				t.Fatalf("step %d: counted %d, there are %d", step, got, want)
			}
		}
	}
	for kind := KindString; kind <= KindStream; kind++ {
		if seen[kind] < 500 {
			t.Errorf("kind %d was changed %d times only", kind, seen[kind])
		}
	}
	for _, f := range views {
		f.Release()
	}
	if got, want := tab.MemBytes(), tab.Recount(); got != want {
		t.Fatalf("counted %d, there are %d", got, want)
	}
}

// changeAtRandom changes the value of an entry that Mutable returned.
func changeAtRandom(rng *rand.Rand, tab *Table, e *Entry, step int, text func(int) []byte, lim *Limits) {
	remove := rng.IntN(3) == 0
	switch o := e.Object().(type) {
	case nil:
		tab.Resize(e, rng.IntN(400))
	case *Hash:
		f := text(4)
		switch {
		case remove:
			o.Delete(f)
		case rng.IntN(4) == 0:
			o.SetDeadline(f, int64(rng.IntN(1000)))
		default:
			o.Set(f, text(80), lim)
		}
	case *Set:
		if remove {
			o.Remove(text(4))
		} else {
			o.Add(text(4), lim)
		}
	case *ZSet:
		if remove {
			o.Remove(text(4))
		} else {
			o.Set(text(4), float64(rng.IntN(9)), lim)
		}
	case *List:
		switch {
		case remove && o.Len() > 0:
			o.RemoveRange(rng.IntN(o.Len()), 1+rng.IntN(3))
		case o.Len() > 0 && rng.IntN(3) == 0:
			o.InsertAt(rng.IntN(o.Len()), text(3000))
		default:
			o.PushBack(text(500))
		}
	case *Stream:
		name := text(1)
		g := o.MutableGroup(name)
		switch rng.IntN(8) {
		case 0:
			o.CreateGroup(name, StreamID{}, 0)
		case 1:
			o.DestroyGroup(name)
		case 2:
			o.Trim(StreamTrim{MaxLen: 20})
		case 3:
			if g != nil {
				g.DeleteConsumer(name)
			}
		case 4, 5:
			if g != nil {
				g.CreateConsumer(name, 1)
				g.Deliver(name, PendingEntry{ID: o.LastID()})
			}
		case 6:
			if g != nil {
				g.Acknowledge(o.LastID())
			}
		default:
			o.Add(StreamID{Ms: uint64(step + 1), Seq: o.Added() + 1}, [][]byte{text(3), text(100)}, lim)
		}
	}
}

// Sample reaches every entry, yields as many as are asked for, and none twice.
func TestSample(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedOf(t), 2))
	for _, n := range []int{1, 5, 30, 500, 4000} {
		tab := NewTable()
		for i := range n {
			tab.Put([]byte(strconv.Itoa(i)), nil)
		}
		const want = 5
		reached := map[string]int{}
		for range 40 * n {
			once := map[string]bool{}
			tab.Sample(rng, want, func(e *Entry) { once[string(e.Key())] = true; reached[string(e.Key())]++ })
			if len(once) != min(n, want) {
				t.Fatalf("%d entries: a sample of %d", n, len(once))
			}
		}
		if len(reached) < n*999/1000 {
			t.Errorf("%d of %d entries reached", len(reached), n)
		}
	}
	NewTable().Sample(rng, 5, func(*Entry) { t.Error("an entry of an empty table") })
}
