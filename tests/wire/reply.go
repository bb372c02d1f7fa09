// Package wire is the client side of RESP for the tests: it sends commands and reads replies with
// every type kept apart, so that a test can compare exactly what a server wrote. It shares no code
// with the server, so that one mistake cannot hide in both.
package wire

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the type byte of a reply as it stands on the wire.
type Kind byte

// The reply types of RESP2 and RESP3. A RESP2 nil is a Bulk or an Array with Nil set.
const (
	Simple   Kind = '+'
	Error    Kind = '-'
	Int      Kind = ':'
	Bulk     Kind = '$'
	Array    Kind = '*'
	Null     Kind = '_'
	Double   Kind = ','
	Bool     Kind = '#'
	Big      Kind = '('
	Verbatim Kind = '='
	Map      Kind = '%'
	Set      Kind = '~'
	Push     Kind = '>'
)

// Reply is one decoded reply. Text holds the payload of the scalar types; Elems the elements of the
// aggregates, keys and values of a Map in turn.
type Reply struct {
	Kind  Kind
	Nil   bool
	Text  []byte
	Elems []Reply
}

// IsError reports whether the reply is an error, and whether its first word is code ("" for any).
func (r Reply) IsError(code string) bool {
	if r.Kind != Error {
		return false
	}
	return code == "" || string(r.Text) == code || bytes.HasPrefix(r.Text, []byte(code+" "))
}

// IsNil reports whether the reply is one of the three nils.
func (r Reply) IsNil() bool { return r.Kind == Null || r.Nil }

// Int returns the integer of an Int reply, or of a scalar whose text is one.
func (r Reply) Int() (int64, error) {
	if r.Nil || len(r.Elems) > 0 {
		return 0, fmt.Errorf("reply %s is not an integer", r)
	}
	return strconv.ParseInt(string(r.Text), 10, 64)
}

// Scalar reports whether the reply has a text rather than elements.
func (r Reply) Scalar() bool {
	switch r.Kind {
	case Array, Map, Set, Push:
		return false
	}
	return true
}

// Strings returns the texts of the elements of an aggregate.
func (r Reply) Strings() []string {
	out := make([]string, len(r.Elems))
	for i, e := range r.Elems {
		out[i] = string(e.Text)
	}
	return out
}

// Equal reports whether both replies are the same bytes on the wire.
func (r Reply) Equal(o Reply) bool {
	if r.Kind != o.Kind || r.Nil != o.Nil || len(r.Elems) != len(o.Elems) || !bytes.Equal(r.Text, o.Text) {
		return false
	}
	for i := range r.Elems {
		if !r.Elems[i].Equal(o.Elems[i]) {
			return false
		}
	}
	return true
}

// String is the notation of the scripts: +OK, -ERR text, :1, "bulk", ="txt:verbatim", $nil, *nil,
// [a, b], push[a, b], set{a, b}, map{k: v}, _nil, ,1.5, #t, (123.
func (r Reply) String() string {
	var b strings.Builder
	r.write(&b)
	return b.String()
}

func (r Reply) write(b *strings.Builder) {
	open, end := "[", "]"
	switch r.Kind {
	case Bulk, Verbatim:
		if r.Nil {
			b.WriteString("$nil")
			return
		}
		if r.Kind == Verbatim {
			b.WriteByte('=')
		}
		b.WriteByte('"')
		b.WriteString(Escape(r.Text))
		b.WriteByte('"')
		return
	case Null:
		b.WriteString("_nil")
		return
	case Array:
		if r.Nil {
			b.WriteString("*nil")
			return
		}
	case Push:
		open = "push["
	case Set:
		open, end = "set{", "}"
	case Map:
		open, end = "map{", "}"
	default:
		b.WriteByte(byte(r.Kind))
		b.WriteString(Escape(r.Text))
		return
	}
	b.WriteString(open)
	for i, e := range r.Elems {
		switch {
		case i == 0:
		case r.Kind == Map && i%2 == 1:
			b.WriteString(": ")
		default:
			b.WriteString(", ")
		}
		e.write(b)
	}
	b.WriteString(end)
}

// Escape writes bytes in the notation of quoted script arguments: printable ASCII as it is, the rest
// as \r, \n, \t, \", \\ or \xNN.
func Escape(p []byte) string {
	const hex = "0123456789abcdef"
	b := make([]byte, 0, len(p))
	for _, c := range p {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < 32 || c > 126:
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// Unescape is the inverse of Escape. A backslash before any other character stands for that character.
func Unescape(s string) ([]byte, error) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		if i == len(s) {
			return nil, fmt.Errorf("backslash at the end of %q", s)
		}
		switch s[i] {
		case 'r':
			out = append(out, '\r')
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'x':
			if i+2 >= len(s) {
				return nil, fmt.Errorf("\\x without two hex digits in %q", s)
			}
			v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return nil, fmt.Errorf("\\x without two hex digits in %q", s)
			}
			out = append(out, byte(v))
			i += 2
		default:
			out = append(out, s[i])
		}
	}
	return out, nil
}

// Quote writes one argument so that a script line reads it back: bare where it can stand bare.
func Quote(arg []byte) string {
	if len(arg) == 0 {
		return `""`
	}
	for _, c := range arg {
		if c <= ' ' || c > 126 || c == '"' || c == '\\' || c == '@' || c == '$' || c == '#' || c == '{' {
			return `"` + Escape(arg) + `"`
		}
	}
	return string(arg)
}
