package cases

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// Numbers of what must be found, so that a file that was cut short is noticed.
const (
	leastSequences = 37
	leastSteps     = 550
)

// wait is what waiting.txt says of a case.
type wait struct {
	which    string
	commands []string
}

// compares says which steps are compared, of a case of which some use a missing command.
func (w wait) compares(lacks []bool) []bool {
	out := make([]bool, len(lacks))
	for i, missing := range lacks {
		switch {
		case w.which == "none", missing && w.which == "before":
			return out
		default:
			out[i] = !missing
		}
	}
	return out
}

func loadWaiting(t *testing.T) map[string]wait {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "waiting.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]wait{}
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		words := strings.Fields(sc.Text())
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if len(words) < 3 || words[1] != "none" && words[1] != "before" && words[1] != "others" {
			t.Fatalf("waiting.txt: %q", sc.Text())
		}
		if _, twice := out[words[0]]; twice {
			t.Fatalf("waiting.txt: %s twice", words[0])
		}
		out[words[0]] = wait{which: words[1], commands: words[2:]}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// commands lists what the server has, subcommands as parent|name.
func commands(t *testing.T, s *process.Server) map[string]bool {
	t.Helper()
	c := s.Conn(t)
	r, err := c.Do("COMMAND", "LIST", "FILTERBY", "PATTERN", "*")
	if err != nil || r.IsError("") {
		t.Fatalf("COMMAND LIST: %s, %v", r, err)
	}
	out := map[string]bool{}
	for _, name := range r.Strings() {
		out[name] = true
	}
	if !out["get"] || !out["client|id"] || len(out) < 100 {
		t.Fatalf("COMMAND LIST names %d commands: %v", len(out), r)
	}
	return out
}

// containers are the commands whose first argument is a subcommand.
var containers = map[string]bool{"acl": true, "client": true, "cluster": true, "command": true, "config": true, "function": true,
	"latency": true, "memory": true, "module": true, "object": true, "pubsub": true, "script": true, "slowlog": true, "xgroup": true, "xinfo": true}

// mistaken are the commands and subcommands that cases use because no server has them.
var mistaken = map[string]bool{"nosuch": true, "xxx": true, "client|bogus": true, "": true}

// missing is a command of a step that the server does not have, if there is one.
func missing(st step, has map[string]bool) string {
	for _, args := range st.commands() {
		name := strings.ToLower(string(args[0]))
		if has[name] && containers[name] && len(args) > 1 {
			name += "|" + strings.ToLower(string(args[1]))
		}
		if !has[name] && !mistaken[name] {
			return name
		}
	}
	return ""
}

// commands are what a step sends, as far as raw bytes hold whole commands in the form of an array.
func (st step) commands() [][][]byte {
	if len(st.args) > 0 {
		return [][][]byte{st.args}
	}
	var out [][][]byte
	r := bufio.NewReader(bytes.NewReader(st.raw))
	for {
		c, err := wire.Read(r)
		if err != nil || c.Kind != wire.Array || len(c.Elems) == 0 {
			return out
		}
		var args [][]byte
		for _, e := range c.Elems {
			if e.Kind != wire.Bulk || e.Nil {
				return out
			}
			args = append(args, e.Text)
		}
		out = append(out, args)
	}
}

// lastTrue is the index of the last true element, -1 if there is none.
func lastTrue(list []bool) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] {
			return i
		}
	}
	return -1
}

// TestSequences replays every case of cases.txt. One that needs a command which the server lacks must stand in
// waiting.txt, and one that stands there must lack what it names.
func TestSequences(t *testing.T) {
	sequences, expected, waiting := loadSequences(t), loadExpectations(t), loadWaiting(t)
	b := process.Subject(t)
	// Two servers, for two cases at once: most of their time is waiting.
	pool := make(chan *process.Server, 2)
	for range cap(pool) {
		pool <- process.Start(t, b, process.Config{})
	}
	first := <-pool
	has := commands(t, first)
	pool <- first

	var mu sync.Mutex
	whole, part, steps, compared := 0, 0, 0, 0 // guarded by mu
	seen := map[string]bool{}
	t.Run("cases", func(t *testing.T) {
		for _, s := range sequences {
			if seen[s.id] {
				t.Errorf("%s stands twice in cases.txt", s.id)
			}
			seen[s.id] = true
			t.Run(s.id, func(t *testing.T) {
				t.Parallel()
				want, ok := expected[s.id]
				if !ok || len(want.Expect) != len(s.steps) {
					t.Fatalf("expected.json has %d replies for %d steps", len(want.Expect), len(s.steps))
				}
				if s.reference == "" {
					t.Error("no reference")
				}
				w, waits := waiting[s.id]
				named := map[string]bool{}
				for _, name := range w.commands {
					named[name] = true
					if has[name] {
						t.Errorf("waiting.txt: the server has %s", name)
					}
				}
				lacks := make([]bool, len(s.steps))
				for i, st := range s.steps {
					name := missing(st, has)
					if lacks[i] = name != ""; lacks[i] && !named[name] {
						t.Errorf("needs %s, which the server does not have and waiting.txt does not name", name)
					}
				}
				compares := w.compares(lacks)
				server := <-pool
				defer func() { pool <- server }()
				got, err := play(server.Addr(), s.steps[:lastTrue(compares)+1], func(i int, text string) bool { return !compares[i] || want.matches(i, text, s.unordered) })
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for i, st := range s.steps {
					if !compares[i] {
						continue
					}
					n++
					if !want.matches(i, got[i], s.unordered) {
						t.Errorf("%s (%s)\n  step %d: %s\n  want %s\n  got  %s", s.title, s.reference, i, st.text, want.Expect[i], got[i])
					}
				}
				if !server.Running() {
					t.Fatal("the server has ended")
				}
				mu.Lock()
				defer mu.Unlock()
				if steps, compared = steps+len(s.steps), compared+n; waits {
					part++
				} else {
					whole++
				}
			})
		}
	})
	for id := range waiting {
		if !seen[id] {
			t.Errorf("waiting.txt names %s, which is no case", id)
		}
	}
	for id := range expected {
		if !seen[id] {
			t.Errorf("expected.json has %s, which is no case", id)
		}
	}
	if whole+part < leastSequences || steps < leastSteps || part != len(waiting) {
		t.Errorf("%d cases whole, %d in part, %d steps; want at least %d cases and %d steps, %d in part", whole, part, steps, leastSequences, leastSteps, len(waiting))
	}
	t.Logf("%d cases whole, %d wait for commands; %d steps compared of %d", whole, part, compared, steps)
}
