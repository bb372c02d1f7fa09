package shard

import (
	"bytes"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// ListView reads a list. The zero ListView is that of a missing key and is
// empty.
type ListView struct{ l *ds.List }

// List returns the list that the key holds; the error is ErrWrongType.
func (tx *Tx) List(key []byte) (ListView, error) {
	l, err := view[*ds.List](tx, key)
	return ListView{l}, err
}

// Exists reports whether the key exists.
func (v ListView) Exists() bool { return v.l != nil }

// Len returns the number of elements.
func (v ListView) Len() int {
	if v.l == nil {
		return 0
	}
	return v.l.Len()
}

// Index returns the element at i, from the end if i is negative.
func (v ListView) Index(i int) ([]byte, bool) {
	if v.l == nil {
		return nil, false
	}
	return v.l.Index(i)
}

// Each calls fn for n elements from index from on, downwards if reverse, until
// it returns false; from counts from the head in both cases. fn must not change
// keys.
func (v ListView) Each(from, n int, reverse bool, fn func(elem []byte) bool) {
	if v.l != nil && n > 0 {
		v.l.Each(from, n, reverse, fn)
	}
}

// PushLeft puts the elements at the head of the key's list, one after the
// other, so that the last one ends up first (op LPUSH), and returns the new
// length. The error is ErrWrongType.
func (tx *Tx) PushLeft(key []byte, elems ...[]byte) (length int, err error) {
	return tx.push(op.LPush, key, elems)
}

// PushRight appends the elements to the key's list (op RPUSH) and returns the
// new length. The error is ErrWrongType.
func (tx *Tx) PushRight(key []byte, elems ...[]byte) (length int, err error) {
	return tx.push(op.RPush, key, elems)
}

func (tx *Tx) push(v op.Verb, key []byte, elems [][]byte) (length int, err error) {
	if len(elems) == 0 {
		l, err := tx.List(key)
		return l.Len(), err
	}
	sh, d := tx.at(key)
	l, err := writable(tx, sh, d, key, tx.set.newList)
	if err != nil {
		return 0, err
	}
	tx.recordArgs(sh, v, key, elems)
	for _, e := range elems {
		if v == op.LPush {
			l.PushFront(e)
		} else {
			l.PushBack(e)
		}
	}
	return l.Len(), nil
}

// PopLeft removes up to n elements from the head of the key's list (op LPOP)
// and returns how many went. Before they go it calls fn with each, in that
// order, if fn is not nil; elem is valid until fn returns, and fn must not
// change keys. The error is ErrWrongType.
func (tx *Tx) PopLeft(key []byte, n int, fn func(elem []byte)) (popped int, err error) {
	return tx.pop(op.LPop, key, n, fn)
}

// PopRight is PopLeft at the tail (op RPOP), the last element first.
func (tx *Tx) PopRight(key []byte, n int, fn func(elem []byte)) (popped int, err error) {
	return tx.pop(op.RPop, key, n, fn)
}

func (tx *Tx) pop(v op.Verb, key []byte, n int, fn func(elem []byte)) (popped int, err error) {
	sh, d := tx.at(key)
	l, err := writable[*ds.List](tx, sh, d, key, nil)
	if err != nil || l == nil || n <= 0 {
		return 0, err
	}
	n = min(n, l.Len())
	if n == 1 {
		tx.record(sh, v, key, 0)
	} else {
		tx.record(sh, v, key, 1)
		tx.argInt(int64(n))
	}
	tx.recorded()
	first, from := 0, 0
	if v == op.RPop {
		first, from = l.Len()-n, l.Len()-1
	}
	if fn != nil {
		l.Each(from, n, v == op.RPop, func(elem []byte) bool {
			fn(elem)
			return true
		})
	}
	l.RemoveRange(first, n)
	d.dropIfEmpty(key, l)
	return n, nil
}

// LSet replaces the element at index i, from the end if negative (op LSET), and
// reports whether there is one. The error is ErrWrongType.
func (tx *Tx) LSet(key []byte, i int, elem []byte) (ok bool, err error) {
	sh, d := tx.at(key)
	l, err := writable[*ds.List](tx, sh, d, key, nil)
	if err != nil || l == nil || i >= l.Len() || i < -l.Len() {
		return false, err
	}
	tx.record(sh, op.LSet, key, 2)
	tx.argInt(int64(i))
	tx.arg(elem)
	tx.recorded()
	return l.SetIndex(i, elem), nil
}

// LInsert puts elem before or after the first element equal to pivot (op
// LINSERT) and returns the new length, -1 if there is no pivot, 0 if there is no
// key. The error is ErrWrongType.
func (tx *Tx) LInsert(key []byte, after bool, pivot, elem []byte) (length int, err error) {
	sh, d := tx.at(key)
	l, err := writable[*ds.List](tx, sh, d, key, nil)
	if err != nil || l == nil {
		return 0, err
	}
	at, found := 0, false
	l.Each(0, l.Len(), false, func(e []byte) bool {
		found = bytes.Equal(e, pivot)
		if !found {
			at++
		}
		return !found
	})
	if !found {
		return -1, nil
	}
	where := "BEFORE"
	if after {
		where = "AFTER"
		at++
	}
	tx.record(sh, op.LInsert, key, 3)
	tx.argString(where)
	tx.arg(pivot)
	tx.arg(elem)
	tx.recorded()
	l.InsertAt(at, elem)
	return l.Len(), nil
}

// LRem removes up to count elements equal to elem, from the head, from the tail
// if count is negative, all if it is 0 (op LREM), and returns how many went. The
// error is ErrWrongType.
func (tx *Tx) LRem(key []byte, count int, elem []byte) (removed int, err error) {
	sh, d := tx.at(key)
	l, err := writable[*ds.List](tx, sh, d, key, nil)
	if err != nil || l == nil {
		return 0, err
	}
	limit := count
	switch {
	case count == 0:
		limit = l.Len()
	case count < 0:
		limit = -max(count, -l.Len()) // the smallest integer has no negative
	}
	removed = l.RemoveEqual(elem, limit, count < 0)
	if removed == 0 {
		return 0, nil
	}
	tx.record(sh, op.LRem, key, 2)
	tx.argInt(int64(count))
	tx.arg(elem)
	tx.recorded()
	d.dropIfEmpty(key, l)
	return removed, nil
}

// LTrim keeps the elements from start to stop, both included and counted from
// the end if negative (op LTRIM, none if nothing goes). The error is
// ErrWrongType.
func (tx *Tx) LTrim(key []byte, start, stop int) error {
	sh, d := tx.at(key)
	l, err := writable[*ds.List](tx, sh, d, key, nil)
	if err != nil || l == nil {
		return err
	}
	n := l.Len()
	first, last := start, stop
	if first < 0 {
		first = max(first+n, 0)
	}
	if last < 0 {
		last += n
	}
	last = min(last, n-1)
	if first == 0 && last == n-1 {
		return nil
	}
	tx.record(sh, op.LTrim, key, 2)
	tx.argInt(int64(start))
	tx.argInt(int64(stop))
	tx.recorded()
	if first > last {
		d.drop(key)
		return nil
	}
	l.Trim(first, last)
	d.dropIfEmpty(key, l)
	return nil
}
