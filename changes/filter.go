package changes

import (
	"errors"
	"fmt"
	"strconv"
)

// maxFiltersOfAKind is how many filters of one kind the server takes.
const maxFiltersOfAKind = 16

// Filter selects frames, on the server. The zero value passes every key of
// database 0.
//
// Prefixes, Matches and Regexes look at the key: a frame passes if one of them
// does, or if there is none. The Value filters look at what an op writes, in the
// same way; an op that writes no value (DEL, PEXPIREAT) passes them. FLUSHALL
// passes every filter. There may be 16 of each kind, and none may be blank.
type Filter struct {
	// Prefixes are what the key begins with.
	Prefixes []string
	// Matches are globs over the whole key, as of KEYS.
	Matches []string
	// Regexes are searched in what follows a prefix of the key.
	Regexes []KeyRegex
	// ValueExact, ValuePrefixes and ValueRegexes look at the value.
	ValueExact, ValuePrefixes, ValueRegexes []string
	// DB is the database. AllDBs takes all of them, whatever DB says.
	DB     int
	AllDBs bool
	// ByteMode lets regular expressions match bytes rather than UTF-8 text.
	ByteMode bool
}

// KeyRegex is a regular expression (RE2) that is searched, unanchored, in what
// follows Prefix in the key.
type KeyRegex struct{ Prefix, Pattern string }

var errNegativeDB = errors.New("changes: Filter.DB is negative")

// appendArgs appends the filters as arguments of SINCE and SUBSCRIBE.
func (f *Filter) appendArgs(args []string) []string {
	add := func(name string, values []string) {
		for _, v := range values {
			args = append(args, name, v)
		}
	}
	if f.AllDBs {
		args = append(args, "DB", "*")
	} else {
		args = append(args, "DB", strconv.Itoa(f.DB))
	}
	if f.ByteMode {
		args = append(args, "BYTEMODE")
	}
	add("PREFIX", f.Prefixes)
	add("MATCH", f.Matches)
	for _, r := range f.Regexes {
		args = append(args, "REGEX", r.Prefix, r.Pattern)
	}
	for _, v := range f.ValueExact {
		args = append(args, "VALUE", "EXACT", v)
	}
	for _, v := range f.ValuePrefixes {
		args = append(args, "VALUE", "PREFIX", v)
	}
	for _, v := range f.ValueRegexes {
		args = append(args, "VALUE", "REGEX", v)
	}
	return args
}

// check finds what the server would refuse without looking at its data.
func (f *Filter) check() error {
	if f.DB < 0 {
		return errNegativeDB
	}
	for _, kind := range []struct {
		name   string
		values []string
	}{
		{"Prefixes", f.Prefixes}, {"Matches", f.Matches},
		{"ValueExact", f.ValueExact}, {"ValuePrefixes", f.ValuePrefixes}, {"ValueRegexes", f.ValueRegexes},
	} {
		if len(kind.values) > maxFiltersOfAKind {
			return fmt.Errorf("changes: Filter.%s has %d entries; the server takes %d", kind.name, len(kind.values), maxFiltersOfAKind)
		}
		for _, v := range kind.values {
			if v == "" {
				return fmt.Errorf("changes: Filter.%s has a blank entry", kind.name)
			}
		}
	}
	if len(f.Regexes) > maxFiltersOfAKind {
		return fmt.Errorf("changes: Filter.Regexes has %d entries; the server takes %d", len(f.Regexes), maxFiltersOfAKind)
	}
	for _, r := range f.Regexes {
		if r.Pattern == "" {
			return errors.New("changes: Filter.Regexes has a blank pattern")
		}
	}
	return nil
}

// passesAll reports whether nothing is left out, so that offsets have no holes.
func (f *Filter) passesAll() bool {
	return f.AllDBs && len(f.Prefixes)+len(f.Matches)+len(f.Regexes)+len(f.ValueExact)+len(f.ValuePrefixes)+len(f.ValueRegexes) == 0
}
