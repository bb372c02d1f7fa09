package shard

import (
	"slices"
	"testing"
)

// effects are the mutators: do changes key, idle calls the same mutator so that
// nothing changes. before prepares the key.
var effects = []struct {
	name             string
	before, do, idle func(tx *Tx, key []byte)
}{
	{"Set", nil, func(tx *Tx, key []byte) { tx.Set(key, []byte("v"), 0) }, nil},
	{"Set over", str, func(tx *Tx, key []byte) { tx.Set(key, []byte("v"), 0) }, nil},
	{"Set, another type", list, func(tx *Tx, key []byte) { tx.Set(key, []byte("v"), KeepTTL) }, nil},
	{"SetRange", nil, func(tx *Tx, key []byte) { _ = tx.SetRange(key, 1, []byte("x")) }, nil},
	{"SetRange over", str, func(tx *Tx, key []byte) { _ = tx.SetRange(key, 1, []byte("x")) }, func(tx *Tx, key []byte) { list(tx, []byte("other")); _ = tx.SetRange([]byte("other"), 0, []byte("x")) }},
	{"Del", str, func(tx *Tx, key []byte) { tx.Del(key) }, func(tx *Tx, key []byte) { tx.Del([]byte("none")) }},
	{"ExpireAt", str, func(tx *Tx, key []byte) { tx.ExpireAt(key, tx.NowMs()+1000) }, func(tx *Tx, key []byte) { tx.ExpireAt([]byte("none"), tx.NowMs()+1000) }},
	{"Persist", func(tx *Tx, key []byte) { tx.Set(key, nil, tx.NowMs()+1000) }, func(tx *Tx, key []byte) { tx.Persist(key) }, nil},
	{"Persist without a deadline", str, func(tx *Tx, key []byte) { tx.Del(key) }, func(tx *Tx, key []byte) { tx.Persist(key) }},
	{"Copy to", nil, func(tx *Tx, key []byte) { str(tx, []byte("src")); tx.Copy([]byte("src"), tx.DB(), key) }, func(tx *Tx, key []byte) { tx.Copy([]byte("none"), tx.DB(), key) }},
	{"Copy over", hash, func(tx *Tx, key []byte) { list(tx, []byte("src")); tx.Copy([]byte("src"), tx.DB(), key) }, func(tx *Tx, key []byte) { tx.Copy(key, tx.DB(), []byte("dst")) }},
	{"Move to", nil, func(tx *Tx, key []byte) { str(tx, []byte("src")); tx.Move([]byte("src"), tx.DB(), key) }, func(tx *Tx, key []byte) { tx.Move([]byte("none"), tx.DB(), key) }},
	{"Move away", set, func(tx *Tx, key []byte) { tx.Move(key, tx.DB(), []byte("dst")) }, nil},
	{"Move away to another database", zset, func(tx *Tx, key []byte) { tx.Move(key, (tx.DB()+1)%testDBs, key) }, func(tx *Tx, key []byte) { tx.Copy(key, (tx.DB()+1)%testDBs, key) }},
	{"Put", nil, func(tx *Tx, key []byte) { put(tx, key) }, func(tx *Tx, key []byte) { put(tx, []byte("other")) }},
	{"Put over", list, func(tx *Tx, key []byte) { put(tx, key) }, func(tx *Tx, key []byte) { _, _ = tx.Value(key); tx.SetIdle(key, 9) }},
	{"PushLeft", nil, func(tx *Tx, key []byte) { _, _ = tx.PushLeft(key, []byte("a")) }, func(tx *Tx, key []byte) { _, _ = tx.PushLeft(key) }},
	{"PushRight", list, func(tx *Tx, key []byte) { _, _ = tx.PushRight(key, []byte("a")) }, func(tx *Tx, key []byte) { _, _ = tx.PushRight(key) }},
	{"PopLeft", list, func(tx *Tx, key []byte) { _, _ = tx.PopLeft(key, 1, nil) }, func(tx *Tx, key []byte) { _, _ = tx.PopLeft(key, 0, nil) }},
	{"PopRight all", list, func(tx *Tx, key []byte) { _, _ = tx.PopRight(key, 99, nil) }, func(tx *Tx, key []byte) { _, _ = tx.PopRight([]byte("none"), 1, nil) }},
	{"LSet", list, func(tx *Tx, key []byte) { _, _ = tx.LSet(key, -1, []byte("z")) }, func(tx *Tx, key []byte) { _, _ = tx.LSet(key, 99, []byte("z")) }},
	{"LInsert", list, func(tx *Tx, key []byte) { _, _ = tx.LInsert(key, true, []byte("a"), []byte("z")) }, func(tx *Tx, key []byte) { _, _ = tx.LInsert(key, true, []byte("none"), []byte("z")) }},
	{"LRem", list, func(tx *Tx, key []byte) { _, _ = tx.LRem(key, 0, []byte("a")) }, func(tx *Tx, key []byte) { _, _ = tx.LRem(key, 0, []byte("none")) }},
	{"LTrim", list, func(tx *Tx, key []byte) { _ = tx.LTrim(key, 1, -1) }, func(tx *Tx, key []byte) { _ = tx.LTrim(key, 0, -1) }},
	{"Signal", list, func(tx *Tx, key []byte) { tx.Signal(key) }, func(tx *Tx, key []byte) { tx.Signal([]byte("other")) }},
	{"LTrim all", list, func(tx *Tx, key []byte) { _ = tx.LTrim(key, 9, 1) }, nil},
	{"SAdd", set, func(tx *Tx, key []byte) { _, _ = tx.SAdd(key, []byte("z")) }, func(tx *Tx, key []byte) { _, _ = tx.SAdd(key, []byte("a")); _, _ = tx.SAdd(key) }},
	{"SAdd to none", nil, func(tx *Tx, key []byte) { _, _ = tx.SAdd(key, []byte("z")) }, func(tx *Tx, key []byte) { _, _ = tx.SAdd(key) }},
	{"SRem", set, func(tx *Tx, key []byte) { _, _ = tx.SRem(key, []byte("a")) }, func(tx *Tx, key []byte) { _, _ = tx.SRem(key, []byte("none")) }},
	{"HSet", hash, func(tx *Tx, key []byte) { _, _ = tx.HSet(key, []byte("a"), []byte("2")) }, func(tx *Tx, key []byte) { _, _ = tx.HSet(key) }},
	{"HDel", hash, func(tx *Tx, key []byte) { _, _ = tx.HDel(key, []byte("a")) }, func(tx *Tx, key []byte) { _, _ = tx.HDel(key, []byte("none")) }},
	{"HExpireAt", hash, func(tx *Tx, key []byte) { _ = tx.HExpireAt(key, tx.NowMs()+10, oneField, nil, nil) }, func(tx *Tx, key []byte) {
		_ = tx.HExpireAt(key, tx.NowMs()+10, [][]byte{[]byte("none")}, nil, nil)
		_ = tx.HExpireAt(key, tx.NowMs()+10, oneField, func(int64) bool { return false }, nil)
		_ = tx.HExpireAt([]byte("none"), tx.NowMs()+10, oneField, nil, nil)
	}},
	{"HExpireAt in the past", hash, func(tx *Tx, key []byte) { _ = tx.HExpireAt(key, tx.NowMs(), oneField, nil, nil) }, func(tx *Tx, key []byte) {
		_ = tx.HExpireAt(key, tx.NowMs(), [][]byte{[]byte("none")}, nil, nil)
	}},
	{"HPersist", expiring, func(tx *Tx, key []byte) { _ = tx.HPersist(key, oneField, nil) }, func(tx *Tx, key []byte) {
		_ = tx.HPersist(key, [][]byte{[]byte("b"), []byte("none")}, nil)
		_ = tx.HPersist([]byte("none"), oneField, nil)
	}},
	{"HSetKeepTTL", expiring, func(tx *Tx, key []byte) { _, _ = tx.HSetKeepTTL(key, []byte("a"), []byte("2")) }, func(tx *Tx, key []byte) { _, _ = tx.HSetKeepTTL(key) }},
	{"HTake", hash, func(tx *Tx, key []byte) { _, _ = tx.HTake(key, oneField, func([]byte, bool) {}) }, func(tx *Tx, key []byte) {
		_, _ = tx.HTake(key, [][]byte{[]byte("none")}, func([]byte, bool) {})
	}},
	{"ExpireDue of a field", expiring, func(tx *Tx, key []byte) { tx.nowMs += 20; tx.ExpireDue(9) }, func(tx *Tx, key []byte) { tx.ExpireDue(9) }},
	{"a look at an overdue field", expiring, func(tx *Tx, key []byte) { tx.nowMs += 20; _, _ = tx.Hash(key) }, func(tx *Tx, key []byte) { _, _ = tx.Hash(key) }},
	{"ZAdd", zset, func(tx *Tx, key []byte) { _, _ = tx.ZAdd(key, Scored{[]byte("z"), 1}) }, func(tx *Tx, key []byte) { _, _ = tx.ZAdd(key) }},
	{"ZAddIf", zset, func(tx *Tx, key []byte) { _, _, _ = tx.ZAddIf(key, ZOld, []Scored{{[]byte("a"), 9}}) }, func(tx *Tx, key []byte) { _, _, _ = tx.ZAddIf(key, ZNew, []Scored{{[]byte("a"), 9}}) }},
	{"ZAddIf to none", nil, func(tx *Tx, key []byte) { _, _, _ = tx.ZAddIf(key, ZNew, []Scored{{[]byte("a"), 9}}) }, func(tx *Tx, key []byte) {
		_, _, _ = tx.ZAddIf(key, 0, nil)
		_, _, _ = tx.ZAddIf(key, ZOld, []Scored{{[]byte("a"), 9}})
	}},
	{"ZRem", zset, func(tx *Tx, key []byte) { _, _ = tx.ZRem(key, []byte("a")) }, func(tx *Tx, key []byte) { _, _ = tx.ZRem(key, []byte("none")) }},
	{"ZRemRange", zset, func(tx *Tx, key []byte) { _, _ = tx.ZRemRange(key, 0, 1, false, nil) }, func(tx *Tx, key []byte) { _, _ = tx.ZRemRange(key, 5, 1, false, nil) }},
	{"FlushDB", str, func(tx *Tx, key []byte) { tx.FlushDB(tx.DB()) }, func(tx *Tx, key []byte) { tx.FlushDB((tx.DB() + 1) % testDBs) }},
	{"FlushDB without the key", nil, func(tx *Tx, key []byte) { str(tx, key) }, func(tx *Tx, key []byte) { tx.FlushDB(tx.DB()) }},
	{"FlushAll", str, func(tx *Tx, key []byte) { tx.FlushAll() }, nil},
	{"FlushAll without the key", nil, func(tx *Tx, key []byte) { str(tx, key) }, func(tx *Tx, key []byte) { tx.FlushAll() }},
	{"SwapDB", str, func(tx *Tx, key []byte) { tx.SwapDB(tx.DB(), (tx.DB()+1)%testDBs) }, func(tx *Tx, key []byte) { tx.SwapDB((tx.DB()+1)%testDBs, (tx.DB()+2)%testDBs) }},
	{"SwapDB with one that has it", elsewhere, func(tx *Tx, key []byte) { tx.SwapDB(tx.DB(), (tx.DB()+1)%testDBs) }, func(tx *Tx, key []byte) { tx.SwapDB(tx.DB(), (tx.DB()+2)%testDBs) }},
	{"ExpireDue", func(tx *Tx, key []byte) { tx.Set(key, nil, tx.NowMs()+10) }, func(tx *Tx, key []byte) { tx.nowMs += 20; tx.ExpireDue(9) }, func(tx *Tx, key []byte) { tx.ExpireDue(9) }},
	{"a look at an overdue key", func(tx *Tx, key []byte) { tx.Set(key, nil, tx.NowMs()+10) }, func(tx *Tx, key []byte) { tx.nowMs += 20; tx.Exists(key) }, func(tx *Tx, key []byte) { tx.Exists(key) }},
	{"reads", str, func(tx *Tx, key []byte) { tx.Del(key) }, func(tx *Tx, key []byte) {
		_, _, _ = tx.String(key)
		tx.Touch(key)
		tx.MarkNotInt(key)
		_, _ = tx.Deadline(key)
		_, _ = tx.List(key)
		_, _ = tx.PushLeft(key, []byte("a"))
	}},
}

