package ds

import "math/bits"

const (
	segmentSlots = 48 // slots of a segment; owned has a bit for each
	minSlots     = 8  // slots of the smallest segment

	segmentBytes = 128 // of the struct
	// slotShareBytes is what an entry takes of its segment: a slot, a tag, and its part of the header and of the
	// empty slots.
	slotShareBytes = 13
)

// segment holds the entries whose hashes begin with the same depth bits. The entries lie in slots in no order; a tag
// is the low byte of an entry's hash, eight tags to a word.
//
// A frozen view's walk reads slots, depth and over, and nothing else; epoch and owned belong to the writer.
type segment struct {
	// A look-up reads tags, and pointer and length of slots: one cache line, since the allocator aligns segments to
	// their size.
	tags  [segmentSlots / 8]uint64
	slots []*Entry
	// epoch is the table's at the time when the segment was made, or was last found to be unshared.
	epoch uint64
	// owned has a bit for each slot whose entry no view and no fork could reach when the segment got its epoch.
	owned uint64
	// over is the next segment of a chain that has outgrown segmentSlots entries and could not be split.
	over  *segment
	depth uint8
	_     [segmentBytes - 97]byte
}

func newSegment(depth uint8, slots int, epoch uint64) *segment {
	return &segment{slots: make([]*Entry, 0, slotRoom(slots)), epoch: epoch, depth: depth}
}

// slotRoom returns the number of slots to allocate for n entries.
func slotRoom(n int) int { return max(minSlots, (n+7)&^7) }

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// matchTag sets the high bit of every byte of word that equals tag. A byte above a match may be set although it
// differs; the comparison of keys sorts that out.
func matchTag(word uint64, tag uint8) uint64 {
	x := word ^ (lowBits * uint64(tag))
	return (x - lowBits) &^ x & highBits
}

// find returns the slot of key in this segment, -1 if it is not there.
func (s *segment) find(tag uint8, key []byte) int {
	n := len(s.slots)
	for w := 0; w < len(s.tags) && w*8 < n; w++ {
		for m := matchTag(s.tags[w], tag); m != 0; m &= m - 1 {
			i := w*8 + bits.TrailingZeros64(m)/8
			if i >= n {
				break
			}
			if e := s.slots[i]; string(e.keyBytes()) == string(key) {
				return i
			}
		}
	}
	return -1
}

func (s *segment) tag(i int) uint8 { return uint8(s.tags[i>>3] >> (i & 7 * 8)) }

func (s *segment) setTag(i int, tag uint8) {
	w, shift := &s.tags[i>>3], i&7*8
	*w = *w&^(0xff<<shift) | uint64(tag)<<shift
}

// add puts an entry into the first segment of the chain that has a free slot, and lengthens the chain if none has.
func (s *segment) add(tag uint8, e *Entry, owned bool) {
	for len(s.slots) == segmentSlots {
		if s.over == nil {
			s.over = newSegment(s.depth, minSlots, s.epoch)
		}
		s = s.over
	}
	i := len(s.slots)
	if i == cap(s.slots) {
		grown := make([]*Entry, i, slotRoom(i+1))
		copy(grown, s.slots)
		s.slots = grown
	}
	s.slots = append(s.slots, e)
	s.setTag(i, tag)
	if owned {
		s.owned |= 1 << i
	} else {
		s.owned &^= 1 << i
	}
}

// remove empties a slot; the last entry moves into it.
func (s *segment) remove(i int) {
	last := len(s.slots) - 1
	if i != last {
		s.slots[i] = s.slots[last]
		s.setTag(i, s.tag(last))
		s.owned = s.owned&^(1<<i) | s.owned>>last&1<<i
	}
	s.slots[last] = nil
	s.slots = s.slots[:last]
	s.owned &^= 1 << last
	if room := cap(s.slots); room > minSlots && last <= room/4 {
		small := make([]*Entry, last, slotRoom(2*last))
		copy(small, s.slots)
		s.slots = small
	}
}

// total counts the entries of the chain.
func (s *segment) total() int {
	n := 0
	for ; s != nil; s = s.over {
		n += len(s.slots)
	}
	return n
}

// clone copies the chain. None of the copy's entries is owned.
func (s *segment) clone(epoch uint64) *segment {
	c := &segment{tags: s.tags, epoch: epoch, depth: s.depth}
	c.slots = make([]*Entry, len(s.slots), slotRoom(len(s.slots)+1))
	copy(c.slots, s.slots)
	if s.over != nil {
		c.over = s.over.clone(epoch)
	}
	return c
}

// moveTo adds the entries of the chain to the segments that pick chooses.
func (s *segment) moveTo(keepOwned bool, pick func(*Entry) *segment) {
	for ; s != nil; s = s.over {
		for i, e := range s.slots {
			pick(e).add(s.tag(i), e, keepOwned && s.owned>>i&1 == 1)
		}
	}
}
