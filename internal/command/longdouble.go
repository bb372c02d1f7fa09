package command

import (
	"math"
	"math/big"

	"kevy/resp"
)

// LongDouble is a number as C's long double is on x86-64: 64 bits of mantissa,
// powers of two up to 16384, and the infinities, never NaN. INCRBYFLOAT and
// HINCRBYFLOAT reckon in it, so that their results are those of Redis there to
// the last digit. A LongDouble does not change once it is made.
type LongDouble struct{ f big.Float }

// ErrNaNOrInfinity answers an increment whose sum is no finite number.
var ErrNaNOrInfinity = &resp.Error{Code: "ERR", Text: "increment would produce NaN or Infinity"}

const (
	longDoubleBits   = 64
	longDoubleMaxExp = 16384 // finite numbers are below 2 to this power

	// maxLongDoubleBytes is the longest text that is read.
	maxLongDoubleBytes = 5*1024 - 1
	// A number whose first digit stands further from the point than this is out
	// of range, and refused before it is built.
	maxLongDoubleDigits = 5000
)

// ParseLongDouble reads what C's strtold reads of a whole text (decimal or
// hexadecimal, with or without exponent, "inf", "infinity"), rounded once to
// nearest, as Redis does. Spaces, NaN, and what is too large or so small that
// nothing but zero is left, are refused.
func ParseLongDouble(b []byte) (*LongDouble, bool) {
	if len(b) == 0 || len(b) > maxLongDoubleBytes {
		return nil, false
	}
	x := new(LongDouble)
	digits, neg := b, false
	if b[0] == '+' || b[0] == '-' {
		digits, neg = b[1:], b[0] == '-'
	}
	switch {
	case EqualFold(digits, "INF"), EqualFold(digits, "INFINITY"):
		x.f.SetInf(neg)
		return x, true
	case len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x':
		if !x.setDigits(digits[2:], 16) {
			return nil, false
		}
	case !x.setDigits(digits, 10):
		return nil, false
	}
	if neg {
		x.f.Neg(&x.f)
	}
	return x, true
}

// setDigits reads digits with an optional point and an optional exponent: of
// ten, or behind hexadecimal digits of two.
func (x *LongDouble) setDigits(text []byte, base int) bool {
	exponentMark := byte('e')
	if base == 16 {
		exponentMark = 'p'
	}
	var mantissa []byte // the digits without the point and without leading zeros
	point, seen := 0, 0 // digits behind the point; digits at all
	pointed := false
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		if c == '.' && !pointed {
			pointed = true
			continue
		}
		if !isDigit(c, base) {
			break
		}
		seen++
		if pointed {
			point++
		}
		if c != '0' || len(mantissa) > 0 {
			mantissa = append(mantissa, c)
		}
	}
	if seen == 0 {
		return false
	}
	exp, ok := parseExponent(text[i:], exponentMark)
	if !ok {
		return false
	}
	if len(mantissa) == 0 {
		x.f.SetPrec(longDoubleBits)
		return true
	}
	// Where the first digit stands, from the point.
	first := len(mantissa) - point
	n, _ := new(big.Int).SetString(string(mantissa), base)
	x.f.SetPrec(longDoubleBits)
	if base == 16 {
		if abs(4*first+exp) > 4*maxLongDoubleDigits {
			return false
		}
		x.f.SetInt(n)
		x.f.SetMantExp(&x.f, exp-4*point)
		return x.inRange()
	}
	if abs(first+exp) > maxLongDoubleDigits {
		return false
	}
	if exp -= point; exp >= 0 {
		x.f.SetInt(n.Mul(n, powerOfTen(exp)))
	} else {
		// The quotient of two exact numbers is rounded once.
		x.f.Quo(new(big.Float).SetInt(n), new(big.Float).SetInt(powerOfTen(-exp)))
	}
	return x.inRange()
}

// longDoubleFloor is half the smallest long double: it, and what is below,
// rounds to zero.
var longDoubleFloor = new(big.Float).SetMantExp(big.NewFloat(1), -16446)

// inRange reports whether the positive number is neither too large nor rounds
// to zero.
func (x *LongDouble) inRange() bool {
	return x.f.MantExp(nil) <= longDoubleMaxExp && x.f.Cmp(longDoubleFloor) > 0
}

func powerOfTen(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func isDigit(c byte, base int) bool {
	if c >= '0' && c <= '9' {
		return true
	}
	c |= 0x20
	return base == 16 && c >= 'a' && c <= 'f'
}

// parseExponent reads the rest of a number: nothing, or the mark and a decimal
// integer. One that is out of any range comes back as some number that is.
func parseExponent(text []byte, mark byte) (exp int, ok bool) {
	if len(text) == 0 {
		return 0, true
	}
	if text[0]|0x20 != mark {
		return 0, false
	}
	digits := text[1:]
	if len(digits) > 0 && (digits[0] == '+' || digits[0] == '-') {
		digits = digits[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		exp = min(exp*10+int(c-'0'), math.MaxInt32)
	}
	if text[1] == '-' {
		exp = -exp
	}
	return exp, true
}

func abs(n int) int { return max(n, -n) }

// IsInf reports whether the number is an infinity.
func (x *LongDouble) IsInf() bool { return x.f.IsInf() }

// Add returns x + y; ok is false if that is no finite number.
func (x *LongDouble) Add(y *LongDouble) (sum *LongDouble, ok bool) {
	if x.IsInf() || y.IsInf() {
		return nil, false
	}
	sum = new(LongDouble)
	sum.f.SetPrec(longDoubleBits).Add(&x.f, &y.f)
	return sum, sum.f.MantExp(nil) <= longDoubleMaxExp
}

// Append appends the number's decimal text with up to 17 places behind the
// point, without zeros at its end and never as "-0".
func (x *LongDouble) Append(dst []byte) []byte {
	const places = 17
	start := len(dst)
	dst = x.f.Append(dst, 'f', places)
	end := len(dst)
	for end > start && dst[end-1] == '0' {
		end--
	}
	if dst[end-1] == '.' {
		end--
	}
	if string(dst[start:end]) == "-0" {
		return append(dst[:start], '0')
	}
	return dst[:end]
}

// String returns the text that Append appends.
func (x *LongDouble) String() string { return string(x.Append(nil)) }

// LongDoubleOf returns n, which every long double holds exactly.
func LongDoubleOf(n int64) *LongDouble {
	x := new(LongDouble)
	x.f.SetPrec(longDoubleBits).SetInt64(n)
	return x
}
