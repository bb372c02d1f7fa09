package hyperloglog

import "encoding/binary"

// A value is a header of 16 bytes and the registers. The header is "HYLL", a
// byte for the form of the registers, three zeros, and a count of 8 bytes, the
// low ones first, in which the highest bit says that it is out of date. The
// format, and that of both forms of registers, is that of Redis (hyperloglog.c).

const (
	// registers are chosen by the low bits of an element's hash; each keeps the
	// longest run of zeros, plus one, that was seen in the others.
	indexBits = 14
	registers = 1 << indexBits
	runBits   = 64 - indexBits
	maxRun    = runBits + 1

	magic       = "HYLL"
	encodingAt  = len(magic)
	countAt     = 8
	headerBytes = 16

	dense  = 0
	sparse = 1

	// In the dense form a register has 6 bits; they follow each other from the
	// low bits of a byte to its high ones and on into the next byte.
	registerBits = 6
	registerMax  = 1<<registerBits - 1
	denseBytes   = headerBytes + registers*registerBits/8

	// outdatedAt is the byte with the bit that says that the count is out of date.
	outdatedAt  = countAt + 7
	outdatedBit = 0x80
)

// isSketch reports whether a string is a value of this family, as far as its
// header and its length tell.
func isSketch(b []byte) bool {
	return len(b) >= headerBytes && string(b[:len(magic)]) == magic &&
		(b[encodingAt] == sparse || b[encodingAt] == dense && len(b) == denseBytes)
}

// counted returns the count that the header keeps, unless it is out of date.
func counted(value []byte) (n uint64, ok bool) {
	if value[outdatedAt]&outdatedBit != 0 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(value[countAt:]), true
}

// denseGet returns a register of a dense value.
func denseGet(value []byte, index int) byte {
	at, shift := denseAt(index)
	bits := uint(value[at]) >> shift
	if at+1 < len(value) {
		bits |= uint(value[at+1]) << (8 - shift)
	}
	return byte(bits & registerMax)
}

// densePatch returns the one or two bytes that a dense value has from offset at
// on once the register has the value run.
func densePatch(value []byte, index int, run byte) (at int, patch [2]byte, n int) {
	at, shift := denseAt(index)
	patch[0] = value[at]&^(registerMax<<shift) | run<<shift
	if shift+registerBits <= 8 {
		return at, patch, 1
	}
	patch[1] = value[at+1]&^(registerMax>>(8-shift)) | run>>(8-shift)
	return at, patch, 2
}

// denseSet raises a register of a dense value to run; it reports whether it was
// lower.
func denseSet(value []byte, index int, run byte) bool {
	if denseGet(value, index) >= run {
		return false
	}
	at, patch, n := densePatch(value, index, run)
	copy(value[at:], patch[:n])
	return true
}

func denseAt(index int) (at int, shift uint) {
	bit := index * registerBits
	return headerBytes + bit/8, uint(bit % 8)
}

// sketch is a value that is being changed.
type sketch struct{ buf []byte }

// reset makes it an empty one, in the sparse form.
func (s *sketch) reset() {
	s.buf = append(s.buf[:0], magic...)
	s.buf = append(s.buf, sparse)
	for len(s.buf) < headerBytes {
		s.buf = append(s.buf, 0)
	}
	s.buf = appendZeros(s.buf, registers)
}

// load makes it a copy of a value.
func (s *sketch) load(value []byte) { s.buf = append(s.buf[:0], value...) }

func (s *sketch) isDense() bool { return s.buf[encodingAt] == dense }

// outdate says that the count in the header is out of date.
func (s *sketch) outdate() { s.buf[outdatedAt] |= outdatedBit }

// raise raises a register to run; it reports whether it was lower. ok is false
// if the value is corrupt.
func (s *sketch) raise(index int, run byte) (raised, ok bool) {
	if s.isDense() {
		return denseSet(s.buf, index, run), true
	}
	return s.raiseSparse(index, run)
}

// maxima are registers, a byte each.
type maxima [registers]byte

// take raises the registers to those of a value; ok is false if it is corrupt.
func (m *maxima) take(value []byte) (ok bool) {
	if value[encodingAt] == dense {
		for i := range m {
			m[i] = max(m[i], denseGet(value, i))
		}
		return true
	}
	return eachRun(value, func(first, length int, run byte) {
		if run == 0 {
			return
		}
		for i := first; i < first+length; i++ {
			m[i] = max(m[i], run)
		}
	})
}
