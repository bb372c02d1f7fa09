package script

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kevy/tests/wire"
)

// maxRepeat bounds what @REP and {{x*n}} expand to.
const maxRepeat = 64 << 20

// File is a parsed script. lines keeps what is written, so that it can be written back.
type File struct {
	Path  string
	Cases []*Case
	lines []string
}

// Case is a sequence of steps that starts on an empty server.
type Case struct {
	Title string
	Line  int
	Steps []*Step
	rules rules
}

// Step is one line that does something, with the replies written under it.
type Step struct {
	Line int
	Text string
	// Conn is the connection's name; op one of > >> < ! close sleep blocked.
	conn, op, arg string
	save          string
	rules         rules
	// want is by protocol, 2 or 3; wantLine the line of each, 0 if there is none.
	want     [4]string
	wantLine [4]int
}

// rules are the directives that hold for a step.
type rules struct {
	unordered  int // 0: ordered; else the size of the groups
	double     bool
	approx     int64
	any        bool
	only       int // 2 or 3: that protocol only
	skipOracle string
}

var stepLine = regexp.MustCompile(`^(C\d+)(>>|>|<|!)(?: (.*))?$`)
var saveArg = regexp.MustCompile(`^=(\w+) (.*)$`)

// Load reads and parses a script.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse parses a script; path is for its errors.
func Parse(path string, data []byte) (*File, error) {
	f := &File{Path: path, lines: strings.Split(string(bytes.TrimSuffix(data, []byte("\n"))), "\n")}
	var (
		c       *Case
		s       *Step
		pending rules
		waiting bool
	)
	for i, line := range f.lines {
		fail := func(format string, a ...any) error {
			return fmt.Errorf("%s:%d: %s", path, i+1, fmt.Sprintf(format, a...))
		}
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "//"):
			s = nil
		case strings.HasPrefix(line, "## "):
			if waiting {
				return nil, fail("a directive before a title; write it under it, as # case")
			}
			c, s = &Case{Title: strings.TrimSpace(line[3:]), Line: i + 1}, nil
			f.Cases = append(f.Cases, c)
		case c == nil:
			return nil, fail("a line before the first title (## …)")
		case strings.HasPrefix(line, "# case "):
			if len(c.Steps) > 0 {
				return nil, fail("# case after the case's first step")
			}
			if err := c.rules.add(line[len("# case "):]); err != nil {
				return nil, fail("%v", err)
			}
		case strings.HasPrefix(line, "# "):
			if !waiting {
				pending, waiting = c.rules, true
			}
			if err := pending.add(line[2:]); err != nil {
				return nil, fail("%v", err)
			}
		default:
			if step := parseStep(line); step != nil {
				step.Line, step.rules = i+1, c.rules
				if waiting {
					step.rules = pending
				}
				waiting = false
				c.Steps, s = append(c.Steps, step), step
				continue
			}
			if s == nil {
				return nil, fail("neither a step nor a reply under one: %s", line)
			}
			if err := s.addWant(line, i+1); err != nil {
				return nil, fail("%v", err)
			}
		}
	}
	if waiting {
		return nil, fmt.Errorf("%s: a directive that no step follows", path)
	}
	return f, nil
}

func parseStep(line string) *Step {
	if ms, ok := strings.CutPrefix(line, "sleep "); ok {
		return &Step{Text: line, op: "sleep", arg: ms}
	}
	if n, ok := strings.CutPrefix(line, "blocked "); ok {
		return &Step{Text: line, op: "blocked", arg: n}
	}
	if name, ok := strings.CutPrefix(line, "close "); ok {
		return &Step{Text: line, op: "close", conn: name}
	}
	m := stepLine.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	s := &Step{Text: line, conn: m[1], op: m[2], arg: m[3]}
	if k := saveArg.FindStringSubmatch(s.arg); k != nil && s.op == ">" {
		s.save, s.arg = k[1], k[2]
	}
	return s
}

func (s *Step) addWant(line string, at int) error {
	protos := []int{2, 3}
	if rest, ok := strings.CutPrefix(line, "2: "); ok {
		protos, line = []int{2}, rest
	} else if rest, ok := strings.CutPrefix(line, "3: "); ok {
		protos, line = []int{3}, rest
	}
	switch s.op {
	case ">>", "sleep", "close", "blocked":
		return fmt.Errorf("a reply under a step that reads none")
	}
	// Texts inside aggregates may hold commas and brackets, so only what the directives compare
	// piece by piece has to be read back.
	if _, err := parseItems(line); err != nil && (s.rules.loose() || !replyStart.MatchString(line)) {
		return err
	}
	for _, p := range protos {
		if s.wantLine[p] != 0 {
			return fmt.Errorf("two replies for RESP%d", p)
		}
		s.want[p], s.wantLine[p] = line, at
	}
	return nil
}

// loose reports whether replies are compared piece by piece rather than as they are written.
func (r rules) loose() bool { return r.unordered > 0 || r.double || r.approx > 0 || r.any }

