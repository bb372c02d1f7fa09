package shard

import (
	"maps"

	"kevy/internal/ds"
)

// undo keeps the values that a Tx replaced, so that Rollback can put them back.
// Its steps are taken back in reverse order.
type undo struct {
	steps   []undoStep
	seen    map[string]bool
	touched []*mark // that have not been told yet
	stale   map[*Shard]map[string]bool
}

// undoStep is a key or, if content is set, a whole database's part of a shard.
type undoStep struct {
	sh      *Shard
	db      int
	content *database

	key   []byte
	found bool
	value []byte
	raw   bool
	obj   ds.Object
	at    int64
	lru   uint32
}

// KeepUndo makes Rollback possible for what follows, up to Committed.
func (tx *Tx) KeepUndo() { tx.undo = &undo{seen: make(map[string]bool)} }

// saveKey keeps the value of a key before its first change.
func (u *undo) saveKey(sh *Shard, db int, key []byte) {
	name := string(watchName(nil, db, key))
	if u.seen[name] {
		return
	}
	u.seen[name] = true
	s := undoStep{sh: sh, db: db, key: []byte(name[2:])}
	keys := sh.dbs[db].keys
	if e := keys.Get(key); e != nil {
		s.found, s.at, s.lru, s.raw = true, e.Aux(), e.LRU(), e.Raw()
		if e.Object() != nil {
			s.obj = keys.Mutable(key).Object().Fork()
		} else {
			s.value = append([]byte{}, e.Value()...)
		}
	}
	u.steps = append(u.steps, s)
}

// saveDB sets a whole database's part of a shard aside before it is cleared or
// exchanged. Keys are saved anew after that: they are other keys.
func (u *undo) saveDB(sh *Shard, db int) {
	content := sh.dbs[db]
	u.steps = append(u.steps, undoStep{sh: sh, db: db, content: &content})
	clear(u.seen)
}

// saveStale keeps which watched keys of a shard are stale, before that changes.
func (u *undo) saveStale(sh *Shard) {
	if _, saved := u.stale[sh]; saved {
		return
	}
	if u.stale == nil {
		u.stale = make(map[*Shard]map[string]bool)
	}
	u.stale[sh] = maps.Clone(sh.stale)
}

// Rollback puts back every value that changed since KeepUndo and forgets the
// recorded ops. To who watches a key, or waits for it, nothing has happened.
func (tx *Tx) Rollback() {
	steps := tx.undo.steps
	for i := len(steps) - 1; i >= 0; i-- {
		steps[i].restore()
		tx.grow(steps[i].sh, steps[i].db)
	}
	for sh, stale := range tx.undo.stale {
		sh.stale = stale
	}
	tx.publish()
	tx.undo = nil
	tx.commit.Reset()
	tx.forgetReady()
	tx.TakeNoted()
}

// Withhold forgets what the Tx recorded: it stays in memory and never reaches the
// log, and nobody who waits is served from it. That is right only for a store that
// serves nobody any more.
func (tx *Tx) Withhold() {
	tx.commit.Reset()
	tx.forgetReady()
}

func (s *undoStep) restore() {
	if s.content != nil {
		s.sh.dbs[s.db] = *s.content
		return
	}
	d := &s.sh.dbs[s.db]
	d.drop(s.key)
	if !s.found {
		return
	}
	var e *ds.Entry
	if s.obj != nil {
		e = d.keys.PutObject(s.key, s.obj)
		d.noteFields(e)
	} else {
		e, _ = d.keys.Put(s.key, s.value)
		if s.raw {
			d.keys.SetRaw(e, true)
		}
	}
	d.setDeadline(e, s.at)
	e.SetLRU(s.lru)
}
