package command

import (
	"bytes"
	"math"
	"strconv"

	"kevy/resp"
)

// Args walks over a command's arguments. The first fault is kept and everything
// after it yields zero values, so a handler parses all and asks once.
type Args struct {
	rest [][]byte
	err  *resp.Error
}

// Scan returns a walk that begins at argument from.
func (c *Ctx) Scan(from int) Args { return Args{rest: c.Args[from:]} }

// More reports whether arguments are left and none was wrong.
func (a *Args) More() bool { return a.err == nil && len(a.rest) > 0 }

// Len returns the number of arguments left.
func (a *Args) Len() int { return len(a.rest) }

// Rest returns and consumes all arguments left.
func (a *Args) Rest() [][]byte {
	r := a.rest
	a.rest = nil
	return r
}

// Err returns the first fault.
func (a *Args) Err() *resp.Error { return a.err }

// Fail notes a fault unless there was one before.
func (a *Args) Fail(err *resp.Error) {
	if a.err == nil {
		a.err = err
	}
}

// Bytes returns the next argument; a missing one is a syntax error.
func (a *Args) Bytes() []byte {
	if !a.More() {
		a.Fail(ErrSyntax)
		return nil
	}
	b := a.rest[0]
	a.rest = a.rest[1:]
	return b
}

// Peek returns the next argument without consuming it, nil if there is none.
func (a *Args) Peek() []byte {
	if !a.More() {
		return nil
	}
	return a.rest[0]
}

// Is consumes the next argument if it is the keyword, without regard to case.
func (a *Args) Is(keyword string) bool {
	if a.More() && EqualFold(a.rest[0], keyword) {
		a.rest = a.rest[1:]
		return true
	}
	return false
}

// Int returns the next argument as an integer; anything else is ErrNotInt.
func (a *Args) Int() int64 {
	b := a.Bytes()
	if a.err != nil {
		return 0
	}
	n, ok := ParseInt(b)
	if !ok {
		a.Fail(ErrNotInt)
	}
	return n
}

// AtLeast returns the next argument as an integer that is not below min; what
// is no integer, or is below, is err.
func (a *Args) AtLeast(min int64, err *resp.Error) int64 {
	b := a.Bytes()
	if a.err != nil {
		return 0
	}
	n, ok := ParseInt(b)
	if !ok || n < min {
		a.Fail(err)
	}
	return n
}

// CountedKeys returns the keys that the next argument counts. A number below
// one is ErrNumKeys; if fewer arguments follow, that is tooFew.
func (a *Args) CountedKeys(tooFew *resp.Error) [][]byte {
	n := a.AtLeast(1, ErrNumKeys)
	if a.err == nil && n > int64(len(a.rest)) {
		a.Fail(tooFew)
	}
	if a.err != nil {
		return nil
	}
	keys := a.rest[:n]
	a.rest = a.rest[n:]
	return keys
}

// Float returns the next argument as a number, infinities included, NaN not;
// anything else is ErrNotFloat.
func (a *Args) Float() float64 {
	b := a.Bytes()
	if a.err != nil {
		return 0
	}
	f, ok := ParseFloat(b)
	if !ok {
		a.Fail(ErrNotFloat)
	}
	return f
}

// EqualFold reports whether b is the keyword without regard to (ASCII) case.
// keyword must be upper case.
func EqualFold(b []byte, keyword string) bool {
	if len(b) != len(keyword) {
		return false
	}
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != keyword[i] {
			return false
		}
	}
	return true
}

// ParseInt reads an integer as strictly as Redis does: canonical decimal text
// of an int64, no sign but '-', no leading zeros, no spaces.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	digits, neg := b, false
	if b[0] == '-' {
		digits, neg = b[1:], true
		if len(digits) == 0 {
			return 0, false
		}
	}
	if digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
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
		if n > 1<<63 {
			return 0, false
		}
		return -int64(n), true
	}
	if n > math.MaxInt64 {
		return 0, false
	}
	return int64(n), true
}

// maxFloatBytes is the longest text of a number that is accepted.
const maxFloatBytes = 256

// ParseFloat reads a number as Redis reads scores (C's strtod over the whole
// text: decimal, exponent, hexadecimal, "inf", "infinity"), but no NaN and no
// spaces.
func ParseFloat(b []byte) (float64, bool) {
	if len(b) == 0 || len(b) > maxFloatBytes || bytes.IndexByte(b, '_') >= 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(cFloat(b), 64)
	if err != nil {
		ne, ok := err.(*strconv.NumError)
		if !ok || ne.Err != strconv.ErrRange {
			return 0, false
		}
		// strtod reports a range error, which Redis refuses; an underflow to a
		// number it accepts comes back from ParseFloat without one.
		return 0, false
	}
	return f, f == f
}

// cFloat turns C's forms that Go lacks into Go's: a hexadecimal number may lack
// its exponent.
func cFloat(b []byte) string {
	s := string(b)
	digits := s
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	if len(digits) > 1 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') &&
		!bytes.ContainsAny(b, "pP") {
		return s + "p0"
	}
	return s
}
