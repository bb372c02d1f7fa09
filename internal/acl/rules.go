package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"kevy/internal/command"
	"kevy/resp"
)

// Limits of one user: rules come from whoever may change users, and each rule
// and pattern costs every command of that user.
const (
	// MaxRules is how many rules one SETUSER, or one line of a file, may have, those
	// within selectors included.
	MaxRules = 16384
	// MaxSelectors is how many selectors a user may have beside its own permissions.
	MaxSelectors = 256
	// MaxPatterns is how many patterns of keys, and how many of channels, one
	// selector may have.
	MaxPatterns = 4096
	// MaxPasswords is how many passwords a user may have.
	MaxPasswords = 1024
	// MaxFirstArgs is how many first arguments may be allowed of one command.
	MaxFirstArgs = 1024
	// MaxNameBytes bounds the name of a user.
	MaxNameBytes = 4096
	// MaxUsers is how many users there may be.
	MaxUsers = 1 << 16
)

// The errors of a rule, in Redis's words. They stand within a reply: none has a code.
var (
	errUnknown  = &resp.Error{Text: "Unknown command or category name in ACL"}
	errSyntax   = &resp.Error{Text: "Syntax error"}
	errAllKeys  = &resp.Error{Text: "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"}
	errAllChans = &resp.Error{Text: "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"}
	errNoPass   = &resp.Error{Text: "The password you are trying to remove from the user does not exist"}
	errBadHash  = &resp.Error{Text: "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"}
	errFirstArg = &resp.Error{Text: "Allowing first-arg of a subcommand is not supported"}
	errTooMany  = &resp.Error{Text: "A user can not have that many rules of this kind"}
)

// sameWord compares as C's strcasecmp does.
func sameWord(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// hasSpaces reports whether a text could not stand in a line of rules.
func hasSpaces(text string) bool { return strings.ContainsAny(text, " \t\n\v\f\r\x00") }

// hashOf returns the SHA-256 of a password as rules show it.
func hashOf(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

func isHash(text string) bool {
	return len(text) == 2*sha256.Size && strings.Trim(text, "0123456789abcdef") == ""
}

// apply changes the rights, which nobody else has yet, by one rule.
func (r *Rights) apply(g *grammar, rule string) error {
	if rule == "" {
		return nil
	}
	word := cText(rule)
	switch {
	case sameWord(word, "on"):
		r.disabled = false
	case sameWord(word, "off"):
		r.disabled = true
	case sameWord(word, "skip-sanitize-payload"):
		r.sanitize = skipSanitize
	case sameWord(word, "sanitize-payload"):
		r.sanitize = doSanitize
	case sameWord(word, "nopass"):
		r.nopass, r.passwords = true, nil
	case sameWord(word, "resetpass"):
		r.nopass, r.passwords = false, nil
	case rule[0] == '>' || rule[0] == '#':
		return r.addPassword(rule)
	case rule[0] == '<' || rule[0] == '!':
		return r.removePassword(rule)
	case rule[0] == '(' && rule[len(rule)-1] == ')':
		return r.addSelector(g, rule)
	case sameWord(word, "clearselectors"):
		r.selectors = r.selectors[:1]
	case sameWord(word, "reset"):
		r.disabled, r.nopass, r.passwords, r.sanitize = true, false, nil, doSanitize
		r.selectors = []*selector{g.newSelector()}
	default:
		return r.selectors[0].apply(g, rule)
	}
	return nil
}

// cText is what C reads of a text.
func cText(text string) string {
	before, _, _ := strings.Cut(text, "\x00")
	return before
}

// password returns the hash that a rule of a password names.
func password(rule string, plain byte) (string, error) {
	if rule[0] == plain {
		return hashOf(rule[1:]), nil
	}
	if !isHash(rule[1:]) {
		return "", errBadHash
	}
	return rule[1:], nil
}

func (r *Rights) addPassword(rule string) error {
	hash, err := password(rule, '>')
	if err != nil {
		return err
	}
	if !slices.Contains(r.passwords, hash) {
		if len(r.passwords) == MaxPasswords {
			return errTooMany
		}
		r.passwords = append(r.passwords, hash)
	}
	r.nopass = false
	return nil
}

func (r *Rights) removePassword(rule string) error {
	hash, err := password(rule, '<')
	if err != nil {
		return err
	}
	i := slices.Index(r.passwords, hash)
	if i < 0 {
		return errNoPass
	}
	r.passwords = slices.Delete(r.passwords, i, i+1)
	return nil
}

func (r *Rights) addSelector(g *grammar, rule string) error {
	if len(r.selectors) > MaxSelectors {
		return errTooMany
	}
	// Within the parentheses stands a line, in which words may be quoted; one that is
	// not a line holds nothing, as in Redis.
	words, err := resp.SplitInline([]byte(rule[1 : len(rule)-1]))
	if err != nil {
		words = nil
	}
	if len(words) > MaxRules {
		return errTooMany
	}
	s := g.newSelector()
	for _, w := range words {
		if err := s.apply(g, string(w)); err != nil {
			return err
		}
	}
	r.selectors = append(r.selectors, s)
	return nil
}

// apply changes the selector, which nobody else has yet, by one rule.
func (s *selector) apply(g *grammar, rule string) error {
	word := cText(rule)
	switch {
	case sameWord(word, "allkeys"), word == "~*":
		s.allKeys, s.keys = true, nil
	case sameWord(word, "resetkeys"):
		s.allKeys, s.keys = false, nil
	case sameWord(word, "allchannels"), word == "&*":
		s.allChannels, s.channels = true, nil
	case sameWord(word, "resetchannels"):
		s.allChannels, s.channels = false, nil
	case sameWord(word, "allcommands"), sameWord(word, "+@all"):
		s.all(true)
	case sameWord(word, "nocommands"), sameWord(word, "-@all"):
		s.all(false)
	case word == "":
		return errSyntax
	case word[0] == '~' || word[0] == '%':
		return s.addKeys(rule)
	case word[0] == '&':
		return s.addChannel(rule[1:])
	case word[0] == '+' && !strings.HasPrefix(word, "+@"):
		return s.allow(g, word[1:])
	case word[0] == '-' && !strings.HasPrefix(word, "-@"):
		spec := g.table.Original(word[1:])
		if spec == nil {
			return errUnknown
		}
		s.change(spec, false)
	case word[0] == '+' || word[0] == '-':
		cat := categoryNamed(word[2:])
		if cat == 0 {
			return errUnknown
		}
		s.changeCategory(g.table.Originals(), cat, word[0] == '+')
	default:
		return errSyntax
	}
	return nil
}

// categoryNamed is command.CategoryNamed for a name in ASCII.
func categoryNamed(name string) command.Category {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return 0
		}
	}
	return command.CategoryNamed(name)
}

