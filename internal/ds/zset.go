package ds

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// ZSet is a set of members with scores, ordered by score and, between equal scores, by the bytes of the member; -0
// and 0 are equal. It is packed in this order while it is small; then a Table finds the score of a member (in Aux)
// and a counted tree keeps the order. A score must not be NaN.
type ZSet struct {
	// Packed: an element is its score as 8 bytes, little endian, and the member as an item.
	elems packed
	count int
	// Large: the tree's items point to entries of the table, or to what were entries before a fork: the key is the same.
	table *Table
	order rankTree
}

// NewZSet returns an empty sorted set.
func NewZSet() *ZSet { return new(ZSet) }

// Kind returns KindZSet.
func (z *ZSet) Kind() Kind { return KindZSet }

// Len returns the number of members.
func (z *ZSet) Len() int {
	if z.table != nil {
		return z.table.Len()
	}
	return z.count
}

// Encoding returns "listpack" or "skiplist".
func (z *ZSet) Encoding() string {
	if z.table != nil {
		return encodingSkiplist
	}
	return encodingListpack
}

// Fork implements Object in constant time.
func (z *ZSet) Fork() Object {
	if z.table != nil {
		return &ZSet{table: z.table.fork(), order: z.order.fork()}
	}
	return &ZSet{elems: z.elems.fork(), count: z.count}
}

const zsetBytes = 80

// MemBytes implements Object.
func (z *ZSet) MemBytes() int {
	if z.table != nil {
		return zsetBytes + z.table.MemBytes() + z.order.memBytes(z.Len())
	}
	return zsetBytes + cap(z.elems.b)
}

const scoreBytes = 8

// elemAt returns the packed element at off and the offset behind it.
func (z *ZSet) elemAt(off int) (member []byte, score float64, next int) {
	member, next = z.elems.itemAt(off + scoreBytes)
	return member, z.scoreAt(off), next
}

// scoreAt returns the score of the packed element at off.
func (z *ZSet) scoreAt(off int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(z.elems.b[off:]))
}

// find returns the packed element of member: its score, its rank, its offset and the offset behind it.
func (z *ZSet) find(member []byte) (score float64, rank, off, end int, ok bool) {
	size := itemBytes(len(member))
	for off < len(z.elems.b) {
		end = z.elems.skip(off + scoreBytes)
		if z.elems.equalAt(off+scoreBytes, end, member, size) {
			return z.scoreAt(off), rank, off, end, true
		}
		rank++
		off = end
	}
	return 0, 0, 0, 0, false
}

// orderCompare compares two elements by score, then member.
func orderCompare(aScore float64, a []byte, bScore float64, b []byte) int {
	switch {
	case aScore < bScore:
		return -1
	case aScore > bScore:
		return 1
	}
	return bytes.Compare(a, b)
}

// Set gives member a score and says whether the member is new.
func (z *ZSet) Set(member []byte, score float64, lim *Limits) (created bool) {
	if z.table == nil && len(member) > lim.ZSetMaxListpackValue {
		z.convert()
	}
	if z.table != nil {
		return z.setLarge(member, score)
	}
	old, _, off, end, ok := z.find(member)
	switch {
	case ok && math.Float64bits(old) == math.Float64bits(score):
		return false
	case ok:
		z.elems.splice(off, end, 0)
		z.count--
	case z.count+1 > lim.ZSetMaxListpackEntries:
		z.convert()
		return z.setLarge(member, score)
	}
	at := 0
	for at < len(z.elems.b) {
		next := z.elems.skip(at + scoreBytes)
		if s := z.scoreAt(at); s > score {
			break
		} else if s == score {
			if m, _ := z.elems.itemAt(at + scoreBytes); string(m) > string(member) {
				break
			}
		}
		at = next
	}
	b := z.elems.splice(at, at, scoreBytes+itemBytes(len(member)))
	binary.LittleEndian.PutUint64(b, math.Float64bits(score))
	putItem(b[scoreBytes:], member)
	z.count++
	return !ok
}

func (z *ZSet) setLarge(member []byte, score float64) (created bool) {
	bits := int64(math.Float64bits(score))
	if e := z.table.Get(member); e != nil {
		if e.aux == bits {
			return false
		}
		z.order.remove(scored{math.Float64frombits(uint64(e.aux)), e})
		e = z.table.Mutable(member)
		e.aux = bits
		z.order.insert(scored{score, e})
		return false
	}
	e, _ := z.table.Put(member, nil)
	e.aux = bits
	z.order.insert(scored{score, e})
	return true
}

// Unpack gives the set the form of large ones.
func (z *ZSet) Unpack() {
	if z.table == nil {
		z.convert()
	}
}

func (z *ZSet) convert() {
	large := ZSet{table: NewTable(), order: newRankTree()}
	z.EachRank(0, z.Len(), false, func(member []byte, score float64) bool {
		large.setLarge(member, score)
		return true
	})
	*z = large
}

