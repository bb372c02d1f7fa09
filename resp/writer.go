package resp

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// keptReplyBytes: Reset lets a buffer go that is larger.
const keptReplyBytes = 64 << 10

// Writer encodes replies for a connection that speaks RESP2 or RESP3. Replies
// are described by shape; a shape that RESP2 lacks takes the form that Redis
// gives it there. A Writer only appends to its own buffer: it neither blocks
// nor fails. It is not safe for concurrent use.
type Writer struct {
	buf   []byte
	resp3 bool
}

// NewWriter returns a Writer for protocol version proto: 3 is RESP3, anything
// else RESP2.
func NewWriter(proto int) *Writer {
	w := new(Writer)
	w.SetProto(proto)
	return w
}

// Proto returns the protocol version: 2 or 3.
func (w *Writer) Proto() int {
	if w.resp3 {
		return 3
	}
	return 2
}

// SetProto changes the protocol version from the next reply on.
func (w *Writer) SetProto(proto int) { w.resp3 = proto == 3 }

// Bytes returns what has been written. It is the Writer's own buffer, valid
// until the next call.
func (w *Writer) Bytes() []byte { return w.buf }

// Len returns the number of bytes written.
func (w *Writer) Len() int { return len(w.buf) }

// Reset empties the Writer and lets go of a large buffer.
func (w *Writer) Reset() {
	if cap(w.buf) > keptReplyBytes {
		w.buf = nil
		return
	}
	w.buf = w.buf[:0]
}

// Release lets go of the buffer, for a connection that is idle. What was written
// is lost.
func (w *Writer) Release() { w.buf = nil }

// Truncate keeps the first n bytes only, n being a Len from before: it drops
// replies, whole or partial, that were written since.
func (w *Writer) Truncate(n int) { w.buf = w.buf[:n] }

// header writes a type byte, a number and the end of the line.
func (w *Writer) header(kind byte, n int64) {
	w.buf = appendHeader(w.buf, kind, n)
}

func appendHeader(dst []byte, kind byte, n int64) []byte {
	if 0 <= n && n <= 9 {
		return append(dst, kind, byte('0'+n), '\r', '\n')
	}
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '\r', '\n')
}

// line writes a type byte and text as one line. Line ends in text, which would
// begin another reply, become spaces.
func (w *Writer) line(kind byte, code, text string) {
	w.buf = append(w.buf, kind)
	start := len(w.buf)
	if code != "" {
		w.buf = append(w.buf, code...)
		w.buf = append(w.buf, ' ')
	}
	w.buf = append(w.buf, text...)
	for i, c := range w.buf[start:] {
		if c == '\r' || c == '\n' {
			w.buf[start+i] = ' '
		}
	}
	w.buf = append(w.buf, '\r', '\n')
}

// OK writes the status OK.
func (w *Writer) OK() { w.buf = append(w.buf, "+OK\r\n"...) }

// Simple writes a status; line ends in it become spaces.
func (w *Writer) Simple(status string) { w.line('+', "", status) }

// Error writes an error; line ends in it become spaces.
func (w *Writer) Error(e *Error) { w.line('-', e.Code, strings.TrimRight(e.Text, "\r\n")) }

// Err writes an error that is or wraps an *[Error] as that one, and any other
// as "ERR" and its text.
func (w *Writer) Err(err error) {
	if e, ok := err.(*Error); ok {
		w.Error(e)
		return
	}
	var e *Error
	if errors.As(err, &e) {
		w.Error(e)
		return
	}
	w.line('-', "ERR", strings.TrimRight(err.Error(), "\r\n"))
}

// Int writes an integer.
func (w *Writer) Int(n int64) { w.header(':', n) }

// Bulk writes a byte string, which it copies.
func (w *Writer) Bulk(b []byte) {
	w.bulkHeader('$', len(b))
	w.buf = append(w.buf, b...)
	w.buf = append(w.buf, '\r', '\n')
}

// BulkString writes a byte string.
func (w *Writer) BulkString(s string) {
	w.bulkHeader('$', len(s))
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, '\r', '\n')
}

// bulkHeader writes the header of a string of n bytes and makes room for all
// of a long one at once.
func (w *Writer) bulkHeader(kind byte, n int) {
	const longBytes = 4 << 10
	if n > longBytes {
		w.buf = slices.Grow(w.buf, n+32)
	}
	w.header(kind, int64(n))
}

// BulkInt writes the decimal text of n as a byte string.
func (w *Writer) BulkInt(n int64) {
	var scratch [20]byte
	w.Bulk(strconv.AppendInt(scratch[:0], n, 10))
}

