package cases

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"kevy/tests/wire"
)

// sequence is one case of cases.txt.
type sequence struct {
	id, title, reference string
	steps                []step
	// unordered: the elements of a reply may come in any order.
	unordered bool
}

// step is one line of a case.
type step struct {
	text string
	conn string
	op   string // >, >>, <, ! or sleep
	args [][]byte
	raw  []byte // of !
	n    int    // replies of <, milliseconds of sleep
	save string
}

// expectation is what expected.json says of a case.
type expectation struct {
	Expect []string          `json:"expect"`
	Alt    map[string]string `json:"alt"`
	Skip   []int             `json:"skip"`
}

var (
	stepLine = regexp.MustCompile(`^(C\d+)(>>|>|<|!)\s?(.*)$`)
	saveWord = regexp.MustCompile(`^=(\w+)\s+(.*)$`)
	argument = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"|(\S+)`)
	repeated = regexp.MustCompile(`\{\{(.)\*(\d+)\}\}`)
)

// loadSequences reads cases.txt.
func loadSequences(t *testing.T) []*sequence {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "cases.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*sequence
	sc := bufio.NewScanner(f)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		var cur *sequence
		if len(out) > 0 {
			cur = out[len(out)-1]
		}
		switch {
		case strings.HasPrefix(line, "## "):
			id, title, ok := strings.Cut(line[3:], " ")
			if !ok {
				t.Fatalf("cases.txt:%d: a case without a title", n)
			}
			out = append(out, &sequence{id: id, title: title})
		case line == "" || strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "note:"):
		case cur == nil:
			t.Fatalf("cases.txt:%d: a line before the first case", n)
		case strings.HasPrefix(line, "ref:"):
			cur.reference = strings.TrimSpace(line[4:])
		case strings.HasPrefix(line, "opts:"):
			if strings.Fields(line)[1] != "unordered" {
				t.Fatalf("cases.txt:%d: unknown option in %q", n, line)
			}
			cur.unordered = true
		default:
			s, err := parseStep(line)
			if err != nil {
				t.Fatalf("cases.txt:%d: %v", n, err)
			}
			cur.steps = append(cur.steps, s)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func loadExpectations(t *testing.T) map[string]expectation {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]expectation{}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("expected.json: %v", err)
	}
	return out
}

func parseStep(line string) (step, error) {
	s := step{text: line}
	var err error
	if ms, ok := strings.CutPrefix(line, "sleep "); ok {
		s.op = "sleep"
		s.n, err = strconv.Atoi(ms)
		return s, err
	}
	m := stepLine.FindStringSubmatch(line)
	if m == nil {
		return s, fmt.Errorf("no step: %q", line)
	}
	rest := m[3]
	s.conn, s.op = m[1], m[2]
	switch s.op {
	case "<":
		s.n = 1
		if rest != "" {
			s.n, err = strconv.Atoi(rest)
		}
		return s, err
	case "!":
		s.raw, err = unescape(rest)
		return s, err
	}
	if m := saveWord.FindStringSubmatch(rest); m != nil {
		s.save, rest = m[1], m[2]
	}
	s.args, err = parseArgs(rest)
	if err == nil && len(s.args) == 0 {
		err = fmt.Errorf("no command: %q", line)
	}
	return s, err
}

func parseArgs(line string) ([][]byte, error) {
	var out [][]byte
	for _, m := range argument.FindAllStringSubmatch(line, -1) {
		arg := []byte(m[2])
		if strings.HasPrefix(m[0], `"`) {
			var err error
			if arg, err = unescape(m[1]); err != nil {
				return nil, err
			}
		}
		if rest, ok := strings.CutPrefix(string(arg), "@REP:"); ok {
			char, count, _ := strings.Cut(rest, ":")
			n, err := strconv.Atoi(count)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", arg, err)
			}
			arg = []byte(strings.Repeat(char, n))
		}
		out = append(out, arg)
	}
	return out, nil
}

func unescape(s string) ([]byte, error) {
	var err error
	s = repeated.ReplaceAllStringFunc(s, func(macro string) string {
		m := repeated.FindStringSubmatch(macro)
		n, e := strconv.Atoi(m[2])
		if e != nil {
			err = e
			return ""
		}
		return strings.Repeat(m[1], n)
	})
	if err != nil {
		return nil, err
	}
	return wire.Unescape(s)
}
