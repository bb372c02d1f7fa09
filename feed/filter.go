package feed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"kevy/internal/glob"
	"kevy/internal/op"
)

// Limits of a filter.
const (
	// MaxPatterns is how many filters of one kind a reader may have.
	MaxPatterns = 16
	// MaxTextBytes is the longest text that is compared as it stands: of PREFIX,
	// VALUE EXACT and VALUE PREFIX, and the prefix of REGEX.
	MaxTextBytes = 64 << 10
	// MaxPatternBytes is the longest pattern of MATCH, REGEX and VALUE REGEX.
	MaxPatternBytes = 1 << 10
	// MaxRegexSize is how many instructions a regular expression may compile to;
	// each is a step that one byte of text may cost.
	MaxRegexSize = 1000
)

// FilterError says what is wrong with a filter, and what is allowed.
type FilterError struct{ Reason string }

func (e *FilterError) Error() string { return "invalid filter: " + e.Reason }

// Filter says which frames a reader wants: those whose key passes one of the
// key filters, if there are any, and one of whose values passes one of the value
// filters, if there are any. The zero value passes every frame of database 0; a
// nil *Filter passes everything. Once it is complete, any number of readers may
// share it.
type Filter struct {
	// DB is the database; AllDBs passes all of them.
	DB     int
	AllDBs bool

	prefixes [][]byte
	globs    []keyGlob
	regexes  []keyRegex

	valueExact    [][]byte
	valuePrefixes [][]byte
	valueRegexes  []*regex
}

// keyGlob is a MATCH pattern with what every matching key begins with.
type keyGlob struct {
	pattern  []byte
	prefix   []byte
	onlyStar bool // all that follows in the pattern is one *
}

// keyRegex is searched in what follows prefix in a key.
type keyRegex struct {
	prefix []byte
	re     *regex
}

// AddPrefix lets keys pass that begin with p, which is copied. The error is a
// *FilterError.
func (f *Filter) AddPrefix(p []byte) error {
	return addText(&f.prefixes, "PREFIX", p)
}

// AddMatch lets keys pass that the glob matches as Redis's KEYS does; it is
// copied. The error is a *FilterError.
func (f *Filter) AddMatch(pattern []byte) error {
	if err := check("MATCH", pattern, len(f.globs), MaxPatternBytes); err != nil {
		return err
	}
	g := keyGlob{pattern: bytes.Clone(pattern)}
	g.prefix, g.onlyStar = literalPrefix(g.pattern)
	f.globs = append(f.globs, g)
	return nil
}

// AddRegex lets keys pass that begin with prefix, which may be empty, and in
// whose rest the regular expression is found; both are copied. byteMode makes it
// match bytes rather than UTF-8 text. The error is a *FilterError.
func (f *Filter) AddRegex(prefix, pattern []byte, byteMode bool) error {
	if len(prefix) > MaxTextBytes {
		return tooLong("the prefix of a REGEX", len(prefix), MaxTextBytes)
	}
	if err := check("REGEX", pattern, len(f.regexes), MaxPatternBytes); err != nil {
		return err
	}
	re, err := compile("REGEX", pattern, byteMode)
	if err != nil {
		return err
	}
	f.regexes = append(f.regexes, keyRegex{bytes.Clone(prefix), re})
	return nil
}

// AddValueExact lets frames pass one of whose values is v, which is copied. The
// error is a *FilterError.
func (f *Filter) AddValueExact(v []byte) error {
	return addText(&f.valueExact, "VALUE EXACT", v)
}

// AddValuePrefix lets frames pass one of whose values begins with p, which is
// copied. The error is a *FilterError.
func (f *Filter) AddValuePrefix(p []byte) error {
	return addText(&f.valuePrefixes, "VALUE PREFIX", p)
}

// AddValueRegex lets frames pass in one of whose values the regular expression
// is found; byteMode as in AddRegex. The error is a *FilterError.
func (f *Filter) AddValueRegex(pattern []byte, byteMode bool) error {
	if err := check("VALUE REGEX", pattern, len(f.valueRegexes), MaxPatternBytes); err != nil {
		return err
	}
	re, err := compile("VALUE REGEX", pattern, byteMode)
	if err != nil {
		return err
	}
	f.valueRegexes = append(f.valueRegexes, re)
	return nil
}

func addText(to *[][]byte, kind string, text []byte) error {
	if err := check(kind, text, len(*to), MaxTextBytes); err != nil {
		return err
	}
	*to = append(*to, bytes.Clone(text))
	return nil
}

// check refuses a pattern by its length, and by how many of its kind there are.
func check(kind string, pattern []byte, have, maxBytes int) error {
	switch {
	case len(pattern) == 0:
		return &FilterError{kind + " must not be empty"}
	case len(pattern) > maxBytes:
		return tooLong(kind, len(pattern), maxBytes)
	case have == MaxPatterns:
		return &FilterError{fmt.Sprintf("more than %d %s", MaxPatterns, kind)}
	}
	return nil
}

