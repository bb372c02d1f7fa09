package ds

import (
	"math/bits"

	"github.com/tidwall/btree"
)

// DeadlineIndex orders keys by deadline. It holds copies of the keys.
type DeadlineIndex struct {
	tree         *btree.BTreeG[deadline]
	sumHi, sumLo uint64 // of the deadlines, in 128 bits
	keyBytes     int    // of the copies of the keys
}

type deadline struct {
	at  int64
	key string
}

func deadlineLess(a, b deadline) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return a.key < b.key
}

// NewDeadlineIndex returns an empty index.
func NewDeadlineIndex() *DeadlineIndex {
	return &DeadlineIndex{tree: btree.NewBTreeGOptions(deadlineLess, btree.Options{NoLocks: true})}
}

// Len returns the number of keys.
func (x *DeadlineIndex) Len() int { return x.tree.Len() }

// MemBytes estimates the memory of the index, in bytes, in constant time.
func (x *DeadlineIndex) MemBytes() int { return orderedBytes*x.tree.Len() + x.keyBytes }

// Recount is MemBytes by a walk over all keys.
func (x *DeadlineIndex) Recount() (n int) {
	x.Each(func(key []byte, _ int64) bool {
		n += orderedBytes + len(key)
		return true
	})
	return n
}

// At returns the key that has n others before it; n < Len. key is valid for as long as it is kept and must not be
// modified.
func (x *DeadlineIndex) At(n int) (key []byte, at int64) {
	d, _ := x.tree.GetAt(n)
	return viewBytes(d.key), d.at
}

// Mean returns the mean of the deadlines, 0 if there are none.
func (x *DeadlineIndex) Mean() int64 {
	n := uint64(x.tree.Len())
	if n == 0 {
		return 0
	}
	mean, _ := bits.Div64(x.sumHi, x.sumLo, n)
	return int64(mean)
}

// Set moves key from its old deadline to a new one, in any unit that is the same for all and not negative; 0 is none.
// old must be what the index has for the key.
func (x *DeadlineIndex) Set(key []byte, old, new int64) {
	if old == new {
		return
	}
	var d deadline
	if old != 0 {
		d, _ = x.tree.Delete(deadline{old, viewString(key)})
		x.keyBytes -= len(d.key)
		var borrow uint64
		x.sumLo, borrow = bits.Sub64(x.sumLo, uint64(d.at), 0)
		x.sumHi -= borrow
	}
	if new == 0 {
		return
	}
	if d.at == 0 {
		d.key = string(key)
	}
	d.at = new
	x.tree.Set(d)
	x.keyBytes += len(d.key)
	var carry uint64
	x.sumLo, carry = bits.Add64(x.sumLo, uint64(new), 0)
	x.sumHi += carry
}

// Min returns the key with the earliest deadline. key is valid for as long as it is kept and must not be modified.
func (x *DeadlineIndex) Min() (key []byte, at int64, ok bool) {
	d, ok := x.tree.Min()
	return viewBytes(d.key), d.at, ok
}

// max returns the latest deadline, 0 if there are none.
func (x *DeadlineIndex) max() int64 {
	d, _ := x.tree.Max()
	return d.at
}

// Each calls fn for every key in the order of deadlines until it returns false.
func (x *DeadlineIndex) Each(fn func(key []byte, at int64) bool) {
	x.tree.Scan(func(d deadline) bool { return fn(viewBytes(d.key), d.at) })
}

// fork returns an index with the same keys in constant time. Both may be written afterwards.
func (x *DeadlineIndex) fork() *DeadlineIndex {
	f := *x
	f.tree = x.tree.Copy()
	return &f
}