func (s *selector) addKeys(rule string) error {
	if s.allKeys {
		return errAllKeys
	}
	a, text := allAccess, rule[1:]
	if rule[0] == '%' {
		a = 0
	letters:
		for {
			if text == "" {
				break
			}
			c := lower(text[0])
			text = text[1:]
			switch {
			case c == 'r' && a&readKey == 0:
				a |= readKey
			case c == 'w' && a&writeKey == 0:
				a |= writeKey
			case c == '~':
				break letters
			default:
				return errSyntax
			}
		}
		if a == 0 {
			return errSyntax
		}
	}
	if hasSpaces(text) {
		return errSyntax
	}
	for i := range s.keys {
		if s.keys[i].text == text {
			s.keys[i].access |= a
			return nil
		}
	}
	if len(s.keys) == MaxPatterns {
		return errTooMany
	}
	s.keys = append(s.keys, newKeyPattern(a, text))
	return nil
}

func (s *selector) addChannel(text string) error {
	switch {
	case s.allChannels:
		return errAllChans
	case hasSpaces(text):
		return errSyntax
	case slices.Contains(s.channels, text):
		return nil
	case len(s.channels) == MaxPatterns:
		return errTooMany
	}
	s.channels = append(s.channels, text)
	return nil
}

// allow allows a command, a subcommand, or a command with a first argument.
func (s *selector) allow(g *grammar, name string) error {
	i := strings.LastIndexByte(name, '|')
	if i < 0 {
		spec := g.table.Original(name)
		if spec == nil {
			return errUnknown
		}
		s.change(spec, true)
		return nil
	}
	first := name[i+1:]
	spec := g.table.Original(name[:i])
	switch {
	case spec == nil:
		return errUnknown
	case spec.Parent() != nil:
		return errFirstArg
	case first == "":
		return errSyntax
	case len(spec.Sub) > 0:
		sub := g.table.Original(name)
		if sub == nil {
			return errUnknown
		}
		s.change(sub, true)
		return nil
	}
	n := spec.Number()
	if slices.ContainsFunc(s.firstArgs[n], func(have string) bool { return sameWord(have, first) }) {
		return nil
	}
	if len(s.firstArgs[n]) == MaxFirstArgs {
		return errTooMany
	}
	s.firstArgs[n] = append(s.firstArgs[n], first)
	return nil
}

// merge joins the rules of selectors that are spread over several words. The
// error names the word at which one begins that does not end.
func merge(words []string) ([]string, error) {
	var out []string
	open := -1
	for i, w := range words {
		closes := strings.HasSuffix(w, ")")
		switch {
		case strings.HasPrefix(w, "(") && !closes:
			open = i // as in Redis, what an earlier one began is dropped
		case open < 0:
			out = append(out, w)
		case closes:
			out = append(out, strings.Join(words[open:i+1], " "))
			open = -1
		}
	}
	if open >= 0 {
		return nil, &unmatched{words[open]}
	}
	return out, nil
}

// unmatched is a parenthesis that is not closed.
type unmatched struct{ at string }

func (e *unmatched) Error() string {
	return "Unmatched parenthesis in acl selector starting at '" + cText(e.at) + "'."
}
