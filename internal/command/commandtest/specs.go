package commandtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kevy/internal/command"
)

// redisTable is what COMMAND and COMMAND DOCS of redis-server 7.0.15 say, one
// command or subcommand a line.
const redisTable = "redis-7.0.15.tsv"

// newerTable has the commands that Redis got later, up to 8.0, and those of which it
// says something else since: what waits may be called by scripts, and WAIT is among
// them.
const newerTable = "redis-8.tsv"

// tablePlaces are where the tables lie, seen from the directory of a family beneath
// internal/command and from that of another.
var tablePlaces = []string{"../testdata", "../command/testdata"}

// Specs holds each Spec of a family, subcommands included, to the tables of
// redis-server, and sees that it is documented. Commands that are in neither are
// named in ours.
func Specs(t *testing.T, family []*command.Spec, ours ...string) {
	t.Helper()
	table := readTable(t)
	command.NewTable(family) // links subcommands to their parents
	for _, s := range family {
		holdSpec(t, table, s, ours)
		for _, sub := range s.Sub {
			holdSpec(t, table, sub, ours)
		}
	}
}

func holdSpec(t *testing.T, table map[string]string, s *command.Spec, ours []string) {
	t.Helper()
	name := s.FullName()
	if s.Summary == "" || s.Since == "" || s.Group == "" || s.Complexity == "" && len(s.Sub) == 0 {
		t.Errorf("%s is not documented", name)
	}
	want, known := table[name]
	if !known {
		if !slices.Contains(ours, name) {
			t.Errorf("%s is no command of redis-server", name)
		}
		return
	}
	if got := tableLine(s); got != want {
		t.Errorf("the spec differs from redis-server:\n got  %s\n want %s", got, want)
	}
}

// readTable returns the lines of the tables by name.
func readTable(t *testing.T) map[string]string {
	t.Helper()
	lines := make(map[string]string)
	for _, file := range []string{redisTable, newerTable} {
		data, err := os.ReadFile(filepath.Join(tablePlaces[0], file))
		if errors.Is(err, fs.ErrNotExist) {
			data, err = os.ReadFile(filepath.Join(tablePlaces[1], file))
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(line, "\n")
			name, _, _ := strings.Cut(line, "\t")
			lines[name] = line
		}
	}
	return lines
}

// tableLine returns the line that the spec would have in the table.
func tableLine(s *command.Spec) string {
	first, last, step := s.FirstLastStep()
	var keys []string
	for i := range s.Keys {
		keys = append(keys, keySpecText(&s.Keys[i]))
	}
	return strings.Join([]string{
		s.FullName(), strconv.Itoa(s.Arity), sorted(s.FlagNames()),
		strconv.Itoa(first), strconv.Itoa(last), strconv.Itoa(step),
		sorted(s.Categories().Names()), strings.Join(keys, " "), strings.Join(s.Tips, ","), s.Group, s.Since,
	}, "\t")
}

func sorted(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ",")
}

func keySpecText(k *command.KeySpec) string {
	text := strings.Join(k.Flags.Names(), ",")
	if k.Unknown {
		return text + ":unknown=;unknown="
	}
	if k.Keyword != "" {
		text += fmt.Sprintf(":keyword=keyword=%s,startfrom=%d", k.Keyword, k.StartFrom)
	} else {
		text += fmt.Sprintf(":index=index=%d", k.Index)
	}
	if k.NumKeys {
		return text + fmt.Sprintf(";keynum=keynumidx=%d,firstkey=%d,keystep=%d", k.CountAt, k.FirstKey, k.Step)
	}
	return text + fmt.Sprintf(";range=lastkey=%d,keystep=%d,limit=%d", k.Last, k.Step, k.Limit)
}
