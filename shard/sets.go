package shard

import (
	"math/rand/v2"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// SetView reads a set. The zero SetView is that of a missing key and is empty.
type SetView struct{ s *ds.Set }

// SetOf returns the set that the key holds; the error is ErrWrongType.
func (tx *Tx) SetOf(key []byte) (SetView, error) {
	s, err := view[*ds.Set](tx, key)
	return SetView{s}, err
}

// Exists reports whether the key exists.
func (v SetView) Exists() bool { return v.s != nil }

// Len returns the number of members.
func (v SetView) Len() int {
	if v.s == nil {
		return 0
	}
	return v.s.Len()
}

// Has reports whether member is in the set.
func (v SetView) Has(member []byte) bool { return v.s != nil && v.s.Has(member) }

// Each calls fn for each member until it returns false. fn must not change
// keys.
func (v SetView) Each(fn func(member []byte) bool) {
	if v.s != nil {
		v.s.Each(fn)
	}
}

// Scan calls fn for about count members from cursor on and returns the next
// cursor, 0 at the end.
func (v SetView) Scan(cursor uint64, count int, fn func(member []byte)) uint64 {
	if v.s == nil {
		return 0
	}
	return v.s.Scan(cursor, count, fn)
}

// Random returns a random member of a set that is not empty.
func (v SetView) Random(rng *rand.Rand) []byte { return v.s.Random(rng) }

// SAdd adds members to the key's set (op SADD of those that were not there) and
// returns how many. The error is ErrWrongType.
func (tx *Tx) SAdd(key []byte, members ...[]byte) (added int, err error) {
	if len(members) == 0 {
		return 0, nil
	}
	sh, d := tx.at(key)
	s, err := writable(tx, sh, d, key, ds.NewSet)
	if err != nil {
		return 0, err
	}
	limits := tx.set.limits.Load()
	tx.eff = tx.eff[:0]
	for _, m := range members {
		if s.Add(m, limits) {
			tx.eff = append(tx.eff, m)
		}
	}
	if len(tx.eff) > 0 {
		tx.recordArgs(sh, op.SAdd, key, tx.eff)
	}
	return len(tx.eff), nil
}

// SRem removes members of the key's set (op SREM of those that were there) and
// returns how many went. The error is ErrWrongType. members must not be views
// of the set itself.
func (tx *Tx) SRem(key []byte, members ...[]byte) (removed int, err error) {
	sh, d := tx.at(key)
	s, err := writable[*ds.Set](tx, sh, d, key, nil)
	if err != nil || s == nil {
		return 0, err
	}
	tx.eff = tx.eff[:0]
	for _, m := range members {
		if s.Remove(m) {
			tx.eff = append(tx.eff, m)
		}
	}
	if len(tx.eff) > 0 {
		tx.recordArgs(sh, op.SRem, key, tx.eff)
		d.dropIfEmpty(key, s)
	}
	return len(tx.eff), nil
}
