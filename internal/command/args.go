package command

import (
	"bytes"
	"errors"
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

// ArgsOf returns a walk over arguments that did not come with a command.
func ArgsOf(args [][]byte) Args { return Args{rest: args} }

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
const maxFloatBytes = 5 << 10

// ParseFloat reads a number as Redis reads scores (C's strtod over the whole
// text: decimal, exponent, hexadecimal, "inf", "infinity"), but no NaN, no
// spaces, and nothing beyond the range of a double in either direction.
func ParseFloat(b []byte) (float64, bool) {
	f, inRange, ok := parseFloat(b)
	return f, ok && inRange
}

// ParseFloatClamped is ParseFloat, but what is too large is an infinity and
// what is too small 0.
func ParseFloatClamped(b []byte) (float64, bool) {
	f, _, ok := parseFloat(b)
	return f, ok
}

func parseFloat(b []byte) (f float64, inRange, ok bool) {
	if f, ok := parseShortDecimal(b); ok {
		return f, true, true
	}
	if len(b) == 0 || len(b) > maxFloatBytes || bytes.IndexByte(b, '_') >= 0 {
		return 0, false, false
	}
	var err error
	if lacksExponent(b) {
		f, err = strconv.ParseFloat(string(b)+"p0", 64)
	} else {
		f, err = strconv.ParseFloat(string(b), 64)
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		return f, false, true
	case err != nil || f != f:
		return 0, false, false
	}
	return f, f != 0 || !hasDigits(b), true
}

// exactPowers are the powers of ten by which a mantissa of up to maxShortDigits
// digits can be divided with a single rounding: all are doubles.
var exactPowers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

const maxShortDigits = 15

// parseShortDecimal reads what most numbers look like: a sign, a few digits, a
// point among them or not.
func parseShortDecimal(b []byte) (float64, bool) {
	digits := b
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		digits = b[1:]
	}
	var mantissa int64
	n, point := 0, -1
	for i, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			mantissa = mantissa*10 + int64(c-'0')
			n++
		case c == '.' && point < 0:
			point = i
		default:
			return 0, false
		}
		if n > maxShortDigits {
			return 0, false
		}
	}
	if n == 0 {
		return 0, false
	}
	f := float64(mantissa)
	if point >= 0 {
		f /= exactPowers[len(digits)-1-point]
	}
	if b[0] == '-' {
		f = -f
	}
	return f, true
}

// lacksExponent reports whether b is a hexadecimal number without an exponent,
// which C allows and Go does not.
func lacksExponent(b []byte) bool {
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	return len(b) > 1 && b[0] == '0' && (b[1] == 'x' || b[1] == 'X') && !bytes.ContainsAny(b, "pP")
}

// hasDigits reports whether the mantissa of a number has a digit but 0: if the
// number is 0 all the same, it was too small.
func hasDigits(b []byte) bool {
	hex := len(b) > 1 && bytes.ContainsAny(b, "xX")
	for _, c := range b {
		switch {
		case c == 'p' || c == 'P' || !hex && (c == 'e' || c == 'E'):
			return false
		case '1' <= c && c <= '9' || hex && ('a' <= c && c <= 'f' || 'A' <= c && c <= 'F'):
			return true
		}
	}
	return false
}
