package transfer

import "hash/maphash"

// seenKeys remembers keys by 64 bits each, so that it can say of a key that it
// may have been there before. Of a thousand million keys one is suspected wrongly
// about once in forty imports; the file then tells.
type seenKeys struct {
	seed  maphash.Seed
	table []uint64 // 0: free
	n     int
}

func newSeenKeys() *seenKeys {
	return &seenKeys{seed: maphash.MakeSeed(), table: make([]uint64, 1<<10)}
}

// add notes a key and reports whether it may have been noted before.
func (s *seenKeys) add(db int, key []byte) (suspect bool) {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_ = h.WriteByte(byte(db >> 8))
	_ = h.WriteByte(byte(db))
	_, _ = h.Write(key)
	sum := max(h.Sum64(), 1)
	if 4*s.n >= 3*len(s.table) {
		old := s.table
		s.table = make([]uint64, 2*len(old))
		for _, v := range old {
			if v != 0 {
				s.table[s.slot(v)] = v
			}
		}
	}
	i := s.slot(sum)
	if s.table[i] == sum {
		return true
	}
	s.table[i] = sum
	s.n++
	return false
}

// slot returns where a sum is, or would be.
func (s *seenKeys) slot(sum uint64) uint64 {
	mask := uint64(len(s.table) - 1)
	i := sum & mask
	for s.table[i] != 0 && s.table[i] != sum {
		i = (i + 1) & mask
	}
	return i
}
