package pipe

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"kevy/changes"
)

// maxRewriteRules is how many rules a Rewrite has at most.
const maxRewriteRules = 16

// Rewrite renames keys on their way: the first rule whose Old the key begins
// with puts New in its place. A key that no rule fits keeps its name.
type Rewrite []RewriteRule

// RewriteRule puts New in the place of Old at the beginning of a key. An empty
// Old fits every key.
type RewriteRule struct{ Old, New string }

// ParseRewrite reads rules of the form OLD=NEW.
func ParseRewrite(rules []string) (Rewrite, error) {
	if len(rules) > maxRewriteRules {
		return nil, fmt.Errorf("%d rules to rewrite keys; at most %d are taken", len(rules), maxRewriteRules)
	}
	var r Rewrite
	for i, text := range rules {
		before, after, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("%q is no rule to rewrite keys: write OLD=NEW, what keys begin with and what takes its place", text)
		}
		if before == after {
			return nil, fmt.Errorf("the rule %q rewrites nothing", text)
		}
		for _, earlier := range r {
			if strings.HasPrefix(before, earlier.Old) {
				return nil, fmt.Errorf("the rule %q is never reached: %s=%s before it takes every key that it fits", text, earlier.Old, earlier.New)
			}
		}
		if before == "" && i < len(rules)-1 {
			return nil, errors.New("a rule without OLD fits every key: put it last")
		}
		r = append(r, RewriteRule{before, after})
	}
	return r, nil
}

// Key returns the name that a key gets, which may be key itself.
func (r Rewrite) Key(key []byte) []byte {
	for _, rule := range r {
		if rest, ok := bytes.CutPrefix(key, []byte(rule.Old)); ok {
			return append([]byte(rule.New), rest...)
		}
	}
	return key
}

// args rewrites the key of an op in place.
func (r Rewrite) args(args [][]byte) {
	if len(r) == 0 {
		return
	}
	if at := keyAt(args); at > 0 {
		args[at] = r.Key(args[at])
	}
}

// keyAt returns where the key of an op stands, 0 if it has none.
func keyAt(args [][]byte) int {
	f := changes.Frame{Args: args}
	key := f.Key()
	if key == nil {
		return 0
	}
	if len(args) > 2 && f.Verb() == "XGROUP" {
		return 2
	}
	return 1
}

// sources returns the keys, at most one for each rule and one more, that are
// called key after the rewriting.
func (r Rewrite) sources(key []byte) [][]byte {
	var found [][]byte
	for _, rule := range r {
		if rest, ok := bytes.CutPrefix(key, []byte(rule.New)); ok {
			if source := append([]byte(rule.Old), rest...); bytes.Equal(r.Key(source), key) {
				found = append(found, source)
			}
		}
	}
	if bytes.Equal(r.Key(key), key) {
		found = append(found, key)
	}
	return found
}

// String returns the rules as they were written.
func (r Rewrite) String() string {
	words := make([]string, len(r))
	for i, rule := range r {
		words[i] = fmt.Sprintf("%q=%q", rule.Old, rule.New)
	}
	return strings.Join(words, " ")
}
