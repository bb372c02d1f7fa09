// Package hyperloglog has the commands that estimate how many different elements
// they were given. An estimate is kept as a string, byte for byte as Redis keeps
// it, so that a value moves between the two.
package hyperloglog

import (
	"sync"
	"sync/atomic"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{pfAdd(), pfCount(), pfMerge(), pfDebug(), pfSelfTest()}
}

// SparseMaxBytes is hll-sparse-max-bytes: how long a value may grow in the
// sparse form.
var SparseMaxBytes = func() *atomic.Int64 {
	n := new(atomic.Int64)
	n.Store(3000)
	return n
}()

var (
	errNotSketch = &resp.Error{Code: "WRONGTYPE", Text: "Key is not a valid HyperLogLog string value."}
	errCorrupt   = &resp.Error{Code: "INVALIDOBJ", Text: "Corrupted HLL object detected"}
)

// valueOf returns the value that the key holds, nil if there is none. It is
// read-only and valid until the key changes.
func valueOf(tx *shard.Tx, key []byte) (value []byte, err error) {
	value, ok, err := tx.String(key)
	if err != nil || !ok {
		return nil, err
	}
	if !isSketch(value) {
		return nil, errNotSketch
	}
	return value, nil
}

// valueToChange is valueOf for a command that may change the value. OBJECT
// ENCODING then calls it raw, as in Redis; one in the dense form is long enough
// to be called so anyway.
func valueToChange(tx *shard.Tx, key []byte) (value []byte, err error) {
	value, err = valueOf(tx, key)
	if value != nil && value[encodingAt] == sparse {
		tx.MarkRaw(key)
		value, _, err = tx.String(key)
	}
	return value, err
}

// scratch are sketches that commands change before they store them.
var scratch = sync.Pool{New: func() any { return new(sketch) }}

// store makes the key, which holds the value old or, if that is nil, does not
// exist, hold the sketch, and records what is new in it.
func (s *sketch) store(tx *shard.Tx, key, old []byte) {
	switch {
	case old == nil:
		tx.Set(key, s.buf, 0)
		tx.MarkRaw(key)
		return
	case len(s.buf) < len(old) || s.buf[encodingAt] != old[encodingAt]:
		tx.Set(key, s.buf, shard.KeepTTL)
		tx.MarkRaw(key)
		return
	}
	// What changed is one range of registers and, before it, what is said of the
	// count that the header keeps.
	first, last := changed(s.buf, old)
	if first > last {
		return
	}
	if countAt <= first && first < headerBytes {
		bodyFirst, bodyLast := changed(s.buf[headerBytes:], old[headerBytes:])
		if bodyFirst > bodyLast || bodyFirst > joinedGap {
			setRange(tx, key, first, s.buf[first:headerBytes])
			first, last = headerBytes+bodyFirst, headerBytes+bodyLast
		}
	}
	if first <= last {
		setRange(tx, key, first, s.buf[first:last+1])
	}
}

// joinedGap is how many bytes that did not change are written again where that
// saves an op.
const joinedGap = 32

// changed returns the first and the last index at which b, which is no shorter,
// differs from old; first is beyond last if nothing does.
func changed(b, old []byte) (first, last int) {
	last = len(b) - 1
	for last >= 0 && last < len(old) && b[last] == old[last] {
		last--
	}
	for first <= last && first < len(old) && b[first] == old[first] {
		first++
	}
	return first, last
}

// setRange overwrites a part of a string that the key is known to hold.
func setRange(tx *shard.Tx, key []byte, offset int, patch []byte) {
	if err := tx.SetRange(key, offset, patch); err != nil {
		panic(err)
	}
}
