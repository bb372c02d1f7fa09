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
// how many are new. Scores must not be NaN, -0 becomes 0; members whose score
// does not change are the caller's to leave out. The error is ErrWrongType.
func (tx *Tx) ZAdd(key []byte, members ...Scored) (created int, err error) {
	if len(members) == 0 {
		return 0, nil
	}
	sh, d := tx.at(key)
	z, err := writable(tx, sh, d, key, ds.NewZSet)
	if err != nil {
		return 0, err
	}
	tx.recordScored(sh, key, members)
	limits := tx.set.limits.Load()
	for _, m := range members {
		if z.Set(m.Member, positiveZero(m.Score), limits) {
			created++
		}
	}
	return created, nil
}

func (tx *Tx) recordScored(sh *Shard, key []byte, members []Scored) {
	tx.record(sh, op.ZAdd, key, 2*len(members))
	for _, m := range members {
		tx.argFloat(positiveZero(m.Score))
		tx.arg(m.Member)
	}
	tx.recorded()
}

// positiveZero makes 0 of -0, which equals it in every order and would be
// another text.
func positiveZero(score float64) float64 {
	if score == 0 {
		return 0
	}
	return score
}

// ZCond restricts whom ZAddIf gives a score, as the options of ZADD do.
type ZCond uint8

const (
	ZNew    ZCond = 1 << iota // members that are not there yet (NX)
	ZOld                      // members that are there (XX)
	ZHigher                   // of those that are there, whose score grows (GT)
	ZLower                    // of those that are there, whose score falls (LT)
)

// Admits reports whether a member may get a score: one that has the score old,
// if it is there (found).
func (c ZCond) Admits(found bool, old, score float64) bool {
	if !found {
		return c&ZOld == 0
	}
	return c&ZNew == 0 && !(c&ZHigher != 0 && score <= old) && !(c&ZLower != 0 && score >= old)
}

// ZAddIf is ZAdd of the members that the condition admits and whose score
// changes, judged one after another: a member may stand twice. It returns how
// many are new and how many changed, and overwrites members.
func (tx *Tx) ZAddIf(key []byte, cond ZCond, members []Scored) (created, changed int, err error) {
	create := ds.NewZSet
	if cond&ZOld != 0 || len(members) == 0 {
		create = nil
	}
	sh, d := tx.at(key)
	z, err := writable(tx, sh, d, key, create)
	if err != nil || z == nil {
		return 0, 0, err
	}
	limits := tx.set.limits.Load()
	effective := members[:0]
	for _, m := range members {
		m.Score = positiveZero(m.Score)
		old, found := z.Score(m.Member)
		if found && old == m.Score || !cond.Admits(found, old, m.Score) {
			continue
		}
		if z.Set(m.Member, m.Score, limits) {
			created++
		} else {
			changed++
		}
		effective = append(effective, m)
	}
	if len(effective) > 0 {
		tx.recordScored(sh, key, effective)
	}
	return created, changed, nil
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

// ZRemRange removes up to n members of the key's sorted set, from ascending
// rank first on upwards or, if reverse, downwards, and returns how many went.
// Before a member goes it calls fn with it, if fn is not nil; member is valid
// until fn returns, and fn must not change keys. The ops are ZREM of MaxOpElems
// members at most, or DEL where more than that go and none stays. The error is
// ErrWrongType.
func (tx *Tx) ZRemRange(key []byte, first, n int, reverse bool, fn func(member []byte, score float64)) (removed int, err error) {
	sh, d := tx.at(key)
	z, err := writable[*ds.ZSet](tx, sh, d, key, nil)
	if err != nil || z == nil || first < 0 || first >= z.Len() || n <= 0 {
		return 0, err
	}
	if reverse {
		n = min(n, first+1)
	} else {
		n = min(n, z.Len()-first)
	}
	if n == z.Len() && n > MaxOpElems {
		if fn != nil {
			z.EachRank(first, n, reverse, func(member []byte, score float64) bool {
				fn(member, score)
				return true
			})
		}
		tx.delete(sh, d, key)
		return n, nil
	}
	for left := n; left > 0; {
		batch := min(left, MaxOpElems)
		left -= batch
		tx.record(sh, op.ZRem, key, batch)
		for range batch {
			member, score, _ := z.At(first)
			if fn != nil {
				fn(member, score)
			}
			tx.arg(member)
			z.Remove(member)
			if reverse {
				first--
			}
		}
		tx.recorded()
	}
	d.dropIfEmpty(key, z)
	return n, nil
}
