package cases

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/keyspace"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// cursor is a position in a stream.
type cursor struct{ generation, offset int64 }

func (c cursor) args() []string {
	return []string{strconv.FormatInt(c.generation, 10), strconv.FormatInt(c.offset, 10)}
}

// position asks for an end of a stream: TAIL or OLDEST.
func position(t testing.TB, c *wire.Conn, which, stream string) cursor {
	t.Helper()
	r := do(t, c, "CHANGES", which, stream)
	if len(r.Elems) != 2 {
		t.Fatalf("CHANGES %s %s: %s", which, stream, r)
	}
	g, err1 := r.Elems[0].Int()
	o, err2 := r.Elems[1].Int()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return cursor{g, o}
}

// frame is one change. What META adds is there only if it was asked for.
type frame struct {
	offset      int64
	args        []string
	db          int64
	first, last int64
	cause       string
}

// String is the command of the frame.
func (f frame) String() string { return strings.Join(f.args, " ") }

// texts are the commands of frames.
func texts(frames []frame) []string {
	out := make([]string, len(frames))
	for i, f := range frames {
		out[i] = f.String()
	}
	return out
}

// resync is the answer to a cursor that cannot be served.
type resync struct{ text string }

func (r *resync) Error() string { return r.text }

// reason is the last word of it.
func (r *resync) reason() string {
	words := strings.Fields(r.text)
	return words[len(words)-1]
}

// since reads once.
func since(c *wire.Conn, stream string, at cursor, options ...string) (next cursor, frames []frame, err error) {
	args := append(append([]string{"CHANGES", "SINCE", stream}, at.args()...), options...)
	c.SetDeadline(time.Now().Add(30 * time.Second))
	r, err := c.Do(args...)
	switch {
	case err != nil:
		return at, nil, err
	case r.IsError("FEEDRESYNC"):
		return at, nil, &resync{string(r.Text)}
	case r.IsError(""):
		return at, nil, errors.New(string(r.Text))
	case len(r.Elems) < 3:
		return at, nil, fmt.Errorf("a reply of another shape: %s", r)
	}
	var errs []error
	number := func(r wire.Reply) int64 {
		n, err := r.Int()
		errs = append(errs, err)
		return n
	}
	next = cursor{number(r.Elems[0]), number(r.Elems[1])}
	for _, raw := range r.Elems[2].Elems {
		if len(raw.Elems) < 2 {
			return at, nil, fmt.Errorf("a frame of another shape: %s", raw)
		}
		f := frame{offset: number(raw.Elems[0]), args: raw.Elems[1].Strings()}
		if len(raw.Elems) > 2 && len(raw.Elems[2].Elems) == 6 {
			m := raw.Elems[2].Elems
			f.db, f.first, f.last, f.cause = number(m[2]), number(m[3]), number(m[4]), string(m[5].Text)
		}
		frames = append(frames, f)
	}
	return next, frames, errors.Join(errs...)
}

// caughtUp reads to the tail: until there are no frames and the cursor stays.
func caughtUp(c *wire.Conn, stream string, at cursor, options ...string) (cursor, []frame, error) {
	var all []frame
	for {
		next, frames, err := since(c, stream, at, options...)
		if err != nil {
			return at, all, err
		}
		all = append(all, frames...)
		if next == at && len(frames) == 0 {
			return at, all, nil
		}
		at = next
	}
}

// mirror keeps what its filter lets through on a server of its own, frame by frame. That server must not let
// keys expire by its own clock: one whose frames come a little late would be gone before an EXPIRE that still
// found it at the source. So expiries lie a day later there, and keys go when a frame says so.
type mirror struct {
	name    string
	stream  string
	options []string
	// of says which of the source's keys the mirror must hold.
	of func(k keyspace.Key) bool
	// db is the database that it reads, or -1 if it reads all, with META.
	db int

	at       cursor
	to       *wire.Conn
	selected int64
	frames   int
	restarts int
}

// newMirror starts a mirror on a server that knows no more than the commands it is sent.
func newMirror(t *testing.T, m mirror) *mirror {
	t.Helper()
	s := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}})
	m.to = s.Conn(t)
	return &m
}

