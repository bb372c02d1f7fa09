package script

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the replies that came into the scripts")

const (
	// replyTimeout is how long a reply that must come may take.
	replyTimeout = 5 * time.Second
	// silence is how long a connection must stay quiet before it counts as having said all.
	silence = 60 * time.Millisecond
)

// Target is the server that scripts run against.
type Target struct {
	// Dial opens a connection: over loopback, or in process.
	Dial func() (net.Conn, error)
	// Oracle says that the target is a redis-server: steps with skip-oracle are sent and not compared.
	Oracle bool
	// AfterCase, if set, runs after each case, on the keyspace that the case left.
	AfterCase func(t testing.TB, c *Case)
}

// Find lists the scripts under root that match pattern, sorted.
func Find(root, pattern string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(root, pattern))
	sort.Strings(paths)
	return paths, err
}

// Run runs one script, each case as a subtest in RESP2 and RESP3.
func Run(t *testing.T, path string, target Target) {
	f, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Cases) == 0 {
		t.Fatalf("%s holds no case", path)
	}
	got := map[*Step][4]string{}
	for _, c := range f.Cases {
		for _, proto := range []int{2, 3} {
			if c.rules.only != 0 && c.rules.only != proto {
				continue
			}
			t.Run(fmt.Sprintf("%s/RESP%d", c.Title, proto), func(t *testing.T) {
				e := execution{target: target, proto: proto, conns: map[string]*wire.Conn{}, saved: map[string]string{}}
				defer e.close()
				if err := e.reset(); err != nil {
					t.Fatal(err)
				}
				for _, s := range c.Steps {
					if s.rules.only != 0 && s.rules.only != proto {
						continue
					}
					text, ok := e.step(s)
					if *rewrite {
						g := got[s]
						g[proto] = text
						if ok {
							g[proto] = s.want[proto]
						}
						got[s] = g
						continue
					}
					if !ok {
						t.Errorf("%s:%d: %s\n  want %s\n  got  %s", f.Path, s.Line, s.Text, s.want[proto], text)
					}
				}
				if target.AfterCase != nil {
					target.AfterCase(t, c)
				}
			})
		}
	}
	if *rewrite {
		if err := f.write(got); err != nil {
			t.Fatal(err)
		}
	}
}

// Execute runs the steps of a case as a client of one protocol and returns what came, a text for each step
// ("" for one that reads nothing). It compares nothing; replies that are written only say what to wait for.
func (c *Case) Execute(target Target, proto int) ([]string, error) {
	e := execution{target: target, proto: proto, conns: map[string]*wire.Conn{}, saved: map[string]string{}}
	defer e.close()
	if err := e.reset(); err != nil {
		return nil, err
	}
	var out []string
	for _, s := range c.Steps {
		text, _ := e.step(s)
		out = append(out, text)
	}
	return out, nil
}

// execution is one run of a case.
type execution struct {
	target Target
	proto  int
	conns  map[string]*wire.Conn
	saved  map[string]string
}

func (e *execution) close() {
	for _, c := range e.conns {
		c.Close()
	}
}

// reset empties the server, once the subscribers of earlier cases are gone.
func (e *execution) reset() error {
	c, err := e.target.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return err
	}
	conn := wire.NewConn(c)
	// PUBLISH counts the subscribers of the case before until the server has seen the ends of their connections.
	for {
		r, err := conn.Do("CLIENT", "LIST", "TYPE", "pubsub")
		if err != nil {
			return err
		}
		if r.IsError("") || len(r.Text) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	r, err := conn.Do("FLUSHALL")
	if err == nil && r.IsError("") {
		err = errors.New(r.String())
	}
	return err
}

func (e *execution) conn(name string) (*wire.Conn, error) {
	if c := e.conns[name]; c != nil {
		return c, nil
	}
	raw, err := e.target.Dial()
	if err != nil {
		return nil, err
	}
	c := wire.NewConn(raw)
	e.conns[name] = c
	if e.proto == 3 {
		c.SetDeadline(time.Now().Add(replyTimeout))
		if _, err := c.Do("HELLO", "3"); err != nil {
			return nil, fmt.Errorf("HELLO 3: %w", err)
		}
	}
	return c, nil
}

// step runs one step: what came, and whether it matches what is written.
func (e *execution) step(s *Step) (string, bool) {
	// What cannot be read back is compared as text only, and is one reply.
	wanted := e.expand(s.want[e.proto])
	want, parseErr := parseItems(wanted)
	got, err := e.do(s, max(len(want), 1))
	if err != nil {
		return "error: " + err.Error(), false
	}
	if got == nil {
		return "", true
	}
	if s.save != "" && got[0].mark == "" {
		e.saved[s.save] = string(got[0].reply.Text)
		for i, elem := range got[0].reply.Elems {
			e.saved[s.save+"."+strconv.Itoa(i)] = string(elem.Text)
		}
	}
	if e.target.Oracle && s.rules.skipOracle != "" {
		return s.want[e.proto], true
	}
	text := joinItems(got)
	return text, text == wanted || parseErr == nil && s.rules.loose() && s.rules.matches(want, got)
}

