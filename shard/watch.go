package shard

import (
	"sync/atomic"

	"kevy/internal/op"
)

// Watch is what one connection WATCHes. Its keys' shards must be held whenever
// it is used.
type Watch struct {
	set   *Set
	mark  *mark // nil as long as nothing was watched
	keys  []watched
	names map[string]bool // of keys
	bytes int             // what the names occupy
}

// mark is what a key's shard has of those who watch the key: dirty is set by
// whoever changes it.
type mark struct{ dirty atomic.Bool }

type watched struct {
	shard int
	name  string // as watchName builds it
	db    int
	key   string
}

// NewWatch returns a watch of no keys.
func (s *Set) NewWatch() *Watch { return &Watch{set: s} }

// Watch adds a key of the selected database. An overdue key goes first, so that
// its end does not count as a change.
func (tx *Tx) Watch(w *Watch, key []byte) {
	tx.lookup(key)
	if name := string(watchName(nil, tx.db, key)); !w.names[name] {
		sh := tx.shard(key)
		w.note(sh, name, tx.db, key)
		sh.addMark(name, w.mark)
	}
}

// AddLater is Tx.Watch for a key of database db while the shards are yielded: who
// uses them does the shard's part in a moment. It reports false if they are not
// yielded, or too much waits for that.
func (w *Watch) AddLater(db int, key []byte) bool {
	name := string(watchName(nil, db, key))
	if w.names[name] {
		return true
	}
	if w.mark == nil {
		w.mark = new(mark)
	}
	sh, m := w.set.shards[w.set.ShardOf(key)], w.mark
	if !w.set.later(func() { sh.addMark(name, m) }) {
		return false
	}
	w.note(sh, name, db, key)
	return true
}

// note adds a key to the connection's own list.
func (w *Watch) note(sh *Shard, name string, db int, key []byte) {
	if w.names == nil {
		w.names = make(map[string]bool)
	}
	if w.mark == nil {
		w.mark = new(mark)
	}
	w.names[name] = true
	w.bytes += 2*len(name) + watchedBytes
	w.keys = append(w.keys, watched{shard: sh.index, name: name, db: db, key: string(key)})
}

func (sh *Shard) addMark(name string, m *mark) {
	if sh.watches == nil {
		sh.watches = make(map[string][]*mark)
	}
	sh.watches[name] = append(sh.watches[name], m)
}

// watchedBytes is about what a watched key occupies beside its name, which is kept
// twice: here and with its shard.
const watchedBytes = 144

// MemBytes estimates what the watched keys occupy, in bytes.
func (w *Watch) MemBytes() int { return w.bytes }

// Len returns the number of watched keys.
func (w *Watch) Len() int { return len(w.keys) }

// Touched reports whether a watched key was changed since. It may be called
// without any lock.
func (w *Watch) Touched() bool { return w.mark != nil && w.mark.dirty.Load() }

// EachShard calls fn with the shard of each watched key.
func (w *Watch) EachShard(fn func(shard int)) {
	for i := range w.keys {
		fn(w.keys[i].shard)
	}
}

// Dirty reports whether a watched key was changed since, or is overdue now, which
// it stays: as in Redis it does not go for that. The shards of the keys are held.
func (tx *Tx) Dirty(w *Watch) bool {
	db := tx.db
	defer func() { tx.db = db }()
	for i := range w.keys {
		k := &w.keys[i]
		tx.db = k.db
		key := []byte(k.key)
		sh, d := tx.at(key)
		if e := d.keys.Get(key); e != nil && tx.overdue(e) {
			if !sh.stale[k.name] {
				return true
			}
			continue
		}
		tx.lookup(key) // fields of a hash that are overdue go
	}
	return w.Touched()
}

// Clear forgets the keys. It takes their shards' locks, none of which the
// caller may hold; where the shards are yielded it does not wait for their return.
func (w *Watch) Clear() {
	for i := range w.keys {
		sh := w.set.shards[w.keys[i].shard]
		sh.mu.Lock()
		if w.set.yielded.Load() != nil {
			sh.mu.Unlock()
			if w.leaveLater(i) {
				break
			}
			w.set.lockOne(sh)
		}
		sh.unwatch(w.keys[i].name, w.mark)
		sh.mu.Unlock()
	}
	w.keys, w.names, w.bytes = nil, nil, 0
	if w.mark != nil {
		w.mark.dirty.Store(false)
	}
}

