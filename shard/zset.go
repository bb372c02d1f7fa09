package shard

import (
	"math/rand/v2"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// Scored is a member of a sorted set with its score.
type Scored struct {
	Member []byte
	Score  float64
}

// ZSetView reads a sorted set. The zero ZSetView is that of a missing key and
// is empty.
type ZSetView struct{ z *ds.ZSet }

// ZSet returns the sorted set that the key holds; the error is ErrWrongType.
func (tx *Tx) ZSet(key []byte) (ZSetView, error) {
	z, err := view[*ds.ZSet](tx, key)
	return ZSetView{z}, err
}

// Exists reports whether the key exists.
func (v ZSetView) Exists() bool { return v.z != nil }

// Len returns the number of members.
func (v ZSetView) Len() int {
	if v.z == nil {
		return 0
	}
	return v.z.Len()
}

// Score returns a member's score.
func (v ZSetView) Score(member []byte) (float64, bool) {
	if v.z == nil {
		return 0, false
	}
	return v.z.Score(member)
}

// Rank returns a member's position in ascending order, from 0.
func (v ZSetView) Rank(member []byte) (int, bool) {
	if v.z == nil {
		return 0, false
	}
	return v.z.Rank(member)
}

// At returns the member at an ascending rank.
func (v ZSetView) At(rank int) (member []byte, score float64, ok bool) {
	if v.z == nil {
		return nil, 0, false
	}
	return v.z.At(rank)
}

// EachRank calls fn for n members from ascending rank start on, upwards or, if
// reverse, downwards, until it returns false. fn must not change keys.
func (v ZSetView) EachRank(start, n int, reverse bool, fn func(member []byte, score float64) bool) {
	if v.z != nil && n > 0 {
		v.z.EachRank(start, n, reverse, fn)
	}
}

// SeekScore returns the rank of the first member whose score is at least min,
// or above it if exclusive; Len if there is none.
func (v ZSetView) SeekScore(min float64, exclusive bool) int {
	if v.z == nil {
		return 0
	}
	return v.z.SeekScore(min, exclusive)
}

// SeekLex returns the rank of the first member that is at least min in memcmp
// order, or above it if exclusive. All scores must be the same.
func (v ZSetView) SeekLex(min []byte, exclusive bool) int {
	if v.z == nil {
		return 0
	}
	return v.z.SeekLex(min, exclusive)
}

// Scan calls fn for about count members from cursor on and returns the next
// cursor, 0 at the end.
func (v ZSetView) Scan(cursor uint64, count int, fn func(member []byte, score float64)) uint64 {
	if v.z == nil {
		return 0
	}
	return v.z.Scan(cursor, count, fn)
}

// Random returns a random member of a sorted set that is not empty.
func (v ZSetView) Random(rng *rand.Rand) (member []byte, score float64) { return v.z.Random(rng) }

// ZAdd gives members of the key's sorted set their scores (op ZADD) and returns
// how many are new. Scores must not be NaN; members whose score does not change
// are the caller's to leave out. The error is ErrWrongType.
func (tx *Tx) ZAdd(key []byte, members ...Scored) (created int, err error) {
	if len(members) == 0 {
		return 0, nil
	}
	sh, d := tx.at(key)
	z, err := writable(tx, sh, d, key, ds.NewZSet)
	if err != nil {
		return 0, err
	}
	tx.record(sh, op.ZAdd, key, 2*len(members))
	for _, m := range members {
		tx.argFloat(m.Score)
		tx.arg(m.Member)
	}
	tx.recorded()
	limits := tx.set.limits.Load()
	for _, m := range members {
		if z.Set(m.Member, m.Score, limits) {
			created++
		}
	}
	return created, nil
}

// ZRem removes members of the key's sorted set (op ZREM of those that were
// there) and returns how many went. The error is ErrWrongType. members must not
// be views of the sorted set itself.
func (tx *Tx) ZRem(key []byte, members ...[]byte) (removed int, err error) {
	sh, d := tx.at(key)
	z, err := writable[*ds.ZSet](tx, sh, d, key, nil)
	if err != nil || z == nil {
		return 0, err
	}
	tx.eff = tx.eff[:0]
	for _, m := range members {
		if z.Remove(m) {
			tx.eff = append(tx.eff, m)
		}
	}
	if len(tx.eff) > 0 {
		tx.recordArgs(sh, op.ZRem, key, tx.eff)
		d.dropIfEmpty(key, z)
	}
	return len(tx.eff), nil
}