// do performs a step; nil items for one that reads nothing.
func (e *execution) do(s *Step, expected int) ([]item, error) {
	switch s.op {
	case "sleep":
		d, err := s.sleep()
		time.Sleep(d)
		return nil, err
	case "blocked":
		return nil, e.awaitBlocked(s.arg)
	case "close":
		if c := e.conns[s.conn]; c != nil {
			delete(e.conns, s.conn)
			return nil, c.Close()
		}
		return nil, fmt.Errorf("no connection %s", s.conn)
	}
	c, err := e.conn(s.conn)
	if err != nil {
		return nil, err
	}
	switch s.op {
	case "<":
		n := 1
		if s.arg != "" {
			if _, err := fmt.Sscan(s.arg, &n); err != nil {
				return nil, err
			}
		}
		out := make([]item, 0, n)
		for range n {
			timeout := replyTimeout
			if strings.Contains(s.want[e.proto], markNone) {
				timeout = 2 * silence
			}
			out = append(out, read(c, timeout))
		}
		return out, nil
	case "!":
		raw, err := rawBytes(s.arg)
		if err != nil {
			return nil, err
		}
		c.SetWriteDeadline(time.Now().Add(replyTimeout))
		// The server may close while it is still being sent to; its reply is what counts.
		_, _ = c.Write(raw)
		var out []item
		for {
			timeout := silence
			if len(out) < expected && s.want[e.proto] != markNone {
				timeout = replyTimeout
			}
			it := read(c, timeout)
			if it.mark == markNone {
				break
			}
			out = append(out, it)
			if it.mark == markClosed {
				break
			}
		}
		if out == nil {
			out = []item{{mark: markNone}}
		}
		return out, nil
	}
	args, err := splitArgs(e.expand(s.arg))
	if err != nil {
		return nil, err
	}
	c.SetWriteDeadline(time.Now().Add(replyTimeout))
	if err := c.Send(args...); err != nil {
		return []item{{mark: markClosed}}, nil
	}
	if s.op == ">>" {
		return nil, nil
	}
	timeout := replyTimeout
	if s.want[e.proto] == markNone {
		timeout = 2 * silence
	}
	return []item{read(c, timeout)}, nil
}

// awaitBlocked returns once so many clients are blocked, which a connection of its own asks for.
func (e *execution) awaitBlocked(count string) error {
	c, err := e.conn("")
	if err != nil {
		return err
	}
	want := "blocked_clients:" + count + "\r\n"
	for deadline := time.Now().Add(replyTimeout); ; time.Sleep(time.Millisecond) {
		c.SetDeadline(deadline)
		r, err := c.Do("INFO", "clients")
		switch {
		case err != nil:
			return fmt.Errorf("INFO: %w", err)
		case strings.Contains(string(r.Text), want):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("there are not %s blocked clients: %s", count, r.Text)
		}
	}
}

// expand puts saved replies in the place of ${name}.
func (e *execution) expand(arg string) string {
	for name, text := range e.saved {
		arg = strings.ReplaceAll(arg, "${"+name+"}", text)
	}
	return arg
}

// read reads one reply, or a mark. A time-out in the middle of a reply loses the connection's place,
// which the following steps then show.
func read(c *wire.Conn, timeout time.Duration) item {
	c.SetReadDeadline(time.Now().Add(timeout))
	r, err := c.ReadReply()
	var ne net.Error
	switch {
	case err == nil:
		return item{reply: r}
	case errors.As(err, &ne) && ne.Timeout():
		return item{mark: markNone}
	}
	return item{mark: markClosed}
}

// write puts the replies that came into the script.
func (f *File) write(got map[*Step][4]string) error {
	drop := map[int]bool{}
	add := map[int][]string{}
	for _, c := range f.Cases {
		for _, s := range c.Steps {
			g, ran := got[s]
			if !ran {
				continue
			}
			for p := 2; p <= 3; p++ {
				drop[s.wantLine[p]] = true
				if g[p] == "" {
					g[p] = s.want[p]
				}
			}
			only := s.rules.only
			switch {
			case g[2] == g[3] && g[2] != "":
				add[s.Line] = []string{g[2]}
			case only != 0 && g[only] != "":
				add[s.Line] = []string{g[only]}
			default:
				for p := 2; p <= 3; p++ {
					if g[p] != "" {
						add[s.Line] = append(add[s.Line], fmt.Sprintf("%d: %s", p, g[p]))
					}
				}
			}
		}
	}
	var b strings.Builder
	for i, line := range f.lines {
		if drop[i+1] {
			continue
		}
		b.WriteString(line)
		b.WriteByte('\n')
		for _, l := range add[i+1] {
			b.WriteString(l)
			b.WriteByte('\n')
		}
	}
	if b.String() == strings.Join(f.lines, "\n")+"\n" {
		return nil
	}
	return os.WriteFile(f.Path, []byte(b.String()), 0o644)
}