func str(tx *Tx, key []byte) { tx.Set(key, []byte("1"), 0) }
func put(tx *Tx, key []byte) {
	l := tx.set.newList()
	l.PushBack([]byte("a"))
	tx.Put(key, Value{Object: l}, 0)
}
func list(tx *Tx, key []byte) {
	_, _ = tx.PushRight(key, []byte("a"), []byte("b"), []byte("a"))
}
func set(tx *Tx, key []byte) { _, _ = tx.SAdd(key, []byte("a"), []byte("b")) }
func hash(tx *Tx, key []byte) {
	_, _ = tx.HSet(key, []byte("a"), []byte("1"), []byte("b"), []byte("1"))
}

var oneField = [][]byte{[]byte("a")}

// expiring makes a hash of which a field expires.
func expiring(tx *Tx, key []byte) {
	hash(tx, key)
	_ = tx.HExpireAt(key, tx.NowMs()+10, oneField, nil, nil)
}

func zset(tx *Tx, key []byte) { _, _ = tx.ZAdd(key, Scored{[]byte("a"), 1}, Scored{[]byte("b"), 2}) }

// elsewhere makes the key in another database.
func elsewhere(tx *Tx, key []byte) {
	db := tx.DB()
	tx.Select((db + 1) % testDBs)
	str(tx, key)
	tx.Select(db)
}

