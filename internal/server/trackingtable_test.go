package server

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTrackedKeys holds the table to a map of sets.
func TestTrackedKeys(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("KEVY_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	table := newTrackedKeys(func() int64 { return 0 })
	trackers := make([]*tracker, 3*fewTrackers)
	number := make(map[*tracker]int)
	for i := range trackers {
		trackers[i] = &tracker{}
		trackers[i].self.Store(new(receiver))
		number[trackers[i]] = i
	}
	model := make(map[string]map[int]bool)
	is := func(key string, in interest, there bool) {
		t.Helper()
		want := model[key]
		if there != (want != nil) || in.len() != len(want) {
			t.Fatalf("%s: %v %d, want %d", key, there, in.len(), len(want))
		}
		in.each(func(w *tracker) {
			if !want[number[w]] {
				t.Fatalf("%s has %d", key, number[w])
			}
		})
		delete(model, key)
	}
	for range 40_000 {
		key := fmt.Sprint("key:", rng.IntN(60))
		switch n := rng.IntN(1000); {
		case n == 0:
			table.clear()
			clear(model)
		case n < 15:
			if key, in, ok := table.takeAny(rng.Uint64()); ok || len(model) > 0 {
				is(string(key), in, ok)
			}
		case n < 30:
			in := table.take([]byte(key))
			is(key, in, in.len() > 0)
		default:
			who := rng.IntN(len(trackers))
			table.add([]byte(key), trackers[who])
			if model[key] == nil {
				model[key] = make(map[int]bool)
			}
			model[key][who] = true
		}
		items, bytes := 0, 0
		for key, set := range model {
			items += len(set)
			bytes += len(key) + trackedKeyBytes + len(set)*trackedItemBytes
		}
		if k, i := table.size(); int(k) != len(model) || int(i) != items || int(table.bytes.Load()) != bytes {
			t.Fatalf("%d keys, %d items, %d bytes, want %d, %d, %d", k, i, table.bytes.Load(), len(model), items, bytes)
		}
	}
}

// TestTrackedByManyAndEnded: a key that many track, and that never changes, does not keep
// all connections that come and go.
func TestTrackedByManyAndEnded(t *testing.T) {
	table := newTrackedKeys(func() int64 { return 0 })
	const stay = 3 * fewTrackers
	for i := range 1000 * fewTrackers {
		w := &tracker{}
		w.self.Store(new(receiver))
		table.add([]byte("key"), w)
		if i >= stay {
			w.self.Store(nil)
		}
		if _, items := table.size(); items > 2*stay+1 {
			t.Fatalf("%d connections are remembered of %d", items, stay)
		}
	}
	in := table.take([]byte("key"))
	living := 0
	in.each(func(w *tracker) {
		if !w.ended() {
			living++
		}
	})
	if living != stay {
		t.Errorf("%d connections that live are remembered of %d", living, stay)
	}
	if k, i := table.size(); k != 0 || i != 0 || table.bytes.Load() != 0 {
		t.Errorf("the empty table counts %d keys, %d items, %d bytes", k, i, table.bytes.Load())
	}
}

// TestTrackedByEnded: connections that have ended do not make a key one of many.
func TestTrackedByEnded(t *testing.T) {
	table := newTrackedKeys(func() int64 { return 0 })
	for i := range 10 * fewTrackers {
		w := &tracker{}
		if i == 0 {
			w.self.Store(new(receiver))
		}
		table.add([]byte("k"), w)
	}
	in := table.take([]byte("k"))
	if in.many != nil || in.len() > fewTrackers {
		t.Errorf("%d are kept", in.len())
	}
	if k, i := table.size(); k != 0 || i != 0 || table.bytes.Load() != 0 {
		t.Errorf("%d keys, %d items, %d bytes", k, i, table.bytes.Load())
	}
}

// TestTrackingTableBytes: however long the keys are, the table keeps within its bytes, and who is forgotten is told.
func TestTrackingTableBytes(t *testing.T) {
	const most = 1 << 20
	in := startWith(t, setup{settings: []string{"--tracking-table-max-keys", "0"}, server: func(s *Server) { s.tracking.table.maxBytes = most }})
	c := in.conn().proto("3")
	c.expect("CLIENT TRACKING ON", "+OK")
	long := strings.Repeat("k", 50_000)
	c.do("PING " + long) // so that its buffers have their size
	before := in.store.Outside().Load()
	const reads = 60
	told := 0
	for i := range reads {
		c.sendAll("GET", long+strconv.Itoa(i))
		for c.message().String() != "_nil" {
			told++
		}
		if n := in.tracking.table.bytes.Load(); n > most {
			t.Fatalf("the table has %d bytes", n)
		}
	}
	keys := c.infoInt2("tracking_total_keys", &told)
	if keys < 15 || keys > 20 || int(keys)+told != reads {
		t.Errorf("of %d keys %d are tracked, and %d were told", reads, keys, told)
	}
	eventually(t, "it counts against maxmemory", func() bool { return in.store.Outside().Load()-before > keys*50_000 })
	c.expect("CLIENT TRACKING OFF", "+OK")
	eventually(t, "it counts no more", func() bool { return in.store.Outside().Load()-before < most/2 })
}

// TestTrackingTableTrim: after the bound was lowered nobody removes all that is too much at once, however long the keys
// are; the housekeeping goes on until the table is within it.
func TestTrackingTableTrim(t *testing.T) {
	in := start(t)
	c := in.conn().proto("3")
	c.expect("CLIENT TRACKING ON", "+OK")
	in.cronPaused.Store(true)
	time.Sleep(2 * cronEvery) // it may have begun a turn
	table, w := in.tracking.table, &tracker{}
	const keys = 3 * trimmedInTurn
	for i := range keys {
		table.add([]byte(strconv.Itoa(i)), w)
	}
	left := func(most, least int64) {
		t.Helper()
		if n, _ := table.size(); n > most || n < least {
			t.Fatalf("%d keys are left, want %d to %d", n, least, most)
		}
	}
	c.expect("CONFIG SET tracking-table-max-keys 1", "+OK")
	left(keys-trimmedInTurn, keys-trimmedInTurn)
	c.sendAll("GET", "k")
	for c.message().Kind == '>' {
	}
	left(keys-trimmedInTurn-trimmedKeys, keys-trimmedInTurn-trimmedKeys-1)
	n, _ := table.size()
	long := strings.Repeat("k", 100*(trackedKeyBytes+trackedItemBytes))
	c.sendAll("GET", long)
	for c.message().Kind == '>' {
	}
	left(n-trimmedKeys, n-2*trimmedKeys)
	in.cronPaused.Store(false)
	eventually(t, "the table is within its bound", func() bool { n, _ := table.size(); return n <= 1 })
}

// infoInt2 is infoInt of stats on a connection that is told of keys, which it counts.
func (c *conn) infoInt2(name string, told *int) int64 {
	c.t.Helper()
	c.sendAll("INFO", "stats")
	for {
		r := c.message()
		if r.Kind == '>' {
			*told++
			continue
		}
		for line := range strings.Lines(string(r.Text)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
				n, err := strconv.ParseInt(v, 10, 64)
				if err != nil {
					c.t.Fatal(err)
				}
				return n
			}
		}
		c.t.Fatalf("INFO has no %s", name)
	}
}
