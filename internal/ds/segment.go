package ds

import (
	"math/bits"
	"unsafe"
)

const (
	groupSlots   = 7
	maxGroups    = 8
	segmentSlots = maxGroups * groupSlots

	segmentHeadBytes = 56
	groupBytes       = 64
	// slotShareBytes is what an entry takes of its segment: a slot, a tag, and its part of the empty slots and of the
	// head.
	slotShareBytes = 15
)

// segment holds the entries whose hashes begin with the same depth bits. It is the head of a larger allocation: a
// power of two of groups follow, up to maxGroups. An entry lies in the group that its hash chooses, or, if that is
// full, in the next one that is not.
//
// A frozen view's walk reads the slots, depth, last and over, and nothing else; the rest belongs to the writer.
//
// Package unsafe is used for the groups, by newSegment and group: every segment is the first field of a segmentN, and
// last is its number of groups - 1. A slice of groups would make each look-up read the head before the group.
type segment struct {
	// epoch is the table's at the time when the segment was made, or was last found to be unshared.
	epoch uint64
	// owned has a bit for each slot whose entry no view and no fork could reach when the segment got its epoch.
	owned uint64
	// over is the next segment of a chain that has outgrown its groups and could not be split.
	over  *segment
	depth uint8
	last  uint8
	count uint8 // of entries, the chain's other segments not included
	// With the 8 bytes that the allocator puts before an object of this size that has pointers, the head fills a cache
	// line, and so does every group.
	_ [segmentHeadBytes - 27]byte
}

// group is seven slots and their tags, in one cache line. A slot is numbered within its segment: the group in the high
// bits, the slot of the group in the low three.
type group struct {
	// tags has a byte for each slot: 0 if it is empty, otherwise from the low byte of the entry's hash. The top byte
	// counts the entries that lie in a later group because this one was full: when it is 0, a search ends here.
	tags  uint64
	slots [groupSlots]*Entry
}

type (
	segment1 struct {
		segment
		//lint:ignore U1000 reached through the segment before it
		groups [1]group
	}
	segment2 struct {
		segment
		//lint:ignore U1000 reached through the segment before it
		groups [2]group
	}
	segment4 struct {
		segment
		//lint:ignore U1000 reached through the segment before it
		groups [4]group
	}
	segment8 struct {
		segment
		//lint:ignore U1000 reached through the segment before it
		groups [maxGroups]group
	}
)

func newSegment(depth uint8, groups int, epoch uint64) *segment {
	var s *segment
	switch groups {
	case 1:
		s = &new(segment1).segment
	case 2:
		s = &new(segment2).segment
	case 4:
		s = &new(segment4).segment
	case maxGroups:
		s = &new(segment8).segment
	default:
		panic("ds: number of groups")
	}
	s.epoch, s.depth, s.last = epoch, depth, uint8(groups-1)
	return s
}

// group returns the group g <= last.
func (s *segment) group(g uint64) *group {
	return (*group)(unsafe.Add(unsafe.Pointer(s), segmentHeadBytes+g*groupBytes))
}

// slot returns the place of the slot i.
func (s *segment) slot(i int) **Entry { return &s.group(uint64(i >> 3)).slots[i&7] }

// room is the number of slots.
func (s *segment) room() int { return groupSlots * (int(s.last) + 1) }

const (
	lowBits  = 0x01010101010101
	highBits = 0x80808080808080
	overOne  = 1 << 56 // one of the count in the top byte of tags
)

// matchTag sets the high bit of each of the low seven bytes of word that equals tag.
func matchTag(word uint64, tag uint64) uint64 {
	x := word ^ lowBits*tag
	return ^(x&^highBits + (highBits - lowBits) | x) & highBits
}

// tagOf returns a hash's tag. A segment's groups are chosen by other bits, the directory's slot by yet others.
func tagOf(h uint64) uint64 {
	if h &= 0xff; h != 0 {
		return h
	}
	return 1
}

