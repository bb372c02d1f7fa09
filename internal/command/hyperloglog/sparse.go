package hyperloglog

// In the sparse form the registers are runs of equal ones:
//
//	00nnnnnn           n+1 registers are 0
//	01nnnnnn nnnnnnnn  n+1 registers are 0
//	1vvvvvnn           n+1 registers are v+1
//
// The runs of a sound value have all registers between them. Which runs a value
// has depends on the order in which its registers were raised: they are changed
// as Redis does it, as the value is to be the same.

const (
	longZeros   = 0x40
	valueRun    = 0x80
	maxZeros    = 64 // of the short kind
	maxRunValue = 32 // greater ones need the dense form
	maxRunLen   = 4
)

// run is what one of them says, and how many bytes it takes.
type run struct {
	value  byte
	length int
	bytes  int
}

// runAt reads the run at an index of b. Behind the end b has a zero, as the
// strings of Redis do.
func runAt(b []byte, at int) run {
	c := b[at]
	switch {
	case c&valueRun != 0:
		return run{value: c>>2&31 + 1, length: int(c&3) + 1, bytes: 1}
	case c&longZeros != 0:
		n := int(c&0x3f) << 8
		if at+1 < len(b) {
			n |= int(b[at+1])
		}
		return run{length: n + 1, bytes: 2}
	}
	return run{length: int(c&0x3f) + 1, bytes: 1}
}

// eachRun calls fn for each run of a sparse value, with the index of its first
// register. ok is false if the value is corrupt: its runs have more or fewer
// registers than there are, of which fn is not told.
func eachRun(value []byte, fn func(first, length int, value byte)) (ok bool) {
	first := 0
	for at := headerBytes; at < len(value); {
		r := runAt(value, at)
		if first+r.length > registers {
			return false
		}
		fn(first, r.length, r.value)
		first += r.length
		at += r.bytes
	}
	return first == registers
}

// toDense changes the sketch to the dense form; ok is false if it is corrupt.
func (s *sketch) toDense() (ok bool) {
	if s.isDense() {
		return true
	}
	var full [denseBytes]byte
	copy(full[:headerBytes], s.buf)
	full[encodingAt] = dense
	ok = eachRun(s.buf, func(first, length int, value byte) {
		if value == 0 {
			return
		}
		for i := first; i < first+length; i++ {
			denseSet(full[:], i, value)
		}
	})
	if ok {
		s.load(full[:])
	}
	return ok
}

// sparseFind returns where the run of a sparse value begins that has the
// register, where the run before it does, -1 if it is the first, and its first
// register; ok is false if there is none.
func sparseFind(value []byte, index int) (at, before, first int, ok bool) {
	before = -1
	for at = headerBytes; at < len(value); {
		r := runAt(value, at)
		if index < first+r.length {
			return at, before, first, true
		}
		before = at
		at += r.bytes
		first += r.length
	}
	return 0, 0, 0, false
}

// raisesSparse reports whether raising the register to run would change a sparse
// value; ok is false if the value is corrupt.
func raisesSparse(value []byte, index int, run byte) (raises, ok bool) {
	at, _, _, ok := sparseFind(value, index)
	return ok && runAt(value, at).value < run, ok
}

func (s *sketch) raiseSparse(index int, to byte) (raised, ok bool) {
	if to > maxRunValue {
		return s.raiseDense(index, to)
	}
	at, before, first, ok := sparseFind(s.buf, index)
	if !ok {
		return false, false
	}
	r := runAt(s.buf, at)
	if r.value >= to {
		return false, true
	}
	var parts [5]byte // two long runs of zeros around a value
	seq := appendRun(parts[:0], r.value, index-first)
	seq = appendRun(seq, to, 1)
	seq = appendRun(seq, r.value, first+r.length-1-index)
	grows := len(seq) - r.bytes
	if grows > 0 && int64(len(s.buf)+grows) > SparseMaxBytes.Load() {
		return s.raiseDense(index, to)
	}
	s.replace(at, r.bytes, seq)
	if before < 0 {
		before = headerBytes
	}
	s.join(before)
	s.outdate()
	return true, true
}

func (s *sketch) raiseDense(index int, to byte) (raised, ok bool) {
	if !s.toDense() {
		return false, false
	}
	return denseSet(s.buf, index, to), true
}

// replace puts seq in the place of n bytes. A value may end in the middle of its
// last run; it is then cut off there again.
func (s *sketch) replace(at, n int, seq []byte) {
	old := len(s.buf)
	length := old + len(seq) - n
	for len(s.buf) < length {
		s.buf = append(s.buf, 0)
	}
	if end := at + n; end < old {
		copy(s.buf[at+len(seq):], s.buf[end:old])
	}
	s.buf = s.buf[:length]
	copy(s.buf[at:], seq)
}

// joinedRuns is how many runs are looked at for two that can be one.
const joinedRuns = 5

// join makes one of neighboring runs of one value from index at on, where they
// fit.
func (s *sketch) join(at int) {
	for i := 0; i < joinedRuns && at < len(s.buf); i++ {
		r := runAt(s.buf, at)
		if r.value == 0 {
			at += r.bytes
			continue
		}
		if at+1 < len(s.buf) {
			if next := runAt(s.buf, at+1); next.value == r.value && r.length+next.length <= maxRunLen {
				s.buf[at+1] = valueByte(r.value, r.length+next.length)
				s.buf = append(s.buf[:at], s.buf[at+1:]...)
				continue
			}
		}
		at++
	}
}

func valueByte(value byte, length int) byte { return valueRun | (value-1)<<2 | byte(length-1) }

// appendRun appends a run, if it has any registers. One of values is no longer
// than maxRunLen.
func appendRun(dst []byte, value byte, length int) []byte {
	switch {
	case length == 0:
		return dst
	case value == 0:
		return appendZeros(dst, length)
	}
	return append(dst, valueByte(value, length))
}

func appendZeros(dst []byte, length int) []byte {
	n := length - 1
	if length <= maxZeros {
		return append(dst, byte(n))
	}
	return append(dst, longZeros|byte(n>>8), byte(n))
}
