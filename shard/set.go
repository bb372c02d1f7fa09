// Package shard is the keyspace: a fixed number of shards, each a lock and the
// databases' tables, and Tx, through which everything reads and changes them.
//
// A Tx applies an op and records it in the same step, so what is in memory and
// what goes to the log cannot differ, and what is no op cannot happen. Live
// commands, recovery and snapshots are the same interpreter of ops. The package
// does no I/O and has no clock of its own: the time is handed in.
package shard

import (
	"sync"
	"sync/atomic"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// MaxShards bounds the number of shards of a store.
const MaxShards = 1024

// Set is all shards of a store.
type Set struct {
	shards     []*Shard
	dbs        int
	limits     atomic.Pointer[ds.Limits]
	lfu        atomic.Pointer[LFU] // nil: uses are not counted
	bytes      atomic.Int64        // of the keyspace, see memory.go
	alone      atomic.Bool         // see LookAtUses
	freedLater atomic.Int64
	// evicted counts the keys that went to make room.
	evicted atomic.Int64
	expiry  ExpiryStats
	// expiryPaused says that overdue keys go only when somebody asks for them.
	expiryPaused atomic.Bool
	functions    libraries
	yielded      atomic.Pointer[yielded] // nil: the locks mean what they say
	// expiryHeld says that nothing goes by itself, as long as writes are paused.
	expiryHeld atomic.Bool
	events     atomic.Uint32 // Classes
	tracked    atomic.Bool
}

// ExpiryStats counts keys, and fields of hashes, that went by their deadline.
type ExpiryStats struct{ Expired, Fields atomic.Int64 }

// Shard is one part of the keyspace. Everything but its index is guarded by mu.
type Shard struct {
	mu      sync.Mutex
	index   int
	dbs     []database
	figures []figure // of dbs
	lastLSN uint64
	watches map[string][]*mark
	// stale has the names of watched keys that SWAPDB brought when they were overdue.
	stale   map[string]bool
	queues  map[string]*Queue // none is empty
	debts   []*Debt
	scratch []byte
}

// database is one numbered database's part of a shard.
type database struct {
	keys      *ds.Table
	deadlines *ds.DeadlineIndex
	// fields has the hashes of which a field has a deadline, by the earliest; nil
	// while there was none.
	fields *ds.DeadlineIndex
}

// NewSet returns an empty keyspace of n shards (1 to MaxShards) and dbs
// databases.
func NewSet(n, dbs int) *Set {
	s := &Set{dbs: dbs}
	limits := ds.DefaultLimits()
	s.limits.Store(&limits)
	for i := range n {
		sh := &Shard{index: i, dbs: make([]database, dbs), figures: make([]figure, dbs)}
		for d := range sh.dbs {
			sh.dbs[d] = newDatabase()
		}
		s.shards = append(s.shards, sh)
	}
	return s
}

func newDatabase() database {
	return database{keys: ds.NewTable(), deadlines: ds.NewDeadlineIndex()}
}

// Shards returns the number of shards.
func (s *Set) Shards() int { return len(s.shards) }

// DBs returns the number of databases.
func (s *Set) DBs() int { return s.dbs }

// newList makes a list with the chunk size that is configured.
func (s *Set) newList() *ds.List {
	l := ds.NewList()
	l.SetLimits(s.limits.Load())
	return l
}

// Limits returns the sizes up to which collections use compact encodings.
func (s *Set) Limits() ds.Limits { return *s.limits.Load() }

// SetLimits changes them for what is written from now on.
func (s *Set) SetLimits(l ds.Limits) { s.limits.Store(&l) }

// Expired returns how many keys went by their deadline since the start.
func (s *Set) Expired() int64 { return s.expiry.Expired.Load() }

// ExpiredFields returns how many fields of hashes did.
func (s *Set) ExpiredFields() int64 { return s.expiry.Fields.Load() }

// ResetExpired sets these counts to zero.
func (s *Set) ResetExpired() {
	s.expiry.Expired.Store(0)
	s.expiry.Fields.Store(0)
}

// FreedLater returns how many large values went whole, and keys with their database, since
// the start: their memory is the collector's business.
func (s *Set) FreedLater() int64 { return s.freedLater.Load() }

// ResetFreedLater sets that count to zero.
func (s *Set) ResetFreedLater() { s.freedLater.Store(0) }

// PauseExpiry says whether overdue keys stay until somebody asks for them, as
// DEBUG SET-ACTIVE-EXPIRE does.
func (s *Set) PauseExpiry(pause bool) { s.expiryPaused.Store(pause) }

// HoldExpiry says whether overdue keys and fields stay, as CLIENT PAUSE does. It is apart
// from PauseExpiry; Tx.KeepOverdue is about those that somebody asks for.
func (s *Set) HoldExpiry(hold bool) { s.expiryHeld.Store(hold) }

// ExpiryHeld reports whether HoldExpiry is on: nothing is to go by itself.
func (s *Set) ExpiryHeld() bool { return s.expiryHeld.Load() }

// ExpiryPaused reports whether overdue keys stay until somebody asks for them, or
// longer.
func (s *Set) ExpiryPaused() bool { return s.expiryPaused.Load() || s.expiryHeld.Load() }

// Replace takes over the tables of another keyspace of as many shards and
// databases, which is not used any more. To who watches a key nothing happens:
// the caller has seen that both hold the same. Every shard of s must be locked.
func (s *Set) Replace(other *Set) {
	for i, sh := range s.shards {
		sh.dbs = other.shards[i].dbs
	}
	s.CountAll()
	s.functions.byName = other.functions.byName
	s.functions.version++
}

// ShardOf returns the shard that a key lives in.
func (s *Set) ShardOf(key []byte) int {
	if len(s.shards) == 1 {
		return 0
	}
	return op.ShardOf(key, len(s.shards))
}

// Lock takes the locks of the shards, which are distinct and ascending: every
// lock of more than one shard follows that order. Where somebody has yielded
// them (see Yield), it waits until they are taken back and free.
func (s *Set) Lock(shards []int) {
	for !s.LockUnlessYielded(shards) {
		s.AwaitReturn()
	}
}

// LockUnlessYielded is Lock, but takes nothing and reports false where somebody
// has yielded the shards: they are in use, and will be for long.
func (s *Set) LockUnlessYielded(shards []int) bool {
	for _, i := range shards {
		s.shards[i].mu.Lock()
	}
	if s.yielded.Load() == nil {
		return true
	}
	s.Unlock(shards)
	return false
}

// Unlock releases what Lock took.
func (s *Set) Unlock(shards []int) {
	for _, i := range shards {
		s.shards[i].mu.Unlock()
	}
}

// LastLSN returns the highest LSN that changed one of the shards: what a reader
// of them has seen. The shards are locked by the caller.
func (s *Set) LastLSN(shards []int) uint64 {
	var last uint64
	for _, i := range shards {
		last = max(last, s.shards[i].lastLSN)
	}
	return last
}

// DBStats describes one database.
type DBStats struct {
	Keys, Expires int
	// FieldExpires is the number of hashes of which a field has a deadline.
	FieldExpires int
	// AvgTTLMs is the mean of the times that the keys with a deadline still have,
	// in milliseconds.
	AvgTTLMs int64
	// OverheadBytes is what of Set.Bytes is neither a key nor a value.
	OverheadBytes int64
	// DeadlineBytes is what of OverheadBytes says when keys and fields expire.
	DeadlineBytes int64
}

// Stats returns the figures of each database. The Tx holds every shard.
func (tx *Tx) Stats() []DBStats {
	tx.mustHoldAll()
	out := make([]DBStats, tx.set.dbs)
	left := make([]float64, tx.set.dbs) // of all keys together
	for _, sh := range tx.set.shards {
		for i := range sh.dbs {
			d := &sh.dbs[i]
			n := d.deadlines.Len()
			out[i].Keys += d.keys.Len()
			out[i].OverheadBytes += d.overheadBytes()
			out[i].DeadlineBytes += int64(d.deadlines.MemBytes())
			out[i].Expires += n
			if d.fields != nil {
				out[i].FieldExpires += d.fields.Len()
			}
			left[i] += float64(d.deadlines.Mean()-tx.nowMs) * float64(n)
		}
	}
	for i := range out {
		if n := out[i].Expires; n > 0 {
			out[i].AvgTTLMs = max(0, int64(left[i]/float64(n)))
		}
	}
	return out
}
