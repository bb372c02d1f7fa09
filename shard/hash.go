package shard

import (
	"math/rand/v2"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// HashView reads a hash. The zero HashView is that of a missing key and is
// empty.
type HashView struct {
	h *ds.Hash
	// nowMs, unless 0, says that fields which are overdue by then are still there
	// and must not be seen.
	nowMs int64
}

// Hash returns the hash that the key holds; the error is ErrWrongType.
func (tx *Tx) Hash(key []byte) (HashView, error) {
	h, err := view[*ds.Hash](tx, key)
	if h != nil && tx.due(h.NextDeadline()) {
		sh, d := tx.at(key)
		h = tx.expireFirst(sh, d, key, h.Len()).Object().(*ds.Hash)
	}
	return HashView{h: h}, err
}

// HashFields is Hash for commands that look at single fields: where a great
// many are overdue it does not remove all of them, and Len counts the rest.
func (tx *Tx) HashFields(key []byte) (HashView, error) {
	h, err := view[*ds.Hash](tx, key)
	v := HashView{h: h}
	if h != nil && tx.due(h.NextDeadline()) {
		v.nowMs = tx.nowMs
	}
	return v, err
}

// sees reports whether a field that has a deadline, or 0 for none, is seen.
func (v HashView) sees(atMs int64) bool { return v.nowMs == 0 || atMs == 0 || atMs > v.nowMs }

// Exists reports whether the key exists.
func (v HashView) Exists() bool { return v.h != nil }

// Len returns the number of fields, of a view of HashFields with those that are
// overdue and still there.
func (v HashView) Len() int {
	if v.h == nil {
		return 0
	}
	return v.h.Len()
}

// Get returns a field's value.
func (v HashView) Get(field []byte) ([]byte, bool) {
	if v.h == nil {
		return nil, false
	}
	if v.nowMs != 0 {
		if at, _ := v.h.Deadline(field); !v.sees(at) {
			return nil, false
		}
	}
	return v.h.Get(field)
}

// Expires reports whether a field has a deadline.
func (v HashView) Expires() bool { return v.h != nil && v.h.NextDeadline() != 0 }

// Deadline returns a field's deadline in unix ms, 0 if it has none; ok is false
// if there is no such field.
func (v HashView) Deadline(field []byte) (atMs int64, ok bool) {
	if v.h == nil {
		return 0, false
	}
	if atMs, ok = v.h.Deadline(field); !v.sees(atMs) {
		return 0, false
	}
	return atMs, ok
}

// EachWithDeadline is Each with the fields' deadlines, 0 for none.
func (v HashView) EachWithDeadline(fn func(field, value []byte, atMs int64) bool) {
	if v.h != nil {
		v.h.EachWithDeadline(func(field, value []byte, atMs int64) bool {
			return !v.sees(atMs) || fn(field, value, atMs)
		})
	}
}

// Each calls fn for each field until it returns false. fn must not change keys.
func (v HashView) Each(fn func(field, value []byte) bool) {
	if v.h == nil {
		return
	}
	if v.nowMs != 0 {
		v.EachWithDeadline(func(field, value []byte, _ int64) bool { return fn(field, value) })
		return
	}
	v.h.Each(fn)
}

// Scan calls fn for about count fields from cursor on and returns the next
// cursor, 0 at the end.
func (v HashView) Scan(cursor uint64, count int, fn func(field, value []byte)) uint64 {
	if v.h == nil {
		return 0
	}
	if v.nowMs == 0 {
		return v.h.Scan(cursor, count, fn)
	}
	return v.h.Scan(cursor, count, func(field, value []byte) {
		if at, _ := v.h.Deadline(field); v.sees(at) {
			fn(field, value)
		}
	})
}

// Random returns a random field of a hash that is not empty. The view is one of
// Hash.
func (v HashView) Random(rng *rand.Rand) (field, value []byte) { return v.h.Random(rng) }

// HSet sets fields of the key's hash (op HSET), given as field, value, field,
// value, …, and returns how many are new. What deadlines they had is gone. The
// error is ErrWrongType.
func (tx *Tx) HSet(key []byte, pairs ...[]byte) (created int, err error) {
	if len(pairs) == 0 {
		return 0, nil
	}
	sh, d := tx.at(key)
	h, err := tx.writableHash(sh, d, key, ds.NewHash, pairs, 2)
	if err != nil {
		return 0, err
	}
	tx.recordArgs(sh, op.HSet, key, pairs)
	limits := tx.set.limits.Load()
	next := h.NextDeadline()
	for i := 0; i+1 < len(pairs); i += 2 {
		if h.Set(pairs[i], pairs[i+1], limits) {
			created++
		}
	}
	d.fieldsMoved(key, h, next)
	return created, nil
}

// HDel removes fields of the key's hash (op HDEL of those that were there) and
// returns how many went. The error is ErrWrongType.
func (tx *Tx) HDel(key []byte, fields ...[]byte) (deleted int, err error) {
	sh, d := tx.at(key)
	h, err := tx.writableHash(sh, d, key, nil, fields, 1)
	if err != nil || h == nil {
		return 0, err
	}
	tx.eff = tx.eff[:0]
	next := h.NextDeadline()
	for _, f := range fields {
		if h.Delete(f) {
			tx.eff = append(tx.eff, f)
		}
	}
	tx.deletedFields(sh, d, key, h, next)
	return len(tx.eff), nil
}

// deletedFields records that the fields in tx.eff are gone from a hash, whose
// next deadline was next before.
func (tx *Tx) deletedFields(sh *Shard, d *database, key []byte, h *ds.Hash, next int64) {
	if len(tx.eff) > 0 {
		tx.recordArgs(sh, op.HDel, key, tx.eff)
		d.fieldsMoved(key, h, next)
		d.dropIfEmpty(key, h)
	}
}
