package changes

import (
	"fmt"
	"strconv"
	"strings"
)

// All is the name of the stream of the whole store, in commit order.
const All = "ALL"

// Cursor is a position in one stream: the frame with this offset, in this
// generation, is the next one. Generations are compared for equality only; a
// cursor of one stream means nothing in another.
type Cursor struct{ Generation, Offset uint64 }

// String returns the cursor as "generation:offset", which [ParseCursor] reads.
func (c Cursor) String() string {
	return strconv.FormatUint(c.Generation, 10) + ":" + strconv.FormatUint(c.Offset, 10)
}

// IsZero reports whether the cursor is the zero value, which names no position:
// a generation is never 0.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// ParseCursor reads what [Cursor.String] writes. It takes nothing else: no
// sign, no white space, no number beyond 63 bits, which is what the server takes.
func ParseCursor(s string) (Cursor, error) {
	generation, offset, ok := strings.Cut(s, ":")
	g, ok1 := parseDecimal(generation)
	o, ok2 := parseDecimal(offset)
	if !ok || !ok1 || !ok2 {
		return Cursor{}, fmt.Errorf("changes: %q is no cursor: write generation:offset, two decimal numbers", s)
	}
	return Cursor{Generation: g, Offset: o}, nil
}

// parseDecimal reads digits and nothing else.
func parseDecimal(s string) (uint64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return n, err == nil
}
