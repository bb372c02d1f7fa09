package config

import (
	"fmt"
	"strings"
)

// Effect says what a setting does in this program.
type Effect int

const (
	// Applied settings do what their summary says.
	Applied Effect = iota
	// Accepted settings can be set and read and change nothing.
	Accepted
	// DefaultOnly settings name something that is not there: every value but
	// the default is refused, because to go on without it could surprise.
	DefaultOnly
)

// Setting is one row of the registry.
type Setting struct {
	Name    string
	Alias   string // a second name, empty if there is none
	Group   string
	Summary string
	Default string // as CONFIG GET shows it
	Effect  Effect
	// Runtime says that CONFIG SET may change it.
	Runtime bool

	why       string // of Accepted and DefaultOnly: what a reader should know
	protected bool   // refused by CONFIG SET with Redis's text for such settings
	repeated  bool   // CONFIG SET may name the value that it has, Runtime or not
	hidden    bool   // no pattern of CONFIG GET selects it
	multi     bool   // a line may hold several words
	value     value
}

// Text returns the current value as CONFIG GET shows it.
func (s *Setting) Text() string { return s.value.format(s.value.load()) }

// Allowed describes the values that the setting takes.
func (s *Setting) Allowed() string {
	if s.Effect == DefaultOnly {
		return "only the default"
	}
	return s.value.allowed()
}

// Why explains an Effect other than Applied.
func (s *Setting) Why() string { return s.why }

func (s *Setting) parse(text string, repeated bool) (any, error) {
	v, err := s.value.parse(text, s.value.load(), repeated)
	if err != nil {
		return nil, err
	}
	if s.Effect == DefaultOnly && s.value.format(v) != s.Default {
		return nil, refusal(s.why)
	}
	return v, nil
}

// A Field is a setting that the program reads, one of the fields of Config.
type Field interface{ setting() *Setting }

// row ties a field to its registry row.
type row struct{ registered *Setting }

func (r *row) setting() *Setting { return r.registered }

// table collects the rows while the registry is built.
type table struct {
	c     *Config
	group string
	why   string // of settings without effect that say none of their own
}

func (t *table) add(r *row, s *Setting, def any) *Setting {
	s.Group, s.Runtime = t.group, true
	s.value.store(def)
	s.Default = s.value.format(def)
	r.registered = s
	t.c.settings = append(t.c.settings, s)
	t.c.index(s.Name, s)
	return s
}

func (t *table) int(v *Int, name string, def, low, high int64, summary string) *Setting {
	v.low, v.high = low, high
	return t.add(&v.row, &Setting{Name: name, Summary: summary, value: v}, def)
}

func (t *table) bytes(v *Int, name string, def, low, high int64, summary string) *Setting {
	v.memory = true
	return t.int(v, name, def, low, high, summary)
}

func (t *table) bool(v *Bool, name string, def bool, summary string) *Setting {
	return t.add(&v.row, &Setting{Name: name, Summary: summary, value: v}, def)
}

func enum[T ~int](t *table, v *Enum[T], name string, def T, choices []Choice[T], summary string) *Setting {
	v.choices = choices
	return t.add(&v.row, &Setting{Name: name, Summary: summary, value: v}, def)
}

func (t *table) text(v *Text, name, def, summary string) *Setting {
	return t.add(&v.row, &Setting{Name: name, Summary: summary, value: v}, def)
}

func (t *table) words(v *Words, name, def, summary string) *Setting {
	return t.add(&v.row, &Setting{Name: name, Summary: summary, value: v, multi: true}, splitWords(def))
}

func (t *table) outputLimits(v *OutputLimits, name string, def [clientClasses]OutputLimit, summary string) *Setting {
	return t.add(&v.row, &Setting{Name: name, Summary: summary, value: v, multi: true}, def)
}

// startOnly marks a setting that CONFIG SET cannot change.
func (s *Setting) startOnly() *Setting {
	s.Runtime = false
	return s
}

// keep marks a setting that can be set at the start only, although it is none
// that Redis calls immutable: CONFIG SET may give it the value that it has.
func (s *Setting) keep() *Setting {
	s.Runtime, s.repeated = false, true
	return s
}

// hide keeps a setting out of what patterns of CONFIG GET select.
func (s *Setting) hide() *Setting {
	s.hidden = true
	return s
}

// protect marks a setting that Redis lets CONFIG SET change only under
// enable-protected-configs; here it is set at the start only.
func (s *Setting) protect() *Setting {
	s.Runtime, s.protected = false, true
	return s
}

func (s *Setting) noEffect(why string) *Setting {
	s.Effect, s.why = Accepted, why
	return s
}

func (s *Setting) defaultOnly(why string) *Setting {
	s.Effect, s.why = DefaultOnly, why
	return s
}

func (t *table) alias(s *Setting, alias string) {
	s.Alias = alias
	t.c.index(alias, s)
}

func (c *Config) index(name string, s *Setting) {
	if _, taken := c.byName[name]; taken || name != strings.ToLower(name) {
		panic(fmt.Sprintf("config: setting %q registered twice or not in lower case", name))
	}
	c.byName[name] = s
}
