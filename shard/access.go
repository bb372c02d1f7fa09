package shard

import "kevy/internal/ds"

// An entry's LRU word holds the second of the last access in its low 31 bits.
// The bit above says that OBJECT ENCODING does not call the string int, though
// its text is one.
const (
	accessMask = 1<<31 - 1
	notIntBit  = 1 << 31
)

// accessTime returns the time as entries keep it.
func (tx *Tx) accessTime() uint32 { return uint32(tx.nowMs/1000) & accessMask }

// used notes the access for OBJECT IDLETIME or FREQ and for eviction.
func (tx *Tx) used(e *ds.Entry) {
	if tx.untouched && e.LRU() != 0 {
		return
	}
	tx.touched(e)
}

func (tx *Tx) touched(e *ds.Entry) {
	if lfu := tx.set.lfu.Load(); lfu != nil {
		e.SetLRU(e.LRU()&notIntBit | tx.counted(e, lfu))
		return
	}
	if word := e.LRU()&notIntBit | tx.accessTime(); e.LRU() != word {
		e.SetLRU(word)
	}
}

// LookAtUses says whether eviction looks at when, or how often, keys are used.
// OBJECT REFCOUNT shows it.
func (s *Set) LookAtUses(do bool) { s.alone.Store(do) }

// Untouch says whether what follows, up to the next call, counts as no use of keys that
// are there, but for Touch: CLIENT NO-TOUCH.
func (tx *Tx) Untouch(do bool) { tx.untouched = do }

// usedAnew is used for an entry that just got a new string.
func (tx *Tx) usedAnew(e *ds.Entry) {
	if lfu := tx.set.lfu.Load(); lfu != nil {
		if tx.untouched && e.LRU() != 0 {
			e.SetLRU(e.LRU() &^ notIntBit)
			return
		}
		e.SetLRU(tx.counted(e, lfu))
		return
	}
	if word := tx.accessTime(); e.LRU() != word {
		e.SetLRU(word)
	}
}

// idleSec returns for how many seconds an entry has not been used.
func (tx *Tx) idleSec(e *ds.Entry) int64 {
	return max(0, int64(tx.accessTime())-int64(e.LRU()&accessMask))
}

// MarkRaw makes OBJECT ENCODING call the key's string raw, as Redis does of one
// that a command was about to change in place. It changes no value and is no op.
func (tx *Tx) MarkRaw(key []byte) {
	e := tx.lookup(key)
	if e == nil || e.Object() != nil || e.Raw() {
		return
	}
	sh, d := tx.at(key)
	tx.save(sh, key)
	d.keys.SetRaw(d.keys.Mutable(key), true)
	tx.recount(sh)
}

// MarkNotInt keeps OBJECT ENCODING from calling the key's string int, as Redis
// does of a number that was reckoned as text. It changes no value and is no op.
func (tx *Tx) MarkNotInt(key []byte) {
	if e := tx.lookup(key); e != nil && e.Object() == nil {
		e.SetLRU(e.LRU() | notIntBit)
	}
}

// MarkSkiplist makes OBJECT ENCODING call the key's sorted set skiplist, as
// Redis does of one that SORT read. It changes no value and is no op.
func (tx *Tx) MarkSkiplist(key []byte) {
	e := tx.lookup(key)
	if e == nil {
		return
	}
	if z, ok := e.Object().(*ds.ZSet); !ok || z.Encoding() == "skiplist" {
		return
	}
	sh, d := tx.at(key)
	tx.save(sh, key)
	d.keys.Mutable(key).Object().(*ds.ZSet).Unpack()
	tx.recount(sh)
}

// maxEmbeddedBytes is the longest string that Redis stores beside its header.
const maxEmbeddedBytes = 44

func stringEncoding(e *ds.Entry) string {
	v := e.Value()
	switch {
	case e.Raw():
		return "raw"
	case e.LRU()&notIntBit == 0 && isInt(v):
		return "int"
	case len(v) <= maxEmbeddedBytes:
		return "embstr"
	}
	return "raw"
}
