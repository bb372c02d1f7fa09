package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"kevy/internal/command"
	"kevy/internal/server"
)

func TestDocumentsAreFresh(t *testing.T) {
	c, err := compare(server.Commands(), peersText, notSupported)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"commands.md": c.commands(), "differences.md": c.differences()} {
		got, err := os.ReadFile("../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/%s differs from what the Specs say; run: make generate", name)
		}
	}
}

// TestEveryCommandHasOneState: each command of the peers and each of ours has
// one row, and the rows' states are as many as the page says.
func TestEveryCommandHasOneState(t *testing.T) {
	peers, err := parsePeers(peersText)
	if err != nil {
		t.Fatal(err)
	}
	redis, valkey := 0, 0
	for _, p := range peers {
		if p.redis != "" {
			redis++
		}
		if p.valkey != "" {
			valkey++
		}
		if p.redis == "" && p.valkey == "" {
			t.Errorf("%s is of neither server", p.name)
		}
	}
	// The tables that COMMAND answers have 366 (Redis 7.0.15), 379 (8-dev) and 373 (Valkey 8-dev).
	if redis < 570 || valkey < 390 {
		t.Errorf("%d commands of Redis and %d of Valkey are known", redis, valkey)
	}
	c, err := compare(server.Commands(), peersText, notSupported)
	if err != nil {
		t.Fatal(err)
	}
	if left := c.unlisted(); len(left) > 0 {
		t.Errorf("groups without a table: %v", left)
	}
	rows, states := 0, map[string]int{}
	for line := range strings.Lines(string(c.commands())) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		rows++
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), " |"), " | ")
		state, _, _ := strings.Cut(cells[len(cells)-1], ":")
		states[state]++
	}
	if rows != len(c.entries) {
		t.Errorf("%d rows for %d commands", rows, len(c.entries))
	}
	same, differing, missing, ours := c.counts()
	if same+differing+missing != len(peers) {
		t.Errorf("%d + %d + %d states for %d commands", same, differing, missing, len(peers))
	}
	if states["supported"] != same+ours || states["differs"] != differing || states["not supported"] != missing {
		t.Errorf("the rows say %v, counted are %d, %d, %d, %d", states, same, differing, missing, ours)
	}
	table := string(c.differences())
	table = table[strings.Index(table, "## By command"):strings.Index(table, "## Not supported")]
	listed := 0
	for line := range strings.Lines(table) {
		if names, _, is := strings.Cut(line, " | "); is && strings.HasPrefix(names, "| `") {
			listed += strings.Count(names, "`") / 2
		}
	}
	if listed != differing {
		t.Errorf("docs/differences.md lists %d commands, %d differ", listed, differing)
	}
}

// TestCompareRefuses: what the page could not say of a command is a fault.
func TestCompareRefuses(t *testing.T) {
	run := func(*command.Ctx) {}
	spec := func(name, group, since string) *command.Spec {
		return &command.Spec{Name: name, Group: group, Since: since, Run: run}
	}
	const head = "name\tgroup\tredis\tvalkey\n"
	for _, c := range []struct {
		peers   string
		reasons []reason
		specs   []*command.Spec
		want    string
	}{
		{"a\tg\t1.0.0\t-\n", nil, nil, "a is neither supported nor"},
		{"a\tg\t1.0.0\t-\n", []reason{{"x", "a"}}, []*command.Spec{spec("a", "g", "1.0.0")}, "a is supported: notsupported.go still says why not"},
		{"a\tg\t1.0.0\t-\n", []reason{{"x", "@g"}}, []*command.Spec{spec("a", "g", "1.0.0")}, "a is supported: notsupported.go still says why not"},
		{"a\tg\t1.0.0\t-\n", []reason{{"x", "a @g"}}, nil, "a has two reasons"},
		{"a\tg\t1.0.0\t-\n", []reason{{"x", "a"}, {"y", "a"}}, nil, "a has two reasons"},
		{"a\tg\t1.0.0\t-\n", []reason{{"x", "a b"}}, nil, "b is nothing that Redis or Valkey has"},
		{"a\tg\t1.0.0\t-\n", nil, []*command.Spec{spec("a", "g", "2.0.0")}, "the spec says g since 2.0.0"},
		{"a\tg\t1.0.0\t-\n", nil, []*command.Spec{spec("a", "h", "1.0.0")}, "the spec says h since 1.0.0"},
		{"", nil, []*command.Spec{spec("b", "g", "1.0.0")}, "b is no command of Redis or Valkey"},
		{"a\tg\t1.0.0\n", nil, nil, "peers.tsv:2"},
		{"a\tg\t1.0.0\t-\na\tg\t1.0.0\t-\n", nil, nil, "peers.tsv:3"},
	} {
		_, err := compare(command.NewTable(c.specs), head+c.peers, c.reasons)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v: %v, want %s", c.peers, c.reasons, err, c.want)
		}
	}
	fine := "a\tg\t1.0.0\t9.0.0\nb\tg\t-\t9.0.0\nc\tg\t8.0.0\t-\n"
	if _, err := compare(command.NewTable([]*command.Spec{spec("a", "g", "9.0.0"), spec("b", "g", "9.0.0"), spec("d", own, "0.1.0")}), head+fine, []reason{{"x", "c"}}); err != nil {
		t.Error(err)
	}
}
