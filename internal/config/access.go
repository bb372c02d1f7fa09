package config

import (
	"strings"

	"kevy/internal/glob"
	"kevy/resp"
)

// Pair is a setting's name and its value as text.
type Pair struct{ Name, Value string }

// Lookup finds a setting by name or alias, whatever the case; nil if there is
// none.
func (c *Config) Lookup(name string) *Setting { return c.byName[strings.ToLower(name)] }

// Secret reports whether the value of a setting is for nobody else to see.
func Secret(name string) bool {
	switch strings.ToLower(name) {
	case "requirepass", "masteruser", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass":
		return true
	}
	return false
}

// Get answers CONFIG GET: the settings that any of the patterns selects, each
// name once, in the registry's order, under an alias where the alias is what
// was asked for. A pattern without *, ? and [ is a name and is answered as it
// was spelled.
func (c *Config) Get(patterns ...string) []Pair {
	var pairs []Pair
	for _, s := range c.settings {
		for _, name := range []string{s.Name, s.Alias} {
			if name == "" {
				continue
			}
			if spelled, ok := s.selected(patterns, name); ok {
				pairs = append(pairs, Pair{spelled, s.Text()})
			}
		}
	}
	return pairs
}

// selected reports whether one of the patterns selects the setting under a name.
func (s *Setting) selected(patterns []string, name string) (spelled string, ok bool) {
	for _, p := range patterns {
		if !strings.ContainsAny(p, "*?[") {
			if strings.EqualFold(p, name) {
				return p, true
			}
		} else if !s.hidden && glob.MatchFold(p, name) {
			return name, true
		}
	}
	return "", false
}

// A hook is called after a change of any of its settings.
type hook struct {
	settings map[*Setting]bool
	changed  func() error
}

// OnChange has changed called after CONFIG SET has stored new values of any of
// the fields, once a command. If it returns an error the command fails with
// that text, all its settings get their former values, and the hooks that had
// run are run again. changed must not call Set or OnChange. OnChange does not
// call it for the current value.
func (c *Config) OnChange(changed func() error, fields ...Field) {
	settings := make(map[*Setting]bool, len(fields))
	for _, f := range fields {
		settings[f.setting()] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = append(c.hooks, hook{settings, changed})
}

// change is one setting on its way from one value to another.
type change struct {
	setting     *Setting
	name        string // the one of its names that was given, in lower case
	text        string
	before, now any
}

// Set answers CONFIG SET: all pairs take effect or none does. The error is a
// *resp.Error with the text that redis-server has for it. Readers may see a
// new value for the moment until a failing hook takes it back.
func (c *Config) Set(pairs []Pair) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes, err := c.admit(pairs)
	if err != nil {
		return err
	}
	// Values are parsed and stored one by one, as one may be parsed against
	// what an earlier pair has stored under an alias.
	for i := range changes {
		ch := &changes[i]
		ch.before = ch.setting.value.load()
		if ch.now, err = ch.setting.parse(ch.text, false); err != nil {
			restore(changes[:i])
			return failed(ch.name, err)
		}
		ch.setting.value.store(ch.now)
	}
	return c.runHooks(changes)
}

// admit finds the settings and refuses those that cannot be set while running.
func (c *Config) admit(pairs []Pair) ([]change, error) {
	changes := make([]change, 0, len(pairs))
	seen := make(map[string]bool, len(pairs))
	for _, p := range pairs {
		name := strings.ToLower(p.Name)
		s := c.byName[name]
		switch {
		case s == nil:
			shown, _, _ := strings.Cut(p.Name, "\x00") // as C shows it
			return nil, resp.Errorf("ERR", "Unknown option or number of arguments for CONFIG SET - '%s'", shown)
		case s.protected:
			return nil, failed(p.Name, refusal("can't set protected config"))
		case !s.Runtime && !s.holds(p.Value):
			return nil, failed(p.Name, refusal("can't set immutable config"))
		case seen[name]:
			return nil, failed(p.Name, refusal("duplicate parameter"))
		}
		seen[name] = true
		changes = append(changes, change{setting: s, name: name, text: p.Value})
	}
	return changes, nil
}

// holds reports whether a setting that may be given its own value is.
func (s *Setting) holds(text string) bool {
	if !s.repeated {
		return false
	}
	v, err := s.parse(text, false)
	return err == nil && s.value.format(v) == s.Text()
}

func (c *Config) runHooks(changes []change) error {
	for i, h := range c.hooks {
		concerned := ""
		for _, ch := range changes {
			if h.settings[ch.setting] {
				concerned = ch.name
				break
			}
		}
		if concerned == "" {
			continue
		}
		if err := h.changed(); err != nil {
			restore(changes)
			c.rerunHooks(changes, i)
			return failed(concerned, err)
		}
	}
	return nil
}

// rerunHooks tells the hooks before number end that the values are back. They
// have accepted these values before, so there is nobody to tell of an error.
func (c *Config) rerunHooks(changes []change, end int) {
	for _, h := range c.hooks[:end] {
		for _, ch := range changes {
			if h.settings[ch.setting] {
				_ = h.changed()
				break
			}
		}
	}
}

// restore goes backwards, as a setting may have been stored twice.
func restore(changes []change) {
	for i := len(changes) - 1; i >= 0; i-- {
		changes[i].setting.value.store(changes[i].before)
	}
}

func failed(name string, cause error) error {
	return resp.Errorf("ERR", "CONFIG SET failed (possibly related to argument '%s') - %s", name, cause)
}
