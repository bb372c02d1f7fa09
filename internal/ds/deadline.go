package ds

import "github.com/tidwall/btree"

// DeadlineIndex orders keys by deadline. It holds copies of the keys.
type DeadlineIndex struct {
	tree *btree.BTreeG[deadline]
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
	return &DeadlineIndex{btree.NewBTreeGOptions(deadlineLess, btree.Options{NoLocks: true})}
}

// Len returns the number of keys.
func (x *DeadlineIndex) Len() int { return x.tree.Len() }

// Set moves key from its old deadline to a new one, in any unit that is the same for all; 0 is none. old must be what
// the index has for the key.
func (x *DeadlineIndex) Set(key []byte, old, new int64) {
	if old == new {
		return
	}
	var d deadline
	if old != 0 {
		d, _ = x.tree.Delete(deadline{old, viewString(key)})
	}
	if new == 0 {
		return
	}
	if d.at == 0 {
		d.key = string(key)
	}
	d.at = new
	x.tree.Set(d)
}

// Min returns the key with the earliest deadline. key is valid for as long as it is kept and must not be modified.
func (x *DeadlineIndex) Min() (key []byte, at int64, ok bool) {
	d, ok := x.tree.Min()
	return viewBytes(d.key), d.at, ok
}
