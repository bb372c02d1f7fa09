package pipe

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"kevy/changes"
	"kevy/internal/glob"
)

// ownKeys says which keys of a target are the pipe's: those that a key of the
// source which passes the filters can be called by. Filters of values say
// nothing of keys.
type ownKeys struct {
	prefixes, matches []string
	regexes           []ownRegex
	rewrite           Rewrite
}

type ownRegex struct {
	prefix  []byte
	pattern *regexp.Regexp
}

func newOwnKeys(f *changes.Filter, r Rewrite) (*ownKeys, error) {
	k := &ownKeys{prefixes: f.Prefixes, matches: f.Matches, rewrite: r}
	for _, re := range f.Regexes {
		pattern, err := regexp.Compile(re.Pattern)
		if err != nil {
			return nil, fmt.Errorf("the regular expression %q: %w", re.Pattern, err)
		}
		k.regexes = append(k.regexes, ownRegex{[]byte(re.Prefix), pattern})
	}
	return k, nil
}

// every reports whether every key that there can be is the pipe's.
func (k *ownKeys) every() bool { return !k.filtered() && len(k.rewrite) == 0 }

func (k *ownKeys) filtered() bool { return len(k.prefixes)+len(k.matches)+len(k.regexes) > 0 }

// owns reports whether a key of the target is the pipe's.
func (k *ownKeys) owns(key []byte) bool {
	for _, source := range k.rewrite.sources(key) {
		if k.passes(source) {
			return true
		}
	}
	return false
}

// passes reports whether a key of the source passes the filters.
func (k *ownKeys) passes(key []byte) bool {
	if !k.filtered() {
		return true
	}
	for _, p := range k.prefixes {
		if bytes.HasPrefix(key, []byte(p)) {
			return true
		}
	}
	for _, m := range k.matches {
		if glob.Match(m, key) {
			return true
		}
	}
	for _, re := range k.regexes {
		if rest, ok := bytes.CutPrefix(key, re.prefix); ok && re.pattern.Match(rest) {
			return true
		}
	}
	return false
}

// Selection says which frames are carried under which names, for those who keep
// cursors: a cursor is of use for the same selection only.
func Selection(f *changes.Filter, r Rewrite) string {
	var words []string
	add := func(name string, values ...string) {
		for _, v := range values {
			words = append(words, fmt.Sprintf("%s %q", name, v))
		}
	}
	if f.AllDBs {
		words = append(words, "all databases")
	} else {
		words = append(words, fmt.Sprintf("database %d", f.DB))
	}
	add("prefix", f.Prefixes...)
	add("match", f.Matches...)
	for _, re := range f.Regexes {
		words = append(words, fmt.Sprintf("regex %q %q", re.Prefix, re.Pattern))
	}
	add("value", f.ValueExact...)
	add("value prefix", f.ValuePrefixes...)
	add("value regex", f.ValueRegexes...)
	if f.ByteMode {
		words = append(words, "bytemode")
	}
	if len(r) > 0 {
		words = append(words, "rewrite "+r.String())
	}
	return strings.Join(words, ", ")
}
