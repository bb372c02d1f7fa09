package feed

import (
	"bytes"
	"fmt"
	"strconv"

	"kevy/internal/glob"
	"kevy/internal/op"
)

// MaxPatterns is how many key filters of one kind a reader may have.
const MaxPatterns = 16

// FilterError says what is wrong with a filter.
type FilterError struct{ Reason string }

func (e *FilterError) Error() string { return "invalid filter: " + e.Reason }

// Filter says which frames a reader wants. The zero value passes every key of
// database 0; a nil *Filter passes everything.
type Filter struct {
	// DB is the database; AllDBs passes all of them.
	DB     int
	AllDBs bool

	prefixes [][]byte
	globs    []keyGlob
}

// keyGlob is a MATCH pattern with what every matching key begins with.
type keyGlob struct {
	pattern  []byte
	prefix   []byte
	onlyStar bool // all that follows in the pattern is one *
}

// AddPrefix lets keys pass that begin with p, which is copied. The error is a
// *FilterError.
func (f *Filter) AddPrefix(p []byte) error {
	if len(p) == 0 {
		return &FilterError{"PREFIX must not be empty"}
	}
	if len(f.prefixes) == MaxPatterns {
		return &FilterError{fmt.Sprintf("more than %d PREFIX", MaxPatterns)}
	}
	f.prefixes = append(f.prefixes, bytes.Clone(p))
	return nil
}

// AddMatch lets keys pass that the glob matches as Redis's KEYS does; it is
// copied. The error is a *FilterError.
func (f *Filter) AddMatch(pattern []byte) error {
	if len(pattern) == 0 {
		return &FilterError{"MATCH must not be empty"}
	}
	if len(f.globs) == MaxPatterns {
		return &FilterError{fmt.Sprintf("more than %d MATCH", MaxPatterns)}
	}
	g := keyGlob{pattern: bytes.Clone(pattern)}
	g.prefix, g.onlyStar = literalPrefix(g.pattern)
	f.globs = append(f.globs, g)
	return nil
}

// literalPrefix returns what every match of a pattern begins with, and whether
// all that follows in it is one *.
func literalPrefix(pattern []byte) (prefix []byte, onlyStar bool) {
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			return prefix, i == len(pattern)-1
		case c == '?' || c == '[':
			return prefix, false
		case c == '\\' && i+1 < len(pattern):
			i++
			prefix = append(prefix, pattern[i])
		default:
			prefix = append(prefix, c)
		}
	}
	return prefix, false
}

// Selects reports whether there are key filters.
func (f *Filter) Selects() bool { return len(f.prefixes) > 0 || len(f.globs) > 0 }

// passes reports whether the reader wants the frame. What concerns every key of
// a database passes the key filters: nobody could keep a mirror without it.
func (f *Filter) passes(fr *op.Frame) bool {
	if f == nil {
		return true
	}
	switch fr.Verb {
	case op.FlushAll:
		return true
	case op.SwapDB:
		return f.AllDBs
	}
	if !f.AllDBs && fr.DB != f.DB {
		return false
	}
	if !fr.Verb.Keyed() || len(f.prefixes) == 0 && len(f.globs) == 0 {
		return true
	}
	return f.passesKey(fr.Key())
}

func (f *Filter) passesKey(key []byte) bool {
	for _, p := range f.prefixes {
		if bytes.HasPrefix(key, p) {
			return true
		}
	}
	for i := range f.globs {
		g := &f.globs[i]
		if bytes.HasPrefix(key, g.prefix) && (g.onlyStar || glob.Match(g.pattern, key)) {
			return true
		}
	}
	return false
}

// losesTrack reports whether the frame ends what the reader can follow: its
// database was exchanged with another one, whose keys it never saw.
func (f *Filter) losesTrack(fr *op.Frame) bool {
	if f == nil || f.AllDBs || fr.Verb != op.SwapDB {
		return false
	}
	for _, arg := range fr.Args[1:3] {
		if db, err := strconv.Atoi(string(arg)); err != nil || db == f.DB {
			return true
		}
	}
	return false
}
