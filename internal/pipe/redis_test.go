package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/changes"
	"kevy/internal/vfs"
	"kevy/tests/keyspace"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// feeder makes commits by running commands on a kevy-server and reading what its
// feed says of them, so that a sink can be tried without a consumer.
type feeder struct {
	t    *testing.T
	conn *wire.Conn
	at   changes.Cursor
	next changes.Cursor // of the last commit; at the end of a generation not the same as at
}

func newFeeder(t *testing.T, addr string) *feeder {
	t.Helper()
	c, err := wire.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	f := &feeder{t: t, conn: c}
	r := f.do("CHANGES", "TAIL", "ALL")
	f.at = cursorOf(t, r.Elems[0], r.Elems[1])
	return f
}

func cursorOf(t *testing.T, generation, offset wire.Reply) changes.Cursor {
	t.Helper()
	c, err := changes.ParseCursor(string(generation.Text) + ":" + string(offset.Text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *feeder) do(args ...string) wire.Reply {
	f.t.Helper()
	r, err := f.conn.Do(args...)
	if err != nil || r.Kind == wire.Error {
		f.t.Fatalf("%q: %v %v", args, r, err)
	}
	return r
}

// commits returns what was committed since the last call.
func (f *feeder) commits(filters ...string) []*changes.Commit {
	f.t.Helper()
	var all []*changes.Commit
	for {
		args := append([]string{"CHANGES", "SINCE", "ALL", fmt.Sprint(f.at.Generation), fmt.Sprint(f.at.Offset), "META"}, filters...)
		r := f.do(args...)
		next := cursorOf(f.t, r.Elems[0], r.Elems[1])
		var c *changes.Commit
		for _, e := range r.Elems[2].Elems {
			meta := e.Elems[2].Elems
			n := func(i int) uint64 {
				v, err := meta[i].Int()
				if err != nil {
					f.t.Fatal(err)
				}
				return uint64(v)
			}
			offset, err := e.Elems[0].Int()
			if err != nil {
				f.t.Fatal(err)
			}
			frame := changes.Frame{Offset: uint64(offset), LSN: n(0), Time: time.UnixMilli(int64(n(1))), DB: int(n(2)), Cause: changes.Cause(meta[5].Text)}
			for _, a := range e.Elems[1].Elems {
				frame.Args = append(frame.Args, a.Text)
			}
			if c == nil || c.First != n(3) {
				c = &changes.Commit{Stream: "ALL", Generation: f.at.Generation, First: n(3), Last: n(4), Next: changes.Cursor{Generation: f.at.Generation, Offset: n(4) + 1}}
				all = append(all, c)
			}
			c.Frames = append(c.Frames, frame)
		}
		if c != nil {
			f.next = c.Next
		}
		if next == f.at {
			return all
		}
		f.at = next
	}
}

// writes runs random commands of every type, in transactions and alone.
func (f *feeder) writes(rng *rand.Rand, n int, flushes bool) {
	f.t.Helper()
	key := func(kind string) string {
		return fmt.Sprintf("%s%s%d", []string{"a:", "b:", ""}[rng.IntN(3)], kind, rng.IntN(5))
	}
	one := func() []string {
		v := fmt.Sprintf("v%d\xff", rng.IntN(1000))
		switch rng.IntN(16) {
		case 0:
			return []string{"SET", key("s"), v}
		case 1:
			return []string{"SET", key("s"), v, "EX", "1000"}
		case 2:
			return []string{"APPEND", key("s"), v}
		case 3:
			return []string{"RPUSH", key("l"), v, "x", v}
		case 4:
			return []string{"LPOP", key("l"), "2"}
		case 5:
			return []string{"HSET", key("h"), fmt.Sprint(rng.IntN(5)), v}
		case 6:
			return []string{"HDEL", key("h"), fmt.Sprint(rng.IntN(5))}
		case 7:
			return []string{"SADD", key("set"), v, fmt.Sprint(rng.IntN(5))}
		case 8:
			return []string{"SPOP", key("set")}
		case 9:
			return []string{"ZADD", key("z"), fmt.Sprint(rng.Float64()), fmt.Sprint(rng.IntN(5))}
		case 10:
			return []string{"XADD", key("x"), "MAXLEN", "3", "*", "f", v}
		case 11:
			return []string{"EXPIRE", key([]string{"s", "l", "h", "z"}[rng.IntN(4)]), "2000"}
		case 12:
			return []string{"DEL", key([]string{"s", "l", "h", "z", "x", "set"}[rng.IntN(6)])}
		case 13:
			return []string{"PERSIST", key("s")}
		case 14:
			return []string{"LINSERT", key("l"), "BEFORE", "x", v}
		}
		return []string{"SET", fmt.Sprintf("n%d", rng.IntN(5)), "1"}
	}
	for range n {
		switch {
		case rng.IntN(8) == 0:
			f.do("MULTI")
			for range rng.IntN(5) {
				f.do(one()...)
			}
			if flushes && rng.IntN(10) == 0 {
				f.do([]string{"FLUSHDB", "FLUSHALL"}[rng.IntN(2)])
				f.do(one()...)
			}
			f.do("EXEC")
		case rng.IntN(20) == 0:
			f.do("SELECT", fmt.Sprint(rng.IntN(3)))
		case flushes && rng.IntN(60) == 0:
			f.do([]string{"FLUSHDB", "FLUSHALL"}[rng.IntN(2)])
		default:
			f.do(one()...)
		}
	}
}

func target(t *testing.T, raw string) *Target {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &Target{
		URL: u, Options: u.Query(), Name: "test", Streams: []string{changes.All}, Filter: changes.Filter{AllDBs: true},
		FS: vfs.OS(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "test", Source: "test", Stdout: io.Discard,
	}
}

func open(t *testing.T, target *Target) SnapshotSink {
	t.Helper()
	s, err := Open(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s.(SnapshotSink)
}

// eachTarget runs a test with redis-server and with kevy-server as the target.
func eachTarget(t *testing.T, test func(t *testing.T, b process.Binary)) {
	t.Run("redis", func(t *testing.T) { test(t, process.Oracle(t)) })
	t.Run("kevy", func(t *testing.T) { test(t, process.Subject(t)) })
}

func dump(t *testing.T, s *process.Server) keyspace.Dump {
	t.Helper()
	c, err := wire.Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := keyspace.Read(c, 4)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustEqual(t *testing.T, want, got keyspace.Dump) {
	t.Helper()
	for key := range got {
		if strings.HasPrefix(key.Name, stateKey) {
			delete(got, key)
		}
	}
	if diff := keyspace.Diff(want, got, keyspace.Options{}, 10); len(diff) > 0 {
		t.Fatalf("the copy differs:\n%s", strings.Join(diff, "\n"))
	}
}

// cutter is a connection broker before a target that cuts connections after a
// random number of bytes.
type cutter struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu    sync.Mutex
	rng   *rand.Rand // guarded by mu
	bytes int        // guarded by mu: a connection is cut after up to so many; 0: never
	cuts  int        // guarded by mu
}

func newCutter(t *testing.T, to string, rng *rand.Rand, bytes int) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, to: to, rng: rand.New(rand.NewPCG(rng.Uint64(), 2)), bytes: bytes}
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.wg.Add(1)
			go c.carry(conn)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) carry(conn net.Conn) {
	defer c.wg.Done()
	up, err := net.Dial("tcp", c.to)
	if err != nil {
		conn.Close()
		return
	}
	end := sync.OnceFunc(func() { conn.Close(); up.Close() })
	defer end()
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		defer end()
		c.copy(conn, up)
	}()
	c.copy(up, conn)
}

func (c *cutter) copy(dst io.Writer, src io.Reader) {
	c.mu.Lock()
	limit := int64(1 << 60)
	if c.bytes > 0 {
		limit = int64(c.rng.IntN(c.bytes))
	}
	c.mu.Unlock()
	if n, _ := io.CopyN(dst, src, limit); n == limit {
		c.mu.Lock()
		c.cuts++
		c.mu.Unlock()
	}
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

// TestRedisCopyIsExact carries random commits over connections that are cut
// anywhere: each is in the target once.
func TestRedisCopyIsExact(t *testing.T) {
	eachTarget(t, func(t *testing.T, b process.Binary) {
		rng := testRand(t)
		source := process.Start(t, process.Subject(t), process.Config{})
		to := process.Start(t, b, process.Config{})
		cuts := newCutter(t, to.Addr(), rng, 12_000)
		f := newFeeder(t, source.Addr())
		ctx := t.Context()
		s := open(t, target(t, "redis://"+cuts.listener.Addr().String()))
		at, ok, err := s.Resume(ctx)
		if err != nil || !ok || len(at) != 0 {
			t.Fatalf("an empty target resumes at %v, %v, %v", at, ok, err)
		}
		for i := 0; i < 60 || cuts.count() < 10 && i < 600; i++ {
			f.writes(rng, 40, true)
			commits := f.commits("DB", "*")
			for len(commits) > 0 {
				n := 1 + rng.IntN(len(commits))
				if err := s.Write(ctx, commits[:n]); err != nil {
					t.Fatal(err)
				}
				commits = commits[n:]
			}
		}
		if n := cuts.count(); n < 10 {
			t.Errorf("only %d connections were cut", n)
		}
		mustEqual(t, dump(t, source), dump(t, to))

		// Another run goes on from there.
		again := open(t, target(t, "redis://"+to.Addr()))
		if at, ok, err := again.Resume(ctx); err != nil || !ok || at["ALL"] != f.next {
			t.Errorf("resumes at %v, %v, %v, want %v", at, ok, err, f.next)
		}
		f.do("SELECT", "0")
		f.do("SWAPDB", "0", "1")
		f.do("SET", "after", "swap")
		if err := again.Write(ctx, f.commits("DB", "*")); err != nil {
			t.Fatal(err)
		}
		mustEqual(t, dump(t, source), dump(t, to))
		third := open(t, target(t, "redis://"+to.Addr()))
		if at, _, err := third.Resume(ctx); err != nil || at["ALL"] != f.next {
			t.Errorf("after SWAPDB it resumes at %v, %v, want %v", at, err, f.next)
		}
		// The one before has lost its place now that another writes.
		f.do("SET", "x", "1")
		next := f.commits("DB", "*")
		if err := third.Write(ctx, next); err != nil {
			t.Fatal(err)
		}
		f.do("SET", "x", "2")
		if err := again.Write(ctx, append(next, f.commits("DB", "*")...)); err == nil || !strings.Contains(err.Error(), "another pipe of the same name") {
			t.Errorf("two pipes of one name: %v", err)
		}
	})
}

// TestRedisCopyOfAPart keeps foreign keys, and renames its own, whatever is
// flushed.
func TestRedisCopyOfAPart(t *testing.T) {
	eachTarget(t, func(t *testing.T, b process.Binary) {
		rng := testRand(t)
		source := process.Start(t, process.Subject(t), process.Config{})
		to := process.Start(t, b, process.Config{})
		foreign := to.Conn(t)
		for db := range 3 {
			for _, args := range [][]string{{"SELECT", fmt.Sprint(db)}, {"SET", "foreign", "1"}, {"SET", "a:foreign", "1"}, {"SET", "copy:b:foreign", "1"}, {"SET", "copyx", "1"}} {
				if _, err := foreign.Do(args...); err != nil {
					t.Fatal(err)
				}
			}
		}
		cuts := newCutter(t, to.Addr(), rng, 30_000)
		f := newFeeder(t, source.Addr())
		ctx := t.Context()
		spec := target(t, "redis://"+cuts.listener.Addr().String())
		spec.Filter.Prefixes = []string{"a:"}
		spec.Rewrite = Rewrite{{"a:", "copy:a:"}}
		s := open(t, spec)
		if _, _, err := s.Resume(ctx); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			f.writes(rng, 40, true)
			commits := f.commits("DB", "*", "PREFIX", "a:")
			for _, c := range commits {
				for i := range c.Frames {
					spec.Rewrite.args(c.Frames[i].Args)
				}
			}
			if len(commits) > 0 {
				if err := s.Write(ctx, commits); err != nil {
					t.Fatal(err)
				}
			}
		}
		want, kept := keyspace.Dump{}, 0
		for key, value := range dump(t, source) {
			if strings.HasPrefix(key.Name, "a:") {
				key.Name = "copy:" + key.Name
				want[key] = value
			}
		}
		got := dump(t, to)
		for key := range got {
			if strings.Contains(key.Name, "foreign") || key.Name == "copyx" {
				kept++
				delete(got, key)
			}
		}
		if kept != 12 {
			t.Errorf("%d of 12 foreign keys are left", kept)
		}
		mustEqual(t, want, got)
		f.do("SWAPDB", "0", "1")
		if err := s.Write(ctx, f.commits("DB", "*", "PREFIX", "a:")); !errors.Is(err, errSwapDB) {
			t.Errorf("SWAPDB: %v", err)
		}
	})
}

func TestRedisSnapshot(t *testing.T) {
	eachTarget(t, func(t *testing.T, b process.Binary) {
		to := process.Start(t, b, process.Config{})
		c := to.Conn(t)
		do := func(args ...string) wire.Reply {
			r, err := c.Do(args...)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		ctx := t.Context()
		part := func(n uint64, ops ...[][]byte) *changes.SnapshotPart {
			return &changes.SnapshotPart{Stream: "ALL", Token: "x", N: n, DB: 1, Ops: ops}
		}
		cmd := func(words ...string) (op [][]byte) {
			for _, w := range words {
				op = append(op, []byte(w))
			}
			return op
		}
		do("SELECT", "1")
		do("SET", "there", "1")
		raw := "redis://" + to.Addr()
		s := open(t, target(t, raw))
		if _, _, err := s.Resume(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.SnapshotStart(ctx, "ALL", "x"); err == nil || !strings.Contains(err.Error(), `such as "there" in database 1`) {
			t.Fatalf("a target with keys: %v", err)
		}
		s = open(t, target(t, raw+"?replace=yes"))
		if _, _, err := s.Resume(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.SnapshotStart(ctx, "ALL", "x"); err != nil {
			t.Fatal(err)
		}
		if err := s.SnapshotPart(ctx, part(1, cmd("RPUSH", "l", "a"), cmd("RPUSH", "l", "b"))); err != nil {
			t.Fatal(err)
		}
		// Cut off here, it may not be taken for a whole copy.
		half := open(t, target(t, raw))
		if _, _, err := half.Resume(ctx); err == nil || !strings.Contains(err.Error(), "start with --snapshot") {
			t.Errorf("half a snapshot: %v", err)
		}
		spec := target(t, raw)
		spec.Snapshot = true
		s = open(t, spec)
		if at, ok, err := s.Resume(ctx); err != nil || !ok || len(at) > 0 {
			t.Fatalf("half a snapshot with --snapshot: %v %v %v", at, ok, err)
		}
		for _, step := range []func() error{
			func() error { return s.SnapshotStart(ctx, "ALL", "y") },
			func() error { return s.SnapshotPart(ctx, part(1, cmd("RPUSH", "l", "a"))) },
			func() error { return s.SnapshotEnd(ctx, "ALL", changes.Cursor{Generation: 7, Offset: 3}) },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		do("SELECT", "1")
		if r := do("LRANGE", "l", "0", "-1"); r.String() != `["a"]` {
			t.Errorf("the list is %v", r)
		}
		if r := do("EXISTS", "there"); r.String() != ":0" {
			t.Errorf("what was there before: %v", r)
		}
		s = open(t, target(t, raw))
		if at, _, err := s.Resume(ctx); err != nil || at["ALL"] != (changes.Cursor{Generation: 7, Offset: 3}) {
			t.Errorf("resumes at %v, %v", at, err)
		}
		other := target(t, raw)
		other.Filter.Prefixes = []string{"z"}
		if _, _, err := open(t, other).Resume(ctx); err == nil || !strings.Contains(err.Error(), "other filters") {
			t.Errorf("another filter: %v", err)
		}

		// A command that the target cannot run is found out, and kept in mind.
		commit := &changes.Commit{Stream: "ALL", Generation: 7, First: 3, Last: 3, Next: changes.Cursor{Generation: 7, Offset: 4},
			Frames: []changes.Frame{{Offset: 3, DB: 1, Args: cmd("HSET", "l", "f", "v")}}}
		if err := s.Write(ctx, []*changes.Commit{commit}); err == nil || !strings.Contains(err.Error(), `HSET "l" with: WRONGTYPE`) {
			t.Errorf("a value of another type: %v", err)
		}
		if _, _, err := open(t, target(t, raw)).Resume(ctx); err == nil || !strings.Contains(err.Error(), "no longer equal") {
			t.Errorf("after it: %v", err)
		}
		accepting := open(t, target(t, raw+"?accept-diverged=yes"))
		if at, _, err := accepting.Resume(ctx); err != nil || at["ALL"].Offset != 4 {
			t.Errorf("accepted: %v %v", at, err)
		}
		if err := accepting.Write(ctx, []*changes.Commit{{Stream: "ALL", Next: changes.Cursor{Generation: 7, Offset: 5}}}); err != nil {
			t.Fatal(err)
		}
		if at, _, err := open(t, target(t, raw)).Resume(ctx); err != nil || at["ALL"].Offset != 5 {
			t.Errorf("after it was accepted: %v %v", at, err)
		}
	})
}

// TestRedisDeadlines sends deadlines that are over, as a pipe that lies behind
// does: the key has to be there for the frame that moves its deadline.
func TestRedisDeadlines(t *testing.T) {
	to := process.Start(t, process.Oracle(t), process.Config{})
	c := to.Conn(t)
	future := time.Now().Add(time.Hour).UnixMilli()
	for _, test := range []struct {
		ttl  string
		want func(pttl int64) bool
	}{
		{"exact", func(p int64) bool { return p > 3_500_000 && p <= 3_600_000 }},
		{"10m", func(p int64) bool { return p > 4_100_000 && p <= 4_200_000 }},
		{"none", func(p int64) bool { return p == -1 }},
	} {
		spec := target(t, "redis://"+to.Addr()+"?ttl="+test.ttl)
		spec.Name = test.ttl
		s := open(t, spec)
		if _, _, err := s.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, args := range []string{
			"SET k v PXAT 1", "HSET h f v", "PEXPIREAT h 1", "HSET h g v", fmt.Sprint("PEXPIREAT k ", future), fmt.Sprint("PEXPIREAT h ", future),
			"HPEXPIREAT h 1 FIELDS 1 f", "FUNCTION FLUSH",
		} {
			var words [][]byte
			for _, w := range strings.Fields(args) {
				words = append(words, []byte(w))
			}
			if words[0][0] == 'F' {
				spec.Filter.Prefixes = nil // a whole copy takes functions
			}
			n := uint64(i)
			if err := s.Write(t.Context(), []*changes.Commit{{Stream: "ALL", Generation: 1, First: n, Last: n, Next: changes.Cursor{Generation: 1, Offset: n + 1},
				Frames: []changes.Frame{{Offset: n, Args: words}}}}); err != nil {
				t.Fatalf("%s: %v", args, err)
			}
		}
		for key, want := range map[string]string{"GET k": `"v"`, "HGETALL h": `["f", "v", "g", "v"]`} {
			if r, err := c.Do(strings.Fields(key)...); err != nil || r.String() != want {
				t.Errorf("ttl=%s: %s is %v, %v", test.ttl, key, r, err)
			}
		}
		for _, key := range []string{"k", "h"} {
			r, err := c.Do("PTTL", key)
			if n, intErr := r.Int(); err != nil || intErr != nil || !test.want(n) {
				t.Errorf("ttl=%s: %s expires in %v ms, %v", test.ttl, key, r, err)
			}
		}
		if _, err := c.Do("DEL", "k", "h"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRedisTargetIsChecked(t *testing.T) {
	for raw, want := range map[string]string{
		"redis:///0":            "names no host",
		"redis://h/x":           "is no database number",
		"redis://h/1":           "say which one of the source goes there: --db N",
		"redis://h?ttl=-1s":     "the option ttl takes exact, none, or a time",
		"redis://h?replace=may": `the option replace takes yes or no, not "may"`,
		"redis://h?colour=red":  `redis targets have no option "colour"`,
		"rediss://h?ttl=ever":   "the option ttl takes",
		"gopher://h":            `a target is a URL that begins with one of`,
	} {
		if _, err := Open(target(t, raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
	spec := target(t, "redis://h")
	spec.Streams = []string{"0"}
	if _, err := Open(spec); err == nil || !strings.Contains(err.Error(), "needs the stream ALL") {
		t.Errorf("one shard: %v", err)
	}
}

// TestRedisLargeCommit has a commit that is sent in many pieces, and stays one.
func TestRedisLargeCommit(t *testing.T) {
	eachTarget(t, func(t *testing.T, b process.Binary) {
		to := process.Start(t, b, process.Config{})
		s := open(t, target(t, "redis://"+to.Addr()))
		if _, _, err := s.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		value := []byte(strings.Repeat("x", 1000))
		c := &changes.Commit{Stream: "ALL", Generation: 7, Last: 9999, Next: changes.Cursor{Generation: 7, Offset: 10_000}}
		for i := range uint64(10_000) {
			c.Frames = append(c.Frames, changes.Frame{Offset: i, Args: [][]byte{[]byte("SET"), fmt.Append(nil, i), value}})
		}
		c.Frames = append(c.Frames, changes.Frame{Args: [][]byte{[]byte("SET"), []byte("large"), make([]byte, 8<<20)}})
		if err := s.Write(t.Context(), []*changes.Commit{c}); err != nil {
			t.Fatal(err)
		}
		if r, err := to.Conn(t).Do("DBSIZE"); err != nil || r.String() != ":10002" {
			t.Errorf("the target has %v keys, %v", r, err)
		}
	})
}

// TestRedisLogIn takes the password from the environment, and stops where it is
// wrong.
func TestRedisLogIn(t *testing.T) {
	to := process.Start(t, process.Oracle(t), process.Config{})
	if r, err := to.Conn(t).Do("CONFIG", "SET", "requirepass", "geheim"); err != nil || r.Kind == wire.Error {
		t.Fatal(r, err)
	}
	for password, want := range map[string]string{"geheim": "", "wrong": "WRONGPASS", "": "NOAUTH"} {
		t.Setenv(PasswordVariable, password)
		_, _, err := open(t, target(t, "redis://"+to.Addr())).Resume(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with %q: %v", password, err)
		}
	}
}
