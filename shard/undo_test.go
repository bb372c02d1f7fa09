package shard

import (
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
	for round := range 1000 {
		kept.now += rng.Int64N(60)
		plain.now = kept.now
		var bytes [2]string
		seed := rng.Uint64()
		w, key := kept.NewWatch(), []byte("key1")
		for i, set := range []*testSet{kept, plain} {
			same := rand.New(rand.NewPCG(seed, 0))
			set.Lock(set.all)
			set.tx.Begin(set.all, 0, set.now)
			if i == 0 {
				set.tx.Watch(w, key)
				set.tx.End()
				set.tx.Begin(set.all, 0, set.now)
				set.tx.KeepUndo()
			} else {
				set.tx.Exists(key) // as WATCH does, it lets an overdue key go
				set.tx.End()
				set.tx.Begin(set.all, 0, set.now)
			}
			for range 1 + same.IntN(5) {
				mutate(same, set.tx)
			}
			touched := touches(set.tx.Commit(), key)
			bytes[i] = string(set.tx.Commit().Bytes())
			if i == 0 && w.Touched() {
				t.Fatalf("round %d: who watches is told before the commit", round)
			}
			if set.tx.Commit().Ops() > 0 {
				set.tx.Committed(7)
				if got := set.LastLSN(set.all); got != 7 {
					t.Fatalf("the last LSN is %d", got)
				}
			}
			if i == 0 && touched && !w.Touched() {
				t.Fatalf("round %d: who watches is not told: %q", round, bytes[0])
			}
			set.tx.End()
			set.Unlock(set.all)
		}
		w.Clear()
		if bytes[0] != bytes[1] || kept.Digest() != plain.Digest() {
			t.Fatalf("round %d: with undo it is\n%q\nwithout\n%q", round, bytes[0], bytes[1])
		}
	}
}

// touches reports whether a commit has an op of key in database 0.
func touches(c *op.Commit, key []byte) bool {
	rest := c.Bytes()
	for i := range c.Ops() {
		n, args, err := op.ReadCommand(rest, nil)
		if err != nil {
			panic(err)
		}
		if c.DB(i) == 0 && c.Verb(i).Keyed() && !unwatched(c.Verb(i)) && string(args[1]) == string(key) {
			return true
		}
		rest = rest[n:]
	}
	return false
}
