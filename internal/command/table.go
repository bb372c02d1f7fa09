package command

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"kevy/resp"
)

// Table finds commands by name.
type Table struct {
	byName map[string]*Spec // under what they are called, which Rename changes
	sorted []*Spec
	len    int // subcommands included
	// originals and original are byName and sorted before any was renamed.
	originals map[string]*Spec
	original  []*Spec
}

// NewTable returns a table of the families' commands. A Spec belongs to one
// table. Two commands of one name or a spec without a handler are bugs of the
// program and panic.
func NewTable(families ...[]*Spec) *Table {
	t := &Table{byName: make(map[string]*Spec)}
	for _, family := range families {
		for _, s := range family {
			t.add(s)
		}
	}
	sort.Slice(t.sorted, func(i, j int) bool { return t.sorted[i].Name < t.sorted[j].Name })
	t.originals, t.original = maps.Clone(t.byName), slices.Clone(t.sorted)
	return t
}

// The errors of Rename, in Redis's words.
var (
	ErrNoSuchCommand = &resp.Error{Text: "No such command in rename-command"}
	ErrNameTaken     = &resp.Error{Text: "Target command name already exists"}
	ErrLongName      = fmt.Errorf("a command's name has at most %d bytes", maxNameBytes)
)

// Rename calls a command by another name, or, if that is empty, by none: nobody
// can then run it. Its Spec, and what ACL rules call it, stay. It must not be
// called once the table is in use.
func (t *Table) Rename(from, to string) error {
	from, to = lowerASCII(from), lowerASCII(to)
	s := t.byName[from]
	switch {
	case s == nil:
		return ErrNoSuchCommand
	case len(to) > maxNameBytes:
		return ErrLongName
	}
	delete(t.byName, from)
	if to == "" {
		t.sorted = slices.DeleteFunc(t.sorted, func(have *Spec) bool { return have == s })
		return nil
	}
	if t.byName[to] != nil {
		t.byName[from] = s
		return ErrNameTaken
	}
	t.byName[to] = s
	return nil
}

// lowerASCII is strings.ToLower for names, whose other letters stay.
func lowerASCII(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// Original returns the command or, as parent|sub, the subcommand that had that
// name before any was renamed, nil if there is none.
func (t *Table) Original(name string) *Spec {
	parent, sub, is := strings.Cut(lowerASCII(name), "|")
	s := t.originals[parent]
	if !is || s == nil {
		return s
	}
	for _, one := range s.Sub {
		if one.Name == sub {
			return one
		}
	}
	return nil
}

// Originals is All as it was before any command was renamed.
func (t *Table) Originals() []*Spec { return t.original }

func (t *Table) add(s *Spec) {
	if t.byName[s.Name] != nil || s.Name != strings.ToLower(s.Name) {
		panic(fmt.Sprintf("command: %q is there twice or not lower case", s.Name))
	}
	if s.Run == nil && len(s.Sub) == 0 {
		panic(fmt.Sprintf("command: %q has no handler", s.Name))
	}
	t.number(s)
	for _, sub := range s.Sub {
		sub.parent = s
		if sub.Group == "" {
			sub.Group = s.Group
		}
		t.number(sub)
	}
	t.byName[s.Name] = s
	t.sorted = append(t.sorted, s)
}

func (t *Table) number(s *Spec) {
	s.number = t.len
	t.len++
}

// Len returns the number of commands, subcommands included.
func (t *Table) Len() int { return t.len }

// maxNameBytes is longer than any command's name.
const maxNameBytes = 64

// Lookup returns the command that args name, without regard to case; nil if
// there is none. A container without its subcommand returns the container,
// whose Run is nil, and so does an unknown subcommand.
func (t *Table) Lookup(args [][]byte) *Spec {
	name := args[0]
	if len(name) > maxNameBytes {
		return nil
	}
	var scratch [maxNameBytes]byte
	lower := scratch[:len(name)]
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	s := t.byName[string(lower)]
	if s == nil || len(s.Sub) == 0 || len(args) < 2 {
		return s
	}
	for _, sub := range s.Sub {
		if len(sub.Name) == len(args[1]) && strings.EqualFold(sub.Name, string(args[1])) {
			return sub
		}
	}
	return s
}

// Named returns the command or, as parent|sub, the subcommand with that name,
// nil if there is none.
func (t *Table) Named(name string) *Spec {
	parent, sub, is := strings.Cut(name, "|")
	args := [][]byte{[]byte(parent)}
	if !is {
		return t.Lookup(args)
	}
	s := t.Lookup(append(args, []byte(sub)))
	if s == nil || s.parent == nil {
		return nil
	}
	return s
}

// All returns the commands by name, subcommands within their parents.
func (t *Table) All() []*Spec { return t.sorted }

// ArityFits reports whether so many arguments, the name included, are right.
func (s *Spec) ArityFits(n int) bool {
	if s.Arity >= 0 {
		return n == s.Arity
	}
	return n >= -s.Arity
}
