package acl

import (
	"strings"

	"kevy/internal/command"
)

// commandRules returns rules that allow the selector's commands, as short as
// Redis finds them: it begins with all commands or none, adds or removes the
// category that fits best as long as one fits more than it misses, and then
// single commands.
func (s *selector) commandRules(g *grammar) string {
	specs := g.table.Originals()
	var rules []string
	// shown is what the rules so far allow, left what they have not dealt with.
	shown, left := g.emptySelector(), g.emptySelector()
	copy(left.commands, s.commands)
	sign := "+"
	if s.future {
		sign = "-"
		shown.all(true)
		rules = append(rules, "+@all")
	} else {
		rules = append(rules, "-@all")
	}
	adds := !s.future
	var applied command.Category
	for {
		best, bestMissed, bestSame := command.Category(0), 0, 0
		bestName := ""
		for _, name := range command.CategoryNames() {
			cat := command.CategoryNamed(name)
			if applied&cat != 0 {
				continue
			}
			same, missed := left.countCategory(specs, cat)
			if !adds {
				same, missed = missed, same
			}
			if same > missed && (best == 0 || missed < bestMissed || missed == bestMissed && same > bestSame) {
				best, bestMissed, bestSame, bestName = cat, missed, same, name
			}
		}
		if best == 0 {
			break
		}
		shown.changeCategory(specs, best, adds)
		left.changeCategory(specs, best, !adds)
		rules = append(rules, sign+"@"+bestName)
		applied |= best
	}
	return strings.Join(s.singleRules(rules, shown, specs), " ")
}

// singleRules adds what makes up for the difference between the commands that
// shown allows and those of s.
func (s *selector) singleRules(rules []string, shown *selector, specs []*command.Spec) []string {
	for _, spec := range specs {
		n := spec.Number()
		allowed := s.commands.has(n)
		if allowed != shown.commands.has(n) {
			sign := "-"
			if allowed {
				sign = "+"
			}
			rules = append(rules, sign+spec.FullName())
			shown.change(spec, allowed)
		}
		rules = s.singleRules(rules, shown, spec.Sub)
		if !allowed {
			for _, first := range s.firstArgs[n] {
				rules = append(rules, "+"+spec.FullName()+"|"+first)
			}
		}
	}
	return rules
}

// keyRules returns the patterns of keys as rules.
func (s *selector) keyRules() string {
	if s.allKeys {
		return "~*"
	}
	var b []byte
	for i := range s.keys {
		if i > 0 {
			b = append(b, ' ')
		}
		b = s.keys[i].appendTo(b)
	}
	return string(b)
}

// channelRules returns the patterns of channels as rules.
func (s *selector) channelRules() string {
	switch {
	case s.allChannels:
		return "&*"
	case len(s.channels) == 0:
		return ""
	}
	return "&" + strings.Join(s.channels, " &")
}

func (s *selector) describe(g *grammar) string {
	var parts []string
	if keys := s.keyRules(); keys != "" {
		parts = append(parts, keys)
	}
	if !s.allChannels {
		parts = append(parts, "resetchannels")
	}
	if channels := s.channelRules(); channels != "" {
		parts = append(parts, channels)
	}
	return strings.Join(append(parts, s.commandRules(g)), " ")
}

// Flags returns what ACL GETUSER shows as the flags of a user.
func (r *Rights) Flags() []string {
	flags := []string{"on"}
	if r.disabled {
		flags[0] = "off"
	}
	if r.nopass {
		flags = append(flags, "nopass")
	}
	switch r.sanitize {
	case skipSanitize:
		flags = append(flags, "skip-sanitize-payload")
	case doSanitize:
		flags = append(flags, "sanitize-payload")
	}
	return flags
}

// Passwords returns the hashes of the passwords. Nobody may write to them.
func (r *Rights) Passwords() []string { return r.passwords }

// Selector is what ACL GETUSER shows of one set of permissions.
type Selector struct{ Commands, Keys, Channels string }

// Selectors returns the user's own permissions, and after them those of its
// selectors.
func (r *Rights) Selectors() []Selector {
	out := make([]Selector, len(r.selectors))
	for i, s := range r.selectors {
		out[i] = Selector{Commands: s.commandRules(r.grammar), Keys: s.keyRules(), Channels: s.channelRules()}
	}
	return out
}

// String returns all rules, as ACL LIST shows them and a line of a file has
// them.
func (r *Rights) String() string {
	r.describeOnce.Do(func() {
		parts := r.Flags()
		for _, hash := range r.passwords {
			parts = append(parts, "#"+hash)
		}
		for i, s := range r.selectors {
			text := s.describe(r.grammar)
			if i > 0 {
				text = "(" + text + ")"
			}
			parts = append(parts, text)
		}
		r.text = strings.Join(parts, " ")
	})
	return r.text
}
