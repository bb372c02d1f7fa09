package aof

import (
	"bytes"
	"hash/crc32"
)

// Behind a fault any text can look like a block's line, and claim any length.
// So that a value full of such lines does not cost the square of its size,
// checksums of ranges are derived from those of prefixes: a CRC is linear, and
// crc(seed, AB) is shift(crc(seed, A), len(B)) xor crc(0, B).

// xPowers[k] is x to the power of 8·2^k modulo the polynomial, with the
// coefficient of x^0 in the highest bit.
var xPowers = func() (p [48]uint32) {
	p[0] = 1 << (31 - 8)
	for k := 1; k < len(p); k++ {
		p[k] = multiply(p[k-1], p[k-1])
	}
	return p
}()

// multiply returns the product of two polynomials modulo Castagnoli's.
func multiply(a, b uint32) (product uint32) {
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.Castagnoli
		}
	}
	return product
}

// shiftChecksum returns what crc becomes when n zero bytes follow, without the
// contribution of a seed.
func shiftChecksum(crc uint32, n int64) uint32 {
	for k := 0; n > 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			crc = multiply(crc, xPowers[k])
		}
	}
	return crc
}

const sampleBytes = 4 << 10

// prefixSums holds the checksum of the bytes from offset from up to each
// multiple of sampleBytes behind it.
type prefixSums struct {
	w       window
	from    int64
	samples []uint32
}

func newPrefixSums(w *window, from int64) (*prefixSums, error) {
	p := &prefixSums{w: window{f: w.f, size: w.size}, from: from}
	sum := uint32(0)
	for at := from; ; at += sampleBytes {
		p.samples = append(p.samples, sum)
		b, err := w.peek(at, sampleBytes)
		if err != nil {
			return nil, err
		}
		if len(b) < sampleBytes {
			return p, nil
		}
		sum = crc32.Update(sum, castagnoli, b)
	}
}

// to is the checksum of the bytes up to offset at.
func (p *prefixSums) to(at int64) (uint32, error) {
	i := (at - p.from) / sampleBytes
	start := p.from + i*sampleBytes
	var b [sampleBytes]byte
	rest := b[:at-start]
	if n, err := p.w.f.ReadAt(rest, start); n < len(rest) {
		return 0, err
	}
	return crc32.Update(p.samples[i], castagnoli, rest), nil
}

// checksum is that of the bytes from at to end, seeded.
func (p *prefixSums) checksum(seed uint32, at, end int64) (uint32, error) {
	if at == end {
		return seed, nil
	}
	before, err := p.to(at)
	if err != nil {
		return 0, err
	}
	all, err := p.to(end)
	if err != nil {
		return 0, err
	}
	return shiftChecksum(seed^before, end-at) ^ all, nil
}

// blockSearch looks for blocks that check behind a fault.
type blockSearch struct {
	w      *window
	random uint32
	sums   *prefixSums
	at     int64
}

func newBlockSearch(w *window, random uint32, from int64) (*blockSearch, error) {
	sums, err := newPrefixSums(w, from)
	return &blockSearch{w: w, random: random, sums: sums, at: from}, err
}

// next returns the next block that checks and that wanted accepts by its line.
func (s *blockSearch) next(wanted func(*BlockHeader) bool) (h BlockHeader, at int64, found bool, err error) {
	for s.at < s.w.size {
		b, err := s.w.ahead(s.at, int64(maxBlockLineBytes))
		if err != nil {
			return h, 0, false, err
		}
		i := bytes.Index(b, []byte(blockPrefix))
		if i < 0 {
			if s.at+int64(len(b)) >= s.w.size {
				s.at = s.w.size
				break
			}
			s.at += int64(len(b) - len(blockPrefix) + 1)
			continue
		}
		at := s.at + int64(i)
		s.at = at + 1
		h, ok, err := s.check(at, wanted)
		if err != nil || ok {
			return h, at, ok, err
		}
	}
	return h, 0, false, nil
}

func (s *blockSearch) check(at int64, wanted func(*BlockHeader) bool) (BlockHeader, bool, error) {
	line, err := s.w.peek(at, int64(maxBlockLineBytes))
	if err != nil {
		return BlockHeader{}, false, err
	}
	h, n, ok := parseBlockLine(line)
	start := at + int64(n)
	if !ok || !wanted(&h) || int64(h.PayloadBytes) > s.w.size-start {
		return BlockHeader{}, false, nil
	}
	seed := crc32.Update(s.random, castagnoli, line[:n-checksumBytes])
	crc, err := s.sums.checksum(seed, start, start+int64(h.PayloadBytes))
	return h, err == nil && crc == h.CRC, err
}