// Null writes the absence of a string or of any other single value.
func (w *Writer) Null() {
	if w.resp3 {
		w.buf = append(w.buf, "_\r\n"...)
		return
	}
	w.buf = append(w.buf, "$-1\r\n"...)
}

// NullArray writes the absence of an array.
func (w *Writer) NullArray() {
	if w.resp3 {
		w.buf = append(w.buf, "_\r\n"...)
		return
	}
	w.buf = append(w.buf, "*-1\r\n"...)
}

// Array begins an array; n replies follow.
func (w *Writer) Array(n int) { w.header('*', int64(n)) }

// Map begins a map of n pairs; 2n replies follow, each key before its value.
// In RESP2 it is an array.
func (w *Writer) Map(n int) {
	if w.resp3 {
		w.header('%', int64(n))
		return
	}
	w.header('*', 2*int64(n))
}

// Set begins a set; n replies follow. In RESP2 it is an array.
func (w *Writer) Set(n int) { w.header(w.kind('~'), int64(n)) }

// Push begins an out-of-band message; n replies follow. In RESP2 it is an
// array.
func (w *Writer) Push(n int) { w.header(w.kind('>'), int64(n)) }

// kind is the type byte of an aggregate that RESP2 shows as an array.
func (w *Writer) kind(resp3 byte) byte {
	if w.resp3 {
		return resp3
	}
	return '*'
}

// Double writes a floating-point number in the form of [AppendDouble]; in
// RESP2 it is a byte string.
func (w *Writer) Double(f float64) {
	var scratch [32]byte
	text := AppendDouble(scratch[:0], f)
	if !w.resp3 {
		w.Bulk(text)
		return
	}
	w.buf = append(w.buf, ',')
	w.buf = append(w.buf, text...)
	w.buf = append(w.buf, '\r', '\n')
}

// Bool writes a truth value; in RESP2 it is the integer 1 or 0.
func (w *Writer) Bool(b bool) {
	switch {
	case w.resp3 && b:
		w.buf = append(w.buf, "#t\r\n"...)
	case w.resp3:
		w.buf = append(w.buf, "#f\r\n"...)
	case b:
		w.buf = append(w.buf, ":1\r\n"...)
	default:
		w.buf = append(w.buf, ":0\r\n"...)
	}
}

// BigNumber writes an integer of any size, given as decimal text; in RESP2 it
// is a byte string.
func (w *Writer) BigNumber(digits string) {
	if !w.resp3 {
		w.BulkString(digits)
		return
	}
	w.line('(', "", digits)
}

// Verbatim writes text with its format, ext, of three letters ("txt", "mkd");
// in RESP2 it is the text alone, as a byte string.
func (w *Writer) Verbatim(ext, text string) {
	if !w.resp3 {
		w.BulkString(text)
		return
	}
	w.bulkHeader('=', len(ext)+1+len(text))
	w.buf = append(w.buf, ext...)
	w.buf = append(w.buf, ':')
	w.buf = append(w.buf, text...)
	w.buf = append(w.buf, '\r', '\n')
}

// Raw writes bytes that are encoded already; it copies them.
func (w *Writer) Raw(b []byte) { w.buf = append(w.buf, b...) }

// Mark is a place in what has been written, for an aggregate whose length is
// known only at its end.
type Mark int

// Begin marks the start of an aggregate's elements. Aggregates nest; end the
// inner first.
func (w *Writer) Begin() Mark { return Mark(len(w.buf)) }

// EndArray makes what was written since m an array of n replies.
func (w *Writer) EndArray(m Mark, n int) { w.insertHeader(m, '*', int64(n)) }

// EndSet makes what was written since m a set of n replies.
func (w *Writer) EndSet(m Mark, n int) { w.insertHeader(m, w.kind('~'), int64(n)) }

// EndMap makes what was written since m a map of n pairs.
func (w *Writer) EndMap(m Mark, n int) {
	if w.resp3 {
		w.insertHeader(m, '%', int64(n))
		return
	}
	w.insertHeader(m, '*', 2*int64(n))
}

func (w *Writer) insertHeader(m Mark, kind byte, n int64) {
	var scratch [24]byte
	h := appendHeader(scratch[:0], kind, n)
	old := len(w.buf)
	w.buf = append(w.buf, h...)
	copy(w.buf[int(m)+len(h):], w.buf[m:old])
	copy(w.buf[m:], h)
}
