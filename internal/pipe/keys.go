package pipe

import (
	"fmt"
	"strings"

	"kevy/changes"
	"kevy/feed"
)

// ownKeys says which keys of a target are the pipe's: those that a key of the
// source which passes the filters can be called by. Filters of values say
// nothing of keys.
type ownKeys struct {
	filter   feed.Filter // of keys, as the server has it
	filtered bool
	rewrite  Rewrite
}

func newOwnKeys(f *changes.Filter, r Rewrite) (*ownKeys, error) {
	k := &ownKeys{filter: feed.Filter{AllDBs: true}, filtered: len(f.Prefixes)+len(f.Matches)+len(f.Regexes) > 0, rewrite: r}
	for _, p := range f.Prefixes {
		if err := k.filter.AddPrefix([]byte(p)); err != nil {
			return nil, err
		}
	}
	for _, m := range f.Matches {
		if err := k.filter.AddMatch([]byte(m)); err != nil {
			return nil, err
		}
	}
	for _, re := range f.Regexes {
		if err := k.filter.AddRegex([]byte(re.Prefix), []byte(re.Pattern), f.ByteMode); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// every reports whether every key that there can be is the pipe's.
func (k *ownKeys) every() bool { return !k.filtered && len(k.rewrite) == 0 }

// owns reports whether a key of the target is the pipe's.
func (k *ownKeys) owns(key []byte) bool {
	for _, source := range k.rewrite.sources(key) {
		if k.filter.PassesKey(0, source) {
			return true
		}
	}
	return false
}

// selectionOf says which frames are carried under which names, for those who keep
// cursors: a cursor is of use for the same selection only.
func selectionOf(f *changes.Filter, r Rewrite) string {
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