// TestWatchOfEachMutator: a change of the key dirties a watch of it and of no
// other key; what changes nothing dirties none.
func TestWatchOfEachMutator(t *testing.T) {
	key := []byte("key")
	for _, tc := range effects {
		for _, idle := range []bool{false, true} {
			fn := tc.do
			if idle {
				if fn = tc.idle; fn == nil {
					continue
				}
			}
			for db := range testDBs {
				s := newTestSet(4)
				s.update(db, func(tx *Tx) {
					if tc.before != nil {
						tc.before(tx, key)
					}
				})
				w, other := s.NewWatch(), s.NewWatch()
				s.update(db, func(tx *Tx) {
					tx.Watch(w, key)
					tx.Watch(w, key)
					tx.Watch(other, []byte("another"))
				})
				s.update(db, func(tx *Tx) { fn(tx, key) })
				if w.Touched() == idle {
					t.Errorf("%s, idle %v: the watch is dirty: %v", tc.name, idle, w.Touched())
				}
				if other.Touched() {
					t.Errorf("%s: a watch of another key is dirty", tc.name)
				}
				// A watch that is over is told nothing.
				w.Clear()
				s.update(db, func(tx *Tx) { tx.Set(key, []byte("later"), 0) })
				if w.Touched() || w.Len() != 0 {
					t.Errorf("%s: a watch that is over is dirty", tc.name)
				}
				for _, sh := range s.shards {
					if n := len(sh.watches); n > 1 {
						t.Errorf("%s: %d names are still watched", tc.name, n)
					}
				}
			}
		}
	}
}

