package resp

import "math"

// Limits bounds what one client may send. A field that is zero or negative
// stands for its default.
type Limits struct {
	MaxArgs        int   // arguments of one command, its name included
	MaxBulkBytes   int64 // one argument (proto-max-bulk-len)
	MaxQueryBytes  int64 // everything that waits to become a command (client-query-buffer-limit)
	MaxInlineBytes int   // an inline command, or a line that holds a length; at least 16
	// Unauthenticated chooses the texts for a client that must log in first:
	// a length over MaxArgs or MaxBulkBytes is then "unauthenticated", and
	// "invalid" only if no client may send it.
	Unauthenticated bool
}

const (
	defaultMaxArgs        = math.MaxInt32
	defaultMaxBulkBytes   = 512 << 20
	defaultMaxQueryBytes  = 1 << 30
	defaultMaxInlineBytes = 64 << 10

	// minInlineBytes is more than the longest line that shortLength takes
	// without counting.
	minInlineBytes = 16

	unauthenticatedMaxArgs       = 10
	unauthenticatedMaxBulkBytes  = 16 << 10
	unauthenticatedMaxQueryBytes = 1 << 20
)

// DefaultLimits returns the limits of redis-server 7.0: INT_MAX arguments,
// 512 MiB an argument, 1 GiB in all, 64 KiB a line. The number of arguments is
// in effect bounded by MaxQueryBytes, which counts their bookkeeping too.
func DefaultLimits() Limits {
	return Limits{
		MaxArgs:        defaultMaxArgs,
		MaxBulkBytes:   defaultMaxBulkBytes,
		MaxQueryBytes:  defaultMaxQueryBytes,
		MaxInlineBytes: defaultMaxInlineBytes,
	}
}

// UnauthenticatedLimits returns the limits for a client that must log in
// before anything else: 10 arguments, 16 KiB an argument, 1 MiB in all.
func UnauthenticatedLimits() Limits {
	return Limits{
		MaxArgs:         unauthenticatedMaxArgs,
		MaxBulkBytes:    unauthenticatedMaxBulkBytes,
		MaxQueryBytes:   unauthenticatedMaxQueryBytes,
		MaxInlineBytes:  defaultMaxInlineBytes,
		Unauthenticated: true,
	}
}

// maxLength is the largest length that arithmetic on positions can take.
const maxLength = math.MaxInt / 4

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.MaxArgs <= 0 {
		l.MaxArgs = d.MaxArgs
	}
	if l.MaxBulkBytes <= 0 {
		l.MaxBulkBytes = d.MaxBulkBytes
	}
	if l.MaxQueryBytes <= 0 {
		l.MaxQueryBytes = d.MaxQueryBytes
	}
	if l.MaxInlineBytes <= 0 {
		l.MaxInlineBytes = d.MaxInlineBytes
	}
	l.MaxArgs = min(l.MaxArgs, math.MaxInt32)
	l.MaxBulkBytes = min(l.MaxBulkBytes, maxLength)
	l.MaxInlineBytes = min(max(l.MaxInlineBytes, minInlineBytes), maxLength)
	return l
}

// checkArgs returns the error for a command that announces n arguments, if any.
func (l *Limits) checkArgs(n int64) *Error {
	switch {
	case n <= int64(l.MaxArgs):
		return nil
	case l.Unauthenticated && n <= defaultMaxArgs:
		return errMultibulkLengthAuth
	default:
		return errMultibulkLength
	}
}

// checkBulk returns the error for an argument that announces n bytes, if any.
func (l *Limits) checkBulk(n int64) *Error {
	switch {
	case n < 0:
		return errBulkLength
	case n <= l.MaxBulkBytes:
		return nil
	case l.Unauthenticated && n <= defaultMaxBulkBytes:
		return errBulkLengthAuth
	default:
		return errBulkLength
	}
}
