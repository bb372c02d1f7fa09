package shard

import (
	"math"
	"math/rand/v2"
	"time"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// EvictBy says which keys eviction prefers.
type EvictBy int

const (
	EvictByIdle   EvictBy = iota // those that were not used for longest
	EvictByUses                  // those that are used least, by the counters that SetLFU keeps
	EvictByTTL                   // those that expire first
	EvictAtRandom                // any
)

// Evictable returns how many keys of the held shards, of all databases, may be
// evicted: all, or those that expire.
func (tx *Tx) Evictable(volatile bool) (n int) {
	for _, i := range tx.held {
		for db := range tx.set.shards[i].dbs {
			n += tx.set.shards[i].dbs[db].evictable(volatile)
		}
	}
	return n
}

func (d *database) evictable(volatile bool) int {
	if volatile {
		return d.deadlines.Len()
	}
	return d.keys.Len()
}

// Sample calls fn for up to n keys of each database of the held shards: any, or only
// those that expire. The higher the score, the sooner a key should go; scores of
// different shards and databases are of one scale. It counts as no access. key is valid
// until fn returns.
func (tx *Tx) Sample(by EvictBy, volatile bool, n int, rng *rand.Rand, fn func(db int, key []byte, score int64)) {
	lfu := tx.set.lfu.Load()
	for _, i := range tx.held {
		sh := tx.set.shards[i]
		for db := range sh.dbs {
			d := &sh.dbs[db]
			look := func(e *ds.Entry) { fn(db, e.Key(), tx.score(e, by, lfu)) }
			switch have := d.evictable(volatile); {
			case have == 0:
			case !volatile:
				d.keys.Sample(rng, n, look)
			case by == EvictByTTL:
				// They lie in this order: there is nothing to be left to chance.
				left := n
				d.deadlines.Each(func(key []byte, at int64) bool {
					fn(db, key, ttlScore(at))
					left--
					return left > 0
				})
			default:
				from := rng.IntN(have)
				for j := range min(n, have) {
					if j > 0 {
						from = rng.IntN(have)
					}
					key, _ := d.deadlines.At(from)
					look(d.keys.Get(key))
				}
			}
		}
	}
}

func ttlScore(atMs int64) int64 { return math.MaxInt64 - atMs }

// score says how soon a key should go.
func (tx *Tx) score(e *ds.Entry, by EvictBy, lfu *LFU) int64 {
	switch {
	case by == EvictByIdle:
		return tx.idleSec(e)
	case by == EvictByTTL:
		return ttlScore(e.Aux())
	case by == EvictByUses && lfu != nil:
		return int64(counterMask - tx.decayed(e.LRU()&^notIntBit, lfu))
	}
	return 0
}

// Evict removes a key of the held shard to make room (op DEL with the cause Evicted),
// and reports whether it did: not if the key is gone, or does not expire any more
// although only keys that do may be evicted, or has a lower score than least by now,
// because it was used. One that is overdue goes as expired.
func (tx *Tx) Evict(db int, key []byte, by EvictBy, volatile bool, least int64) bool {
	defer func(db int) { tx.db = db }(tx.db)
	tx.db = db
	sh, d := tx.at(key)
	e := d.keys.Get(key)
	switch {
	case e == nil || volatile && e.Aux() == 0 || tx.score(e, by, tx.set.lfu.Load()) < least:
		return false
	case tx.overdue(e):
		tx.expire(sh, d, key)
		return true
	}
	tx.cause = op.Evicted
	tx.delete(sh, d, key)
	tx.cause = op.User
	tx.set.evicted.Add(1)
	tx.Notify(OfEvicted, "evicted", key)
	return true
}

// Evicted returns how many keys were evicted since the start, or since ResetEvicted.
func (s *Set) Evicted() int64 { return s.evicted.Load() }

// ResetEvicted sets that count to zero.
func (s *Set) ResetEvicted() { s.evicted.Store(0) }

// LockWithin takes the lock of one shard as Lock does, but gives up when that takes
// longer than patience, and reports whether it has it: for who can do without.
func (s *Set) LockWithin(shard int, patience time.Duration) bool {
	if s.TryLock(shard) {
		return true
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		time.Sleep(lockRetry)
		if s.TryLock(shard) {
			return true
		}
	}
	return false
}

// lockRetry is after how long LockWithin tries again.
const lockRetry = 20 * time.Microsecond
