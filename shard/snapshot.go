package shard

import (
	"kevy/internal/ds"
)

// Snapshot is the keyspace as of one moment, read without locks while it goes
// on changing.
type Snapshot struct {
	parts     []part
	keys      int
	libraries []Library
}

type part struct {
	shard, db int
	frozen    *ds.Frozen
}

// Freeze takes a snapshot in microseconds. Every shard must be locked by the
// caller.
func (s *Set) Freeze() *Snapshot {
	snap := &Snapshot{libraries: s.functions.byName}
	for _, sh := range s.shards {
		for db := range sh.dbs {
			snap.add(sh, db)
		}
	}
	return snap
}

// FreezeDB takes a snapshot of one database in some of the shards, which must be
// locked by the caller.
func (s *Set) FreezeDB(shards []int, db int) *Snapshot {
	snap := &Snapshot{}
	for _, i := range shards {
		snap.add(s.shards[i], db)
	}
	return snap
}

func (s *Snapshot) add(sh *Shard, db int) {
	if sh.dbs[db].keys.Len() == 0 {
		return
	}
	f := sh.dbs[db].keys.Freeze()
	s.keys += f.Len()
	s.parts = append(s.parts, part{shard: sh.index, db: db, frozen: f})
}

// Keys returns the number of keys in the snapshot.
func (s *Snapshot) Keys() int { return s.keys }

// Libraries returns the libraries of functions.
func (s *Snapshot) Libraries() []Library { return s.libraries }

// EachValue calls fn with every value until it returns false. It may be called
// before Each only.
func (s *Snapshot) EachValue(fn func(v Value) bool) {
	more := true
	for i := range s.parts {
		if more {
			s.parts[i].frozen.Each(func(e *ds.Entry) bool {
				more = fn(ValueOf(e))
				return more
			})
		}
	}
}

// Each calls fn with every key, overdue ones included, until it returns an
// error, and releases what it has passed. It can be called once.
func (s *Snapshot) Each(fn func(db, shard int, e *ds.Entry) error) (err error) {
	for i := range s.parts {
		p := &s.parts[i]
		if err == nil {
			p.frozen.Drain(func(e *ds.Entry) bool {
				err = fn(p.db, p.shard, e)
				return err == nil
			})
		}
		p.frozen.Release()
	}
	s.parts = nil
	return err
}

// Release gives up a snapshot that Each was not called on.
func (s *Snapshot) Release() {
	for i := range s.parts {
		s.parts[i].frozen.Release()
	}
	s.parts = nil
}
