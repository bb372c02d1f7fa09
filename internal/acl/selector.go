package acl

import (
	"bytes"
	"slices"
	"strings"

	"kevy/feed"
	"kevy/internal/command"
	"kevy/internal/glob"
)

// access is what may be done to the keys of a pattern.
type access uint8

const (
	readKey access = 1 << iota
	writeKey
	allAccess = readKey | writeKey
)

// accessOf returns what a command must be allowed to do to a key.
func accessOf(f command.KeyFlags) (a access) {
	if f&command.Access != 0 {
		a |= readKey
	}
	if f&(command.Insert|command.Delete|command.Update) != 0 {
		a |= writeKey
	}
	return a
}

// keyPattern is a pattern of keys with what may be done to them.
type keyPattern struct {
	access access
	text   string
	form   patternForm
	prefix string // of prefixForm: the text before its *
}

type patternForm uint8

const (
	globForm   patternForm = iota
	prefixForm             // a text and a *
	exactForm              // a text
)

func newKeyPattern(a access, text string) keyPattern {
	p := keyPattern{access: a, text: text}
	switch i := strings.IndexAny(text, `*?[\`); {
	case i < 0:
		p.form = exactForm
	case i == len(text)-1 && text[i] == '*':
		p.form, p.prefix = prefixForm, text[:i]
	}
	return p
}

func (p *keyPattern) matches(key []byte) bool {
	switch p.form {
	case exactForm:
		return string(key) == p.text
	case prefixForm:
		if p.prefix == "" {
			return len(key) > 0 // as in Redis, where a * alone does not match the empty key
		}
		return len(key) >= len(p.prefix) && string(key[:len(p.prefix)]) == p.prefix
	}
	return glob.Match(p.text, key)
}

// appendTo writes the pattern as a rule.
func (p *keyPattern) appendTo(b []byte) []byte {
	switch p.access {
	case readKey:
		b = append(b, "%R"...)
	case writeKey:
		b = append(b, "%W"...)
	}
	return append(append(b, '~'), p.text...)
}

// selector is one set of permissions: a command passes if one of a user's
// selectors allows all of it.
type selector struct {
	allKeys, allChannels bool
	// allCommands says that no command needs to be looked at: everything was
	// allowed, and nothing taken away since.
	allCommands bool
	// future says that commands which this server does not have would be allowed,
	// too: the rules begin with +@all.
	future   bool
	commands bitmap
	// firstArgs are the first arguments with which a command is allowed that is not
	// otherwise, by its number.
	firstArgs map[int][]string
	keys      []keyPattern
	channels  []string
}

// bitmap is a set of commands by their numbers.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) has(n int) bool { return b[n/64]&(1<<(n%64)) != 0 }

func (b bitmap) set(n int, on bool) {
	if on {
		b[n/64] |= 1 << (n % 64)
	} else {
		b[n/64] &^= 1 << (n % 64)
	}
}

func (b bitmap) fill(on bool) {
	for i := range b {
		b[i] = 0
		if on {
			b[i] = ^uint64(0)
		}
	}
}

func (s *selector) clone() *selector {
	c := *s
	c.commands = slices.Clone(s.commands)
	c.keys, c.channels = slices.Clone(s.keys), slices.Clone(s.channels)
	c.firstArgs = make(map[int][]string, len(s.firstArgs))
	for n, args := range s.firstArgs {
		c.firstArgs[n] = slices.Clone(args)
	}
	return &c
}

// everything reports whether nothing at all is refused.
func (s *selector) everything() bool { return s.allCommands && s.allKeys && s.allChannels }

// all allows every command, or none.
func (s *selector) all(allow bool) {
	s.commands.fill(allow)
	s.allCommands, s.future = allow, allow
	clear(s.firstArgs)
}

// change allows a command with its subcommands, or takes it away.
func (s *selector) change(spec *command.Spec, allow bool) {
	s.bit(spec.Number(), allow)
	delete(s.firstArgs, spec.Number())
	for _, sub := range spec.Sub {
		s.bit(sub.Number(), allow)
	}
}

func (s *selector) bit(n int, allow bool) {
	s.commands.set(n, allow)
	if !allow {
		s.allCommands = false
	}
}

// changeCategory is change of every command of a category. A container that is
// in it takes its subcommands along.
func (s *selector) changeCategory(specs []*command.Spec, cat command.Category, allow bool) {
	for _, spec := range specs {
		if spec.Categories()&cat != 0 {
			s.change(spec, allow)
		}
		s.changeCategory(spec.Sub, cat, allow)
	}
}

// countCategory returns how many commands of a category are allowed, and how
// many are not.
func (s *selector) countCategory(specs []*command.Spec, cat command.Category) (on, off int) {
	for _, spec := range specs {
		if spec.Categories()&cat != 0 {
			if s.commands.has(spec.Number()) {
				on++
			} else {
				off++
			}
		}
		subOn, subOff := s.countCategory(spec.Sub, cat)
		on, off = on+subOn, off+subOff
	}
	return on, off
}

func (s *selector) allowsCommand(spec *command.Spec, args [][]byte) bool {
	n := spec.Number()
	if s.allCommands || spec.Flags&command.NoAuth != 0 || s.commands.has(n) {
		return true
	}
	i := 1
	if spec.Parent() != nil {
		i = 2
	}
	if len(args) <= i {
		return false
	}
	for _, first := range s.firstArgs[n] {
		if sameWord(string(command.CText(args[i])), first) {
			return true
		}
	}
	return false
}

func (s *selector) allowsKey(key []byte, need access) bool {
	for i := range s.keys {
		if p := &s.keys[i]; p.access&need == need && p.matches(key) {
			return true
		}
	}
	return s.allKeys
}

// allowsEveryKey reports whether no key is beyond reach.
func (s *selector) allowsEveryKey(need access) bool {
	for i := range s.keys {
		if p := &s.keys[i]; p.access&need == need && p.text == "*" {
			return true
		}
	}
	return s.allKeys
}

// allowsChannel judges a channel by the patterns, and a pattern by being one of
// them as it stands.
func (s *selector) allowsChannel(name []byte, isPattern bool) bool {
	for _, allowed := range s.channels {
		if isPattern && string(command.CText(name)) == allowed || !isPattern && glob.Match(allowed, name) {
			return true
		}
	}
	return s.allChannels
}

// Reason is why a command is refused. The order is that of Redis, in which the
// reason of the selector that came furthest is told.
type Reason uint8

const (
	Allowed Reason = iota
	Command
	Key
	Auth
	Channel
)

// String returns the name that ACL LOG has for the reason.
func (r Reason) String() string { return [...]string{"", "command", "key", "auth", "channel"}[r] }

// check judges a command; arg is the position of the key or channel that it is
// refused for.
func (s *selector) check(spec *command.Spec, args [][]byte) (reason Reason, arg int) {
	if !s.allowsCommand(spec, args) {
		return Command, 0
	}
	if !s.allKeys && spec.HasKeys() {
		err := spec.EachKey(args, func(i int, f command.KeyFlags) {
			if reason == Allowed && !s.allowsKey(args[i], accessOf(f)) {
				reason, arg = Key, i
			}
		})
		// Arguments that make no sense have no keys, in Redis too: what refuses them
		// is the command.
		if err == nil && reason != Allowed {
			return reason, arg
		}
	}
	if s.allChannels || spec.Channels == command.NoChannels {
		return Allowed, 0
	}
	for i := range spec.ChannelArgs(args) {
		if !s.allowsChannel(args[1+i], spec.Channels == command.SubscribesToPatterns) {
			return Channel, 1 + i
		}
	}
	return Allowed, 0
}

// covers reports whether every key that begins with prefix may be read.
func (s *selector) covers(prefix []byte) bool {
	for i := range s.keys {
		p := &s.keys[i]
		// What the pattern's last * takes of prefix it takes with more behind it, too.
		if p.access&readKey != 0 && endsInStar(p.text) && (p.matches(prefix) || strings.Trim(p.text, "*") == "") {
			return true
		}
	}
	return s.allKeys
}

// endsInStar reports whether the last character of a pattern is a * that stands
// for any text.
func endsInStar(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			// A class that is not closed takes all that follows.
			for i++; i < len(pattern) && pattern[i] != ']'; i++ {
				switch {
				case pattern[i] == '\\':
					i++
				case i+2 < len(pattern) && pattern[i+1] == '-':
					i += 2 // a range, be its end a ]
				}
			}
		case '*':
			if i == len(pattern)-1 {
				return true
			}
		}
	}
	return false
}

// reads reports whether all keys of a set may be read.
func (s *selector) reads(k *feed.Keys) bool {
	if k.Exact {
		return s.allowsKey(k.Prefix, readKey)
	}
	for i := range s.keys {
		if p := &s.keys[i]; k.Pattern != nil && p.access&readKey != 0 && bytes.Equal([]byte(p.text), k.Pattern) {
			return true
		}
	}
	return s.covers(k.Prefix)
}