// follow applies what is new, and begins again where the stream cannot be followed.
func (m *mirror) follow(t *testing.T, source *wire.Conn) {
	t.Helper()
	for {
		next, frames, err := since(source, m.stream, m.at, m.options...)
		var r *resync
		if errors.As(err, &r) && r.reason() == "swapdb" && m.db >= 0 {
			m.begin(t, source)
			m.restarts++
			continue
		}
		if err != nil {
			t.Fatalf("%s at %v: %v", m.name, m.at, err)
		}
		if next == m.at && len(frames) == 0 {
			return
		}
		m.at = next
		m.apply(t, frames)
	}
}

func (m *mirror) apply(t *testing.T, frames []frame) {
	t.Helper()
	var cmds [][]string
	for _, f := range frames {
		m.frames++
		if m.db < 0 && f.db >= 0 && f.db != m.selected {
			cmds = append(cmds, []string{"SELECT", strconv.FormatInt(f.db, 10)})
			m.selected = f.db
		}
		cmds = append(cmds, postpone(f.args))
	}
	pipeline(t, m.to, cmds...)
}

const mirrorDelayMs = 24 * 60 * 60 * 1000

// postpone returns a command with its expiry mirrorDelayMs later.
func postpone(args []string) []string {
	at := slices.Index(args, "PXAT") + 1
	if args[0] == "PEXPIREAT" {
		at = 2
	}
	if at == 0 || at >= len(args) {
		return args
	}
	ms, err := strconv.ParseInt(args[at], 10, 64)
	if err != nil {
		return args
	}
	args = slices.Clone(args)
	args[at] = strconv.FormatInt(ms+mirrorDelayMs, 10)
	return args
}

// begin takes the state of the source, which must be quiet, and the cursor that goes with it.
func (m *mirror) begin(t *testing.T, source *wire.Conn) {
	t.Helper()
	m.at = position(t, source, "TAIL", m.stream)
	d := m.want(t, source)
	cmds := [][]string{{"FLUSHALL"}, {"SELECT", "0"}}
	m.selected = 0
	for k, v := range d {
		if int64(k.DB) != m.selected {
			cmds = append(cmds, []string{"SELECT", strconv.Itoa(k.DB)})
			m.selected = int64(k.DB)
		}
		for _, cmd := range rebuild(k.Name, v) {
			cmds = append(cmds, postpone(cmd))
		}
	}
	pipeline(t, m.to, cmds...)
}

// want is the part of the source that the mirror must equal. A mirror of one database holds it as its own 0.
func (m *mirror) want(t *testing.T, source *wire.Conn) keyspace.Dump {
	t.Helper()
	source.SetDeadline(time.Now().Add(time.Minute))
	d, err := keyspace.Read(source, databases)
	if err != nil {
		t.Fatal(err)
	}
	out := keyspace.Dump{}
	for k, v := range d {
		if !m.of(k) || m.db >= 0 && k.DB != m.db {
			continue
		}
		if m.db >= 0 {
			k.DB = 0
		}
		out[k] = v
	}
	return out
}

// check follows the source, which nobody writes to, until the mirror is equal, and fails if it does not get
// there: keys whose time has come go by themselves, and their frames come then.
func (m *mirror) check(t *testing.T, source *wire.Conn) int {
	t.Helper()
	deadline := time.Now().Add(3 * time.Second)
	for {
		m.follow(t, source)
		want := m.want(t, source)
		m.to.SetDeadline(time.Now().Add(time.Minute))
		got, err := keyspace.Read(m.to, databases)
		if err != nil {
			t.Fatal(err)
		}
		m.selected = 0
		for k, v := range got {
			if v.ExpireAtMs >= 0 {
				v.ExpireAtMs -= mirrorDelayMs
				got[k] = v
			}
		}
		diff := keyspace.Diff(want, got, keyspace.Options{}, 5)
		if len(diff) == 0 {
			return len(want)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the mirror %s differs: %q", m.name, diff)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

const databases = 16

// rebuild is the commands that make a key.
func rebuild(name string, v keyspace.Value) [][]string {
	verb := map[string]string{"string": "SET", "list": "RPUSH", "set": "SADD", "hash": "HSET", "zset": "ZADD"}[v.Type]
	args := []string{verb, name}
	if v.Type == "zset" {
		for i := 0; i+1 < len(v.Parts); i += 2 {
			args = append(args, v.Parts[i+1], v.Parts[i])
		}
	} else {
		args = append(args, v.Parts...)
	}
	cmds := [][]string{args}
	if v.ExpireAtMs >= 0 {
		cmds = append(cmds, []string{"PEXPIREAT", name, strconv.FormatInt(v.ExpireAtMs, 10)})
	}
	return cmds
}
