// Package cases runs small command sequences that broke some Redis-compatible server in public. cases.txt
// holds them with their references, expected.json the right replies: what Redis answers, "alt" another
// accepted one by step, "skip" the steps whose reply cannot be known.
package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"kevy/tests/process"
	"kevy/tests/script"
	"kevy/tests/wire"
)

// later names the cases whose subject is not built yet.
var later = map[string]string{
	"B025": "blocking commands, scripts",
	"B027": "blocking commands",
	"B029": "streams",
	"B031": "consumer groups",
	"B037": "SORT",
	"B045": "pub/sub",
	"B055": "scripts",
	"B057": "scripts",
	"B067": "passwords",
	"B069": "keyspace events",
	"B071": "scripts",
}

// laterSteps are the steps of other cases, by what their lines begin with, whose commands are not built yet.
var laterSteps = map[string][]string{
	"B043": {"C1> BLPOP", "C1> XADD", "C1> XREAD", "C1> XRANGE", "C1> GEO", "C1> CLIENT TRACKINGINFO", "C1> PUBSUB", "C1> FUNCTION"},
	"B047": {`C1! *3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY`, "C1> CLIENT UNBLOCK", "C1> CLIENT NO-EVICT", "C1> CLIENT PAUSE"},
	"B061": {"C1> CONFIG REWRITE"},
	"B065": {"C1>> BLPOP", "C1>> PING", "sleep 60", "C2> RPUSH", "C1< 2"},
	"B063": {"C1> ROLE", "C1> WAIT", "C1> LASTSAVE", "C1> SLOWLOG", "C1> LATENCY", "C1> READONLY", "C1> ACL", "C1> PFADD", "C1> PFCOUNT"},
}

// atLeast is how many cases and steps must run, so that the lists above cannot grow unseen.
const (
	atLeastCases = 26
	atLeastSteps = 380
)

type example struct {
	id, title string
	steps     []string
	unordered bool
}

type answers struct {
	Expect []string          `json:"expect"`
	Alt    map[string]string `json:"alt"`
	Skip   []int             `json:"skip"`
}

func load(t *testing.T) ([]*example, map[string]answers) {
	t.Helper()
	text, err := os.ReadFile("cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []*example
	for _, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "):
			id, title, _ := strings.Cut(line[3:], " ")
			list = append(list, &example{id: id, title: title})
		case line == "" || strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "ref:") || strings.HasPrefix(line, "note:"):
		case strings.HasPrefix(line, "opts:"):
			list[len(list)-1].unordered = strings.Contains(line, "unordered")
		default:
			list[len(list)-1].steps = append(list[len(list)-1].steps, line)
		}
	}
	data, err := os.ReadFile("expected.json")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]answers{}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	return list, want
}

// isLater reports whether a step waits for a later command.
func isLater(id, step string) bool {
	for _, prefix := range laterSteps[id] {
		if strings.HasPrefix(step, prefix) {
			return true
		}
	}
	return false
}

var blanks = regexp.MustCompile(` +`)

// normal is a text in which order and trailing blanks do not count, where the case says so.
func (e *example) normal(text string) string {
	text = strings.TrimSuffix(strings.TrimSuffix(text, `\x20`), " ")
	if !e.unordered {
		return blanks.ReplaceAllString(text, " ")
	}
	letters := strings.Split(text, "")
	sort.Strings(letters)
	return strings.Join(letters, "")
}

func TestCases(t *testing.T) {
	list, want := load(t)
	s := process.Start(t, process.Subject(t), process.Config{})
	cases, steps := 0, 0
	for _, e := range list {
		if _, ok := later[e.id]; ok {
			continue
		}
		w, ok := want[e.id]
		if !ok || len(w.Expect) != len(e.steps) {
			t.Fatalf("%s: %d steps and %d replies", e.id, len(e.steps), len(w.Expect))
		}
		var text strings.Builder
		fmt.Fprintf(&text, "## %s\n", e.title)
		var at []int // the number of each step that runs
		for i, step := range e.steps {
			if isLater(e.id, step) {
				continue
			}
			at = append(at, i)
			text.WriteString(step + "\n")
			if w.Expect[i] != "" {
				text.WriteString(w.Expect[i] + "\n")
			}
		}
		cases++
		t.Run(e.id, func(t *testing.T) {
			f, err := script.Parse(e.id, []byte(text.String()))
			if err != nil {
				t.Fatal(err)
			}
			reset(t, s)
			got, err := f.Cases[0].Execute(script.Target{Dial: s.Dial}, 2)
			if err != nil {
				t.Fatal(err)
			}
			for n, i := range at {
				steps++
				alt, hasAlt := w.Alt[strconv.Itoa(i)]
				if slices.Contains(w.Skip, i) || e.normal(got[n]) == e.normal(w.Expect[i]) || hasAlt && e.normal(got[n]) == e.normal(alt) {
					continue
				}
				t.Errorf("%s\n  want %s\n  got  %s", e.steps[i], w.Expect[i], got[n])
			}
		})
	}
	if cases < atLeastCases || steps < atLeastSteps {
		t.Errorf("ran %d cases with %d steps, fewer than %d and %d", cases, steps, atLeastCases, atLeastSteps)
	}
	t.Logf("%d cases, %d steps", cases, steps)
	for id := range later {
		if _, ok := want[id]; !ok {
			t.Errorf("%s is no case", id)
		}
	}
}

// reset brings back the settings that cases change. A server need not know all of them.
func reset(t *testing.T, s *process.Server) {
	t.Helper()
	c, err := wire.Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, setting := range [][2]string{{"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}} {
		if _, err := c.Do("CONFIG", "SET", setting[0], setting[1]); err != nil {
			t.Fatal(err)
		}
	}
}
