package command

import (
	"math"

	"kevy/internal/glob"
	"kevy/resp"
)

// ErrCursor answers a SCAN cursor that is no number.
var ErrCursor = &resp.Error{Code: "ERR", Text: "invalid cursor"}

// defaultScanCount is SCAN's COUNT where none is given.
const defaultScanCount = 10

// ScanOptions are those of SCAN and its kin.
type ScanOptions struct {
	Count int    // at least 1
	Match []byte // nil: everything
	Type  []byte // nil: every type
	// NoValues is HSCAN's: fields alone.
	NoValues bool
}

// Matches reports whether MATCH lets b pass.
func (o *ScanOptions) Matches(b []byte) bool { return o.Match == nil || glob.Match(o.Match, b) }

// ScanOptions reads COUNT and MATCH, and TYPE if the keyspace is scanned; what
// is none of them is a syntax error.
func (a *Args) ScanOptions(keyspace bool) ScanOptions { return a.scanOptions(keyspace, false) }

// HashScanOptions reads COUNT, MATCH and NOVALUES.
func (a *Args) HashScanOptions() ScanOptions { return a.scanOptions(false, true) }

func (a *Args) scanOptions(keyspace, hash bool) ScanOptions {
	o := ScanOptions{Count: defaultScanCount}
	for a.More() {
		switch {
		case a.Is("COUNT"):
			n := a.Int()
			if n < 1 {
				a.Fail(ErrSyntax)
			}
			o.Count = int(min(n, math.MaxInt32))
		case a.Is("MATCH"):
			o.Match = a.Bytes()
			if string(o.Match) == "*" {
				o.Match = nil
			}
		case keyspace && a.Is("TYPE"):
			o.Type = a.Bytes()
		case hash && a.Is("NOVALUES"):
			o.NoValues = true
		default:
			a.Fail(ErrSyntax)
		}
	}
	return o
}

// Cursor returns the next argument as a SCAN cursor; anything else is
// ErrCursor.
func (a *Args) Cursor() uint64 {
	b := a.Bytes()
	n, ok := ParseCursor(b)
	if !ok {
		a.Fail(ErrCursor)
	}
	return n
}

// ParseCursor reads a cursor as C's strtoul reads the whole of a text, which
// ends at a zero byte: decimal, with an optional sign, of which '-' counts from
// the top; nothing at all is 0.
func ParseCursor(b []byte) (uint64, bool) {
	b = CText(b)
	if len(b) == 0 {
		return 0, true
	}
	neg := b[0] == '-'
	if neg || b[0] == '+' {
		if b = b[1:]; len(b) == 0 {
			return 0, false
		}
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := uint64(c - '0')
		if n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	if neg {
		n = -n
	}
	return n, true
}
