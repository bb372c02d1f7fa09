package aof

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"kevy/internal/vfs"
)

// testCommit is a commit of SETs.
type testCommit struct {
	db    int
	pairs [][2]string
	state *int // the database that the log is in
}

func (c *testCommit) Ops() int { return len(c.pairs) }

func (c *testCommit) AppendTo(dst []byte, blockStart bool) []byte {
	if blockStart {
		*c.state = -1
	}
	if *c.state != c.db {
		*c.state = c.db
		dst = appendCommand(dst, "select", fmt.Sprint(c.db))
	}
	if len(c.pairs) > 1 {
		dst = appendCommand(dst, "MULTI")
	}
	for _, p := range c.pairs {
		dst = appendCommand(dst, "SET", p[0], p[1])
	}
	if len(c.pairs) > 1 {
		dst = appendCommand(dst, "EXEC")
	}
	return dst
}

func appendCommand(dst []byte, args ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(args))
	for _, a := range args {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(a), a)
	}
	return dst
}

// parseCommands takes a payload apart.
func parseCommands(payload []byte) (commands [][]string, err error) {
	for len(payload) > 0 {
		if payload[0] == '#' {
			_, rest, ok := bytes.Cut(payload, []byte("\n"))
			if !ok {
				return commands, fmt.Errorf("a line without an end")
			}
			payload = rest
			continue
		}
		n, rest, ok := testNumber(payload, '*')
		if !ok {
			return commands, fmt.Errorf("no command at %.40q", payload)
		}
		args := make([]string, 0, n)
		for range n {
			size, body, ok := testNumber(rest, '$')
			if !ok || len(body) < size+2 || string(body[size:size+2]) != "\r\n" {
				return commands, fmt.Errorf("no argument at %.40q", rest)
			}
			args = append(args, string(body[:size]))
			rest = body[size+2:]
		}
		commands = append(commands, args)
		payload = rest
	}
	return commands, nil
}

func testNumber(b []byte, kind byte) (n int, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != kind {
		return 0, nil, false
	}
	line, rest, ok := bytes.Cut(b[1:], []byte("\r\n"))
	if !ok {
		return 0, nil, false
	}
	if _, err := fmt.Sscanf(string(line), "%d", &n); err != nil {
		return 0, nil, false
	}
	return n, rest, true
}

// record is what a sink was given.
type record struct {
	ops         []string // "db key value" in order, index i has LSN first+i
	first       uint64
	next        uint64
	base        []string
	foreign     []string
	positions   []Position
	generations [][2]uint64
	baseDB      int
}

func (r *record) Position(stream int, generation, next uint64) error {
	r.positions = append(r.positions, Position{stream, generation, next})
	return nil
}

func (r *record) Generation(draw, lsn uint64) error {
	r.generations = append(r.generations, [2]uint64{draw, lsn})
	return nil
}

func (r *record) BasePayload(payload []byte) error {
	ops, db, err := opsOf(payload, r.baseDB)
	r.base, r.baseDB = append(r.base, ops...), db
	return err
}

func (r *record) Block(h BlockHeader, payload []byte) error {
	ops, _, err := opsOf(payload, -1)
	if err != nil {
		return err
	}
	if len(ops) != h.Ops {
		return fmt.Errorf("block of LSN %d: %d ops instead of %d", h.FirstLSN, len(ops), h.Ops)
	}
	if r.next != 0 && h.FirstLSN != r.next {
		return fmt.Errorf("block of LSN %d where %d comes next", h.FirstLSN, r.next)
	}
	if r.first == 0 {
		r.first = h.FirstLSN
	}
	r.next = h.LastLSN() + 1
	r.ops = append(r.ops, ops...)
	return nil
}

func (r *record) Foreign(payload []byte) error {
	commands, err := parseCommands(payload)
	for _, c := range commands {
		r.foreign = append(r.foreign, fmt.Sprint(c))
	}
	return err
}

// opsOf lists the ops of a payload.
func opsOf(payload []byte, db int) (ops []string, after int, err error) {
	commands, err := parseCommands(payload)
	if err != nil {
		return nil, db, err
	}
	multi := false
	for _, c := range commands {
		switch c[0] {
		case "select":
			if _, err := fmt.Sscan(c[1], &db); err != nil {
				return nil, db, err
			}
		case "MULTI":
			multi = true
		case "EXEC":
			multi = false
		case "SET":
			if db < 0 {
				return nil, db, fmt.Errorf("an op without a database")
			}
			ops = append(ops, fmt.Sprintf("%d %s %s", db, c[1], c[2]))
		default:
			return nil, db, fmt.Errorf("unexpected %q", c)
		}
	}
	if multi {
		return nil, db, fmt.Errorf("a payload ends inside a MULTI")
	}
	return ops, db, nil
}

// testLog is a log with what was appended to it.
type testLog struct {
	*Log
	t      testing.TB
	state  int
	clock  atomic.Int64
	ops    []string // index i has LSN i+1
	report *Report
}

func testOptions(fs vfs.FS) Options {
	return Options{FS: fs, Dir: "data", Policy: PolicyEverySec, BlockBytes: 1 << 10, MemoryBytes: 64 << 10}
}

func openLog(t testing.TB, opt Options) (*testLog, *record) {
	t.Helper()
	l, rec, err := tryOpenLog(t, opt, RecoverRefuse)
	if err != nil {
		t.Fatal(err)
	}
	return l, rec
}

func tryOpenLog(t testing.TB, opt Options, mode RecoverMode) (*testLog, *record, error) {
	t.Helper()
	tl := &testLog{t: t, state: -1}
	tl.clock.Store(1_700_000_000_000)
	if opt.NowMs == nil {
		opt.NowMs = tl.clock.Load
	}
	if opt.FS != nil {
		if err := opt.FS.MkdirAll(opt.Dir); err != nil {
			return nil, nil, err
		}
	}
	rec := &record{}
	l, report, err := Recover(opt, mode, rec)
	tl.Log, tl.report = l, report
	if err == nil {
		t.Cleanup(func() { _, _ = l.Close() }) // of a test that failed
	}
	return tl, rec, err
}

// set appends one commit of SETs in a database.
func (l *testLog) set(db int, pairs ...string) uint64 {
	c := &testCommit{db: db, state: &l.state}
	for i := 0; i < len(pairs); i += 2 {
		c.pairs = append(c.pairs, [2]string{pairs[i], pairs[i+1]})
		l.ops = append(l.ops, fmt.Sprintf("%d %s %s", db, pairs[i], pairs[i+1]))
	}
	return l.Append(c)
}

func (l *testLog) mustWrite() {
	l.t.Helper()
	if err := l.WaitWritten(l.Last()); err != nil {
		l.t.Fatal(err)
	}
}

func (l *testLog) mustClose() Tail {
	l.t.Helper()
	tail, err := l.Close()
	if err != nil {
		l.t.Fatal(err)
	}
	return tail
}

func check[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v instead of %v", what, got, want)
	}
}

func checkOps(t testing.TB, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d ops instead of %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: op %d is %.60q instead of %.60q", what, i, got[i], want[i])
		}
	}
}

// testRand prints its seed when the test fails.
func testRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// readFileText returns a file's content.
func readFileText(t testing.TB, fs vfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		t.Fatal(err)
	}
	return string(b)
}

func writeFileText(t testing.TB, fs vfs.FS, name, text string) {
	t.Helper()
	f, err := fs.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
