package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kevy/tests/process"
)

// TestEngineAgainstOracle runs this package's own script against redis-server, so that what the engine
// reads and compares is known to be right.
func TestEngineAgainstOracle(t *testing.T) {
	s := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}})
	Run(t, filepath.Join("testdata", "set.txt"), Target{Dial: s.Dial, Oracle: true})
}

// TestCommands runs the scripts of all commands against a server on loopback, and against the oracle.
func TestCommands(t *testing.T) {
	paths := findScripts(t)
	const atLeast = 100
	if len(paths) < atLeast {
		t.Errorf("found %d scripts, fewer than the %d that the commands have", len(paths), atLeast)
	}
	run := func(t *testing.T, target Target) {
		for _, p := range paths {
			t.Run(titleOf(p), func(t *testing.T) { Run(t, p, target) })
		}
	}
	args := []string{"--enable-debug-command", "yes"}
	// With -rewrite and KEVY_ORACLE what the oracle answers is what stands in the scripts, with -rewrite alone
	// what the server does.
	if fromOracle := os.Getenv("KEVY_ORACLE") != ""; fromOracle || !*rewrite {
		t.Run("oracle", func(t *testing.T) {
			o := process.Start(t, process.Oracle(t), process.Config{Args: append([]string{"--appendonly", "no"}, args...)})
			run(t, Target{Dial: o.Dial, Oracle: true})
		})
		if *rewrite {
			return
		}
	}
	t.Run("server", func(t *testing.T) {
		subject := process.Subject(t)
		s := process.Start(t, subject, process.Config{Args: args})
		run(t, Target{Dial: s.Dial, Oracle: subject.Redis})
	})
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"C1> GET k\n", "before the first title"},
		{"## a\n# unorderd\nC1> GET k\n", "unknown directive"},
		{"## a\n# skip-oracle\nC1> GET k\n", "needs a reason"},
		{"## a\n# unordered\n", "no step follows"},
		{"## a\n+OK\n", "neither a step nor a reply"},
		{"## a\nC1> GET k\nnonsense\n", "no reply at"},
		{"## a\nC1> GET k\n+A\n+B\n", "two replies"},
		{"## a\nsleep 5\n+A\n", "reads none"},
		{"## a\nC1> GET k\n# case double\n", "after the case's first step"},
	} {
		_, err := Parse("x.txt", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestMatchTellsDifferences(t *testing.T) {
	for _, c := range []struct {
		rules      string
		want, got  string
		shouldPass bool
	}{
		{"", "+OK", "+OK", true},
		{"", `"OK"`, "+OK", false},
		{"", "$nil", "*nil", false},
		{"", `["a", "b"]`, `["b", "a"]`, false},
		{"unordered", `["a", "b"]`, `["b", "a"]`, true},
		{"unordered", `["a", "b"]`, `["b", "b"]`, false},
		{"unordered 2", `["a", "1", "b", "2"]`, `["b", "2", "a", "1"]`, true},
		{"unordered 2", `["a", "1", "b", "2"]`, `["b", "1", "a", "2"]`, false},
		{"unordered", `map{"a": :1, "b": :2}`, `map{"b": :2, "a": :1}`, true},
		{"unordered", `map{"a": :1, "b": :2}`, `map{"b": :1, "a": :2}`, false},
		{"unordered", `["0", ["a", "b"]]`, `["0", ["b", "a"]]`, true},
		{"double", `"3.0"`, `"3"`, true},
		{"double", `"3.0"`, `"3.1"`, false},
		{"double", `,inf`, `,inf`, true},
		{"approx 5", ":100", ":97", true},
		{"approx 5", ":100", ":90", false},
		{"any", ":100", ":90", true},
		{"any", ":100", `"90"`, false},
		{"", "+OK <closed>", "+OK", false},
	} {
		var r rules
		if c.rules != "" {
			if err := r.add(c.rules); err != nil {
				t.Fatal(err)
			}
		}
		want, err := parseItems(c.want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseItems(c.got)
		if err != nil {
			t.Fatal(err)
		}
		if r.matches(want, got) != c.shouldPass {
			t.Errorf("%q: want %s, got %s: match is %v", c.rules, c.want, c.got, !c.shouldPass)
		}
	}
}
