package exec

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kevy/aof"
	"kevy/internal/command"
	"kevy/internal/command/all"
	"kevy/internal/engine"
	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/resp"
	"kevy/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testShards = 4
	testDBs    = 16
)

// rig is a store on a file system in memory, with an executor of the data
// commands, the transactions' and a few that misbehave.
type rig struct {
	t     *testing.T
	fs    *vfs.Mem
	store *engine.Engine
	x     *Executor
	nowMs int64
	later atomic.Int64 // added to nowMs, also while the store looks at it
	log   bytes.Buffer
}

func newRig(t *testing.T, policy aof.Policy) *rig { return newRigWith(t, policy, Refusals{}) }

func newRigWith(t *testing.T, policy aof.Policy, refusals Refusals) *rig {
	r := &rig{t: t, fs: vfs.NewMem(), nowMs: 1_700_000_000_000}
	r.open(policy)
	r.x = New(command.NewTable(all.Data(), Commands(), misbehaving(), r.waitingCommands()), r.store, slog.New(slog.NewTextHandler(&r.log, nil)), refusals)
	t.Cleanup(func() {
		r.checkUnlocked()
		_ = r.store.Close()
	})
	return r
}

func (r *rig) open(policy aof.Policy) {
	r.t.Helper()
	store, err := engine.Open(engine.Options{
		FS: r.fs, Dir: "/data", Shards: testShards, DBs: testDBs, Fsync: policy, NowMs: r.now,
		FeedMemoryBytes: 1 << 20, FeedDiskBytes: 1 << 20,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	store.PauseExpiry(true)
	r.store = store
}

// now is the store's clock.
func (r *rig) now() int64 { return r.nowMs + r.later.Load() }

// pass lets time pass.
func (r *rig) pass(ms int64) { r.later.Add(ms) }

// checkUnlocked fails if a shard stayed locked.
func (r *rig) checkUnlocked() {
	r.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range testShards {
			r.store.Set().Lock([]int{i})
			r.store.Set().Unlock([]int{i})
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		r.t.Fatal("a shard is still locked")
	}
}

// checkLog kills the store and fails unless the log rebuilds the keyspace.
func (r *rig) checkLog() {
	r.t.Helper()
	live := r.digest()
	again, err := engine.Open(engine.Options{FS: r.fs.Kill(), Dir: "/data", Shards: testShards, DBs: testDBs, NowMs: r.now})
	if err != nil {
		r.t.Fatal(err)
	}
	defer again.Close()
	if got := again.Set().Digest(); got != live {
		r.t.Error("the log does not rebuild the keyspace")
	}
}

func (r *rig) digest() shard.Digest {
	r.store.Set().Lock(r.x.all)
	defer r.store.Set().Unlock(r.x.all)
	return r.store.Set().Digest()
}

// misbehaving returns commands with bugs.
func misbehaving() []*command.Spec {
	one := command.One(1, command.RW)
	return []*command.Spec{
		{Name: "boom", Arity: -2, Flags: command.Write, Keys: one, Run: func(c *command.Ctx) {
			c.Tx.Set(c.Key(1), []byte("set before the panic"), 0)
			c.W.Array(3)
			c.W.BulkString("half a reply")
			panic("on purpose")
		}},
		{Name: "boomhalf", Arity: 2, Flags: command.Write, Keys: one, Run: func(c *command.Ctx) {
			c.Tx.Set(c.Key(1), []byte("whole"), 0)
			c.Tx.Commit().Begin(op.Set, 0, 0, op.User, 3)
			c.Tx.Commit().ArgString("half an op")
			panic("in the middle of an op")
		}},
		{Name: "boomfree", Arity: 1, Flags: command.Unlocked, Run: func(*command.Ctx) { panic("without a lock") }},
		{Name: "stray", Arity: 4, Flags: command.Write, Keys: []command.KeySpec{command.Range(1, 1, 1, command.RW)}, Run: func(c *command.Ctx) {
			// The spec names two keys and not the third.
			c.Tx.Set(c.Key(3), []byte("v"), 0)
			c.W.OK()
		}},
		{Name: "sleep", Arity: 1, Flags: command.Unlocked, Run: func(c *command.Ctx) {
			time.Sleep(20 * time.Millisecond)
			c.W.OK()
		}},
		{Name: "ping", Arity: 1, Flags: command.Unlocked, Run: func(c *command.Ctx) { c.W.Simple("PONG") }},
		{Name: "admin", Arity: 1, Flags: command.Unlocked | command.NoMulti, Run: func(c *command.Ctx) { c.W.OK() }},
		{Name: "box", Arity: -2, Sub: []*command.Spec{{Name: "open", Arity: 3, Flags: command.Unlocked, Run: func(c *command.Ctx) { c.W.OK() }}}},
	}
}

// conn is one session, as a connection has it.
type conn struct {
	r      *rig
	es     *Session
	w      *resp.Writer
	hungUp bool
}

func (c *conn) ID() uint64     { return 1 }
func (c *conn) DB() int        { return c.es.DB() }
func (c *conn) Exec() *Session { return c.es }
func (c *conn) HangUp()        { c.hungUp = true }

func (r *rig) conn() *conn {
	c := &conn{r: r, w: resp.NewWriter(2)}
	c.es = r.x.NewSession(c, c.w)
	r.t.Cleanup(c.es.Close)
	return c
}

// send runs a command without sending its reply.
func (c *conn) send(line string) {
	words := strings.Fields(line)
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	c.r.x.Do(c.es, args)
}

// settle returns the replies that would be sent, one a line.
func (c *conn) settle() string {
	c.es.Settle()
	text := strings.TrimSuffix(strings.ReplaceAll(string(c.w.Bytes()), "\r\n", " "), " ")
	c.w.Reset()
	return text
}

func (c *conn) do(line string) string {
	c.send(line)
	return c.settle()
}

func (c *conn) expect(line, want string) {
	c.r.t.Helper()
	if got := c.do(line); got != want {
		c.r.t.Errorf("%s: got %s, want %s", line, got, want)
	}
}

func TestResolve(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	for _, step := range []struct{ line, want string }{
		{"GET k", "$-1"},
		{"GET", "-ERR wrong number of arguments for 'get' command"},
		{"GET k k", "-ERR wrong number of arguments for 'get' command"},
		{"gEt k", "$-1"},
		{"nosuch a b", "-ERR unknown command 'nosuch', with args beginning with: 'a' 'b' "},
		{"box", "-ERR wrong number of arguments for 'box' command"},
		{"BOX shut", "-ERR unknown subcommand 'shut'. Try BOX HELP."},
		{"box OPEN", "-ERR wrong number of arguments for 'box|open' command"},
		{"box OPEN it", "+OK"},
		{"GET k", "$-1"},
	} {
		c.expect(step.line, step.want)
	}
	if c.es.LastCommand().Name != "get" {
		t.Errorf("the last command is %v", c.es.LastCommand())
	}
	c.do("nosuch")
	if c.es.LastCommand() != nil {
		t.Errorf("the last command is %v", c.es.LastCommand())
	}
}

// TestEcho holds what errors repeat of a command to what C's printf shows of it.
func TestEcho(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"a\x00b"}, "unknown command 'a', with args beginning with: "},
		{[]string{long}, "unknown command '" + long[:128] + "', with args beginning with: "},
		{[]string{"a", "b\x00c", "\x00", ""}, "unknown command 'a', with args beginning with: 'b' '' '' "},
		{[]string{"a", long}, "unknown command 'a', with args beginning with: '" + long[:128] + "' "},
		{[]string{"a", long[:100], long}, "unknown command 'a', with args beginning with: '" + long[:100] + "' '" + long[:25] + "' "},
		{[]string{"a", long[:125], long}, "unknown command 'a', with args beginning with: '" + long[:125] + "' "},
		{[]string{"a", "\xff\xfe" + long}, "unknown command 'a', with args beginning with: '\xff\xfe" + long[:126] + "' "},
	} {
		args := make([][]byte, len(test.args))
		for i, a := range test.args {
			args[i] = []byte(a)
		}
		if got := unknownCommand(args); got.Text != test.want {
			t.Errorf("%q: got %q, want %q", test.args, got.Text, test.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	var asked []string
	note := func(name string, refuse bool) Refusal {
		return func(_ *Session, spec *command.Spec, _ [][]byte) *resp.Error {
			asked = append(asked, name)
			if refuse && spec.Name == "set" {
				return resp.Errorf("NOPERM", "not you")
			}
			return nil
		}
	}
	r := newRigWith(t, aof.PolicyEverySec, Refusals{
		Admit: []Refusal{note("a", false), note("b", true), note("c", false), RefuseInMulti},
	})
	c := r.conn()
	c.expect("SET k v", "-NOPERM not you")
	c.expect("GET k", "$-1")
	c.expect("nosuch", "-ERR unknown command 'nosuch', with args beginning with: ")
	if got := strings.Join(asked, ""); got != "ababc" {
		t.Errorf("asked in the order %s", got)
	}
	c.expect("MULTI", "+OK")
	c.expect("ADMIN", "-ERR Command not allowed inside a transaction")
	c.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.")
}

// TestNestedRefusals: within EXEC each command is asked about again, and one that
// is refused there costs its own reply only.
func TestNestedRefusals(t *testing.T) {
	var contexts []Context
	note := func(s *Session, spec *command.Spec, _ [][]byte) *resp.Error {
		contexts = append(contexts, s.Context())
		if spec.Name == "get" && s.Context() == InExec {
			return resp.Errorf("NOPERM", "no longer")
		}
		return nil
	}
	r := newRigWith(t, aof.PolicyEverySec, Refusals{Admit: []Refusal{note}, Nested: []Refusal{note}})
	c := r.conn()
	for _, line := range []string{"MULTI", "SET k v", "GET k", "SET k w"} {
		c.do(line)
	}
	c.expect("EXEC", "*3 +OK -NOPERM no longer +OK")
	c.expect("GET k", "$1 w")
	want := []Context{TopLevel, Queueing, Queueing, Queueing, Queueing, InExec, InExec, InExec, TopLevel}
	if !slices.Equal(contexts, want) {
		t.Errorf("asked in the contexts %v, want %v", contexts, want)
	}
}

func TestHTTPHangsUp(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	for _, line := range []string{"POST / HTTP/1.1", "host: example"} {
		c := r.conn()
		c.expect("PING", "+PONG")
		c.expect(line, "")
		if !c.hungUp {
			t.Errorf("%s: the connection stays", line)
		}
	}
	c := r.conn()
	c.expect("HOST x", "-ERR unknown command 'HOST', with args beginning with: 'x' ")
	if c.hungUp || strings.Count(r.log.String(), "possible attack") != 2 {
		t.Errorf("hung up: %v, log: %s", c.hungUp, r.log.String())
	}
}

// TestPanics: a panic costs its caller an error, and memory, log and locks are as
// after any other command.
func TestPanics(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c, other := r.conn(), r.conn()
	const failed = "-ERR internal error in '%s' command, see the server's log"
	c.expect("BOOM k", fmt.Sprintf(failed, "boom"))
	other.expect("GET k", "$20 set before the panic")
	other.expect("SET k v", "+OK")
	c.expect("BOOMHALF h", fmt.Sprintf(failed, "boomhalf"))
	c.expect("GET h", "$5 whole")
	c.expect("BOOMFREE", fmt.Sprintf(failed, "boomfree"))

	keys := keysOfShards(r.store.Set(), 3)
	c.expect("STRAY "+strings.Join(keys, " "), fmt.Sprintf(failed, "stray"))
	c.expect("GET "+keys[2], "$-1")

	// In a pipeline and in a transaction the others run.
	c.send("SET p 1")
	c.send("BOOM q")
	c.send("INCR p")
	if got, want := c.settle(), "+OK "+fmt.Sprintf(failed, "boom")+" :2"; got != want {
		t.Errorf("pipeline: got %s, want %s", got, want)
	}
	c.do("MULTI")
	for _, line := range []string{"INCR p", "BOOM r", "BOOMFREE", "INCR p"} {
		c.expect(line, "+QUEUED")
	}
	c.expect("EXEC", "*4 :3 "+fmt.Sprintf(failed, "boom")+" "+fmt.Sprintf(failed, "boomfree")+" :4")
	c.expect("GET r", "$20 set before the panic")
	r.checkUnlocked()
	r.checkLog()
	if n := r.x.Stats().Panics(); n != 7 {
		t.Errorf("%d panics were counted", n)
	}
	if !strings.Contains(r.log.String(), "on purpose") || !strings.Contains(r.log.String(), "misbehaving") {
		t.Errorf("the log tells neither reason nor place: %s", r.log.String())
	}
}

// keysOfShards returns n keys, each of another shard.
func keysOfShards(set *shard.Set, n int) (keys []string) {
	var seen []int
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprintf("key%d", i)
		if in := set.ShardOf([]byte(key)); !slices.Contains(seen, in) {
			seen = append(seen, in)
			keys = append(keys, key)
		}
	}
	return keys
}

// TestPanicAfterPartOfTheReply: nothing but the end of the connection can follow.
func TestPanicAfterPartOfTheReply(t *testing.T) {
	r := &rig{t: t, fs: vfs.NewMem(), nowMs: 1}
	r.open(aof.PolicyEverySec)
	defer r.store.Close()
	drain := &command.Spec{Name: "drain", Arity: 1, Flags: command.Unlocked, Run: func(c *command.Ctx) {
		c.W.Array(2)
		c.Session.(*conn).settle()
		panic("too late")
	}}
	r.x = New(command.NewTable([]*command.Spec{drain}), r.store, slog.New(slog.DiscardHandler), Refusals{})
	c := &conn{r: r, w: resp.NewWriter(2)}
	c.es = r.x.NewSession(c, c.w)
	c.do("DRAIN")
	if !c.hungUp {
		t.Error("the connection stays, with half a reply on it")
	}
}

// TestSettleWithdraws: where the log cannot be written, writes are not
// acknowledged, and reads stand.
func TestSettleWithdraws(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c, other := r.conn(), r.conn()
	c.expect("SET a 1", "+OK")
	remove := r.fs.Inject(vfs.Fault{Op: vfs.OpWrite, Glob: "*.incr.aof", Err: syscall.ENOSPC})
	c.send("GET a")
	c.send("SET b 2")
	c.send("GET b")
	c.send("INCR a")
	c.send("GET nosuch")
	const misconf = "-MISCONF Errors writing to the AOF file: "
	got := c.settle()
	parts := strings.Split(got, misconf)
	if len(parts) != 3 || parts[0] != "$1 1 " || !strings.HasSuffix(parts[1], " $1 2 ") || !strings.HasSuffix(parts[2], " $-1") {
		t.Errorf("got %s", got)
	}
	if !strings.Contains(got, "no space left") {
		t.Errorf("the reply does not say why: %s", got)
	}
	// Until the cause is gone writes are refused, PING says so, and reads answer.
	for _, line := range []string{"SET c 3", "PING"} {
		if got := other.do(line); !strings.HasPrefix(got, misconf) {
			t.Errorf("%s: %s", line, got)
		}
	}
	other.expect("GET a", "$1 2")
	other.expect("MULTI", "+OK")
	other.expect("GET a", "+QUEUED")
	other.expect("EXEC", "*1 $1 2")
	if got := c.do("MULTI"); got != "+OK" {
		t.Errorf("MULTI: %s", got)
	}
	if got := c.do("SET c 3"); !strings.HasPrefix(got, misconf) {
		t.Errorf("SET in MULTI: %s", got)
	}
	c.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.")
	remove()
	deadline := time.Now().Add(10 * time.Second)
	for strings.HasPrefix(c.do("SET c 3"), "-MISCONF") {
		if time.Now().After(deadline) {
			t.Fatal("writes are still refused")
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.expect("PING", "+PONG")
	r.checkLog()
	if byCode, _ := r.x.Stats().Errors(); !slices.ContainsFunc(byCode, func(e ErrorStats) bool { return e.Code == "MISCONF" && e.Count >= 5 }) {
		t.Errorf("the errors were counted as %v", byCode)
	}
}

// TestRefusedExec: a log that fails between the queueing and EXEC.
func TestRefusedExec(t *testing.T) {
	r := newRig(t, aof.PolicyAlways)
	c, other := r.conn(), r.conn()
	c.expect("WATCH w", "+OK")
	c.expect("MULTI", "+OK")
	c.expect("SET k v", "+QUEUED")
	r.fs.Inject(vfs.Fault{Op: vfs.OpSync, Glob: "*.incr.aof"})
	if got := other.do("SET x y"); !strings.HasPrefix(got, "-MISCONF ") {
		t.Errorf("SET under a failing fsync: %s", got)
	}
	got := c.do("EXEC")
	if !strings.HasPrefix(got, "-EXECABORT Transaction discarded because of: MISCONF Errors writing to the AOF file: ") {
		t.Errorf("EXEC: %s", got)
	}
	c.expect("EXEC", "-ERR EXEC without MULTI")
	c.expect("GET k", "$-1")
	if c.es.WatchedKeys() != 0 {
		t.Error("a key is still watched")
	}
}

func TestExecWithArguments(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	const aborted = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
	c.expect("EXEC now", aborted)
	c.expect("WATCH k", "+OK")
	c.expect("MULTI", "+OK")
	c.expect("SET k v", "+QUEUED")
	c.expect("EXEC now", aborted)
	c.expect("EXEC", "-ERR EXEC without MULTI")
	c.expect("GET k", "$-1")
}

// TestExecIsOneCommit: whole in the log or not at all, over shards and databases.
func TestExecIsOneCommit(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	c.expect("SET list x", "+OK")
	before := r.store.LogStatus().Last
	c.do("MULTI")
	for _, line := range []string{"SET a 1", "SET b 2", "LPUSH list 1", "MSET c 3 d 4", "GET a"} {
		c.expect(line, "+QUEUED")
	}
	c.expect("EXEC", "*5 +OK +OK -WRONGTYPE Operation against a key holding the wrong kind of value +OK $1 1")
	lsn, streams := c.es.LastWrite()
	if lsn != before+4 {
		t.Errorf("the commit ends at LSN %d, began after %d", lsn, before)
	}
	want := []int{}
	for _, key := range []string{"a", "b", "c", "d"} {
		want = insertSorted(want, r.store.Set().ShardOf([]byte(key)))
	}
	if !slices.Equal(streams, want) {
		t.Errorf("it is in the streams %v, want %v", streams, want)
	}
	r.checkLog()
}

func TestAtomically(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	c.expect("MSET a 1 b 2", "+OK")
	c.expect("RPUSH list x y", ":2")
	before, last := r.digest(), r.store.LogStatus().Last
	change := func(do func(args [][]byte)) {
		for _, line := range []string{"SET a other", "DEL b", "RPUSH list z", "LPOP list", "SET new 1", "FLUSHALL", "SET new 2", "NOSUCH", "SWAPDB 0 1"} {
			var args [][]byte
			for _, w := range strings.Fields(line) {
				args = append(args, []byte(w))
			}
			do(args)
		}
	}
	errGiveUp := errors.New("given up")
	if err := r.x.Atomically(c.es, func(do func(args [][]byte)) error { change(do); return errGiveUp }); err != errGiveUp {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() {
			if p := recover(); p != "in the update" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = r.x.Atomically(c.es, func(do func(args [][]byte)) error { change(do); panic("in the update") })
	}()
	r.checkUnlocked()
	c.settle()
	if r.digest() != before || r.store.LogStatus().Last != last {
		t.Errorf("what was rolled back has left something: LSN %d, was %d", r.store.LogStatus().Last, last)
	}

	if err := r.x.Atomically(c.es, func(do func(args [][]byte)) error {
		do([][]byte{[]byte("SET"), []byte("a"), []byte("3")})
		do([][]byte{[]byte("SET"), []byte("b"), []byte("4")})
		do([][]byte{[]byte("PING")})
		do([][]byte{[]byte("MULTI")})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := c.settle(), "+OK +OK -ERR command 'ping' is not allowed inside an update -ERR command 'multi' is not allowed inside an update"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if r.store.LogStatus().Last != last+2 {
		t.Errorf("LSN %d, was %d", r.store.LogStatus().Last, last)
	}
	r.checkLog()
}

func TestAtomicallyRefused(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	r.fs.Inject(vfs.Fault{Op: vfs.OpWrite, Glob: "*.incr.aof"})
	c.do("SET x y")
	called := false
	err := r.x.Atomically(c.es, func(func(args [][]byte)) error { called = true; return nil })
	var refused *resp.Error
	if !errors.As(err, &refused) || refused.Code != "MISCONF" || called {
		t.Errorf("got %v, called %v", err, called)
	}
}

func TestInsertSorted(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var list, want []int
		for range rng.IntN(20) {
			n := rng.IntN(12)
			list = insertSorted(list, n)
			want = append(want, n)
		}
		slices.Sort(want)
		want = slices.Compact(want)
		if !slices.Equal(list, want) {
			t.Fatalf("got %v, want %v", list, want)
		}
	}
}

// TestCheckAndSet: many sessions add one to a counter by WATCH, GET, MULTI, SET
// and EXEC, others swap values of two keys in different shards; nothing is lost.
func TestCheckAndSet(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	r.conn().expect("MSET n 0 a left b right", "+OK")
	const workers, rounds = 6, 150
	var done sync.WaitGroup
	won := make([]int, workers)
	for i := range workers {
		c := r.conn()
		done.Go(func() {
			for range rounds {
				c.do("WATCH n a b")
				n := strings.TrimPrefix(c.do("GET n"), "$1 ")
				if _, after, ok := strings.Cut(n, " "); ok {
					n = after
				}
				var value int
				fmt.Sscan(n, &value)
				a, b := c.do("GET a"), c.do("GET b")
				c.do("MULTI")
				c.do(fmt.Sprintf("SET n %d", value+1))
				c.do("SET a " + b[strings.LastIndexByte(b, ' ')+1:])
				c.do("SET b " + a[strings.LastIndexByte(a, ' ')+1:])
				if got := c.do("EXEC"); got == "*3 +OK +OK +OK" {
					won[i]++
				} else if got != "*-1" {
					r.t.Errorf("EXEC: %s", got)
				}
			}
		})
	}
	done.Wait()
	total := 0
	for _, n := range won {
		total += n
	}
	c := r.conn()
	text := c.do("GET n")
	if !strings.HasSuffix(text, fmt.Sprintf(" %d", total)) || total == 0 {
		t.Errorf("%d transactions won, the counter is %s", total, text)
	}
	want := "*2 $4 left $5 right"
	if total%2 == 1 {
		want = "*2 $5 right $4 left"
	}
	c.expect("MGET a b", want)
	r.checkLog()
}
