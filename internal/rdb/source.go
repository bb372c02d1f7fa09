package rdb

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// source is where encoded bytes come from: a payload in memory, or a file
// through a buffer that grows to what is asked for at once.
type source struct {
	r    io.Reader // nil: buf is all there is
	buf  []byte
	pos  int   // of the next byte in buf
	gone int64 // bytes before buf[0]
	size int64 // of everything

	sums   bool
	crc    uint64 // of what was taken up to summed
	summed int    // a position in buf
}

const (
	readBytes = 256 << 10
	// A larger buffer is given up when what needed it has been taken.
	keptBytes = 1 << 20
	// growBytes bounds what is allocated for bytes that a length promises and that
	// may not be there.
	growBytes = 16 << 20
)

var errShort = &damage{"the bytes end where more must follow"}

// offset returns how many bytes were taken.
func (s *source) offset() int64 { return s.gone + int64(s.pos) }

// take returns the next n bytes, which are valid until the next take.
func (s *source) take(n uint64) ([]byte, error) {
	if n > uint64(len(s.buf)-s.pos) {
		if s.r == nil || n > uint64(s.size-s.offset()) || n > math.MaxInt32 {
			return nil, errShort
		}
		if err := s.fill(int(n)); err != nil {
			return nil, err
		}
	}
	b := s.buf[s.pos : s.pos+int(n) : s.pos+int(n)]
	s.pos += int(n)
	return b, nil
}

// fill reads until n bytes are in the buffer.
func (s *source) fill(n int) error {
	s.sum()
	rest := s.buf[s.pos:]
	s.gone += int64(s.pos)
	s.pos, s.summed = 0, 0
	if least := int(min(readBytes, s.size)); cap(s.buf) < least || cap(s.buf) > keptBytes && n <= keptBytes {
		s.buf = append(make([]byte, 0, max(least, len(rest))), rest...)
	} else {
		s.buf = s.buf[:copy(s.buf[:cap(s.buf)], rest)]
	}
	for len(s.buf) < n {
		if room := cap(s.buf) - len(s.buf); room == 0 {
			want := min(n, max(2*cap(s.buf), growBytes))
			s.buf = append(make([]byte, 0, want), s.buf...)
		}
		k, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+k]
		if k == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				return errShort
			}
			return err
		}
	}
	return nil
}

// sum brings crc up to what was taken.
func (s *source) sum() {
	if s.sums {
		s.crc = checksum(s.crc, s.buf[s.summed:s.pos])
		s.summed = s.pos
	}
}

func (s *source) byte() (byte, error) {
	b, err := s.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

func (s *source) uint64LE() (uint64, error) {
	b, err := s.take(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// number reads a length, or, if special, the encoding of a string: the top two
// bits of the first byte say which, and how many bytes follow.
func (s *source) number() (n uint64, special bool, err error) {
	first, err := s.byte()
	if err != nil {
		return 0, false, err
	}
	switch {
	case first>>6 == 0:
		return uint64(first), false, nil
	case first>>6 == 1:
		second, err := s.byte()
		return uint64(first&0x3f)<<8 | uint64(second), false, err
	case first>>6 == 3:
		return uint64(first & 0x3f), true, nil
	case first == 0x80:
		b, err := s.take(4)
		if err != nil {
			return 0, false, err
		}
		return uint64(binary.BigEndian.Uint32(b)), false, nil
	case first == 0x81:
		b, err := s.take(8)
		if err != nil {
			return 0, false, err
		}
		return binary.BigEndian.Uint64(b), false, nil
	}
	return 0, false, damaged("a length begins with byte %#x", first)
}

// length reads a number that must be one.
func (s *source) length() (uint64, error) {
	n, special, err := s.number()
	if err == nil && special {
		return 0, damaged("there is an encoded string where a length must be")
	}
	return n, err
}

// appendLength appends a length in the shortest of its forms.
func appendLength(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n))
	case n < 1<<14:
		return append(dst, byte(n>>8)|0x40, byte(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0x80), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0x81), n)
}