func homeOf(h uint64) uint64 { return h >> 8 }

// find returns key's entry in this segment and its slot; the slot is -1 if it is not there. last is the segment's: it
// is an argument because a look-up that knows it need not read the segment's head.
func (s *segment) find(last, h uint64, key []byte) (e *Entry, i int) {
	tag := tagOf(h)
	for g, end := homeOf(h)&last, last+1; end > 0; end-- {
		group := s.group(g)
		for m := matchTag(group.tags, tag); m != 0; m &= m - 1 {
			j := bits.TrailingZeros64(m) / 8
			if e := group.slots[j]; e.hasKey(key) {
				return e, int(g)<<3 | j
			}
		}
		if group.tags < overOne {
			break
		}
		g = (g + 1) & last
	}
	return nil, -1
}

// add puts an entry into the first segment of the chain that has a free slot, and lengthens the chain if none has.
func (s *segment) add(h uint64, e *Entry, owned bool) {
	for int(s.count) == s.room() {
		if s.over == nil {
			s.over = newSegment(s.depth, int(s.last)+1, s.epoch)
		}
		s = s.over
	}
	for g := homeOf(h) & uint64(s.last); ; g = (g + 1) & uint64(s.last) {
		group := s.group(g)
		m := matchTag(group.tags, 0)
		if m == 0 {
			group.tags += overOne
			continue
		}
		j := bits.TrailingZeros64(m) / 8
		group.slots[j] = e
		group.tags |= tagOf(h) << (8 * j)
		s.count++
		if i := int(g)<<3 | j; owned {
			s.owned |= 1 << i
		} else {
			s.owned &^= 1 << i
		}
		return
	}
}

// remove empties the slot i of an entry with the hash h.
func (s *segment) remove(h uint64, i int) {
	at := uint64(i >> 3)
	for g := homeOf(h) & uint64(s.last); g != at; g = (g + 1) & uint64(s.last) {
		s.group(g).tags -= overOne
	}
	group := s.group(at)
	group.slots[i&7] = nil
	group.tags &^= 0xff << (i & 7 * 8)
	s.count--
}

// total counts the entries of the chain.
func (s *segment) total() int {
	n := 0
	for ; s != nil; s = s.over {
		n += int(s.count)
	}
	return n
}

// each calls fn for the entries of the chain until it returns false.
func (s *segment) each(fn func(*Entry) bool) bool {
	for ; s != nil; s = s.over {
		for g := range uint64(s.last) + 1 {
			for _, e := range s.group(g).slots {
				if e != nil && !fn(e) {
					return false
				}
			}
		}
	}
	return true
}

// clone copies the chain. None of the copy's entries is owned.
func (s *segment) clone(epoch uint64) *segment {
	c := newSegment(s.depth, int(s.last)+1, epoch)
	c.count = s.count
	for g := range uint64(s.last) + 1 {
		*c.group(g) = *s.group(g)
	}
	if s.over != nil {
		c.over = s.over.clone(epoch)
	}
	return c
}

// moveTo adds the entries of the chain to the segments that pick chooses by the hash.
func (s *segment) moveTo(keepOwned bool, pick func(h uint64) *segment) {
	for ; s != nil; s = s.over {
		// The hashes are taken first: without branches in between the processor waits for many keys at a time.
		var hashes [maxGroups << 3]uint64
		for g := range uint64(s.last) + 1 {
			for j, e := range s.group(g).slots {
				if e != nil {
					hashes[g<<3|uint64(j)] = hashOf(e.keyBytes())
				}
			}
		}
		for g := range uint64(s.last) + 1 {
			for j, e := range s.group(g).slots {
				if i := g<<3 | uint64(j); e != nil {
					pick(hashes[i]).add(hashes[i], e, keepOwned && s.owned>>i&1 == 1)
				}
			}
		}
	}
}
