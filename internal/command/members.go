package command

import "hash/maphash"

// Members is a list of byte strings, numbered from 0 in the order in which they
// came and kept in one buffer. What is only ever added with Add is a set. It
// gathers what commands make of several keys; the zero Members is empty.
type Members struct {
	buf  []byte
	ends []int
	// slots find a member by its hash: its number + 1, in the first free slot
	// from the hash on. Their number is a power of two.
	slots []uint32
}

var membersSeed = maphash.MakeSeed()

// Len returns the number of members.
func (m *Members) Len() int { return len(m.ends) }

// At returns member i. It is valid and read-only while m is in use.
func (m *Members) At(i int) []byte {
	start := 0
	if i > 0 {
		start = m.ends[i-1]
	}
	end := m.ends[i]
	return m.buf[start:end:end]
}

// Append appends a copy of b, whether it is there or not; Add and Find do not
// find it.
func (m *Members) Append(b []byte) {
	m.buf = append(m.buf, b...)
	m.ends = append(m.ends, len(m.buf))
}

// Add appends a copy of b unless it was added before. It returns the number of
// b and whether it is new.
func (m *Members) Add(b []byte) (i int, added bool) {
	if 2*m.Len() >= len(m.slots) {
		m.grow()
	}
	slot, i := m.search(b)
	if i >= 0 {
		return i, false
	}
	m.Append(b)
	m.slots[slot] = uint32(m.Len())
	return m.Len() - 1, true
}

// Find returns the number of b, or -1 if it was not added.
func (m *Members) Find(b []byte) int {
	if len(m.slots) == 0 {
		return -1
	}
	_, i := m.search(b)
	return i
}

// search returns the number of b, or -1 and the slot to put it in.
func (m *Members) search(b []byte) (slot uint64, i int) {
	mask := uint64(len(m.slots) - 1)
	slot = maphash.Bytes(membersSeed, b) & mask
	for m.slots[slot] != 0 {
		i := int(m.slots[slot]) - 1
		if string(m.At(i)) == string(b) {
			return slot, i
		}
		slot = (slot + 1) & mask
	}
	return slot, -1
}

const minMemberSlots = 16

func (m *Members) grow() {
	m.slots = make([]uint32, max(minMemberSlots, 2*len(m.slots)))
	for i := range m.ends {
		slot, _ := m.search(m.At(i))
		m.slots[slot] = uint32(i + 1)
	}
}