func tooLong(kind string, bytes, maxBytes int) error {
	return &FilterError{fmt.Sprintf("%s has %d bytes, at most %d are allowed", kind, bytes, maxBytes)}
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

// Keys is a set of keys that a filter selects by: those that begin with Prefix
// and, unless it is nil, match the pattern Pattern; or, with Exact, Prefix alone.
type Keys struct {
	Prefix  []byte
	Exact   bool
	Pattern []byte
}

// Keys returns the sets of keys one of which a key must be in to pass; none if
// every key passes. A set may hold more than what passes. Nobody may write to the
// bytes.
func (f *Filter) Keys() []Keys {
	if f == nil {
		return nil
	}
	sets := make([]Keys, 0, len(f.prefixes)+len(f.globs)+len(f.regexes))
	for _, p := range f.prefixes {
		sets = append(sets, Keys{Prefix: p})
	}
	for i := range f.globs {
		g := &f.globs[i]
		sets = append(sets, Keys{Prefix: g.prefix, Exact: !hasWildcard(g.pattern), Pattern: g.pattern})
	}
	for i := range f.regexes {
		sets = append(sets, Keys{Prefix: f.regexes[i].prefix})
	}
	return sets
}

// hasWildcard reports whether a pattern matches more than its literal prefix.
func hasWildcard(pattern []byte) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?', '[':
			return true
		case '\\':
			i++
		}
	}
	return false
}

// Selects reports whether there are filters beside the database.
func (f *Filter) Selects() bool { return f.selectsKeys() || f.selectsValues() }

func (f *Filter) selectsKeys() bool {
	return len(f.prefixes) > 0 || len(f.globs) > 0 || len(f.regexes) > 0
}

func (f *Filter) selectsValues() bool {
	return len(f.valueExact) > 0 || len(f.valuePrefixes) > 0 || len(f.valueRegexes) > 0
}

// slow reports whether a frame may take much longer than it takes to decode it.
func (f *Filter) slow() bool { return f != nil && (len(f.regexes) > 0 || len(f.valueRegexes) > 0) }

// PassesKey reports whether the frames of a key in a database can pass: what a
// snapshot for this reader holds, to which value filters do not apply.
func (f *Filter) PassesKey(db int, key []byte) bool {
	return f == nil || f.passesDB(db) && f.passesKey(key)
}

// passesDB reports whether the frames of a database can pass.
func (f *Filter) passesDB(db int) bool { return f == nil || f.AllDBs || db == f.DB }

// passes reports whether the reader wants the frame. What concerns every key of
// a database passes the key and value filters: nobody could keep a mirror without
// it.
func (f *Filter) passes(fr *op.Frame) bool {
	if f == nil {
		return true
	}
	switch fr.Verb {
	case op.FlushAll, op.Function:
		return true // of no database
	case op.SwapDB:
		return f.AllDBs
	}
	if !f.passesDB(fr.DB) {
		return false
	}
	return !fr.Verb.Keyed() || f.passesKey(fr.Key()) && f.passesValue(fr)
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
	for i := range f.regexes {
		r := &f.regexes[i]
		if bytes.HasPrefix(key, r.prefix) && r.re.found(key[len(r.prefix):]) {
			return true
		}
	}
	return !f.selectsKeys()
}

// passesValue reports whether one of the frame's values passes, or whether it
// has none to be judged by: a mirror would keep what it deletes.
func (f *Filter) passesValue(fr *op.Frame) bool {
	if !f.selectsValues() {
		return true
	}
	first, step := fr.Verb.Values()
	if first == 0 {
		return true
	}
	for i := first; i < len(fr.Args); i += step {
		if f.wantsValue(fr.Args[i]) {
			return true
		}
		if step == 0 {
			break
		}
	}
	return false
}

func (f *Filter) wantsValue(v []byte) bool {
	for _, want := range f.valueExact {
		if bytes.Equal(v, want) {
			return true
		}
	}
	for _, p := range f.valuePrefixes {
		if bytes.HasPrefix(v, p) {
			return true
		}
	}
	for _, re := range f.valueRegexes {
		if re.found(v) {
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

// print identifies which keys the filter lets pass, for the token of a snapshot.
func (f *Filter) print() string {
	var texts []string
	if f != nil {
		for _, p := range f.prefixes {
			texts = append(texts, "p"+string(p))
		}
		for i := range f.globs {
			texts = append(texts, "g"+string(f.globs[i].pattern))
		}
		for i := range f.regexes {
			texts = append(texts, fmt.Sprintf("r%d %v %s%s", len(f.regexes[i].prefix), f.regexes[i].re.byteMode, f.regexes[i].prefix, f.regexes[i].re.re))
		}
	}
	slices.Sort(texts)
	if f != nil && !f.AllDBs {
		texts = append(texts, fmt.Sprintf("d%d", f.DB))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", slices.Compact(texts)))
	return hex.EncodeToString(sum[:8])
}
