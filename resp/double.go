package resp

import (
	"math"
	"strconv"
)

// exactIntegerLimit: integers up to this magnitude are written out in full.
const exactIntegerLimit = 1 << 62

// AppendDouble appends the text of f as Redis 7.2 and later write scores
// (d2string):
//
//   - inf, -inf, nan, 0, -0;
//   - an integer of magnitude ≤ 2^62 in full: 3, -17, 4611686018427387904;
//   - else the shortest digits that read back as f: without exponent if they
//     end before the decimal point with at most 7 zeros to be added
//     (9223372036854776000), or if they end at most 6 places behind it, or if
//     the first of them stands less than four places from it (0.1, 0.000001,
//     3.141592653589793, 1234.5678901); else as 1e-7, 1e+21, 1.2345678901234e+4.
//
// Redis before 7.2 wrote up to 17 digits; both texts read as the same number.
func AppendDouble(dst []byte, f float64) []byte {
	switch {
	case f != f:
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	case f == 0:
		if math.Signbit(f) {
			dst = append(dst, '-')
		}
		return append(dst, '0')
	}
	if math.Abs(f) <= exactIntegerLimit {
		if n := int64(f); float64(n) == f {
			return strconv.AppendInt(dst, n, 10)
		}
	}
	var scratch [32]byte
	text := strconv.AppendFloat(scratch[:0], math.Abs(f), 'e', -1, 64)
	if f < 0 {
		dst = append(dst, '-')
	}
	digits, exp10 := splitScientific(text)
	n := len(digits)
	last := exp10 - (n - 1) // power of ten of the last digit
	switch {
	case last >= 0 && last < 8:
		dst = append(dst, digits...)
		return appendZeros(dst, last)
	case last < 0 && (last > -7 || -4 < exp10 && exp10 < 4):
		if exp10 < 0 {
			dst = append(dst, '0', '.')
			dst = appendZeros(dst, -exp10-1)
			return append(dst, digits...)
		}
		dst = append(dst, digits[:exp10+1]...)
		dst = append(dst, '.')
		return append(dst, digits[exp10+1:]...)
	}
	dst = append(dst, digits[0])
	if n > 1 {
		dst = append(dst, '.')
		dst = append(dst, digits[1:]...)
	}
	dst = append(dst, 'e')
	if exp10 >= 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(exp10), 10)
}

// splitScientific takes "d.ddde±xx" apart, in place: the digits without the
// point, and the power of ten of the first.
func splitScientific(text []byte) (digits []byte, exp10 int) {
	e := len(text) - 1
	for text[e] != 'e' {
		e--
	}
	for _, c := range text[e+2:] {
		exp10 = exp10*10 + int(c-'0')
	}
	if text[e+1] == '-' {
		exp10 = -exp10
	}
	digits = text[:e]
	if e > 1 {
		digits = append(text[:1], text[2:e]...)
	}
	return digits, exp10
}

func appendZeros(dst []byte, n int) []byte {
	for ; n > 0; n-- {
		dst = append(dst, '0')
	}
	return dst
}
