package shard

import (
	"bytes"
	"math"
	"math/rand/v2"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// Exists reports whether the key exists.
func (tx *Tx) Exists(key []byte) bool {
	if tx.lookup(key) == nil {
		tx.missed(key)
		return false
	}
	tx.hits++
	return true
}

// Touch notes an access to the key, as TOUCH does, and reports whether it
// exists.
func (tx *Tx) Touch(key []byte) bool {
	e := tx.lookup(key)
	if e == nil {
		tx.missed(key)
		return false
	}
	tx.hits++
	tx.touched(e)
	return true
}

// Kind returns the type of the key's value; ok is false if there is no key.
func (tx *Tx) Kind(key []byte) (k Kind, ok bool) {
	e := tx.lookup(key)
	if e == nil {
		tx.missed(key)
		return 0, false
	}
	return kindOf(e), true
}

func kindOf(e *ds.Entry) Kind {
	if o := e.Object(); o != nil {
		return o.Kind()
	}
	return KindString
}

// Info describes a key for OBJECT and MEMORY USAGE.
type Info struct {
	Kind     Kind
	Encoding string
	Value    []byte // of a string; read-only and valid until the key changes
	IdleSec  int64
	Uses     uint32 // the counter of uses, if they are counted
	UsedSec  int64  // the unix second of the last use, modulo 2^31
	Bytes    int64  // an estimate of what the key and its value occupy
	alone    bool   // see RefCount
}

// RefCount is what OBJECT REFCOUNT answers. Redis has one object for each integer
// below 10000, with a count that stands for ever, unless each key needs one of its own
// because its uses are looked at for eviction.
func (i *Info) RefCount() int64 {
	const sharedDigits = 4
	if !i.alone && i.Encoding == "int" && len(i.Value) <= sharedDigits && i.Value[0] != '-' {
		return math.MaxInt32
	}
	return 1
}

// Info returns what is known of a key without counting as an access; ok is
// false if there is no key.
func (tx *Tx) Info(key []byte) (info Info, ok bool) {
	e := tx.lookup(key)
	if e == nil {
		return Info{}, false
	}
	info = Info{
		Kind: kindOf(e), Value: e.Value(), IdleSec: tx.idleSec(e), UsedSec: int64(e.LRU() & accessMask), Bytes: int64(e.MemBytes()),
		alone: tx.set.alone.Load(),
	}
	if lfu := tx.set.lfu.Load(); lfu != nil {
		info.Uses = tx.decayed(e.LRU()&^notIntBit, lfu)
	}
	if o := e.Object(); o != nil {
		info.Encoding = o.Encoding()
	} else {
		info.Encoding = stringEncoding(e)
	}
	return info, true
}

// Deadline returns the key's expiry time in unix ms, 0 if it has none; ok is
// false if there is no key.
func (tx *Tx) Deadline(key []byte) (atMs int64, ok bool) {
	e := tx.lookup(key)
	if e == nil {
		tx.missed(key)
		return 0, false
	}
	tx.hits++
	return e.Aux(), true
}

// Del removes the key (op DEL) and reports whether it existed.
func (tx *Tx) Del(key []byte) bool {
	if tx.lookup(key) == nil {
		return false
	}
	sh, d := tx.at(key)
	tx.delete(sh, d, key)
	return true
}

// DelOverdue removes the key if it is overdue (op DEL) and reports whether it was. That it expired is no event: the
// command that removes it calls its end by another name, or tells of nothing but its new value.
func (tx *Tx) DelOverdue(key []byte) bool {
	sh, d := tx.at(key)
	e := d.keys.Get(key)
	if e == nil || !tx.overdue(e) {
		return false
	}
	tx.end(sh, d, key)
	return true
}

// ExpireAt sets the key's deadline (op PEXPIREAT) and reports whether the key
// exists. A deadline that has passed already is the caller's to turn into Del,
// but for a replay, which keeps it.
func (tx *Tx) ExpireAt(key []byte, atMs int64) bool {
	if tx.lookup(key) == nil {
		return false
	}
	atMs = max(atMs, 1) // 0 would be none
	sh, d := tx.at(key)
	tx.save(sh, key)
	tx.record(sh, op.PExpireAt, key, 1)
	tx.argInt(atMs)
	tx.recorded()
	d.setDeadline(d.keys.Mutable(key), atMs)
	return true
}

// Persist removes the key's deadline (op PERSIST) and reports whether it had
// one.
func (tx *Tx) Persist(key []byte) bool {
	e := tx.lookup(key)
	if e == nil || e.Aux() == 0 {
		return false
	}
	sh, d := tx.at(key)
	tx.save(sh, key)
	tx.record(sh, op.Persist, key, 0)
	tx.recorded()
	d.setDeadline(d.keys.Mutable(key), 0)
	return true
}

// Copy makes key dst of database dstDB hold what key src of the selected
// database holds, deadline included; what dst held is replaced. It reports
// whether src exists. The ops are a DEL of dst, if it existed, and the ops that
// rebuild the value: the price of one key per op.
func (tx *Tx) Copy(src []byte, dstDB int, dst []byte) bool {
	e := tx.lookup(src)
	if e == nil {
		return false
	}
	srcDB := tx.db
	tx.db = dstDB
	defer func() { tx.db = srcDB }()
	if tx.lookup(dst) != nil {
		sh, d := tx.at(dst)
		tx.delete(sh, d, dst)
	}
	sh, d := tx.at(dst)
	tx.save(sh, dst)
	if !tx.replay {
		tx.touch(sh, dst, wakesAs(kindOf(e)))
		tx.grow(sh, dstDB)
		Rebuild(&tx.commit, tx.db, sh.index, dst, e)
	}
	var fresh *ds.Entry
	if o := e.Object(); o != nil {
		// Only an entry that no snapshot shares may be forked in place.
		tx.db = srcDB
		_, sd := tx.at(src)
		o = sd.keys.Mutable(src).Object().Fork()
		tx.db = dstDB
		fresh = d.keys.PutObject(dst, o)
		d.noteFields(fresh)
	} else {
		fresh, _ = d.keys.Put(dst, e.Value())
		if e.Raw() {
			d.keys.SetRaw(fresh, true)
		}
	}
	tx.created(dst)
	d.setDeadline(fresh, e.Aux())
	fresh.SetLRU(e.LRU())
	return true
}

// Move is Copy and then Del of src: RENAME and MOVE. src and dst must not be
// the same key of one database.
func (tx *Tx) Move(src []byte, dstDB int, dst []byte) bool {
	if tx.lookup(src) == nil {
		return false
	}
	tx.Copy(src, dstDB, dst)
	return tx.Del(src)
}

// FlushDB removes every key of a database (op FLUSHDB). All shards must be
// held.
func (tx *Tx) FlushDB(db int) {
	tx.recordEverywhere(op.FlushDB, db)
	tx.clear(db)
}

// FlushAll removes every key of every database (op FLUSHALL). All shards must
// be held.
func (tx *Tx) FlushAll() {
	tx.recordEverywhere(op.FlushAll, tx.db)
	for db := range tx.set.dbs {
		tx.clear(db)
	}
}

func (tx *Tx) clear(db int) {
	tx.mustHoldAll()
	for _, sh := range tx.set.shards {
		tx.touchDB(sh, db)
		tx.noteDB(sh, db)
		if tx.undo != nil {
			tx.undo.saveDB(sh, db)
		}
		if !tx.replay {
			tx.set.freedLater.Add(int64(sh.dbs[db].keys.Len()))
		}
		sh.dbs[db] = newDatabase()
		tx.grow(sh, db)
	}
}

// SwapDB exchanges two databases (op SWAPDB). All shards must be held.
func (tx *Tx) SwapDB(a, b int) {
	tx.mustHoldAll()
	if !tx.replay {
		tx.commit.Begin(op.SwapDB, tx.db, op.EveryStream, tx.cause, 3)
		tx.commit.ArgInt(int64(a))
		tx.commit.ArgInt(int64(b))
		tx.commit.End()
	}
	for _, sh := range tx.set.shards {
		if tx.undo != nil {
			tx.undo.saveDB(sh, a)
			tx.undo.saveDB(sh, b)
		}
		tx.touchSwap(sh, a, b)
		sh.dbs[a], sh.dbs[b] = sh.dbs[b], sh.dbs[a]
		tx.grow(sh, a)
		tx.grow(sh, b)
		tx.noteSwap(sh, a, b)
	}
}

func (tx *Tx) recordEverywhere(v op.Verb, db int) {
	if !tx.replay {
		tx.commit.Begin(v, db, op.EveryStream, tx.cause, 1)
		tx.commit.End()
	}
}

func (tx *Tx) mustHoldAll() {
	if len(tx.held) != len(tx.set.shards) {
		panic("shard: an op on whole databases needs every shard")
	}
}

// DBSize returns the number of keys of the selected database in the held
// shards, those overdue but not gone included.
func (tx *Tx) DBSize() int {
	n := 0
	for _, i := range tx.held {
		n += tx.set.shards[i].dbs[tx.db].keys.Len()
	}
	return n
}

// EachKey calls fn for the live keys of the selected database in the held
// shards until it returns false. fn must not change keys.
func (tx *Tx) EachKey(fn func(key []byte, kind Kind) bool) {
	for _, i := range tx.held {
		more := true
		tx.set.shards[i].dbs[tx.db].keys.Each(func(e *ds.Entry) bool {
			if !tx.overdue(e) {
				more = fn(e.Key(), kindOf(e))
			}
			return more
		})
		if !more {
			return
		}
	}
}

// PrefixStats counts the live keys of the selected database that begin with
// prefix, and those of them that have a deadline. All shards must be held.
func (tx *Tx) PrefixStats(prefix []byte) (keys, expires int) {
	tx.mustHoldAll()
	for _, sh := range tx.set.shards {
		sh.dbs[tx.db].keys.Each(func(e *ds.Entry) bool {
			if !tx.overdue(e) && bytes.HasPrefix(e.Key(), prefix) {
				keys++
				if e.Aux() != 0 {
					expires++
				}
			}
			return true
		})
	}
	return keys, expires
}

// Shape describes the tables of the selected database, and says how many of its
// keys have a deadline. All shards must be held.
func (tx *Tx) Shape() (shape ds.Shape, deadlines int) {
	tx.mustHoldAll()
	for _, sh := range tx.set.shards {
		d := &sh.dbs[tx.db]
		shape.Add(d.keys.Shape())
		deadlines += d.deadlines.Len()
	}
	return shape, deadlines
}

// cursorBits is the part of a SCAN cursor that is the table's own; above it
// stands the shard. The whole stays below 2^53, so clients that count in doubles
// keep it.
const cursorBits = ds.CursorBits

// ScanShard returns the shard that a SCAN cursor is in; ok is false for a
// cursor that no SCAN returned.
func (s *Set) ScanShard(cursor uint64) (shard int, ok bool) {
	shard = int(cursor >> cursorBits)
	return shard, shard < len(s.shards)
}

// Scan calls fn for about count keys of the selected database from cursor on,
// whose shard is held, and returns the next cursor, 0 at the end and for a
// cursor that no Scan returned. A key that is there throughout a full iteration
// is returned at least once. fn reports whether it takes a key: of those that it
// takes the overdue ones go, unless they are kept.
func (tx *Tx) Scan(cursor uint64, count int, fn func(key []byte, kind Kind, overdue bool) (takes bool)) uint64 {
	shard := int(cursor >> cursorBits)
	if shard >= len(tx.set.shards) {
		return 0
	}
	const inTable = 1<<cursorBits - 1
	sh := tx.set.shards[shard]
	d := &sh.dbs[tx.db]
	var overdue [][]byte
	next := d.keys.Scan(cursor&inTable, count, func(e *ds.Entry) {
		due := tx.overdue(e)
		if fn(e.Key(), kindOf(e), due) && due && !tx.keepOverdue {
			overdue = append(overdue, bytes.Clone(e.Key()))
		}
	})
	if tx.keepOverdue {
		overdue = nil
	}
	for _, key := range overdue {
		tx.expire(sh, d, key)
	}
	if next == 0 {
		if shard+1 == len(tx.set.shards) {
			return 0
		}
		return uint64(shard+1) << cursorBits
	}
	return uint64(shard)<<cursorBits | next
}

// maxRandomTries is how often RandomKey looks for a key that is not overdue while these
// stay; there may be no other.
const maxRandomTries = 100

// RandomKey returns a random live key of the selected database, nil if there is
// none. All shards must be held. Overdue keys that it meets go.
func (tx *Tx) RandomKey(rng *rand.Rand) []byte {
	for tries := 0; ; tries++ {
		n := tx.DBSize()
		if n == 0 {
			return nil
		}
		pick := rng.IntN(n)
		for _, i := range tx.held {
			sh := tx.set.shards[i]
			d := &sh.dbs[tx.db]
			if pick >= d.keys.Len() {
				pick -= d.keys.Len()
				continue
			}
			e := d.keys.Random(rng)
			if !tx.overdue(e) || tx.keepOverdue && tries >= maxRandomTries {
				return e.Key()
			}
			if !tx.keepOverdue {
				tx.expire(sh, d, e.Key())
			}
			break
		}
	}
}

// ExpiryPaused reports whether overdue keys stay until somebody asks for them.
func (tx *Tx) ExpiryPaused() bool { return tx.set.ExpiryPaused() }

// ExpireDue removes at most limit overdue keys and fields of hashes of the held
// shards, of all databases, earliest deadline first within each, and returns
// how many went.
func (tx *Tx) ExpireDue(limit int) int {
	db := tx.db
	defer func() { tx.db = db }()
	gone := 0
	for _, i := range tx.held {
		sh := tx.set.shards[i]
		for tx.db = range sh.dbs {
			d := &sh.dbs[tx.db]
			for gone < limit {
				n := tx.expireNext(sh, d, limit-gone)
				if n == 0 {
					break
				}
				gone += n
			}
		}
	}
	return gone
}

// expireNext removes the key whose deadline has passed first, or at most limit
// fields of the hash of which a field's did.
func (tx *Tx) expireNext(sh *Shard, d *database, limit int) int {
	key, at, ok := d.deadlines.Min()
	if d.fields != nil {
		if hash, first, some := d.fields.Min(); some && tx.due(first) && (!ok || first < at) {
			return tx.expireFields(sh, d, hash, limit)
		}
	}
	if !ok || !tx.due(at) {
		return 0
	}
	tx.expire(sh, d, key)
	return 1
}
