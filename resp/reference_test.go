package resp

import (
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// referenceParse is the protocol written down a second time, for input that is
// there as a whole: no state, no buffer, no speed. It returns the commands
// before the end of the input or the first protocol error.
func referenceParse(in string, lim Limits) (commands [][]string, problem string) {
	lim = lim.withDefaults()
	// until returns the text before end; found is false if the input ends first.
	until := func(end, tooLong string) (text string, found bool, problem string) {
		visible := in
		if zero := strings.IndexByte(in, 0); zero >= 0 {
			visible = in[:zero]
		}
		i := strings.Index(visible, end)
		if i > lim.MaxInlineBytes || i < 0 && len(in) > lim.MaxInlineBytes {
			return "", false, tooLong
		}
		if i < 0 {
			return "", false, ""
		}
		return in[:i], true, ""
	}
	number := func(text string) (int64, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil && strconv.FormatInt(n, 10) == text
	}
	for len(in) > 0 {
		if in[0] != '*' {
			line, found, problem := until("\n", "too big inline request")
			if !found {
				return commands, problem
			}
			in = in[len(line)+1:]
			args, ok := referenceSplit(strings.TrimSuffix(line, "\r"))
			if !ok {
				return commands, "unbalanced quotes in request"
			}
			if len(args) > 0 {
				commands = append(commands, args)
			}
			continue
		}
		line, found, problem := until("\r", "too big mbulk count string")
		if !found || len(in) < len(line)+2 {
			return commands, problem
		}
		count, ok := number(line[1:])
		switch {
		case !ok || count > defaultMaxArgs:
			return commands, "invalid multibulk length"
		case count > int64(lim.MaxArgs) && lim.Unauthenticated:
			return commands, "unauthenticated multibulk length"
		case count > int64(lim.MaxArgs):
			return commands, "invalid multibulk length"
		}
		in = in[len(line)+2:]
		var args []string
		for ; count > 0; count-- {
			line, found, problem := until("\r", "too big bulk count string")
			if !found || len(in) < len(line)+2 {
				return commands, problem
			}
			if in[0] != '$' {
				got := in[:1]
				if got == "\r" || got == "\n" {
					got = " "
				}
				return commands, "expected '$', got '" + got + "'"
			}
			n, ok := number(line[1:])
			switch {
			case !ok || n < 0 || n > lim.MaxBulkBytes && (!lim.Unauthenticated || n > defaultMaxBulkBytes):
				return commands, "invalid bulk length"
			case n > lim.MaxBulkBytes:
				return commands, "unauthenticated bulk length"
			}
			in = in[len(line)+2:]
			if int64(len(in)) < n+2 {
				return commands, ""
			}
			args = append(args, in[:n])
			in = in[n+2:]
		}
		if len(args) > 0 {
			commands = append(commands, args)
		}
	}
	return commands, ""
}

// referenceSplit is the quoting of inline commands, written down a second time.
func referenceSplit(line string) (args []string, ok bool) {
	const space = " \t\n\v\f\r"
	line, _, _ = strings.Cut(line, "\x00")
	for {
		line = strings.TrimLeft(line, space)
		if line == "" {
			return args, true
		}
		plain := line
		if i := strings.IndexAny(line, " \t\n\r\"'"); i >= 0 {
			plain = line[:i]
		}
		line = line[len(plain):]
		if line == "" || line[0] != '"' && line[0] != '\'' {
			args = append(args, plain)
			continue
		}
		var sb strings.Builder
		sb.WriteString(plain)
		quote := line[0]
		line = line[1:]
		for {
			if line == "" {
				return args, false
			}
			c := line[0]
			line = line[1:]
			if c == quote {
				break
			}
			if c == '\\' && quote == '\'' && strings.HasPrefix(line, "'") {
				c, line = '\'', line[1:]
			} else if c == '\\' && quote == '"' && line != "" {
				if len(line) >= 3 && line[0] == 'x' {
					if n, err := strconv.ParseUint(line[1:3], 16, 8); err == nil {
						sb.WriteByte(byte(n))
						line = line[3:]
						continue
					}
				}
				c, line = line[0], line[1:]
				if i := strings.IndexByte("nrtba", c); i >= 0 {
					c = "\n\r\t\b\a"[i]
				}
			}
			sb.WriteByte(c)
		}
		if line != "" && !strings.ContainsRune(space, rune(line[0])) {
			return args, false
		}
		args = append(args, sb.String())
	}
}

// readAll returns copies of all commands of r and the text of the protocol
// error that ended them, "" for the end of the input.
func readAll(t testing.TB, r *Reader) (commands [][]string, problem string) {
	t.Helper()
	for {
		args, ok, err := r.Next()
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Code != "ERR" || !strings.HasPrefix(e.Text, "Protocol error: ") {
				t.Fatalf("Next: %v", err)
			}
			return commands, strings.TrimPrefix(e.Text, "Protocol error: ")
		}
		if ok {
			commands = append(commands, copyArgs(args))
			continue
		}
		switch err := r.Fill(); err {
		case nil:
		case io.EOF:
			return commands, ""
		default:
			t.Fatalf("Fill: %v", err)
		}
	}
}

func copyArgs(args [][]byte) []string {
	s := make([]string, len(args))
	for i, a := range args {
		s[i] = string(a)
	}
	return s
}

// cutReader yields its input in pieces whose lengths next chooses.
type cutReader struct {
	in   string
	next func() int
}

func (c *cutReader) Read(p []byte) (int, error) {
	if c.in == "" {
		return 0, io.EOF
	}
	n := copy(p, c.in[:min(max(c.next(), 1), len(c.in))])
	c.in = c.in[n:]
	return n, nil
}

// cuts are ways to cut any input.
func cuts(seed uint64) map[string]func() int {
	rng := rand.New(rand.NewPCG(seed, 1))
	return map[string]func() int{
		"whole":        func() int { return 1 << 30 },
		"bytes":        func() int { return 1 },
		"twos":         func() int { return 2 },
		"small pieces": func() int { return 1 + rng.IntN(8) },
		"pieces":       func() int { return 1 << rng.IntN(18) },
	}
}

func sameCommands(a, b [][]string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if len(a[i]) != len(b[i]) {
			return false
		}
		for j := range a[i] {
			if a[i][j] != b[i][j] {
				return false
			}
		}
	}
	return true
}

// checkCuts reads in, cut in every way, and compares with the reference.
func checkCuts(t *testing.T, in string, lim Limits, seed uint64) {
	t.Helper()
	want, wantProblem := referenceParse(in, lim)
	for name, next := range cuts(seed) {
		got, problem := readAll(t, NewReader(&cutReader{in, next}, lim))
		if problem != wantProblem || !sameCommands(got, want) {
			t.Errorf("input %.200q cut into %s, seed %d:\n got  %.300q, %q\n want %.300q, %q", in, name, seed, got, problem, want, wantProblem)
		}
	}
}