func TestWatchOfOverdueKeys(t *testing.T) {
	s := newTestSet(2)
	key := []byte("key")
	dirty := func(w *Watch) (d bool) {
		s.update(1, func(tx *Tx) {
			d = tx.Dirty(w)
			if tx.DB() != 1 {
				t.Errorf("Dirty selects database %d", tx.DB())
			}
		})
		return d
	}
	// Overdue when it is watched: its end is no change.
	s.update(0, func(tx *Tx) { tx.Set(key, nil, s.now+10) })
	s.now += 20
	w := s.NewWatch()
	s.update(0, func(tx *Tx) { tx.Watch(w, key) })
	if dirty(w) {
		t.Error("the end of a key that was overdue when it was watched is a change")
	}
	// Overdue later: it is.
	s.update(0, func(tx *Tx) { tx.Set(key, nil, s.now+10) })
	w.Clear()
	s.update(0, func(tx *Tx) { tx.Watch(w, key) })
	if dirty(w) {
		t.Error("dirty before the deadline")
	}
	s.now += 20
	if !dirty(w) {
		t.Error("a key that is overdue now is no change")
	}
	// So with a field of a hash.
	s.update(0, func(tx *Tx) { tx.Del(key); hash(tx, key); _ = tx.HExpireAt(key, s.now+10, oneField, nil, nil) })
	w.Clear()
	s.update(0, func(tx *Tx) { tx.Watch(w, key) })
	if dirty(w) {
		t.Error("dirty before a field's deadline")
	}
	s.now += 20
	if !dirty(w) {
		t.Error("a field that is overdue now is no change")
	}
	s.update(0, func(tx *Tx) { _ = tx.HExpireAt(key, s.now+10, [][]byte{[]byte("b")}, nil, nil) })
	s.now += 20
	w.Clear()
	s.update(0, func(tx *Tx) { tx.Watch(w, key) })
	if dirty(w) {
		t.Error("the end of a field that was overdue when its key was watched is a change")
	}
	w.Clear()
	s.update(0, func(tx *Tx) { tx.Set(key, nil, 0); tx.Watch(w, key) })
	shards := map[int]bool{}
	w.EachShard(func(i int) { shards[i] = true })
	if len(shards) != 1 || !shards[s.ShardOf(key)] {
		t.Errorf("the watched key is in shards %v", shards)
	}
	w.Clear()
	if dirty(w) {
		t.Error("a watch of nothing is dirty")
	}
}

// TestWatchesOfOneKey: each of many is told, and one that goes takes no other
// with it.
func TestWatchesOfOneKey(t *testing.T) {
	s := newTestSet(1)
	key := []byte("key")
	var all []*Watch
	for range 10 {
		w := s.NewWatch()
		s.update(0, func(tx *Tx) { tx.Watch(w, key) })
		all = append(all, w)
	}
	for _, i := range []int{9, 0, 4} {
		all[i].Clear()
		all = slices.Delete(all, i, i+1)
	}
	s.update(0, func(tx *Tx) { tx.Set(key, nil, 0) })
	for i, w := range all {
		if !w.Touched() {
			t.Errorf("watch %d of those that stayed is not told", i)
		}
	}
	for _, w := range all {
		w.Clear()
	}
	if len(s.shards[0].watches) != 0 {
		t.Errorf("%d names are watched by nobody", len(s.shards[0].watches))
	}
}
