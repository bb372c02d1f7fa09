package config

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Load reads a command line without the program's name: [FILE] [-]
// [--name value …]…, where - is standard input in redis.conf syntax. What
// comes later wins: file, standard input, options. The error names every fault
// (up to ten) with its file and line or its option, and what is allowed there.
func Load(args []string, stdin io.Reader) (*Config, error) {
	c, p := New(), &collector{}
	file, fromStdin, options := p.commandLine(args)
	if file != "" {
		p.file(file, "", 0)
	}
	if fromStdin {
		p.lines(stdin, "standard input", 0)
	}
	for _, d := range options {
		p.add(d)
	}
	applied := make(map[*Setting]bool)
	for _, d := range p.directives {
		if err := c.apply(d, applied); err != nil {
			p.fail(d.origin, "%w", err)
		}
	}
	if err := c.settle(file); err != nil {
		p.fail("paths", "%w", err)
	}
	return c, p.err()
}

// notSettings are lines of a redis.conf that set nothing in the registry.
var notSettings = map[string]string{
	"loadmodule": "there are no modules",
	"sentinel":   "the server is not a sentinel",
}

func (c *Config) apply(d directive, applied map[*Setting]bool) error {
	if why := notSettings[d.name]; why != "" {
		return fmt.Errorf("%s is not supported: %s", d.name, why)
	}
	switch line := (Line{Origin: d.origin, Words: d.args}); {
	case d.name == "user" && len(d.args) == 0:
		return errors.New("user takes a name and rules, got none; allowed: user name [rule …]")
	case d.name == "user":
		c.users = append(c.users, line)
		return nil
	case d.name == "rename-command" && len(d.args) != 2:
		return fmt.Errorf("rename-command takes two names, got %s; allowed: rename-command old new, with \"\" for new to have no such command", d.got())
	case d.name == "rename-command":
		c.renames = append(c.renames, line)
		return nil
	}
	s := c.byName[d.name]
	if s == nil {
		if obsolete[d.name] {
			return nil
		}
		return c.unknown(d.name)
	}
	if len(d.args) == 0 || len(d.args) > 1 && !s.multi {
		return fmt.Errorf("%s takes %s, got %s; allowed: %s", d.name, s.arity(), d.shown(), s.Allowed())
	}
	text := strings.Join(d.args, " ")
	v, err := s.parse(text, applied[s])
	if err != nil {
		return s.fault(d.name, text, err)
	}
	s.value.store(v)
	if !applied[s] {
		c.given = append(c.given, s)
	}
	applied[s] = true
	return nil
}

// fault says once what is allowed: err may have done so.
func (s *Setting) fault(name, text string, err error) error {
	text = quoted(text)
	if s.Effect == DefaultOnly {
		return fmt.Errorf("%s %s is not supported: %w", name, text, err)
	}
	var complete bound
	if errors.As(err, &complete) {
		return fmt.Errorf("%s %s: %w", name, text, err)
	}
	return fmt.Errorf("%s %s: %s; allowed: %s", name, text, strings.TrimSuffix(err.Error(), "."), s.Allowed())
}

func (s *Setting) arity() string {
	if s.multi {
		return "one value or more"
	}
	return "one value"
}

// settle makes paths independent of the working directory.
func (c *Config) settle(file string) error {
	dir, err := filepath.Abs(c.Dir.Load())
	if err != nil {
		return fmt.Errorf("dir: %w", err)
	}
	c.Dir.store(dir)
	if file != "" {
		if c.file, err = filepath.Abs(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// Path returns a path that a setting gives relative to the data directory.
func (c *Config) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.Dir.Load(), name)
}

// unknown names the settings that may have been meant.
func (c *Config) unknown(name string) error {
	if before, value, found := strings.Cut(name, "="); found && c.byName[before] != nil {
		return fmt.Errorf("unknown setting %s; values stand apart: --%s %s", quoted(name), before, shortened(value))
	}
	nearest, distance := "", 3
	for _, s := range c.settings {
		for _, candidate := range []string{s.Name, s.Alias} {
			if d := editDistance(name, candidate, distance); candidate != "" && d < distance {
				nearest, distance = candidate, d
			}
		}
	}
	if nearest != "" {
		return fmt.Errorf("unknown setting %s; did you mean %s?", quoted(name), nearest)
	}
	return fmt.Errorf("unknown setting %s; docs/config.md lists all of them, --help those that do something", quoted(name))
}

// editDistance counts the insertions, removals and replacements between two
// words; differences of bound or more may count as bound.
func editDistance(a, b string, bound int) int {
	if len(a)-len(b) >= bound || len(b)-len(a) >= bound {
		return bound
	}
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	current := make([]int, len(b)+1)
	for i := range len(a) {
		current[0] = i + 1
		for j := range len(b) {
			replaced := previous[j]
			if a[i] != b[j] {
				replaced++
			}
			current[j+1] = min(replaced, previous[j+1]+1, current[j]+1)
		}
		previous, current = current, previous
	}
	return previous[len(b)]
}