// Remove removes member and says whether it was there.
func (z *ZSet) Remove(member []byte) bool {
	if z.table != nil {
		e := z.table.Delete(member)
		if e != nil {
			z.order.remove(scored{math.Float64frombits(uint64(e.aux)), e})
		}
		return e != nil
	}
	_, _, off, end, ok := z.find(member)
	if ok {
		z.elems.splice(off, end, 0)
		z.count--
	}
	return ok
}

// Score returns the score of member.
func (z *ZSet) Score(member []byte) (score float64, ok bool) {
	if z.table != nil {
		if e := z.table.Get(member); e != nil {
			return math.Float64frombits(uint64(e.aux)), true
		}
		return 0, false
	}
	score, _, _, _, ok = z.find(member)
	return score, ok
}

// Rank returns the number of elements before member.
func (z *ZSet) Rank(member []byte) (rank int, ok bool) {
	if z.table != nil {
		e := z.table.Get(member)
		if e == nil {
			return 0, false
		}
		return z.order.rank(scored{math.Float64frombits(uint64(e.aux)), e}), true
	}
	_, rank, _, _, ok = z.find(member)
	return rank, ok
}

// At returns the element at a rank, from 0 on.
func (z *ZSet) At(rank int) (member []byte, score float64, ok bool) {
	z.EachRank(rank, 1, false, func(m []byte, s float64) bool {
		member, score, ok = m, s, true
		return false
	})
	return member, score, ok
}

// EachRank calls fn for up to n elements from the one at rank start on, until it returns false: towards the end or, in
// reverse, towards the beginning. start counts from the beginning in both cases.
func (z *ZSet) EachRank(start, n int, reverse bool, fn func(member []byte, score float64) bool) {
	if start < 0 || start >= z.Len() || n <= 0 {
		return
	}
	if z.table != nil {
		z.order.each(start, n, reverse, func(x scored) bool { return fn(x.e.keyBytes(), x.score) })
		return
	}
	if reverse {
		z.eachPackedReverse(start, n, fn)
		return
	}
	for off, rank := 0, 0; off < len(z.elems.b) && rank-start < n; rank++ {
		member, score, next := z.elemAt(off)
		if rank >= start && !fn(member, score) {
			return
		}
		off = next
	}
}

// eachPackedReverse finds the offsets first: packed elements can only be read forwards.
func (z *ZSet) eachPackedReverse(start, n int, fn func(member []byte, score float64) bool) {
	var stack [128]uint32
	offs := stack[:0]
	for off := 0; len(offs) <= start; {
		offs = append(offs, uint32(off))
		_, _, off = z.elemAt(off)
	}
	for i := start; i >= 0 && start-i < n; i-- {
		member, score, _ := z.elemAt(int(offs[i]))
		if !fn(member, score) {
			return
		}
	}
}

// SeekScore returns the rank of the first element with a score of at least min, above min if exclusive; Len if there
// is none.
func (z *ZSet) SeekScore(min float64, exclusive bool) int {
	return z.seek(func(_ []byte, score float64) bool { return score > min || score == min && !exclusive })
}

// SeekLex returns the rank of the first element whose member is at least min, above min if exclusive; Len if there is
// none. All scores must be equal.
func (z *ZSet) SeekLex(min []byte, exclusive bool) int {
	return z.seek(func(member []byte, _ float64) bool {
		c := bytes.Compare(member, min)
		return c > 0 || c == 0 && !exclusive
	})
}

// seek returns the number of elements before the first one that is in; all behind it must be in as well.
func (z *ZSet) seek(in func(member []byte, score float64) bool) int {
	if z.table != nil {
		return z.order.seek(func(x scored) bool { return in(x.e.keyBytes(), x.score) })
	}
	rank := 0
	z.EachRank(0, z.count, false, func(member []byte, score float64) bool {
		if in(member, score) {
			return false
		}
		rank++
		return true
	})
	return rank
}

// Scan is Table.Scan over the members. A packed sorted set is returned whole, in order.
func (z *ZSet) Scan(cursor uint64, count int, fn func(member []byte, score float64)) (next uint64) {
	if z.table != nil {
		return z.table.Scan(cursor, count, func(e *Entry) { fn(e.Key(), math.Float64frombits(uint64(e.aux))) })
	}
	z.EachRank(0, z.count, false, func(member []byte, score float64) bool {
		fn(member, score)
		return true
	})
	return 0
}

// Random returns a member, every one with the same probability, and its score; nil if the sorted set is empty.
func (z *ZSet) Random(rng *rand.Rand) (member []byte, score float64) {
	if n := z.Len(); n > 0 {
		member, score, _ = z.At(rng.IntN(n))
	}
	return member, score
}
