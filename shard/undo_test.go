package shard

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// TestRollback makes random changes and takes them back: keys, values, deadlines
// and encodings are as before, nobody who watches has been told, a snapshot is
// what it was, and what follows goes as if nothing had happened.
func TestRollback(t *testing.T) {
	rng := testRand(t)
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for _, shards := range []int{1, 4} {
		if shards == 4 {
			fewDue(t)
		}
		s, twin := newTestSet(shards), newTestSet(shards)
		w := s.NewWatch()
		rolledBack, dirtied := 0, 0
		for round := range rounds {
			s.now += rng.Int64N(60)
			twin.now = s.now
			// The same changes on both.
			seed := rng.Uint64()
			n := rng.IntN(8)
			for _, set := range []*testSet{s, twin} {
				same := rand.New(rand.NewPCG(seed, 0))
				set.update(same.IntN(testDBs), func(tx *Tx) {
					for range n {
						mutate(same, tx)
					}
				})
			}
			w.Clear()
			s.Lock(s.all)
			s.tx.Begin(s.all, 0, s.now)
			for range 3 {
				db, key := rng.IntN(testDBs), []byte{'k', 'e', 'y', byte('0' + rng.IntN(10))}
				s.tx.Select(db)
				s.tx.Watch(w, key)
				twin.update(db, func(tx *Tx) { tx.Exists(key) }) // lets an overdue key go, as WATCH does
			}
			s.tx.End()
			dirtyBefore := w.Touched() // a key that was overdue went
			before, shown := s.Digest(), s.shown()
			var snap *Snapshot
			if rng.IntN(2) == 0 {
				snap = s.Freeze()
			}

			s.tx.Begin(s.all, rng.IntN(testDBs), s.now+rng.Int64N(100))
			s.tx.KeepUndo()
			for range 1 + rng.IntN(20) {
				mutate(rng, s.tx)
			}
			if s.tx.Commit().Ops() > 0 {
				rolledBack++
			}
			s.tx.Rollback()
			if s.tx.Commit().Ops() != 0 {
				t.Fatalf("round %d: %d ops are left to commit", round, s.tx.Commit().Ops())
			}
			s.tx.End()
			if s.Digest() != before {
				t.Fatalf("round %d: the digest is another one", round)
			}
			if now := s.shown(); !slices.Equal(now, shown) {
				t.Fatalf("round %d: %s", round, firstDifference(shown, now))
			}
			if w.Touched() != dirtyBefore {
				t.Fatalf("round %d: who watches is told of what was taken back", round)
			}
			s.Unlock(s.all)
			if snap != nil {
				if d := snapshotDigest(snap); d != before {
					t.Fatalf("round %d: the snapshot has changed", round)
				}
			}
			if dirtyBefore {
				dirtied++
			}
			if s.Digest() != twin.Digest() {
				t.Fatalf("round %d: the keyspace is not that of a set without what was taken back", round)
			}
		}
		if rolledBack < rounds/2 {
			t.Errorf("only %d of %d rounds changed anything", rolledBack, rounds)
		}
		t.Logf("%d shards: %d of %d rounds took something back", shards, rolledBack, rounds)
	}
}

func snapshotDigest(snap *Snapshot) Digest {
	var d Digester
	_ = snap.Each(func(db, _ int, e *ds.Entry) error { d.Add(db, e); return nil })
	return d.Sum()
}

func firstDifference(want, got []string) string {
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return "want " + want[i] + ", got " + got[i]
		}
	}
	return "one has more keys"
}

