package command

import "bytes"

// CText returns what C reads of b as text: what stands before the first zero
// byte. Redis shows arguments so in some of its errors.
func CText(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}
