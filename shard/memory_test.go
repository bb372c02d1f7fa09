package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"kevy/internal/ds"
)

// What is counted never drifts from what a walk over the keyspace finds, whatever is
// changed: also beside snapshots, by rollbacks and by evictions.
func TestBytesAreExact(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			rng := testRand(t)
			s := newTestSet(shards)
			limits := ds.DefaultLimits()
			limits.HashMaxListpackEntries, limits.ZSetMaxListpackEntries = 20, 20
			s.SetLimits(limits)
			var snaps []*Snapshot
			check := func(step int, what string) {
				t.Helper()
				if got, want := s.Bytes(), s.Recount(); got != want {
					t.Fatalf("step %d, %s: counted %d, there are %d", step, what, got, want)
				}
			}
			evicted, rolledBack, most := 0, 0, int64(0)
			for step := range 12_000 {
				s.now += rng.Int64N(3)
				switch n := rng.IntN(20); {
				case n == 0 && len(snaps) < 3:
					s.Lock(s.all)
					snaps = append(snaps, s.Freeze())
					s.Unlock(s.all)
				case n == 1 && len(snaps) > 0:
					if rng.IntN(2) == 0 {
						_ = snaps[0].Each(func(int, int, *ds.Entry) error { return nil })
					} else {
						snaps[0].Release()
					}
					snaps = snaps[1:]
				case n == 2:
					s.Lock(s.all)
					s.tx.Begin(s.all, rng.IntN(testDBs), s.now)
					s.tx.KeepUndo()
					for range 1 + rng.IntN(6) {
						mutate(rng, s.tx)
					}
					s.tx.Rollback()
					s.tx.End()
					s.Unlock(s.all)
					rolledBack++
				case n == 3:
					evicted += evictAtRandom(rng, s)
				default:
					s.update(rng.IntN(testDBs), func(tx *Tx) {
						for range 1 + rng.IntN(3) {
							mutate(rng, tx)
						}
					})
				}
				check(step, "changed")
				most = max(most, s.Bytes())
			}
			for _, snap := range snaps {
				snap.Release()
			}
			if evicted < 100 || rolledBack < 100 || most < 20_000 {
				t.Errorf("%d evicted, %d rolled back, at most %d bytes: too little has happened", evicted, rolledBack, most)
			}
			s.update(0, func(tx *Tx) { tx.FlushAll() })
			if s.Bytes() != 0 {
				t.Errorf("an empty keyspace has %d bytes", s.Bytes())
			}
		})
	}
}

// evictAtRandom evicts as the engine does: from one shard, what a sample finds.
func evictAtRandom(rng *rand.Rand, s *testSet) (gone int) {
	held := []int{rng.IntN(s.Shards())}
	by, volatile := EvictBy(rng.IntN(4)), rng.IntN(2) == 0
	s.Lock(held)
	defer s.Unlock(held)
	s.tx.Begin(held, 0, s.now)
	defer s.tx.End()
	type found struct {
		db  int
		key []byte
	}
	var all []found
	s.tx.Sample(by, volatile, 3, rng, func(db int, key []byte, _ int64) {
		all = append(all, found{db, append([]byte{}, key...)})
	})
	for _, f := range all {
		if s.tx.Evict(f.db, f.key, by, volatile, 0) {
			gone++
		}
	}
	if gone > 0 {
		s.tx.Committed(1)
	}
	return gone
}

// MEMORY USAGE of all keys together is what is counted but for what belongs to no key: the
// tables' own, and the order of deadlines.
func TestInfoBytesAddUp(t *testing.T) {
	rng := testRand(t)
	s := newTestSet(4)
	for range 3000 {
		s.update(0, func(tx *Tx) {
			key := fmt.Appendf(nil, "key:%d", rng.IntN(2000))
			switch rng.IntN(4) {
			case 0:
				_, _ = tx.HSet(key, []byte("f"), make([]byte, rng.IntN(200)))
			case 1:
				_, _ = tx.PushRight(key, make([]byte, rng.IntN(100)))
			default:
				tx.Set(key, make([]byte, rng.IntN(400)), 0)
			}
		})
	}
	var sum int64
	s.update(0, func(tx *Tx) {
		tx.EachKey(func(key []byte, _ Kind) bool {
			info, _ := tx.Info(key)
			sum += info.Bytes
			return true
		})
	})
	if got := s.Bytes(); sum > got*103/100 || sum < got*97/100 {
		t.Errorf("counted %d, keys say %d", got, sum)
	}
}
