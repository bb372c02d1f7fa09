package ds

import "math/rand/v2"

// sampleSegments bounds how many segments Sample looks at, so that a table that has lost nearly all of its entries in
// places costs no walk over it.
const sampleSegments = 8

// Sample calls fn for up to n entries that lie one behind the other from a random place on. It is several times as
// cheap as n calls of Random, and serves who wants entries of all ages rather than independent draws: what lies together
// does so by the hash of its key. A table that is not nearly empty in places yields n, or all that it has. fn must not
// change the table.
func (t *Table) Sample(rng *rand.Rand, n int, fn func(*Entry)) {
	if t.count == 0 {
		return
	}
	at := rng.Uint64N(uint64(len(t.dir)))
	for range sampleSegments {
		first, width := t.span(at)
		s := t.dir[first]
		if n = s.sample(int(rng.Uint32()>>1), n, fn); n == 0 || width == uint64(len(t.dir)) {
			return
		}
		at = (first + width) % uint64(len(t.dir))
	}
}

// sample calls fn for up to n entries of the chain, in its first segment from a place on and round, and returns how many
// are left to be found.
func (s *segment) sample(from, n int, fn func(*Entry)) int {
	for ; s != nil && n > 0; s = s.over {
		room := s.room()
		for i := range room {
			if j := (i + from%room) % room; n > 0 {
				if e := s.group(uint64(j / groupSlots)).slots[j%groupSlots]; e != nil {
					fn(e)
					n--
				}
			}
		}
	}
	return n
}
