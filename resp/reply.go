package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	maxReplyDepth     = 128
	maxReplyBytes     = 1 << 30 // of one reply, decoded, bookkeeping included
	maxReplyLineBytes = 1 << 20
	replyStepBytes    = 64 << 10 // memory grows by at most this ahead of what has arrived
	replySlotBytes    = 128      // what a Reply itself is counted as
)

// Reply is one decoded reply.
type Reply struct {
	// Type is the type byte: '+' status, '-' error, ':' integer, '$' bulk
	// string, '*' array, and of RESP3 '_' null, ',' double, '#' boolean, '('
	// big number, '=' verbatim text, '!' bulk error, '%' map, '~' set, '>' push.
	Type byte
	// Null is set for RESP2's null string ($-1) and null array (*-1), and for '_'.
	Null bool
	// Str is the content of a string, status or error, and the text of a
	// double, boolean or big number as received. Verbatim text includes its
	// format ("txt:…").
	Str []byte
	// Int is the value of an integer; 1 for a true boolean.
	Int int64
	// Float is the value of a double.
	Float float64
	// Elems are the elements of an aggregate; of a map, keys and values in turn.
	Elems []Reply
}

// ErrReply is wrapped by the errors of ReadReply that tell of malformed or
// oversized input rather than of the source.
var ErrReply = errors.New("malformed reply")

// ReadReply decodes the next reply. Attributes are read and dropped. Depth,
// line length and total size are bounded, and memory follows what arrives,
// not what is announced. An error that is not of the source wraps [ErrReply];
// a source that ends inside a reply is [io.ErrUnexpectedEOF].
func ReadReply(r *bufio.Reader) (Reply, error) {
	if _, err := r.Peek(1); err != nil {
		return Reply{}, err
	}
	d := replyDecoder{src: r, budget: maxReplyBytes}
	reply, err := d.reply(0)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return reply, err
}

type replyDecoder struct {
	src    *bufio.Reader
	budget int64 // bytes that the reply may still take
}

func replyError(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrReply, fmt.Sprintf(format, a...))
}

func (d *replyDecoder) spend(n int64) error {
	if n > d.budget {
		return replyError("larger than %d bytes", int64(maxReplyBytes))
	}
	d.budget -= n
	return nil
}

func (d *replyDecoder) reply(depth int) (Reply, error) {
	if depth > maxReplyDepth {
		return Reply{}, replyError("nested deeper than %d", maxReplyDepth)
	}
	if err := d.spend(replySlotBytes); err != nil {
		return Reply{}, err
	}
	line, err := d.line()
	if err != nil {
		return Reply{}, err
	}
	if len(line) == 0 {
		return Reply{}, replyError("empty line")
	}
	reply := Reply{Type: line[0]}
	text := line[1:]
	switch reply.Type {
	case '+', '-', '(':
		reply.Str = text
	case ':':
		reply.Int, err = strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return Reply{}, replyError("integer %q", text)
		}
	case ',':
		reply.Str = text
		reply.Float, err = strconv.ParseFloat(string(text), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return Reply{}, replyError("double %q", text)
		}
	case '#':
		reply.Str = text
		switch string(text) {
		case "t":
			reply.Int = 1
		case "f":
		default:
			return Reply{}, replyError("boolean %q", text)
		}
	case '_':
		if len(text) != 0 {
			return Reply{}, replyError("null %q", text)
		}
		reply.Null = true
	case '$', '=', '!':
		n, err := replyLength(line)
		if err != nil {
			return Reply{}, err
		}
		if n < 0 {
			reply.Null = true
			return reply, nil
		}
		if reply.Str, err = d.bulk(n); err != nil {
			return Reply{}, err
		}
	case '*', '~', '>', '%', '|':
		n, err := replyLength(line)
		if err != nil {
			return Reply{}, err
		}
		if n < 0 {
			reply.Null = true
			return reply, nil
		}
		if reply.Type == '%' || reply.Type == '|' {
			if n > maxReplyBytes {
				return Reply{}, replyError("length %q", text)
			}
			n *= 2
		}
		for ; n > 0; n-- {
			e, err := d.reply(depth + 1)
			if err != nil {
				return Reply{}, err
			}
			if reply.Type != '|' {
				reply.Elems = append(reply.Elems, e)
			}
		}
		if reply.Type == '|' {
			return d.reply(depth + 1)
		}
	default:
		return Reply{}, replyError("type byte %q", reply.Type)
	}
	return reply, nil
}