// TestKeptUndoCommits: what is not taken back is told to who watches, once it is
// committed, and recorded as without undo.
func TestKeptUndoCommits(t *testing.T) {
	rng := testRand(t)
	kept, plain := newTestSet(4), newTestSet(4)
	told := 0
	for round := range 1000 {
		kept.now += rng.Int64N(60)
		plain.now = kept.now
		var ops [2]string
		var touched [2]bool
		seed := rng.Uint64()
		key := []byte("key1")
		for i, set := range []*testSet{kept, plain} {
			same := rand.New(rand.NewPCG(seed, 0))
			w := set.NewWatch()
			set.Lock(set.all)
			set.tx.Begin(set.all, 0, set.now)
			set.tx.Watch(w, key)
			set.tx.End()
			set.tx.Begin(set.all, 0, set.now)
			if i == 0 {
				set.tx.KeepUndo()
			}
			for range 1 + same.IntN(5) {
				mutate(same, set.tx)
			}
			must := touches(set.tx.Commit(), key)
			ops[i] = string(set.tx.Commit().Bytes())
			if i == 0 && w.Touched() {
				t.Fatalf("round %d: who watches is told before the commit", round)
			}
			if set.tx.Commit().Ops() > 0 {
				set.tx.Committed(7)
				if got := set.LastLSN(set.all); got != 7 {
					t.Fatalf("the last LSN is %d", got)
				}
			}
			touched[i] = w.Touched()
			if must && !touched[i] {
				t.Fatalf("round %d: who watches is not told: %q", round, ops[i])
			}
			set.tx.End()
			set.Unlock(set.all)
			w.Clear()
		}
		if ops[0] != ops[1] || touched[0] != touched[1] || kept.Digest() != plain.Digest() {
			t.Fatalf("round %d: with undo it is\n%q, told %v\nwithout\n%q, told %v", round, ops[0], touched[0], ops[1], touched[1])
		}
		if touched[0] {
			told++
		}
	}
	if told < 20 {
		t.Errorf("who watches was told in %d rounds", told)
	}
}

// touches reports whether a commit has an op of key in database 0 that who
// watches it must be told of. The end of an overdue key that a SWAPDB of the same
// commit brought is none: the key that was watched did not exist, as it does not now.
func touches(c *op.Commit, key []byte) bool {
	if c.Ops() == 0 {
		return false
	}
	rest := c.AppendTo(nil, true)
	expired, swapped := false, false
	for i := 0; len(rest) > 0; {
		if left, ok := bytes.CutPrefix(rest, []byte("#x\r\n")); ok {
			expired, rest = true, left
		}
		n, args, err := op.ReadCommand(rest, nil)
		if err != nil {
			panic(err)
		}
		rest = rest[n:]
		switch string(args[0]) {
		case "MULTI", "select", "EXEC":
			continue
		case "SWAPDB":
			swapped = true
		}
		if c.DB(i) == 0 && c.Verb(i).Keyed() && !unwatched(c.Verb(i)) && string(args[1]) == string(key) && !(expired && swapped) {
			return true
		}
		expired = false
		i++
	}
	return false
}

// TestStaleKeyAndRollback: a watched key that did not exist and was exchanged
// for an overdue one has not changed when that one goes, not even if it went
// before, or was exchanged, and this was taken back.
func TestStaleKeyAndRollback(t *testing.T) {
	for name, undone := range map[string]func(tx *Tx, key []byte){
		"nothing":       func(*Tx, []byte) {},
		"a look":        func(tx *Tx, key []byte) { tx.Exists(key) },
		"SwapDB":        func(tx *Tx, key []byte) { tx.SwapDB(0, 2) },
		"FlushDB":       func(tx *Tx, key []byte) { tx.FlushDB(0) },
		"Set":           func(tx *Tx, key []byte) { tx.Set(key, []byte("v"), 0) },
		"SwapDB of one": func(tx *Tx, key []byte) { tx.SwapDB(0, 1); tx.SwapDB(0, 1) },
	} {
		s := newTestSet(4)
		key := []byte("key")
		s.update(1, func(tx *Tx) { tx.Set(key, []byte("v"), tx.NowMs()+10) })
		w := s.NewWatch()
		s.update(0, func(tx *Tx) { tx.Watch(w, key) })
		s.now += 20
		s.update(0, func(tx *Tx) { tx.SwapDB(0, 1) })
		s.Lock(s.all)
		s.tx.Begin(s.all, 0, s.now)
		s.tx.KeepUndo()
		undone(s.tx, key)
		s.tx.Rollback()
		s.tx.End()
		s.Unlock(s.all)
		s.update(0, func(tx *Tx) {
			if tx.Exists(key) {
				t.Errorf("%s: the key is not overdue", name)
			}
		})
		if w.Touched() {
			t.Errorf("%s: who watches is told of the end of a key that was overdue", name)
		}
		s.update(0, func(tx *Tx) { tx.Set(key, []byte("v"), 0) })
		if !w.Touched() {
			t.Errorf("%s: who watches is not told of a new key", name)
		}
		w.Clear()
	}
}
