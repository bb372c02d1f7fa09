package script

import (
	"path/filepath"
	"strings"
	"testing"

	"kevy/internal/command"
	"kevy/internal/server"
	"kevy/tests/process"
)

// Where scripts lie: beside the commands that they run.
var scriptPlaces = []string{"internal/command/*/testdata/*.txt", "internal/exec/testdata/*.txt", "internal/script/testdata/*.txt"}

// What a script cannot do, and why.
var (
	neverFails = map[string]string{
		"quit":              "takes any arguments, and ends the connection",
		"info":              "takes any sections",
		"latency|histogram": "leaves out what it does not know", "latency|reset": "takes any events, or none",
		"command|docs": "leaves out what it does not know",
		"command|info": "answers a nil for what it does not know",
		"unsubscribe":  "takes any channels, or none", "punsubscribe": "takes any patterns, or none", "sunsubscribe": "takes any channels, or none",
		"pubsub|numsub": "takes any channels, or none", "pubsub|shardnumsub": "takes any channels, or none",
	}
	neverSucceeds = map[string]string{
		"shutdown":       "a success ends the server; tests/integration has it",
		"latency|graph":  "nothing takes long there; the server's own tests have it",
		"function|kill":  "as script|kill",
		"script|kill":    "a success needs a script that runs; internal/server has it",
		"config|rewrite": "needs a file of settings; internal/server has it",
		"acl|load":       "needs a file of users; internal/server has it",
		"acl|save":       "needs a file of users; internal/server has it",
	}
)

// TestEveryCommandHasScripts: the scripts run each command and subcommand with success, in RESP2 and in RESP3,
// and with an error.
func TestEveryCommandHasScripts(t *testing.T) {
	table := server.Commands()
	type count struct{ worked2, worked3, failed int }
	counts := map[*command.Spec]*count{}
	for _, s := range table.All() {
		for _, one := range append([]*command.Spec{s}, s.Sub...) {
			counts[one] = &count{}
		}
	}
	steps := 0
	for _, path := range findScripts(t) {
		f, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range f.Cases {
			sent := map[string][]*Step{} // by connection, what waits for its reply
			for _, s := range c.Steps {
				asked := s
				switch s.op {
				case ">>":
					sent[s.conn] = append(sent[s.conn], s)
					continue
				case "<":
					if len(sent[s.conn]) == 0 {
						continue
					}
					asked, sent[s.conn] = sent[s.conn][0], sent[s.conn][1:]
				case ">":
				default:
					continue
				}
				args, err := splitArgs(asked.arg)
				if err != nil || len(args) == 0 {
					continue
				}
				words := make([][]byte, len(args))
				for i, a := range args {
					words[i] = []byte(a)
				}
				n := counts[table.Lookup(words)]
				if n == nil {
					continue
				}
				steps++
				for proto, worked := range map[int]*int{2: &n.worked2, 3: &n.worked3} {
					switch want := s.want[proto]; {
					case strings.HasPrefix(want, "-"):
						n.failed++
					case want != "" && want != "+QUEUED" && !strings.HasPrefix(want, "<"):
						*worked++
					}
				}
			}
		}
	}
	checked := 0
	for s, n := range counts {
		if s.Run == nil {
			continue // a container: its subcommands count
		}
		checked++
		name := s.FullName()
		// Those about a cluster are there for the error that there is none.
		if missing := n.worked2 == 0 || n.worked3 == 0; missing != (neverSucceeds[name] != "" || s.Group == "cluster") {
			t.Errorf("%s succeeds in %d steps in RESP2 and %d in RESP3", name, n.worked2, n.worked3)
		}
		if missing := n.failed == 0; missing != (neverFails[name] != "") {
			t.Errorf("%s fails in %d steps", name, n.failed)
		}
	}
	for _, list := range []map[string]string{neverFails, neverSucceeds} {
		for name := range list {
			if table.Named(name) == nil {
				t.Errorf("%s is no command", name)
			}
		}
	}
	if checked < 200 || steps < 4000 {
		t.Errorf("%d commands and %d steps were looked at", checked, steps)
	}
	t.Logf("%d commands in %d steps", checked, steps)
}

func findScripts(t *testing.T) (paths []string) {
	t.Helper()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range scriptPlaces {
		found, err := Find(root, place)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// titleOf names a script by its package and its file.
func titleOf(path string) string {
	dir, file := filepath.Split(path)
	return filepath.Base(filepath.Dir(filepath.Clean(dir))) + "/" + strings.TrimSuffix(file, ".txt")
}
