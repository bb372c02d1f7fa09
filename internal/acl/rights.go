package acl

import (
	"slices"
	"sync"

	"kevy/feed"
	"kevy/internal/command"
)

// sanitizing says whether a user's RESTORE payloads are looked at in depth. They
// always are here: the rules are kept for their text.
type sanitizing uint8

const (
	unsaid sanitizing = iota
	skipSanitize
	doSanitize
)

// Rights is what a user may do, and what it logs in with. It never changes.
type Rights struct {
	grammar   *grammar
	disabled  bool
	nopass    bool
	sanitize  sanitizing
	passwords []string
	// selectors are the user's own permissions, and then those in parentheses.
	selectors  []*selector
	everything bool // nothing is refused; set by seal

	superseded chan struct{}

	describeOnce sync.Once
	text         string // of String
}

// grammar is what rules mean on a server.
type grammar struct {
	table       *command.Table
	allChannels func() bool // of who has said nothing about channels
}

func (g *grammar) emptySelector() *selector {
	return &selector{commands: newBitmap(g.table.Len()), firstArgs: map[int][]string{}}
}

func (g *grammar) newSelector() *selector {
	s := g.emptySelector()
	s.allChannels = g.allChannels()
	return s
}

// fresh returns the rights of a new user.
func (g *grammar) fresh() *Rights {
	return &Rights{grammar: g, disabled: true, selectors: []*selector{g.newSelector()}}
}

// clone returns a copy that may be changed.
func (r *Rights) clone() *Rights {
	c := &Rights{
		grammar: r.grammar, disabled: r.disabled, nopass: r.nopass, sanitize: r.sanitize, passwords: slices.Clone(r.passwords),
		selectors: make([]*selector, len(r.selectors)),
	}
	for i, s := range r.selectors {
		c.selectors[i] = s.clone()
	}
	return c
}

// seal ends the changes.
func (r *Rights) seal() *Rights {
	r.superseded = make(chan struct{})
	for _, s := range r.selectors {
		r.everything = r.everything || s.everything()
	}
	return r
}

// with returns these rights changed by rules. The error is that of the rule at
// which it failed.
func (r *Rights) with(rules []string) (_ *Rights, rule string, err error) {
	c := r.clone()
	for _, rule := range rules {
		if err := c.apply(r.grammar, rule); err != nil {
			return nil, rule, err
		}
	}
	return c.seal(), "", nil
}

// Superseded is closed when the user's rights are others, or the user is gone.
func (r *Rights) Superseded() <-chan struct{} { return r.superseded }

// Everything reports whether no command can be refused.
func (r *Rights) Everything() bool { return r.everything }

// open reports whether whoever comes is this user, without a password.
func (r *Rights) open() bool { return r.nopass && !r.disabled }

// Check judges a command: Allowed, or why not. For Key and Channel, arg is the
// argument that it is refused for.
func (r *Rights) Check(spec *command.Spec, args [][]byte) (reason Reason, arg int) {
	if r.everything {
		return Allowed, 0
	}
	reason = Command
	at := 0 // as of the last selector that named an argument, as in Redis
	for _, s := range r.selectors {
		why, i := s.check(spec, args)
		if why == Allowed {
			return Allowed, 0
		}
		if why != Command {
			at = i
		}
		if why > reason || why == reason && at > arg {
			reason, arg = why, at
		}
	}
	return reason, arg
}

// ReadsEveryKey reports whether a selector allows a command and reading whatever
// key there is.
func (r *Rights) ReadsEveryKey(spec *command.Spec, args [][]byte) bool {
	for _, s := range r.selectors {
		if why, _ := s.check(spec, args); why == Allowed && s.allowsEveryKey(readKey) {
			return true
		}
	}
	return r.everything
}

// CheckReads judges a command that shows keys by what it selects, which no
// argument names: nil asks for every key. Sets that no pattern covers for certain
// are refused. denied is the set that it is refused for.
func (r *Rights) CheckReads(spec *command.Spec, args [][]byte, asked []feed.Keys) (reason Reason, denied *feed.Keys) {
	if r.everything {
		return Allowed, nil
	}
	if len(asked) == 0 {
		asked = []feed.Keys{{}}
	}
	reason = Command
	for _, s := range r.selectors {
		if why, _ := s.check(spec, args); why != Allowed {
			continue
		}
		i := slices.IndexFunc(asked, func(k feed.Keys) bool { return !s.reads(&k) })
		if i < 0 {
			return Allowed, nil
		}
		reason, denied = Key, &asked[i]
	}
	return reason, denied
}

// HearsChannel reports whether a subscription to a channel, or to a pattern, may
// stay.
func (r *Rights) HearsChannel(name []byte, isPattern bool) bool {
	return slices.ContainsFunc(r.selectors, func(s *selector) bool { return s.allowsChannel(name, isPattern) })
}

// hearsLess reports whether a subscription could be allowed by before that is not
// by r: only then is it worth looking at subscriptions.
func (r *Rights) hearsLess(before *Rights) bool {
	var now []string
	for _, s := range r.selectors {
		if s.allChannels {
			return false
		}
		now = append(now, s.channels...)
	}
	for _, s := range before.selectors {
		if s.allChannels {
			return true
		}
		for _, channel := range s.channels {
			if !slices.Contains(now, channel) {
				return true
			}
		}
	}
	return false
}