// replyStart is how a reply, or a mark, begins.
var replyStart = regexp.MustCompile(`^(?:[+\-:"$*_,#(\[]|="|push\[|set\{|map\{|<none>|<closed>)`)

func (r *rules) add(text string) error {
	name, arg, _ := strings.Cut(strings.TrimSpace(text), " ")
	var err error
	switch name {
	case "unordered":
		r.unordered = 1
		if arg != "" {
			r.unordered, err = strconv.Atoi(arg)
		}
		if r.unordered < 1 {
			err = fmt.Errorf("unordered takes a positive number")
		}
	case "double":
		r.double = true
	case "approx":
		r.approx, err = strconv.ParseInt(arg, 10, 64)
	case "any":
		r.any = true
	case "resp2-only":
		r.only = 2
	case "resp3-only":
		r.only = 3
	case "skip-oracle":
		if r.skipOracle = arg; arg == "" {
			err = fmt.Errorf("skip-oracle needs a reason")
		}
	default:
		err = fmt.Errorf("unknown directive %q", name)
	}
	return err
}

// item is one reply, or a mark for silence or a closed connection.
type item struct {
	mark  string
	reply wire.Reply
}

const (
	markNone   = "<none>"
	markClosed = "<closed>"
)

func (it item) String() string {
	if it.mark != "" {
		return it.mark
	}
	return it.reply.String()
}

func joinItems(items []item) string {
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = it.String()
	}
	text := strings.Join(texts, " ")
	if strings.HasSuffix(text, " ") {
		// A blank at the end of a line does not survive editors.
		text = text[:len(text)-1] + `\x20`
	}
	return text
}

// parseItems reads a line of replies. A line-shaped reply (+OK, -ERR …) extends to the end of the line
// or to the next reply that can be told from its text.
func parseItems(line string) ([]item, error) {
	var out []item
	for s := line; s != ""; {
		s = strings.TrimPrefix(s, " ")
		if rest, ok := strings.CutPrefix(s, markNone); ok {
			out, s = append(out, item{mark: markNone}), rest
			continue
		}
		if rest, ok := strings.CutPrefix(s, markClosed); ok {
			out, s = append(out, item{mark: markClosed}), rest
			continue
		}
		end := len(s)
		if strings.IndexByte("+-:,#(", s[0]) >= 0 {
			if m := nextItem.FindStringIndex(s); m != nil {
				end = m[0]
			}
		}
		r, rest, err := wire.Parse(s[:end])
		if err != nil {
			return nil, err
		}
		out, s = append(out, item{reply: r}), rest+s[end:]
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("an empty reply")
	}
	return out, nil
}

// nextItem is where a reply can start after a line-shaped one in the same line of a script.
var nextItem = regexp.MustCompile(` (?:\+[A-Z]|-[A-Z]+ |:-?\d+(?: |$)|\$nil|\*nil|_nil|"|\[|push\[|set\{|map\{|<none>|<closed>)`)

// splitArgs splits the arguments of a step.
func splitArgs(line string) ([]string, error) {
	var out []string
	for i := 0; i < len(line); {
		if line[i] == ' ' {
			i++
			continue
		}
		if line[i] != '"' {
			end := strings.IndexByte(line[i:], ' ')
			if end < 0 {
				end = len(line) - i
			}
			arg, err := expandRep(line[i : i+end])
			if err != nil {
				return nil, err
			}
			out, i = append(out, arg), i+end
			continue
		}
		end := i + 1
		for ; end < len(line) && line[end] != '"'; end++ {
			if line[end] == '\\' {
				end++
			}
		}
		if end >= len(line) {
			return nil, fmt.Errorf("no closing quote: %s", line[i:])
		}
		arg, err := wire.Unescape(line[i+1 : end])
		if err != nil {
			return nil, err
		}
		out, i = append(out, string(arg)), end+1
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("a command without a name")
	}
	return out, nil
}

func expandRep(arg string) (string, error) {
	rest, ok := strings.CutPrefix(arg, "@REP:")
	if !ok {
		return arg, nil
	}
	text, count, _ := strings.Cut(rest, ":")
	return repeat(text, count)
}

func repeat(text, count string) (string, error) {
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n*len(text) > maxRepeat {
		return "", fmt.Errorf("bad repeat count %q", count)
	}
	return strings.Repeat(text, n), nil
}

var rawRepeat = regexp.MustCompile(`\{\{(.)\*(\d+)\}\}`)

// rawBytes is what a raw step sends.
func rawBytes(arg string) ([]byte, error) {
	var failed error
	arg = rawRepeat.ReplaceAllStringFunc(arg, func(s string) string {
		m := rawRepeat.FindStringSubmatch(s)
		out, err := repeat(m[1], m[2])
		if err != nil {
			failed = err
		}
		return out
	})
	if failed != nil {
		return nil, failed
	}
	return wire.Unescape(arg)
}

func (s *Step) sleep() (time.Duration, error) {
	ms, err := strconv.Atoi(s.arg)
	if err != nil || ms < 0 || ms > 60_000 {
		return 0, fmt.Errorf("bad sleep %q", s.arg)
	}
	return time.Duration(ms) * time.Millisecond, nil
}
