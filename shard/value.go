package shard

import "kevy/internal/ds"

// Value is a whole value: a string, or a collection.
type Value struct {
	Text   []byte
	Object ds.Object // nil for a string
}

// ValueOf returns the value of an entry, for reading.
func ValueOf(e *ds.Entry) Value { return Value{Text: e.Value(), Object: e.Object()} }

// Value returns what the key holds, for reading and as long as the key does not
// change; ok is false if there is no key.
func (tx *Tx) Value(key []byte) (v Value, ok bool) {
	e := tx.lookup(key)
	if e == nil {
		tx.missed(key)
		return Value{}, false
	}
	tx.hits++
	tx.used(e)
	return ValueOf(e), true
}

// Peek is Value without counting as a use of the key.
func (tx *Tx) Peek(key []byte) (v Value, ok bool) {
	e := tx.lookup(key)
	if e == nil {
		return Value{}, false
	}
	return ValueOf(e), true
}

// Put makes the key hold a value that was made outside of the keyspace, and
// expire at a unix time in milliseconds, 0 for never; what it held is replaced. A
// collection is the keyspace's from now on, and must not be empty unless it is a
// stream. The ops are a SET, or a DEL of what there was and the ops that rebuild
// the value.
func (tx *Tx) Put(key []byte, v Value, deadlineMs int64) {
	if v.Object == nil {
		replaced := tx.lookup(key) != nil
		tx.Set(key, v.Text, deadlineMs)
		if replaced {
			tx.created(key) // as where the old value goes first
		}
		return
	}
	tx.Del(key)
	sh, d := tx.at(key)
	tx.save(sh, key)
	if !tx.replay {
		tx.touch(sh, key, wakesAs(v.Object.Kind()))
		tx.grow(sh, tx.db)
		RebuildValue(&tx.commit, tx.db, sh.index, key, v, deadlineMs, nil)
	}
	e := d.keys.PutObject(key, v.Object)
	tx.created(key)
	d.setDeadline(e, deadlineMs)
	d.noteFields(e)
	tx.used(e)
}

// SetIdle notes that the key was last used so many seconds ago, as RESTORE can
// say, unless uses are counted instead. It changes no value and is no op.
func (tx *Tx) SetIdle(key []byte, seconds int64) {
	if e := tx.lookup(key); e != nil && !tx.CountsUses() {
		at := max(0, int64(tx.accessTime())-seconds)
		e.SetLRU(e.LRU()&notIntBit | uint32(at))
	}
}

// Limits returns the sizes up to which collections use compact encodings.
func (tx *Tx) Limits() ds.Limits { return tx.set.Limits() }
