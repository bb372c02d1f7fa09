package resp

import "fmt"

// Error is an error as a client sees it: on the wire it is "-Code Text".
type Error struct {
	Code string // first word, upper case: "ERR", "WRONGTYPE", …
	Text string // the rest of the line
}

// Error returns the line that goes to the client, without its type byte.
func (e *Error) Error() string {
	if e.Code == "" {
		return e.Text
	}
	return e.Code + " " + e.Text
}

// Errorf returns an Error whose text is formatted as by [fmt.Sprintf].
func Errorf(code, format string, a ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, a...)}
}

// ErrQueryTooBig is what [Reader.Fill] returns once a client has more bytes
// waiting than Limits.MaxQueryBytes. Redis closes such a connection without a
// reply.
var ErrQueryTooBig = &Error{Code: "ERR", Text: "Protocol error: too big query buffer"}

// The protocol errors of a Reader. Each one ends the connection once it has
// been sent: what follows the fault cannot be told from data.
var (
	errMultibulkLength     = &Error{Code: "ERR", Text: "Protocol error: invalid multibulk length"}
	errMultibulkLengthAuth = &Error{Code: "ERR", Text: "Protocol error: unauthenticated multibulk length"}
	errMultibulkLine       = &Error{Code: "ERR", Text: "Protocol error: too big mbulk count string"}
	errBulkLength          = &Error{Code: "ERR", Text: "Protocol error: invalid bulk length"}
	errBulkLengthAuth      = &Error{Code: "ERR", Text: "Protocol error: unauthenticated bulk length"}
	errBulkLine            = &Error{Code: "ERR", Text: "Protocol error: too big bulk count string"}
	errInlineLine          = &Error{Code: "ERR", Text: "Protocol error: too big inline request"}
	errInlineQuotes        = &Error{Code: "ERR", Text: "Protocol error: unbalanced quotes in request"}
)

// errNotBulk is the error for an argument that begins with got instead of '$'.
// The byte goes out as it came, but for the two that would end the line.
func errNotBulk(got byte) *Error {
	if got == '\r' || got == '\n' {
		got = ' '
	}
	return &Error{Code: "ERR", Text: "Protocol error: expected '$', got '" + string([]byte{got}) + "'"}
}
