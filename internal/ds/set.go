package ds

import (
	"math/rand/v2"
	"strconv"
)

// Set is a set of members: an array of integers while all members are integers and few, then a Table.
type Set struct {
	ints  intset
	table *Table
}

// NewSet returns an empty set.
func NewSet() *Set { return new(Set) }

// Kind returns KindSet.
func (s *Set) Kind() Kind { return KindSet }

// Len returns the number of members.
func (s *Set) Len() int {
	if s.table != nil {
		return s.table.Len()
	}
	return s.ints.len()
}

// Encoding returns "intset" or "hashtable".
func (s *Set) Encoding() string {
	if s.table != nil {
		return encodingHashtable
	}
	return encodingIntset
}

// Fork implements Object in constant time.
func (s *Set) Fork() Object {
	if s.table != nil {
		return &Set{table: s.table.fork()}
	}
	return &Set{ints: intset{p: s.ints.p.fork(), width: s.ints.width}}
}

const setBytes = 48

// MemBytes implements Object.
func (s *Set) MemBytes() int {
	if s.table != nil {
		return setBytes + s.table.MemBytes()
	}
	return setBytes + cap(s.ints.p.b)
}

// Add adds member and says whether it is new.
func (s *Set) Add(member []byte, lim *Limits) bool {
	if s.table == nil {
		v, ok := parseInt(member)
		if ok {
			added := s.ints.add(v)
			if added && s.ints.len() > lim.SetMaxIntsetEntries {
				s.convert()
			}
			return added
		}
		s.convert()
	}
	if s.table.Get(member) != nil {
		return false
	}
	s.table.Put(member, nil)
	return true
}

func (s *Set) convert() {
	t := NewTable()
	s.Each(func(member []byte) bool {
		t.Put(member, nil)
		return true
	})
	*s = Set{table: t}
}

// Remove removes member and says whether it was there.
func (s *Set) Remove(member []byte) bool {
	if s.table != nil {
		return s.table.Delete(member) != nil
	}
	v, ok := parseInt(member)
	return ok && s.ints.remove(v)
}

// Has says whether member is in the set.
func (s *Set) Has(member []byte) bool {
	if s.table != nil {
		return s.table.Get(member) != nil
	}
	v, ok := parseInt(member)
	if ok {
		_, ok = s.ints.search(v)
	}
	return ok
}

// Each calls fn for every member until it returns false: in ascending order while they are integers. member is valid
// during the call only.
func (s *Set) Each(fn func(member []byte) bool) {
	if s.table != nil {
		s.table.Each(func(e *Entry) bool { return fn(e.Key()) })
		return
	}
	var text [maxIntText]byte
	for i := range s.ints.len() {
		if !fn(strconv.AppendInt(text[:0], s.ints.at(i), 10)) {
			return
		}
	}
}

// Scan is Table.Scan over the members. A set of integers is returned whole. member is valid during the call only.
func (s *Set) Scan(cursor uint64, count int, fn func(member []byte)) (next uint64) {
	if s.table != nil {
		return s.table.Scan(cursor, count, func(e *Entry) { fn(e.Key()) })
	}
	s.Each(func(member []byte) bool {
		fn(member)
		return true
	})
	return 0
}

// Random returns a member, every one with the same probability; nil if the set is empty.
func (s *Set) Random(rng *rand.Rand) []byte {
	if s.Len() == 0 {
		return nil
	}
	if s.table != nil {
		return s.table.Random(rng).Key()
	}
	return strconv.AppendInt(nil, s.ints.at(rng.IntN(s.ints.len())), 10)
}