// leaveLater lets who has been yielded the shards take the mark off the keys from
// number i on. The mark is another one from now on.
func (w *Watch) leaveLater(i int) bool {
	set, keys, m := w.set, w.keys[i:], w.mark
	if !set.later(func() {
		for _, k := range keys {
			set.shards[k.shard].unwatch(k.name, m)
		}
	}) {
		return false
	}
	w.mark = nil
	return true
}

func (sh *Shard) unwatch(name string, m *mark) {
	list := sh.watches[name]
	for i := range list {
		if list[i] == m {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			break
		}
	}
	if len(list) == 0 {
		delete(sh.watches, name)
		delete(sh.stale, name)
	} else {
		sh.watches[name] = list
	}
}

// watchName appends the name of a key across databases.
func watchName(dst []byte, db int, key []byte) []byte {
	dst = append(dst, byte(db>>8), byte(db))
	return append(dst, key...)
}

// unwatched reports whether those who watch the key, or wait for it, are not
// told of an op: as in Redis, they are told of a stream's entries and not of its
// groups.
func unwatched(v op.Verb) bool {
	switch v {
	case op.XSetID, op.XClaim, op.XAck:
		return true
	}
	return false
}

// Signal tells those who watch the key, or keep its value, that it changed, though it has not: of some commands that
// write what is there already Redis tells. It is no op.
func (tx *Tx) Signal(key []byte) {
	if !tx.replay {
		tx.touch(tx.shard(key), key, wakeNone)
	}
}

// touch dirties the watches of a key that is about to change and notes that
// those who wait for it are to be looked at, if the change can concern them.
func (tx *Tx) touch(sh *Shard, key []byte, w wake) {
	tx.set.RunLater()
	if tx.set.tracked.Load() {
		tx.changed(key)
	}
	if len(sh.watches)+len(sh.queues) > 0 {
		sh.scratch = watchName(sh.scratch[:0], tx.db, key)
		tx.note(sh.queues[string(sh.scratch)], w)
		if sh.stale[string(sh.scratch)] {
			tx.setStale(sh, string(sh.scratch), false)
			if tx.cause == op.Expired {
				return
			}
		}
		tx.dirty(sh.watches[string(sh.scratch)])
	}
}

// watchedIn returns the database and the key that watchName made a name of.
func watchedIn(name string) (db int, key []byte) {
	return int(name[0])<<8 | int(name[1]), []byte(name[2:])
}

// touchDB dirties the watches of the keys that exist in a database that is
// about to be cleared.
func (tx *Tx) touchDB(sh *Shard, db int) {
	tx.set.RunLater()
	if tx.set.tracked.Load() {
		tx.cleared()
	}
	for name, list := range sh.watches {
		if in, key := watchedIn(name); in == db && sh.dbs[db].keys.Get(key) != nil {
			if sh.stale[name] {
				tx.setStale(sh, name, false)
				continue
			}
			tx.dirty(list)
		}
	}
}

// touchSwap dirties the watches of keys that exist in either of two databases
// that are about to be exchanged. One that is overdue in the other database does
// not exist: it takes the place of nothing, and when it goes nothing has changed.
func (tx *Tx) touchSwap(sh *Shard, a, b int) {
	tx.set.RunLater()
	for name, list := range sh.watches {
		in, key := watchedIn(name)
		if in != a && in != b {
			continue
		}
		here, there := sh.dbs[in].keys.Get(key), sh.dbs[a+b-in].keys.Get(key)
		if sh.stale[name] {
			here = nil
			tx.setStale(sh, name, false)
		}
		switch {
		case here == nil && there != nil && tx.overdue(there):
			tx.setStale(sh, name, true)
		case here != nil || there != nil:
			tx.dirty(list)
		}
	}
}

// setStale says whether a watched key, by its watchName, is one that SWAPDB brought
// when it was overdue.
func (tx *Tx) setStale(sh *Shard, name string, is bool) {
	if tx.undo != nil {
		tx.undo.saveStale(sh)
	}
	switch {
	case !is:
		delete(sh.stale, name)
	case sh.stale == nil:
		sh.stale = map[string]bool{name: true}
	default:
		sh.stale[name] = true
	}
}

// dirty tells those who watch of a change. What may be taken back they are told
// of once it is not.
func (tx *Tx) dirty(list []*mark) {
	if tx.undo != nil {
		tx.undo.touched = append(tx.undo.touched, list...)
		return
	}
	for _, m := range list {
		m.dirty.Store(true)
	}
}
