package lualib

import (
	"math"
	"strconv"
	"strings"
)

// appendG appends a number as "%.<precision>g" or, if alternate, "%#.<precision>g"
// prints it.
func appendG(dst []byte, f float64, precision int, alternate bool) []byte {
	if b, ok := appendSpecial(dst, f); ok {
		return b
	}
	if precision == 0 {
		precision = 1
	}
	var scratch [400]byte
	e := strconv.AppendFloat(scratch[:0], f, 'e', precision-1, 64)
	i := len(e) - 1
	for e[i] != 'e' {
		i--
	}
	exponent, _ := strconv.Atoi(string(e[i+1:]))
	if exponent < -4 || exponent >= precision {
		mantissa := e[:i]
		if !alternate {
			mantissa = trimZeros(mantissa)
		} else if precision == 1 {
			mantissa = append(append([]byte{}, mantissa...), '.')
		}
		dst = append(dst, mantissa...)
		return append(dst, e[i:]...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', precision-1-exponent, 64)
	if alternate {
		if precision-1-exponent == 0 {
			dst = append(dst, '.')
		}
		return dst
	}
	return dst[:start+len(trimZeros(dst[start:]))]
}

// appendSpecial appends infinities and NaN, whose sign C shows.
func appendSpecial(dst []byte, f float64) ([]byte, bool) {
	switch {
	case math.IsNaN(f) && math.Signbit(f):
		return append(dst, "-nan"...), true
	case math.IsNaN(f):
		return append(dst, "nan"...), true
	case math.IsInf(f, 1):
		return append(dst, "inf"...), true
	case math.IsInf(f, -1):
		return append(dst, "-inf"...), true
	}
	return dst, false
}

// trimZeros takes zeros, and a point, off the end of a decimal fraction.
func trimZeros(b []byte) []byte {
	point := false
	for _, c := range b {
		point = point || c == '.'
	}
	if !point {
		return b
	}
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	if b[len(b)-1] == '.' {
		b = b[:len(b)-1]
	}
	return b
}

// appendNumber appends a number as tostring and .. show it: "%.14g".
func appendNumber(dst []byte, f float64) []byte {
	if i := int64(f); float64(i) == f && -1e14 < f && f < 1e14 && (i != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(dst, i, 10)
	}
	return appendG(dst, f, 14, false)
}

// numberString is appendNumber as a string.
func numberString(f float64) string {
	var scratch [32]byte
	return string(appendNumber(scratch[:0], f))
}

// parseNumber reads the text of a number as Lua 5.1 does, which leaves it to C's
// strtod: white space around, hexadecimal integers and fractions, inf and nan.
func parseNumber(s string) (float64, bool) {
	if n := len(s); 0 < n && n < 16 {
		// Most are short and decimal.
		v, i := int64(0), 0
		for i < n && isDigit(s[i]) {
			v = v*10 + int64(s[i]-'0')
			i++
		}
		if i == n {
			return float64(v), true
		}
	}
	s = strings.Trim(s, " \t\n\v\f\r")
	f, n := strtod(s)
	return f, n > 0 && n == len(s)
}

// strtod is C's: it returns the number that s begins with, and how many bytes
// that takes, 0 if it begins with none.
func strtod(s string) (float64, int) {
	i := 0
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	start := i
	negative := false
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		negative = s[i] == '-'
		i++
	}
	sign := func(f float64) float64 {
		if negative {
			return -f
		}
		return f
	}
	rest := strings.ToLower(s[i:min(len(s), i+8)])
	switch {
	case strings.HasPrefix(rest, "infinity"):
		return sign(math.Inf(1)), i + 8
	case strings.HasPrefix(rest, "inf"):
		return sign(math.Inf(1)), i + 3
	case strings.HasPrefix(rest, "nan"):
		end := i + 3
		if end < len(s) && s[end] == '(' {
			j := end + 1
			for j < len(s) && (isAlnum(s[j]) || s[j] == '_') {
				j++
			}
			if j < len(s) && s[j] == ')' {
				end = j + 1
			}
		}
		return sign(math.Float64frombits(0x7ff8 << 48)), end
	case strings.HasPrefix(rest, "0x"):
		if f, n := strtodHex(s[i+2:]); n > 0 {
			return sign(f), i + 2 + n
		}
		return sign(0), i + 1
	}
	digits := 0
	for i < len(s) && isDigit(s[i]) {
		i++
		digits++
	}
	if i < len(s) && s[i] == '.' {
		i++
		for i < len(s) && isDigit(s[i]) {
			i++
			digits++
		}
	}
	if digits == 0 {
		return 0, 0
	}
	i = exponentEnd(s, i, 'e')
	// Out of range is infinity or zero, as in C.
	f, _ := strconv.ParseFloat(s[start:i], 64)
	return f, i
}

// exponentEnd returns where the exponent ends that begins at i with a letter; i if there
// is none.
func exponentEnd(s string, i int, letter byte) int {
	if i == len(s) || s[i]|0x20 != letter {
		return i
	}
	j := i + 1
	if j < len(s) && (s[j] == '+' || s[j] == '-') {
		j++
	}
	digits := j
	for j < len(s) && isDigit(s[j]) {
		j++
	}
	if j == digits {
		return i
	}
	return j
}

// strtodHex reads what follows "0x".
func strtodHex(s string) (float64, int) {
	i, digits := 0, 0
	for i < len(s) && hexDigit(s[i]) >= 0 {
		i++
		digits++
	}
	if i < len(s) && s[i] == '.' {
		j := i + 1
		for j < len(s) && hexDigit(s[j]) >= 0 {
			j++
			digits++
		}
		if digits > 0 {
			i = j
		}
	}
	if digits == 0 {
		return 0, 0
	}
	text := "0x" + s[:i]
	exponent := "p0"
	if end := exponentEnd(s, i, 'p'); end > i {
		exponent, i = s[i:end], end
	}
	f, _ := strconv.ParseFloat(text+exponent, 64)
	return f, i
}

// hexDigit is the value of a hexadecimal digit, -1 for anything else.
func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// toInt64 converts as the processor does where C leaves it undefined: what does
// not fit becomes the least integer.
func toInt64(f float64) int64 {
	if f >= -(1<<63) && f < 1<<63 {
		return int64(f)
	}
	return math.MinInt64
}

// toInt32 converts as C's (int)(ptrdiff_t)f does on 64 bits: modulo 2^32.
func toInt32(f float64) int { return int(int32(toInt64(f))) }

// appendFixed appends a number as "%e" or "%f" prints it.
func appendFixed(dst []byte, f float64, kind byte, precision int) []byte {
	return strconv.AppendFloat(dst, f, kind, precision, 64)
}

// withPoint puts a point behind the digits of a number without fraction.
func withPoint(b []byte) []byte {
	if i := strings.IndexByte(string(b), 'e'); i >= 0 {
		return append(append(append([]byte{}, b[:i]...), '.'), b[i:]...)
	}
	return append(b, '.')
}
