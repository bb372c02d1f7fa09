package exec

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kevy/aof"
	"kevy/internal/command"
	"kevy/internal/vfs"
	"kevy/resp"
	"kevy/shard"
)

// waiter is a connection whose commands may wait. It runs one at a time, on a
// goroutine of its own.
type waiter struct {
	*conn
	gone    context.Context
	hangUp  context.CancelFunc
	replies chan string
}

func (w *waiter) Park() (ctx context.Context, done func(), ok bool) {
	return w.gone, func() {}, true
}

func (r *rig) waiter() *waiter {
	w := &waiter{conn: &conn{r: r, w: resp.NewWriter(2)}, replies: make(chan string, 1)}
	w.gone, w.hangUp = context.WithCancel(context.Background())
	w.es = r.x.NewSession(w, w.w)
	r.t.Cleanup(func() {
		w.hangUp()
		w.es.Close()
	})
	return w
}

// start runs a command without waiting for its reply.
func (w *waiter) start(line string) {
	go func() { w.replies <- w.do(line) }()
}

// block runs a command and returns once it waits.
func (w *waiter) block(line string) *waiter {
	w.r.t.Helper()
	before, _ := w.r.x.stats.Blocked()
	w.start(line)
	w.r.blocked(before + 1)
	return w
}

// blocked waits until so many commands wait.
func (r *rig) blocked(n int64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d commands wait", n), func() bool { all, _ := r.x.stats.Blocked(); return all == n })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

func (w *waiter) reply() string {
	w.r.t.Helper()
	select {
	case got := <-w.replies:
		return got
	case <-time.After(20 * time.Second):
		w.r.t.Fatal("no reply came")
		return ""
	}
}

func (w *waiter) gets(want string) {
	w.r.t.Helper()
	if got := w.reply(); got != want {
		w.r.t.Errorf("the reply is %q, want %q", got, want)
	}
}

// pops are the LPOP and RPOP ops in the log, by key.
func (r *rig) pops() map[string]int {
	out := map[string]int{}
	for _, line := range r.logLines() {
		if verb, key, ok := strings.Cut(line, " "); ok && (verb == "LPOP" || verb == "RPOP") {
			out[key]++
		}
	}
	return out
}

// logLines are the commands of the log, one a line. The SELECT that a block
// begins with is left out: where blocks begin is nothing that a commit decides.
func (r *rig) logLines() (lines []string) {
	r.t.Helper()
	files, err := r.fs.List("/data/appendonlydir")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, info := range files {
		if !strings.HasSuffix(info.Name, ".incr.aof") {
			continue
		}
		data := make([]byte, info.Size)
		file, err := r.fs.Open("/data/appendonlydir/" + info.Name)
		if err == nil {
			_, err = io.ReadFull(file, data)
			_ = file.Close()
		}
		if err != nil {
			r.t.Fatal(err)
		}
		var words []string
		opensBlock := false
		end := func() {
			selects := len(words) == 2 && strings.EqualFold(words[0], "SELECT")
			if len(words) > 0 && !(selects && opensBlock) {
				lines = append(lines, strings.Join(words, " "))
			}
			opensBlock = opensBlock && len(words) == 0
			words = nil
		}
		for line := range strings.SplitSeq(string(data), "\r\n") {
			switch {
			case strings.HasPrefix(line, "*"):
				end()
			case strings.HasPrefix(line, "#kevy "):
				end()
				opensBlock = true
			case line != "" && line[0] != '$' && line[0] != '#':
				words = append(words, line)
			}
		}
		end()
	}
	return lines
}

// TestPoppedOnce: what a push serves is popped by one op, in a commit of its own.
func TestPoppedOnce(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	w := r.waiter().block("BLPOP l 0")
	v := r.waiter().block("BLMOVE l m LEFT RIGHT 0")
	c.expect("RPUSH l a b c", ":3")
	w.gets("*2 $1 l $1 a")
	v.gets("$1 b")
	lines := r.logLines()
	i := slices.Index(lines, "RPUSH l a b c")
	want := []string{"RPUSH l a b c", "LPOP l", "MULTI", "RPUSH m b", "LPOP l", "EXEC"}
	if i < 0 || !slices.Equal(lines[i:min(len(lines), i+len(want))], want) {
		t.Errorf("the log holds %q", lines)
	}
	if got := r.pops(); got["l"] != 2 {
		t.Errorf("pops: %v", got)
	}
	if lsn, streams := w.es.LastWrite(); lsn == 0 || len(streams) != 1 || streams[0] != r.store.Set().ShardOf([]byte("l")) {
		t.Errorf("the last write of who was served is %d in %v", lsn, streams)
	}
	r.checkLog()
}

// TestServedReplyIsAsSafe: who is served is not told before the pop is in the
// log, and gets an error where it cannot be.
func TestServedReplyIsAsSafe(t *testing.T) {
	for _, policy := range []aof.Policy{aof.PolicyEverySec, aof.PolicyAlways} {
		r := newRig(t, policy)
		c := r.conn()
		w := r.waiter().block("BLPOP l 0")
		fault := vfs.Fault{Op: vfs.OpWrite, Glob: "*.incr.aof", Err: syscall.ENOSPC}
		if policy == aof.PolicyAlways {
			fault = vfs.Fault{Op: vfs.OpSync, Glob: "*.incr.aof"}
		}
		r.fs.Inject(fault)
		c.send("RPUSH l a")
		if got := w.reply(); !strings.HasPrefix(got, "-MISCONF ") {
			t.Errorf("who was served got %s", got)
		}
		if got := c.settle(); !strings.HasPrefix(got, "-MISCONF ") {
			t.Errorf("who pushed got %s", got)
		}
	}
}

// TestAcknowledgedPopsSurvive: after a power cut under appendfsync always, what
// was popped and answered is not there again, and what was pushed and answered
// is, unless somebody was served with it.
func TestAcknowledgedPopsSurvive(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	for range 20 {
		r := newRig(t, aof.PolicyAlways)
		var mu sync.Mutex
		popped, pushed := map[string]bool{}, map[string]bool{}
		var stop atomic.Bool
		var running sync.WaitGroup
		for i := range 4 {
			w := r.waiter()
			running.Go(func() {
				for !stop.Load() {
					got := w.do(fmt.Sprintf("BLPOP k%d k%d 0.002", i%3, (i+1)%3))
					if words := strings.Fields(got); strings.HasPrefix(got, "*2") {
						mu.Lock()
						popped[words[4]] = true
						mu.Unlock()
					}
				}
			})
		}
		for i := range 2 {
			c := r.conn()
			running.Go(func() {
				for n := 0; !stop.Load(); n++ {
					elem := fmt.Sprintf("e%d-%d", i, n)
					if got := c.do(fmt.Sprintf("RPUSH k%d %s", n%3, elem)); got[0] == ':' {
						mu.Lock()
						pushed[elem] = true
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(time.Duration(1+rng.IntN(10)) * time.Millisecond)
		left := r.fs.PowerCut(rng)
		stop.Store(true)
		running.Wait()
		_ = r.store.Close()
		r.fs = left
		r.open(aof.PolicyAlways)
		r.x = New(r.x.table, r.store, r.x.log, Refusals{})
		c := r.conn()
		there := map[string]bool{}
		for _, key := range []string{"k0", "k1", "k2"} {
			for _, word := range strings.Fields(c.do("LRANGE " + key + " 0 -1")) {
				there[word] = true
			}
		}
		for elem := range popped {
			if there[elem] {
				t.Errorf("%s was popped, and is there again", elem)
			}
		}
		lost := 0
		for elem := range pushed {
			if !there[elem] && !popped[elem] {
				lost++
			}
		}
		// Each waiter may have been served with one whose reply did not come through.
		if lost > 4 {
			t.Errorf("%d elements that were pushed are lost", lost)
		}
	}
}

// seedOf returns KEVY_SEED, or a seed of its own, and logs it.
func seedOf(t *testing.T) uint64 {
	seed, err := strconv.ParseUint(os.Getenv("KEVY_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("KEVY_SEED=%d", seed)
	return seed
}

// TestServingWaitsForAShard: where the destination's shard is in use, the push
// serves after its unlock, and nobody behind overtakes.
func TestServingWaitsForAShard(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	keys, all := keysOfShards(r.store.Set(), testShards), r.store.Feed().All()
	// Whether the destination's shard comes before or behind the source's.
	for _, k := range [][2]string{{keys[1], keys[0]}, {keys[1], keys[2]}} {
		src, dst := k[0], k[1]
		first := r.waiter().block("BLMOVE " + src + " " + dst + " LEFT RIGHT 0")
		second := r.waiter().block("BLPOP " + src + " 0")
		third := r.waiter().block("BLPOP " + dst + " 0")
		busy := []int{r.store.Set().ShardOf([]byte(dst))}
		r.store.Set().Lock(busy)
		c := r.conn()
		before := r.store.Feed().Tail(all)
		pushed := make(chan string)
		go func() { pushed <- c.do("RPUSH " + src + " a b c") }()
		// The push is committed, and serving cannot go on.
		eventually(t, "the push is there", func() bool { return r.store.Feed().Tail(all).Offset > before.Offset })
		if all, _ := r.x.stats.Blocked(); all != 3 {
			t.Errorf("%d commands wait, want 3", all)
		}
		// Who comes now is behind all of them.
		late := r.waiter()
		late.start("LPOP " + src)
		r.store.Set().Unlock(busy)
		first.gets("$1 a")
		second.gets("*2 $" + strconv.Itoa(len(src)) + " " + src + " $1 b")
		third.gets("*2 $" + strconv.Itoa(len(dst)) + " " + dst + " $1 a")
		if got := <-pushed; got != ":3" {
			t.Errorf("the push answered %s", got)
		}
		late.gets("$1 c")
		c.expect("EXISTS "+src, ":0")
	}
	r.checkLog()
}

// TestWhoLeavesIsNotServed: a command whose wait was ended, by whatever, is
// served nothing, from the moment that ended it.
func TestWhoLeavesIsNotServed(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	killed := r.waiter().block("BLPOP l 0")
	killed.es.Abandon()
	c.expect("RPUSH l a", ":1")
	killed.gets("")
	c.expect("DEL l", ":1")

	released := r.waiter().block("BLPOP l 0")
	if !released.es.Unblock(false) || released.es.Unblock(true) {
		t.Error("the wait could not be ended, or twice")
	}
	c.expect("RPUSH l a", ":1")
	released.gets("*-1")
	c.expect("DEL l", ":1")

	failed := r.waiter().block("BLPOP l 0")
	if !failed.es.Unblock(true) {
		t.Error("the wait could not be ended")
	}
	failed.gets("-UNBLOCKED client unblocked via CLIENT UNBLOCK")

	hungUp := r.waiter().block("BLPOP l 0")
	hungUp.hangUp()
	hungUp.gets("")
	r.blocked(0)
	c.expect("RPUSH l a", ":1")
	c.expect("LRANGE l 0 -1", "*1 $1 a")
	if byCode, _ := r.x.Stats().Errors(); !slices.ContainsFunc(byCode, func(e ErrorStats) bool { return e.Code == "UNBLOCKED" && e.Count == 1 }) {
		t.Errorf("the errors were counted as %v", byCode)
	}
	blpop := r.x.Stats().Command(r.x.table.Named("blpop"))
	if blpop.Calls != 4 || blpop.Failed != 2 {
		t.Errorf("BLPOP was counted as %+v", blpop)
	}
}

// TestManyWaitForOneKey: ten thousand who wait for one key time out, and one
// push after another serves the first of those who do not.
func TestManyWaitForOneKey(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	const many = 10_000
	var short, long []*waiter
	for i := range many {
		w := r.waiter()
		if i%2 == 0 {
			w.start("BLPOP l 0.05")
			short = append(short, w)
		} else {
			w.start("BLPOP l 100")
			long = append(long, w)
		}
	}
	r.blocked(many / 2)
	for _, w := range short {
		w.gets("*-1")
	}
	if all, timed := r.x.stats.Blocked(); all != many/2 || timed != many/2 {
		t.Errorf("%d wait, %d with a timeout", all, timed)
	}
	c := r.conn()
	const some = 1000
	for i := range some {
		c.expect("RPUSH l "+strconv.Itoa(i), ":1")
	}
	elems := make([]string, many/2-some)
	for i := range elems {
		elems[i] = strconv.Itoa(some + i)
	}
	c.expect("RPUSH l "+strings.Join(elems, " ")+" left", ":"+strconv.Itoa(len(elems)+1))
	got := map[string]bool{}
	for _, w := range long {
		got[w.reply()] = true
	}
	if len(got) != many/2 {
		t.Errorf("%d different elements were popped", len(got))
	}
	c.expect("LRANGE l 0 -1", "*1 $4 left")
	r.checkLog()
}

// TestRaces: pushes, transactions, timeouts, releases and moves between shards
// at once lose nothing and serve nothing twice.
func TestRaces(t *testing.T) {
	seed := seedOf(t)
	r := newRig(t, aof.PolicyEverySec)
	keys := keysOfShards(r.store.Set(), testShards)
	var mu sync.Mutex
	popped := map[string]int{}
	var stop atomic.Bool
	var waiting, pushing sync.WaitGroup
	var waiters []*waiter
	for i := range 12 {
		w, rng := r.waiter(), rand.New(rand.NewPCG(seed, uint64(i)))
		waiters = append(waiters, w)
		key := func() string { return keys[rng.IntN(len(keys))] }
		waiting.Go(func() {
			for !stop.Load() {
				timeout := strconv.FormatFloat(rng.Float64()/500+0.0001, 'f', 6, 64)
				line := fmt.Sprintf("BLPOP %s %s %s", key(), key(), timeout)
				switch rng.IntN(4) {
				case 0:
					line = fmt.Sprintf("BLMOVE %s %s LEFT RIGHT %s", key(), key(), timeout)
				case 1:
					line = fmt.Sprintf("BLMPOP %s 2 %s %s RIGHT COUNT 3", timeout, key(), key())
				}
				got := w.do(line)
				if strings.HasPrefix(line, "BLMOVE") || got[0] == '*' && got[1] == '-' {
					continue
				}
				mu.Lock()
				for _, word := range strings.Fields(got) {
					if word[0] == 'e' {
						popped[word]++
					}
				}
				mu.Unlock()
			}
		})
	}
	waiting.Go(func() {
		for rng := rand.New(rand.NewPCG(seed, 100)); !stop.Load(); runtime.Gosched() {
			waiters[rng.IntN(len(waiters))].es.Unblock(false)
		}
	})
	const pushers, pushes = 4, 400
	for i := range pushers {
		c, rng := r.conn(), rand.New(rand.NewPCG(seed, uint64(200+i)))
		pushing.Go(func() {
			for n := range pushes {
				a, b := fmt.Sprintf("e%d-%da", i, n), fmt.Sprintf("e%d-%db", i, n)
				if rng.IntN(2) == 0 {
					c.do(fmt.Sprintf("RPUSH %s %s %s", keys[rng.IntN(len(keys))], a, b))
					continue
				}
				c.do("MULTI")
				c.do(fmt.Sprintf("LPUSH %s %s", keys[rng.IntN(len(keys))], a))
				c.do(fmt.Sprintf("RPUSH %s %s", keys[rng.IntN(len(keys))], b))
				c.do("EXEC")
			}
		})
	}
	pushing.Wait()
	stop.Store(true)
	waiting.Wait()
	c := r.conn()
	for _, key := range keys {
		for _, word := range strings.Fields(c.do("LRANGE " + key + " 0 -1")) {
			if word[0] == 'e' {
				popped[word]++
			}
		}
	}
	if len(popped) != 2*pushers*pushes {
		t.Errorf("%d of %d elements are accounted for", len(popped), 2*pushers*pushes)
	}
	for elem, n := range popped {
		if n != 1 {
			t.Errorf("%s was there %d times", elem, n)
		}
	}
	if all, timed := r.x.stats.Blocked(); all != 0 || timed != 0 {
		t.Errorf("%d commands are said to wait, %d with a timeout", all, timed)
	}
	r.checkLog()
}

// TestNothingWaitsInAnUpdate: commands in Atomically answer at once; what it
// pushed serves once it is committed, and not if it is taken back.
func TestNothingWaitsInAnUpdate(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	s := r.waiter()
	w := r.waiter().block("BLPOP l 0")
	do := func(run func(args [][]byte), line string) {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		run(args)
	}
	err := r.x.Atomically(s.es, func(run func(args [][]byte)) error {
		do(run, "RPUSH l taken back")
		return errOnPurpose
	})
	if err != errOnPurpose {
		t.Fatal(err)
	}
	r.blocked(1)
	s.settle()
	err = r.x.Atomically(s.es, func(run func(args [][]byte)) error {
		do(run, "BLPOP nosuch 0")
		do(run, "RPUSH l a")
		do(run, "LPUSH l b")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.settle(); got != "*-1 :1 :2" {
		t.Errorf("the update answered %s", got)
	}
	w.gets("*2 $1 l $1 b")
	r.checkLog()
}

var errOnPurpose = &resp.Error{Code: "ERR", Text: "on purpose"}

// waitingCommands wait in ways of their own, have a bug, or let time pass.
func (r *rig) waitingCommands() []*command.Spec {
	one := command.One(1, command.RW)
	return []*command.Spec{
		{Name: "pass", Arity: 2, Flags: command.Unlocked, Run: func(c *command.Ctx) {
			ms, _ := command.ParseInt(c.Args[1])
			r.pass(ms)
			c.W.OK()
		}},
		{Name: "waitend", Arity: 2, Flags: command.Write, Keys: one, Run: func(c *command.Ctx) {
			c.Block(command.Wait{Keys: c.Args[1:2], Kind: shard.KindStream, AwaitsEnd: true, Try: func(c *command.Ctx, key []byte) bool {
				if c.Tx.Exists(key) {
					return false
				}
				c.W.Error(&resp.Error{Code: "GONE", Text: string(key)})
				return true
			}})
		}},
		{Name: "waitboom", Arity: 2, Flags: command.Write, Keys: one, Run: func(c *command.Ctx) {
			c.Block(command.Wait{Keys: c.Args[1:2], Kind: shard.KindList, Try: func(c *command.Ctx, key []byte) bool {
				if _, err := c.Tx.PopLeft(key, 1, nil); err != nil {
					return false
				}
				c.W.Array(7)
				panic("while serving")
			}})
		}},
	}
}

// TestServingPanics: a bug in what serves costs who is served, not who pushed.
func TestServingPanics(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	w := r.waiter().block("WAITBOOM l")
	v := r.waiter().block("BLPOP l 0")
	c.expect("RPUSH l a b", ":2")
	w.gets("-ERR internal error in 'waitboom' command, see the server's log")
	v.gets("*2 $1 l $1 b")
	c.expect("EXISTS l", ":0")
	if r.x.Stats().Panics() != 1 {
		t.Error("the panic was not counted")
	}
	r.checkLog()
}

// TestTheEndOfAKey: whoever waits for it is told, whatever ends the key.
func TestTheEndOfAKey(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	for _, line := range []string{"DEL k", "SET k", "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "RENAME k other", "MOVE k 2"} {
		c.do("SADD k a")
		w := r.waiter().block("WAITEND k")
		if line == "SET k" {
			// Another value is not the end for this one.
			c.expect("SET k x", "+OK")
			r.blocked(1)
			line = "DEL k"
		}
		c.do(line)
		w.gets("-GONE k")
		c.do("FLUSHALL")
	}
	// A deadline: on access, and by itself.
	for _, byItself := range []bool{false, true} {
		c.do("SADD k a")
		c.do("PEXPIREAT k " + strconv.FormatInt(r.now()+1000, 10))
		w := r.waiter().block("WAITEND k")
		r.pass(2000)
		if byItself {
			r.store.PauseExpiry(false)
		} else {
			c.expect("EXISTS k", ":0")
		}
		w.gets("-GONE k")
	}
	r.checkLog()
}

// TestOverdueServesNobody: what is overdue by the end of the transaction that
// pushed it goes, and who waits goes on waiting.
func TestOverdueServesNobody(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	w := r.waiter().block("BLPOP l 0")
	c.expect("MULTI", "+OK")
	c.expect("RPUSH l a", "+QUEUED")
	c.expect("PEXPIRE l 100", "+QUEUED")
	c.expect("PASS 200", "+QUEUED")
	c.expect("EXEC", "*3 :1 :1 +OK")
	c.expect("EXISTS l", ":0")
	r.blocked(1)
	c.expect("RPUSH l b", ":1")
	w.gets("*2 $1 l $1 b")
	r.checkLog()
}

// TestWaitsInItsDatabase: a key of the same name in another database is another
// key, and who is served is served in the database that it waits in.
func TestWaitsInItsDatabase(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	other := r.waiter()
	other.es.Select(5)
	other.block("BLMOVE l m LEFT RIGHT 0")
	w := r.waiter().block("BLPOP l 0")
	c.expect("RPUSH l a", ":1")
	w.gets("*2 $1 l $1 a")
	c.es.Select(5)
	c.expect("RPUSH l b", ":1")
	other.gets("$1 b")
	c.expect("LRANGE m 0 -1", "*1 $1 b")
	c.es.Select(0)
	c.expect("EXISTS m", ":0")
	r.checkLog()
}
