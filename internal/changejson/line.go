package changejson

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Frame is a frame with what META says of it.
type Frame struct {
	Stream     string
	Generation uint64
	Offset     uint64
	First      uint64 // offset of the first frame of its commit
	Last       uint64 // offset of the last one
	LSN        uint64
	Ms         int64 // Unix time in milliseconds
	DB         int
	Cause      string
	Args       [][]byte
}

// AppendFrame appends the line of a frame, without a line end.
func AppendFrame(dst []byte, f *Frame) []byte {
	dst = appendStream(dst, f.Stream)
	dst = appendUint(dst, `,"generation":`, f.Generation)
	dst = appendUint(dst, `,"offset":`, f.Offset)
	dst = appendUint(dst, `,"first":`, f.First)
	dst = appendUint(dst, `,"last":`, f.Last)
	dst = appendUint(dst, `,"lsn":`, f.LSN)
	dst = append(dst, `,"ms":`...)
	dst = strconv.AppendInt(dst, f.Ms, 10)
	dst = appendInt(dst, `,"db":`, f.DB)
	dst = append(dst, `,"cause":`...)
	dst = AppendString(dst, f.Cause)
	dst = appendArgs(append(dst, ','), "args", f.Args)
	return append(dst, '}')
}

// AppendPosition appends the line of a cursor to go on from, without a line end.
func AppendPosition(dst []byte, stream string, generation, offset, completeLSN uint64) []byte {
	dst = appendStream(dst, stream)
	dst = appendUint(dst, `,"event":"position","generation":`, generation)
	dst = appendUint(dst, `,"offset":`, offset)
	dst = appendUint(dst, `,"complete":`, completeLSN)
	return append(dst, '}')
}

// AppendHeartbeat appends the line that says no more than that there is nothing,
// without a line end.
func AppendHeartbeat(dst []byte, stream string) []byte {
	return append(appendStream(dst, stream), `,"event":"heartbeat"}`...)
}

// AppendSnapshotStart appends the line that a snapshot begins with, without a
// line end.
func AppendSnapshotStart(dst []byte, stream, token string) []byte {
	dst = appendStream(dst, stream)
	dst = append(dst, `,"event":"snapshot-start","token":`...)
	return append(AppendString(dst, token), '}')
}

// AppendSnapshotOp appends the line of one op of message n of a snapshot,
// without a line end.
func AppendSnapshotOp(dst []byte, stream, token string, n uint64, db int, op [][]byte) []byte {
	dst = appendStream(dst, stream)
	dst = append(dst, `,"event":"snapshot","token":`...)
	dst = AppendString(dst, token)
	dst = appendUint(dst, `,"n":`, n)
	dst = appendInt(dst, `,"db":`, db)
	dst = appendArgs(append(dst, ','), "args", op)
	return append(dst, '}')
}

// AppendSnapshotEnd appends the line that a snapshot ends with, without a line
// end. Live frames follow from the cursor in it.
func AppendSnapshotEnd(dst []byte, stream, token string, generation, offset uint64) []byte {
	dst = appendStream(dst, stream)
	dst = append(dst, `,"event":"snapshot-end","token":`...)
	dst = AppendString(dst, token)
	dst = appendUint(dst, `,"generation":`, generation)
	dst = appendUint(dst, `,"offset":`, offset)
	return append(dst, '}')
}

// appendArgs appends the field name with the arguments, and the field base64 if
// one of them is not UTF-8.
func appendArgs(dst []byte, name string, args [][]byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	dst = append(dst, `":[`...)
	flagged := 0
	for i, a := range args {
		if i > 0 {
			dst = append(dst, ',')
		}
		if utf8.Valid(a) {
			dst = AppendString(dst, a)
			continue
		}
		flagged++
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, a)
		dst = append(dst, '"')
	}
	dst = append(dst, ']')
	if flagged == 0 {
		return dst
	}
	dst = append(dst, `,"base64":[`...)
	for i, a := range args {
		if utf8.Valid(a) {
			continue
		}
		dst = strconv.AppendInt(dst, int64(i), 10)
		if flagged--; flagged > 0 {
			dst = append(dst, ',')
		}
	}
	return append(dst, ']')
}

// AppendString appends text that is UTF-8 as a JSON string.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendStream(dst []byte, stream string) []byte {
	return AppendString(append(dst, `{"stream":`...), stream)
}

func appendUint(dst []byte, label string, n uint64) []byte {
	return strconv.AppendUint(append(dst, label...), n, 10)
}

func appendInt(dst []byte, label string, n int) []byte {
	return strconv.AppendInt(append(dst, label...), int64(n), 10)
}

// ErrNotFrame is what ParseFrame answers to a line of another kind.
var ErrNotFrame = errors.New("the line is no frame")

// ParseFrame reads the line of a frame back. Unknown fields are passed over, so
// that lines of a later version are read too. A line that is an event, or
// lacks args, is ErrNotFrame.
func ParseFrame(line []byte) (Frame, error) {
	var l struct {
		Stream     string
		Event      *string
		Generation uint64
		Offset     uint64
		First      uint64
		Last       uint64
		LSN        uint64
		Ms         int64
		DB         int
		Cause      string
		Args       []string
		Base64     []int
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return Frame{}, fmt.Errorf("the line of a frame: %w", err)
	}
	if l.Event != nil || len(l.Args) == 0 {
		return Frame{}, ErrNotFrame
	}
	f := Frame{
		Stream: l.Stream, Generation: l.Generation, Offset: l.Offset, First: l.First, Last: l.Last,
		LSN: l.LSN, Ms: l.Ms, DB: l.DB, Cause: l.Cause,
	}
	for _, a := range l.Args {
		f.Args = append(f.Args, []byte(a))
	}
	for _, i := range l.Base64 {
		if i < 0 || i >= len(f.Args) {
			return Frame{}, fmt.Errorf("the line of a frame: base64 names argument %d of %d", i, len(f.Args))
		}
		raw, err := base64.StdEncoding.DecodeString(l.Args[i])
		if err != nil {
			return Frame{}, fmt.Errorf("the line of a frame: argument %d: %w", i, err)
		}
		f.Args[i] = raw
	}
	return f, nil
}
