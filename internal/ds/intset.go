package ds

import (
	"encoding/binary"
	"math"
	"slices"
)

// intset is a sorted array of integers, each as wide as the widest needs: 2, 4 or 8 bytes, little endian.
type intset struct {
	p     packed // only its bytes and sharing: there are no lengths
	width int    // 0 while there never was a member
}

func intWidth(v int64) int {
	switch {
	case v >= math.MinInt16 && v <= math.MaxInt16:
		return 2
	case v >= math.MinInt32 && v <= math.MaxInt32:
		return 4
	}
	return 8
}

func getInt(b []byte, width int) int64 {
	switch width {
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}

func putInt(b []byte, width int, v int64) {
	switch width {
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, uint64(v))
	}
}

func (s *intset) len() int {
	if s.width == 0 {
		return 0
	}
	return len(s.p.b) / s.width
}

func (s *intset) at(i int) int64 { return getInt(s.p.b[i*s.width:], s.width) }

// search returns the index of v, or the index at which to insert it.
func (s *intset) search(v int64) (i int, ok bool) {
	low, high := 0, s.len()
	for low < high {
		mid := int(uint(low+high) / 2)
		if s.at(mid) < v {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < s.len() && s.at(low) == v
}

func (s *intset) add(v int64) bool {
	if w := intWidth(v); w > s.width {
		s.widen(w)
	}
	i, ok := s.search(v)
	if !ok {
		putInt(s.p.splice(i*s.width, i*s.width, s.width), s.width, v)
	}
	return !ok
}

func (s *intset) widen(width int) {
	n := s.len()
	wide := packed{b: slices.Grow([]byte(nil), (n+1)*width)[:n*width]}
	for i := range n {
		putInt(wide.b[i*width:], width, s.at(i))
	}
	s.p, s.width = wide, width
}

func (s *intset) remove(v int64) bool {
	i, ok := s.search(v)
	if ok {
		s.p.splice(i*s.width, (i+1)*s.width, 0)
	}
	return ok
}

// maxIntText is the length of the longest decimal int64.
const maxIntText = 20

// parseInt reads b as an integer in its only canonical decimal form: no sign but a minus, no leading zeros, no "-0".
func parseInt(b []byte) (v int64, ok bool) {
	if len(b) == 0 || len(b) > maxIntText {
		return 0, false
	}
	digits := b
	if b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var u uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if d > 9 || u > math.MaxUint64/10 || u*10 > math.MaxUint64-d {
			return 0, false
		}
		u = u*10 + d
	}
	if b[0] == '-' {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u <= math.MaxInt64
}