// replyLength returns the length in a header line; -1 only for "$-1" and "*-1".
func replyLength(line []byte) (int64, error) {
	n, ok := parseLength(line[1:])
	if !ok || n < 0 && (n != -1 || line[0] != '$' && line[0] != '*') {
		return 0, replyError("length %q", line)
	}
	return n, nil
}

// line returns a copy of the next line without its end.
func (d *replyDecoder) line() ([]byte, error) {
	var line []byte
	for {
		part, err := d.src.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxReplyLineBytes {
			return nil, replyError("line longer than %d bytes", maxReplyLineBytes)
		}
		if err == nil {
			break
		}
		if err != bufio.ErrBufferFull {
			return nil, err
		}
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return nil, replyError("line end without carriage return")
	}
	line = line[:len(line)-2]
	return line, d.spend(int64(len(line)))
}

// bulk returns the n bytes that follow and drops their line end.
func (d *replyDecoder) bulk(n int64) ([]byte, error) {
	if err := d.spend(n); err != nil {
		return nil, err
	}
	b := make([]byte, 0, min(n, replyStepBytes))
	for int64(len(b)) < n {
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(n, 2*int64(cap(b))))
			copy(grown, b)
			b = grown
		}
		m, err := d.src.Read(b[len(b):cap(b)])
		b = b[:len(b)+m]
		if err != nil {
			return nil, err
		}
	}
	var end [2]byte
	if _, err := io.ReadFull(d.src, end[:]); err != nil {
		return nil, err
	}
	if end != [2]byte{'\r', '\n'} {
		return nil, replyError("string longer than its length %d", n)
	}
	return b, nil
}

// Err returns the reply as an *[Error] if it is one, else nil.
func (r Reply) Err() error {
	if r.Type != '-' && r.Type != '!' {
		return nil
	}
	code, text, _ := strings.Cut(string(r.Str), " ")
	return &Error{Code: code, Text: text}
}

// String returns the reply on one line, as scripts state it: +OK, -ERR text,
// :1, "bulk", $nil, *nil, [a, b], and of RESP3 map{k: v}, set{a}, push[a],
// ,1.5, #t, _nil, (123, ="txt:text", !"ERR text".
func (r Reply) String() string { return string(r.appendTo(nil)) }

func (r Reply) appendTo(dst []byte) []byte {
	if r.Null {
		return append(append(dst, r.Type), "nil"...)
	}
	switch r.Type {
	case ':':
		return strconv.AppendInt(append(dst, ':'), r.Int, 10)
	case '$':
		return append(appendEscaped(append(dst, '"'), r.Str), '"')
	case '=', '!':
		return append(appendEscaped(append(dst, r.Type, '"'), r.Str), '"')
	case '*':
		return append(r.appendElems(append(dst, '[')), ']')
	case '>':
		return append(r.appendElems(append(dst, "push["...)), ']')
	case '~':
		return append(r.appendElems(append(dst, "set{"...)), '}')
	case '%':
		return append(r.appendElems(append(dst, "map{"...)), '}')
	default:
		return appendEscaped(append(dst, r.Type), r.Str)
	}
}

func (r Reply) appendElems(dst []byte) []byte {
	for i, e := range r.Elems {
		switch {
		case i == 0:
		case r.Type == '%' && i%2 == 1:
			dst = append(dst, ": "...)
		default:
			dst = append(dst, ", "...)
		}
		dst = e.appendTo(dst)
	}
	return dst
}

// appendEscaped appends b with \r \n \t \" \\ and \xhh for what is not
// printable ASCII.
func appendEscaped(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	for _, c := range b {
		switch {
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '"', c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ', c > '~':
			dst = append(dst, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
