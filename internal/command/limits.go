package command

import "sync/atomic"

// MaxStringBytes is how long a string may grow by SETRANGE, APPEND, SETBIT and
// their like: proto-max-bulk-len.
var MaxStringBytes atomic.Int64

// defaultMaxStringBytes holds until MaxStringBytes is set.
const defaultMaxStringBytes = 512 << 20

// storableBytes is what a key can hold whatever the setting says, less the few
// bytes by which a bit field may reach beyond its offset.
const storableBytes = 1<<30 - 64

// StringLimit returns the greatest length of a string that a command may make.
func StringLimit() int64 {
	n := MaxStringBytes.Load()
	if n == 0 {
		n = defaultMaxStringBytes
	}
	return min(n, storableBytes)
}

// FitsString reports whether a string of have bytes may grow by more bytes.
func FitsString(have, more int64) bool {
	return have <= StringLimit() && more <= StringLimit()-have
}
