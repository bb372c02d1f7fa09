package rdb

// The LZF format (Marc Lehmann's liblzf): a control byte below 32 is followed by
// that many literals and one; any other has the length of a repetition, less 2,
// in its upper three bits, 7 meaning that another byte adds to it, and in its
// lower five bits and one more byte the distance back, less 1.
const (
	lzfMaxLiterals = 32
	lzfMaxDistance = 1 << 13
	lzfMinMatch    = 3
	lzfMaxMatch    = 264
	lzfHashBits    = 14
)

// compressor finds repetitions. Positions in its table are counted over all
// inputs, so that the table need not be cleared between them.
type compressor struct {
	table [1 << lzfHashBits]uint32
	base  uint32 // what position 0 of the next input is in the table
}

func lzfHash(b []byte) uint32 {
	v := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	return v * 0x9e3779b1 >> (32 - lzfHashBits)
}

// compress appends src, compressed to at most limit bytes, to dst. ok is false,
// and dst as it was, if it does not get that small.
func (c *compressor) compress(dst, src []byte, limit int) (out []byte, ok bool) {
	if len(src) >= 1<<31 {
		return dst, false
	}
	if c.base == 0 || c.base > 1<<31 {
		clear(c.table[:])
		c.base = 1
	}
	base := c.base
	c.base += uint32(len(src))
	start := len(dst)
	literals := 0 // from here on, not written yet
	i := 0
	for i+lzfMinMatch <= len(src) {
		h := lzfHash(src[i:])
		at := int(c.table[h]) - int(base)
		c.table[h] = base + uint32(i)
		if at < 0 || i-at > lzfMaxDistance || src[at] != src[i] || src[at+1] != src[i+1] || src[at+2] != src[i+2] {
			i++
			continue
		}
		n := lzfMinMatch
		for longest := min(len(src)-i, lzfMaxMatch); n < longest && src[at+n] == src[i+n]; {
			n++
		}
		dst = appendLiterals(dst, src[literals:i])
		if len(dst)-start+3 > limit {
			return dst[:start], false
		}
		back := i - at - 1
		if n-2 < 7 {
			dst = append(dst, byte((n-2)<<5|back>>8), byte(back))
		} else {
			dst = append(dst, byte(7<<5|back>>8), byte(n-2-7), byte(back))
		}
		// The positions inside the repetition are worth less than the time.
		i += n
		literals = i
	}
	dst = appendLiterals(dst, src[literals:])
	if len(dst)-start > limit {
		return dst[:start], false
	}
	return dst, true
}

func appendLiterals(dst, b []byte) []byte {
	for len(b) > 0 {
		n := min(len(b), lzfMaxLiterals)
		dst = append(dst, byte(n-1))
		dst = append(dst, b[:n]...)
		b = b[n:]
	}
	return dst
}

// maxInflated is how long what was compressed to n bytes can be at most: three
// bytes stand for lzfMaxMatch.
func maxInflated(n int) int { return n/3*lzfMaxMatch + lzfMaxMatch }

// decompress appends what src stands for, which must be size bytes, to dst.
func decompress(dst, src []byte, size int) ([]byte, error) {
	start := len(dst)
	for i := 0; i < len(src); {
		ctrl := int(src[i])
		i++
		if ctrl < lzfMaxLiterals {
			n := ctrl + 1
			if n > len(src)-i || n > size-(len(dst)-start) {
				return nil, damaged("compressed bytes are cut short or longer than they say")
			}
			dst = append(dst, src[i:i+n]...)
			i += n
			continue
		}
		n := ctrl>>5 + 2
		if ctrl>>5 == 7 {
			if i >= len(src) {
				return nil, damaged("compressed bytes are cut short")
			}
			n += int(src[i])
			i++
		}
		if i >= len(src) {
			return nil, damaged("compressed bytes are cut short")
		}
		at := len(dst) - (ctrl&31<<8 | int(src[i])) - 1
		i++
		if at < start || n > size-(len(dst)-start) {
			return nil, damaged("compressed bytes repeat what is not there")
		}
		// What is repeated may reach into what it makes.
		for n > 0 {
			k := min(n, len(dst)-at)
			dst = append(dst, dst[at:at+k]...)
			n -= k
		}
	}
	if len(dst)-start != size {
		return nil, damaged("compressed bytes are shorter than they say")
	}
	return dst, nil
}
