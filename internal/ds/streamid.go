package ds

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
)

// StreamID orders the entries of a stream: milliseconds, by convention of the unix time, and then a sequence number.
type StreamID struct{ Ms, Seq uint64 }

// MaxStreamID is the greatest id.
var MaxStreamID = StreamID{math.MaxUint64, math.MaxUint64}

// Compare returns -1, 0 or 1 as id is less than, equal to or greater than other.
func (id StreamID) Compare(other StreamID) int {
	if c := cmp.Compare(id.Ms, other.Ms); c != 0 {
		return c
	}
	return cmp.Compare(id.Seq, other.Seq)
}

// Less says whether id comes before other.
func (id StreamID) Less(other StreamID) bool {
	return id.Ms < other.Ms || id.Ms == other.Ms && id.Seq < other.Seq
}

// IsZero says whether id is 0-0, which no entry has.
func (id StreamID) IsZero() bool { return id == StreamID{} }

// Next returns the id after id; ok is false if there is none.
func (id StreamID) Next() (next StreamID, ok bool) {
	if id == MaxStreamID {
		return id, false
	}
	if id.Seq == math.MaxUint64 {
		return StreamID{Ms: id.Ms + 1}, true
	}
	return StreamID{id.Ms, id.Seq + 1}, true
}

// Prev returns the id before id; ok is false if there is none.
func (id StreamID) Prev() (prev StreamID, ok bool) {
	if id.IsZero() {
		return id, false
	}
	if id.Seq == 0 {
		return StreamID{id.Ms - 1, math.MaxUint64}, true
	}
	return StreamID{id.Ms, id.Seq - 1}, true
}

// MaxStreamIDText is the length of the longest text of an id.
const MaxStreamIDText = 41

// AppendTo appends the text of the id.
func (id StreamID) AppendTo(dst []byte) []byte {
	dst = strconv.AppendUint(dst, id.Ms, 10)
	return strconv.AppendUint(append(dst, '-'), id.Seq, 10)
}

// String returns the text of the id.
func (id StreamID) String() string { return string(id.AppendTo(nil)) }

// ParseStreamID reads an id; seq is the sequence number of one that gives only milliseconds. hasSeq says whether it
// gave both.
func ParseStreamID(b []byte, seq uint64) (id StreamID, hasSeq, ok bool) {
	ms, rest, hasSeq := bytes.Cut(b, []byte("-"))
	id.Seq = seq
	if id.Ms, ok = ParseUint(ms); ok && hasSeq {
		id.Seq, ok = ParseUint(rest)
	}
	return id, hasSeq, ok
}

// ParseUint reads a number as Redis reads the parts of an id: the decimal text of an uint64, or else whatever C's
// strtoull takes whole: with leading zeros and white space, and a sign, a minus turning the number around.
func ParseUint(b []byte) (v uint64, ok bool) {
	if v, ok := parseInt(b); ok {
		return uint64(v), v >= 0
	}
	b = bytes.TrimLeft(b, " \t\n\v\f\r")
	neg := len(b) > 0 && b[0] == '-'
	if neg || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || v > (math.MaxUint64-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	if neg {
		v = -v
	}
	return v, true
}
