package resp

import "math"

// shortLength reads the usual length line: a type byte, one to nine digits,
// a carriage return and the byte after it. size is 0 for anything else, an
// incomplete line included; parseLength then decides.
func shortLength(b []byte) (n, size int) {
	if len(b) < 4 {
		return 0, 0
	}
	d := b[1] - '0'
	if d > 9 {
		return 0, 0
	}
	if b[2] == '\r' {
		return int(d), 4
	}
	if d == 0 {
		return 0, 0
	}
	n = int(d)
	for i := 2; i < 11 && i+1 < len(b); i++ {
		if b[i] == '\r' {
			return n, i + 2
		}
		d := b[i] - '0'
		if d > 9 {
			return 0, 0
		}
		n = n*10 + int(d)
	}
	return 0, 0
}

// parseLength reads a decimal int64 as Redis does (string2ll): no sign but a
// minus, no leading zero, no "-0", no space, no overflow.
func parseLength(text []byte) (int64, bool) {
	if len(text) == 1 && text[0] == '0' {
		return 0, true
	}
	digits, negative := text, false
	if len(digits) > 0 && digits[0] == '-' {
		digits, negative = digits[1:], true
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' {
		return 0, false
	}
	var n uint64 // 19 digits fit
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if negative {
		if n > -math.MinInt64 {
			return 0, false
		}
		return -int64(n), true
	}
	if n > math.MaxInt64 {
		return 0, false
	}
	return int64(n), true
}
