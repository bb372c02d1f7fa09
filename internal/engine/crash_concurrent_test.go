package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/shard"
)

// TestConcurrentCrashes is TestCrashes with everything at once: goroutines
// commit to overlapping shards while rewrites, readers of every stream, the
// retention and faults of the disk go on, until the process or the machine ends
// at a random step of the file system. Starts end there too. A model that applies
// the ops in LSN order says what each recovery must find.
//
// The seed decides what happens, not in which order goroutines run: a failure
// may need several runs of its seed to come back.
func TestConcurrentCrashes(t *testing.T) {
	seed, schedules := crashSeed(t), crashSchedules(t, 80)
	var total tally
	for i := range schedules {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, i)
			w.run()
			total.add(w.tally)
			if t.Failed() {
				t.Logf("schedule %d of KEVY_SEED=%d, policy %v:\n%s", i, seed, w.policy, strings.Join(w.steps, "\n"))
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%+v", total)
	if total.Kills == 0 || total.PowerCuts == 0 || total.DeadStarts == 0 || total.Rewrites == 0 || total.DurableFrames == 0 ||
		schedules >= 500 && (total.Closes == 0 || total.Stalls == 0 || total.Failures == 0 || total.Evicted == 0 || total.Lost == 0) {
		t.Errorf("too little happened: %+v", total)
	}
}

// tally counts what happened.
type tally struct {
	Commits, Kills, PowerCuts, Closes, DeadStarts, Rewrites, FailedRewrites, Stalls, Failures, Evicted, Lost, Frames, DurableFrames int64
}

func (t *tally) add(o tally) {
	for _, p := range []struct {
		to   *int64
		from int64
	}{
		{&t.Commits, o.Commits}, {&t.Kills, o.Kills}, {&t.PowerCuts, o.PowerCuts}, {&t.Closes, o.Closes}, {&t.DeadStarts, o.DeadStarts},
		{&t.Rewrites, o.Rewrites}, {&t.FailedRewrites, o.FailedRewrites}, {&t.Stalls, o.Stalls}, {&t.Failures, o.Failures},
		{&t.Evicted, o.Evicted}, {&t.Lost, o.Lost}, {&t.Frames, o.Frames}, {&t.DurableFrames, o.DurableFrames},
	} {
		atomic.AddInt64(p.to, p.from)
	}
}

// world is one store over several lives.
type world struct {
	t     *testing.T
	rng   *rand.Rand // of the goroutine that runs the test
	fs    *vfs.Mem
	tally tally

	policy                   aof.Policy
	retainBytes, retainMs    int64
	block, segment, inMemory int64

	e *Engine

	// ops has the op of LSN i+1 at index i; model is the keyspace after the first
	// modelled of them.
	ops      []loggedOp
	model    *modelSet
	modelled uint64
	// acked and durable are LSNs that a kill, or a power cut, must leave.
	acked, durable atomic.Uint64

	mu        sync.Mutex
	made      []madeCommit // in this life
	frames    map[frameID]string
	steps     []string
	followers []*follower

	// Of this life:
	noFeed  bool         // the feed is switched off
	forgot  bool         // it once was: the log may reach back further than the feed
	faults  atomic.Int64 // that were injected
	changes atomic.Int64 // of the fsync policy
	failed  atomic.Bool  // an fsync of the log failed
	working atomic.Int64 // goroutines that commit
}

// loggedOp is an op as the log has it.
type loggedOp struct {
	stream int
	text   string
	last   bool // of its commit
	frame  op.Frame
}

type madeCommit struct {
	first uint64
	ops   []loggedOp
}

// follower is a consumer that follows one stream through everything.
type follower struct {
	stream  int
	durable bool
	at      feed.Cursor
	// next: all of the stream's ops below this LSN were seen; 0 if that is not
	// known, as after a resync.
	next uint64
	seen []seenOp // since the last comparison with the ops
	// parted: the feed was switched off since it read, so that it may be told to
	// resync.
	parted bool
}

type seenOp struct {
	lsn  uint64
	text string
}

func newWorld(t *testing.T, seed uint64, number int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, uint64(number))), fs: vfs.NewMem(), frames: make(map[frameID]string), model: newModelSet()}
	w.policy = aof.Policy(w.rng.IntN(3))
	w.retainBytes = []int64{-1, -1, 0, 2000, 20000}[w.rng.IntN(5)]
	w.retainMs = []int64{0, 0, 0, 2000}[w.rng.IntN(4)]
	w.block = 256 << w.rng.IntN(6)
	w.segment = 1024 << w.rng.IntN(5)
	w.inMemory = 1024 << w.rng.IntN(6)
	return w
}

func (w *world) step(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps, fmt.Sprintf("%6d ms  ", time.Now().UnixMilli()%1_000_000)+fmt.Sprintf(format, a...))
	if n := len(w.steps); n > 200 {
		w.steps = slices.Delete(w.steps, 0, n-150)
	}
}

// stepWriter takes the store's own log.
type stepWriter struct{ *world }

func (s stepWriter) Write(line []byte) (int, error) {
	_, text, _ := strings.Cut(string(line), "level=")
	s.step("  %s", strings.TrimSpace(text))
	return len(line), nil
}

func (w *world) fail(format string, a ...any) {
	w.t.Helper()
	w.t.Errorf(format, a...)
}

func (w *world) options(fs *vfs.Mem) Options {
	return Options{
		FS: fs, Dir: "data", Shards: crashShards, DBs: crashDBs, Fsync: w.policy, NoFeed: w.noFeed,
		FeedMemoryBytes: 1, FeedDiskBytes: w.retainBytes, FeedAgeMs: w.retainMs, SegmentBytes: w.segment,
		Logger:  slog.New(slog.NewTextHandler(stepWriter{w}, nil)),
		tuneLog: func(o *aof.Options) { o.BlockBytes, o.MemoryBytes = int(w.block), w.inMemory },
	}
}

const never = 1 << 30

func (w *world) run() {
	defer func() {
		if w.e != nil {
			w.closeAll()
			w.noOpenFiles()
		}
	}()
	w.open(0, false)
	if w.t.Failed() {
		return
	}
	for s := range crashShards + 1 {
		for range 2 {
			w.followers = append(w.followers, &follower{stream: s, at: w.e.source.Tail(s), next: 1}, &follower{stream: s, at: w.e.source.Tail(s), next: 1, durable: true})
		}
	}
	for lives := 2 + w.rng.IntN(3); lives > 0 && !w.t.Failed(); lives-- {
		dead := w.live()
		if w.t.Failed() {
			return
		}
		switch n := w.rng.IntN(6); {
		case n == 0 && !dead:
			w.closeCleanly()
		case n < 4:
			w.crash(false)
		default:
			w.crash(true)
		}
	}
}

// open opens what is on the file system, through crashes on the way, and
// compares it with the model. Everything up to the LSN safe must be there; with
// closed, the last life ended with a clean close.
func (w *world) open(safe uint64, closed bool) {
	hadFeed := !w.noFeed
	if w.followers != nil {
		w.noFeed = w.rng.IntN(12) == 0
	}
	w.forgot = w.forgot || w.noFeed
	for _, f := range w.followers {
		f.parted = f.parted || w.noFeed
	}
	expect := uint64(math.MaxUint64)
	if w.rng.IntN(3) == 0 {
		expect = w.glimpse()
	}
	if w.followers != nil && !w.noFeed && w.rng.IntN(10) == 0 {
		w.fork()
	}
	died := false
	for {
		if w.rng.IntN(3) == 0 {
			w.fs.DieAfter(w.rng.IntN(70), w.rng.IntN(40))
		}
		e, err := Open(w.options(w.fs))
		if err == nil {
			w.fs.DieAfter(never, 0)
			w.e = e
			break
		}
		if !errors.Is(err, vfs.ErrDead) {
			w.fail("open: %v", err)
			return
		}
		died = true
		w.tally.DeadStarts++
		if w.rng.IntN(2) == 0 {
			w.step("the start is killed")
			w.fs = w.fs.Kill()
		} else {
			w.step("the start ends with the power")
			w.fs = w.fs.PowerCut(w.rng)
			safe = min(safe, w.durable.Load())
			if safe < expect {
				expect = math.MaxUint64 // what was in the kernel's cache only may be gone
			}
		}
	}
	e := w.e
	e.PauseExpiry(true) // every commit is the test's own
	last := e.log.Last()
	w.step("open at LSN %d, %s; no feed %v; resumed %v (%s)", last, e.report.Verdict(), w.noFeed, e.report.Resumed, e.report.Reason)
	switch {
	case last < safe:
		w.fail("LSN %d was safe, and the log ends at %d", safe, last)
		return
	case last > uint64(len(w.ops)):
		w.fail("the log ends at LSN %d, and there were %d ops", last, len(w.ops))
		return
	case last > 0 && !w.ops[last-1].last:
		w.fail("the log ends at LSN %d, inside a commit", last)
		return
	case expect != math.MaxUint64 && last != expect:
		w.fail("a start that was not disturbed found LSN %d, this one found %d", expect, last)
		return
	case closed && !died && hadFeed && !e.report.Resumed:
		w.fail("after a clean close the generation does not go on: %s", e.report.Reason)
		return
	}
	w.ops = w.ops[:last]
	for ; w.modelled < last; w.modelled++ {
		w.model.apply(w.t, &w.ops[w.modelled].frame)
	}
	if got, want := w.digest(), w.model.set.Digest(); got != want {
		w.fail("at LSN %d the keyspace is not what the ops up to there make", last)
		return
	}
	w.acked.Store(last)
	w.durable.Store(last)
	if !w.noFeed {
		w.checkFeed(last)
	}
}

// glimpse returns the LSN that a start on a copy of the files finds.
func (w *world) glimpse() uint64 {
	e, err := Open(w.options(w.fs.Clone()))
	if err != nil {
		w.fail("open a copy: %v", err)
		return 0
	}
	last := e.log.Last()
	if err := e.Close(); err != nil {
		w.fail("close a copy: %v", err)
	}
	return last
}

// fork lets a copy of the files have a life of its own: what it shows under the
// names of past generations is what the original shows, and all else has names
// that the original never gives.
func (w *world) fork() {
	e, err := Open(w.options(w.fs.Clone()))
	if err != nil {
		w.fail("open a copy: %v", err)
		return
	}
	e.PauseExpiry(true)
	if e.report.Resumed {
		w.fail("a copy goes on with the generation of the original")
	}
	w.e = e
	tx := e.NewTx()
	for range 1 + w.rng.IntN(20) {
		w.commit(w.rng, tx)
	}
	w.made = nil
	for s := range crashShards + 1 {
		oldest, err := e.source.Oldest(s)
		if err != nil {
			w.fail("oldest cursor of a copy: %v", err)
			break
		}
		f := &follower{stream: s, at: oldest}
		for before := (feed.Cursor{}); f.at != before && !w.t.Failed(); {
			before = f.at
			if err := w.follow(f, 100, 0); err != nil {
				w.fail("read a copy: %v", err)
			}
		}
	}
	w.e = nil
	if err := e.Close(); err != nil {
		w.fail("close a copy: %v", err)
	}
}

func (w *world) digest() shard.Digest {
	w.e.set.Lock(w.e.all)
	defer w.e.set.Unlock(w.e.all)
	return w.e.set.Digest()
}

// checkFeed reads every stream from its oldest cursor to the tail, and lets
// every follower catch up.
func (w *world) checkFeed(last uint64) {
	for s := range crashShards + 1 {
		oldest, err := w.e.source.Oldest(s)
		if err != nil {
			w.fail("oldest cursor of stream %d: %v", s, err)
			return
		}
		f := &follower{stream: s, at: oldest, next: w.e.log.OldestLSN()}
		if w.forgot {
			f.next = 0
		}
		w.catchUp(f, last)
		if tail := w.e.source.Tail(s); f.at != tail && !w.t.Failed() {
			w.fail("from %v stream %d ends at %v, not at its tail %v", oldest, s, f.at, tail)
		}
	}
	defer func() {
		for _, f := range w.followers {
			f.parted = false
		}
	}()
	for _, f := range w.followers {
		if f.next > last+1 {
			// It has seen what is lost. Only a visible reader may have.
			if f.durable {
				w.fail("a DURABLE reader of stream %d has seen LSN %d, and the log ends at %d", f.stream, f.next-1, last)
			}
			if err := w.follow(f, 10, 0); err != nil {
				w.fail("stream %d at %v: %v", f.stream, f.at, err)
			} else if f.next != 0 {
				w.fail("a reader of stream %d that has seen what is lost is not told", f.stream)
			}
			w.tally.Lost++
		}
		w.catchUp(f, last)
	}
}

// catchUp follows to the end of the stream and compares with the ops.
func (w *world) catchUp(f *follower, last uint64) {
	for range 10000 {
		at := f.at
		if err := w.follow(f, 100, 0); err != nil {
			w.fail("stream %d at %v: %v", f.stream, f.at, err)
		}
		if w.t.Failed() {
			return
		}
		if f.at == at {
			w.compare(f, last)
			return
		}
	}
	w.fail("stream %d has no end", f.stream)
}

// compare holds what a follower has seen against the ops. With a known end it
// must have seen all up to there.
func (w *world) compare(f *follower, end uint64) {
	seen := f.seen
	f.seen = nil
	lsn := f.next
	if lsn == 0 {
		if len(seen) == 0 {
			return
		}
		lsn = seen[0].lsn
	}
	last := end
	if last == 0 {
		if len(seen) == 0 {
			return
		}
		last = seen[len(seen)-1].lsn
	}
	for ; lsn <= last; lsn++ {
		o := &w.ops[lsn-1]
		if f.stream != crashShards && o.stream != f.stream && o.stream != op.EveryStream {
			continue
		}
		if len(seen) == 0 || seen[0].lsn != lsn || seen[0].text != o.text {
			if len(seen) > 6 {
				seen = seen[:6]
			}
			w.fail("a reader of stream %d (durable %v), now at %v, has missed LSN %d %s; it saw %v", f.stream, f.durable, f.at, lsn, o.text, seen)
			return
		}
		seen = seen[1:]
	}
	if len(seen) > 0 {
		w.fail("a reader of stream %d has seen LSN %d, beyond %d: %s", f.stream, seen[0].lsn, last, seen[0].text)
	}
	f.next = last + 1
}

// follow reads on once.
func (w *world) follow(f *follower, count int, block time.Duration) error {
	var b feed.Batch
	defer b.Release()
	oldest := w.e.log.OldestLSN()
	req := feed.Request{Stream: f.stream, Cursor: f.at, Count: count, Durable: f.durable, Block: block}
	err := w.e.source.Since(context.Background(), &req, &b)
	var resync *feed.ResyncError
	switch {
	case errors.As(err, &resync):
		return w.resynced(f, resync, oldest)
	case err != nil:
		return err
	}
	next := f.at.Offset
	err = b.Each(func(fr *feed.Frame) error {
		if fr.Offset != next {
			w.fail("stream %d at %v: frame %d comes where %d should", f.stream, f.at, fr.Offset, next)
		}
		next = fr.Offset + 1
		w.saw(frameID{f.stream, f.at.Generation, fr.Offset}, f, fr)
		return nil
	})
	if err != nil {
		// What was not delivered is read again.
		f.at.Offset = next
		return err
	}
	f.at = feed.Cursor{Generation: b.Generation, Offset: b.Next}
	return nil
}

// resynced checks that a follower had to be told, and lets it begin anew.
func (w *world) resynced(f *follower, e *feed.ResyncError, oldest uint64) error {
	next := f.next
	if len(f.seen) > 0 {
		next = f.seen[len(f.seen)-1].lsn + 1
	}
	last := w.e.log.Last()
	switch {
	case e.Reason == feed.ReasonEvicted && (w.retainBytes >= 0 || w.retainMs > 0) && next < w.e.log.OldestLSN():
		atomic.AddInt64(&w.tally.Evicted, 1)
	case f.parted && (e.Reason != feed.ReasonLost || !f.durable):
	case next > last+1 && !f.durable && (e.Reason == feed.ReasonLost || e.Reason == feed.ReasonGeneration):
	case !f.durable && f.at.Offset == 0 && e.Reason == feed.ReasonGeneration && w.sawAll(f.stream, next):
		// It has seen a FLUSHALL that is there, and the new generation, whose name is
		// lost.
	default:
		w.fail("a reader of stream %d (durable %v) at %v, which has seen everything below LSN %d, is told to resync (%s); the log has %d (before: %d) to %d",
			f.stream, f.durable, f.at, next, e.Reason, w.e.log.OldestLSN(), oldest, last)
	}
	f.at, f.next, f.seen = e.Oldest, 0, nil
	return nil
}

// sawAll reports whether no op of a stream comes from LSN next on.
func (w *world) sawAll(stream int, next uint64) bool {
	for ; next <= uint64(len(w.ops)); next++ {
		if o := &w.ops[next-1]; stream == crashShards || o.stream == stream || o.stream == op.EveryStream {
			return false
		}
	}
	return true
}

func (w *world) saw(id frameID, f *follower, fr *feed.Frame) {
	text := fmt.Sprintf("db %d %q", fr.DB, fr.Raw)
	f.seen = append(f.seen, seenOp{fr.LSN, text})
	whole := fmt.Sprintf("lsn %d %v %s", fr.LSN, fr.Cause, text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.Frames++
	if f.durable {
		w.tally.DurableFrames++
	}
	if seen, ok := w.frames[id]; ok && seen != whole {
		w.t.Errorf("%+v names two frames:\n%s\n%s", id, seen, whole)
	}
	w.frames[id] = whole
	if f.durable {
		// No crash may take it back.
		w.raise(&w.durable, fr.LSN)
	}
}

func (w *world) raise(to *atomic.Uint64, lsn uint64) {
	for {
		old := to.Load()
		if old >= lsn || to.CompareAndSwap(old, lsn) {
			return
		}
	}
}

// live lets everything run at once until the work is done or the file system is
// dead, which it reports.
func (w *world) live() (dead bool) {
	w.faults.Store(0)
	w.failed.Store(false)
	if w.rng.IntN(4) > 0 {
		w.fs.DieAfter(w.rng.IntN(1+w.rng.IntN(400)), w.rng.IntN(300))
	}
	first := uint64(len(w.ops)) + 1
	var workers, others sync.WaitGroup
	done := make(chan struct{})
	rngs := func() *rand.Rand { return rand.New(rand.NewPCG(w.rng.Uint64(), 0)) }
	for range 2 + w.rng.IntN(3) {
		rng := rngs()
		w.working.Add(1)
		workers.Go(func() {
			defer w.working.Add(-1)
			w.commits(rng, rng.IntN(50))
		})
	}
	parts := make([][]*follower, 3)
	for i, f := range w.followers {
		parts[i%3] = append(parts[i%3], f)
	}
	for _, part := range parts {
		rng := rngs()
		if !w.noFeed {
			others.Go(func() { w.reads(rng, part, done) })
		}
	}
	for _, duty := range []func(*rand.Rand, <-chan struct{}){w.rewrites, w.tends, w.disturbs} {
		rng := rngs()
		others.Go(func() { duty(rng, done) })
	}
	workers.Wait()
	close(done)
	others.Wait()
	synctest.Wait()
	w.gather(first)
	if w.t.Failed() {
		return true
	}
	for _, f := range w.followers {
		w.compare(f, 0)
	}
	err := w.e.log.Sync()
	dead = errors.Is(err, vfs.ErrDead)
	switch {
	case err == nil:
		w.raise(&w.durable, uint64(len(w.ops)))
	case !dead && !w.failed.Load():
		w.settle()
	}
	return dead
}

// settle expects the log to go on once the disk does.
func (w *world) settle() {
	time.Sleep(200 * time.Millisecond) // the log tries again
	last := uint64(len(w.ops))
	if err := w.e.log.Sync(); err == nil {
		w.raise(&w.durable, last)
	} else if !errors.Is(err, vfs.ErrDead) {
		w.fail("the disk works again, and the log does not: %v", err)
	}
}

// gather brings the commits of this life into the order of the log.
func (w *world) gather(first uint64) {
	slices.SortFunc(w.made, func(a, b madeCommit) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	for _, c := range w.made {
		if c.first != first {
			w.fail("a commit begins with LSN %d where %d comes next", c.first, first)
			return
		}
		w.ops = append(w.ops, c.ops...)
		first += uint64(len(c.ops))
	}
	w.tally.Commits += int64(len(w.made))
	w.made = nil
}

func (w *world) commits(rng *rand.Rand, n int) {
	tx := w.e.NewTx()
	for range n {
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(rng.IntN(20_000)) * time.Microsecond)
		}
		failed, changes, always := w.failed.Load(), w.changes.Load(), w.e.Policy() == aof.PolicyAlways
		if err := w.e.Admit(); err != nil {
			if errors.Is(err, vfs.ErrDead) {
				return
			}
			w.refused(err)
			time.Sleep(30 * time.Millisecond)
			if rng.IntN(3) > 0 {
				continue
			}
			// A commit that was admitted before.
		}
		lsn := w.commit(rng, tx)
		if lsn == 0 || rng.IntN(3) == 0 {
			continue
		}
		switch err := w.e.Wait(lsn); {
		case err == nil && failed:
			w.fail("LSN %d is acknowledged after an fsync failed", lsn)
		case err == nil:
			w.raise(&w.acked, lsn)
			if always && w.changes.Load() == changes {
				w.raise(&w.durable, lsn)
			}
		case errors.Is(err, vfs.ErrDead):
			return
		default:
			w.refused(err)
		}
	}
}

func (w *world) refused(err error) {
	if w.faults.Load() == 0 {
		w.fail("the log refuses: %v", err)
	}
	if errors.Is(err, aof.ErrFailed) {
		w.failed.Store(true)
	} else {
		atomic.AddInt64(&w.tally.Stalls, 1)
	}
}

// commit makes one commit of random ops on some shards. It returns 0 if nothing
// changed.
func (w *world) commit(rng *rand.Rand, tx *shard.Tx) (lsn uint64) {
	held := w.e.all
	if rng.IntN(12) > 0 {
		held = nil
		for s := range crashShards {
			if rng.IntN(3) == 0 {
				held = append(held, s)
			}
		}
		if len(held) == 0 {
			held = []int{rng.IntN(crashShards)}
		}
	}
	ops := 1 + rng.IntN(5)
	if rng.IntN(60) == 0 {
		ops = 80
	}
	w.e.set.Lock(held)
	defer w.e.set.Unlock(held)
	tx.Begin(held, rng.IntN(crashDBs), w.e.NowMs())
	defer tx.End()
	for range ops {
		if rng.IntN(6) == 0 {
			tx.Select(rng.IntN(crashDBs))
		}
		randomChange(rng, tx)
	}
	c := tx.Commit()
	if c.Ops() == 0 {
		return 0
	}
	lsn = w.e.Commit(tx)
	made := madeCommit{first: lsn - uint64(c.Ops()) + 1, ops: loggedOps(w.t, c)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made = append(w.made, made)
	return lsn
}

// loggedOps takes a commit apart.
func loggedOps(t *testing.T, c *op.Commit) []loggedOp {
	rest := append([]byte(nil), c.Bytes()...)
	out := make([]loggedOp, c.Ops())
	for i := range out {
		n, args, err := op.ReadCommand(rest, nil)
		if err != nil {
			t.Errorf("a commit's bytes: %v", err)
			return nil
		}
		o := &out[i]
		o.stream, o.last = c.Stream(i), i == len(out)-1
		o.text = fmt.Sprintf("db %d %q", c.DB(i), rest[:n])
		o.frame = op.Frame{Verb: c.Verb(i), DB: c.DB(i), Raw: rest[:n], Args: args}
		rest = rest[n:]
	}
	return out
}

func (w *world) reads(rng *rand.Rand, followers []*follower, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		f := followers[rng.IntN(len(followers))]
		block := time.Duration(0)
		if rng.IntN(2) == 0 {
			block = time.Duration(1+rng.IntN(20)) * time.Millisecond
		}
		if err := w.follow(f, 1+rng.IntN(50), block); err != nil {
			if errors.Is(err, vfs.ErrDead) {
				return
			}
			w.fail("read stream %d at %v: %v", f.stream, f.at, err)
			return
		}
		time.Sleep(time.Duration(rng.IntN(5_000)) * time.Microsecond)
	}
}

func (w *world) rewrites(rng *rand.Rand, done <-chan struct{}) {
	for w.rest(rng, 200*time.Millisecond, done) {
		before := w.faults.Load()
		err := w.e.Rewrite()
		w.step("rewrite: %v", err)
		switch {
		case err == nil:
			w.tally.Rewrites++
		case errors.Is(err, vfs.ErrDead), before > 0, w.faults.Load() > 0:
			w.tally.FailedRewrites++
		default:
			w.fail("rewrite: %v", err)
		}
	}
}

func (w *world) tends(rng *rand.Rand, done <-chan struct{}) {
	for w.rest(rng, 300*time.Millisecond, done) {
		w.e.tend()
		if rng.IntN(6) == 0 {
			w.changes.Add(1)
			w.e.SetPolicy(aof.Policy(rng.IntN(3)))
			w.changes.Add(1)
		}
		if rng.IntN(4) == 0 && w.e.log.Sync() == nil {
			w.raise(&w.durable, w.e.log.Durable())
		}
	}
}

// rest sleeps for up to most; false if the life is over.
func (w *world) rest(rng *rand.Rand, most time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	case <-time.After(time.Duration(rng.Int64N(int64(most)))):
		return true
	}
}

// disturbs makes the disk fail for a while.
func (w *world) disturbs(rng *rand.Rand, done <-chan struct{}) {
	if rng.IntN(2) == 0 || !w.rest(rng, 300*time.Millisecond, done) {
		return
	}
	heal := func() {}
	w.faults.Add(1)
	after, times := rng.IntN(6), rng.IntN(3)
	inject := func(op vfs.Op, glob string) {
		w.step("fault: %v of %q fails after %d, %d times", op, glob, after, times)
		heal = w.fs.Inject(vfs.Fault{Op: op, Glob: glob, After: after, Times: times, Bytes: rng.IntN(200)})
	}
	switch rng.IntN(9) {
	case 0, 1:
		w.step("the disk is full")
		w.fs.SetQuota(w.fs.Used() + int64(rng.IntN(3000)))
		heal = func() { w.fs.SetQuota(-1) }
	case 2:
		inject(vfs.OpWrite, "*.aof")
	case 3:
		inject(vfs.OpRename, "")
	case 4:
		inject(vfs.OpCreate, "*aof*")
	case 5:
		inject(vfs.OpSyncDir, "")
	case 6:
		inject(vfs.OpTruncate, "")
	case 7:
		inject(vfs.OpSync, "*.base.aof")
	case 8:
		// The log leaves a note that an fsync failed. That the process ends before it
		// could is a second fault at the same moment, which no start can tell.
		w.fs.DieAfter(never, 0)
		inject(vfs.OpSync, "*.incr.aof")
		w.mu.Lock()
		w.tally.Failures++
		w.mu.Unlock()
	}
	w.rest(rng, 800*time.Millisecond, done)
	heal()
	w.step("the disk is well")
	if w.e.log.Status().Err != nil && errors.Is(w.e.log.Status().Err, aof.ErrFailed) {
		w.failed.Store(true)
	}
}

// closeCleanly closes and opens: unless the log had failed every cursor goes on.
func (w *world) closeCleanly() {
	w.step("close")
	if w.rng.IntN(2) == 0 {
		w.fs.DieAfter(w.rng.IntN(40), w.rng.IntN(40))
	} else {
		w.fs.DieAfter(never, 0)
	}
	err := w.e.Close()
	w.e = nil
	if errors.Is(err, vfs.ErrDead) {
		w.crash(w.rng.IntN(2) == 0)
		return
	}
	w.tally.Closes++
	w.noOpenFiles()
	failed := w.failed.Load()
	if failed != (err != nil) {
		w.fail("close: %v, and the log had failed: %v", err, failed)
		return
	}
	if failed {
		w.fs = w.fs.Kill() // the process that ends after it
		w.open(w.acked.Load(), false)
		return
	}
	last := uint64(len(w.ops))
	w.acked.Store(last)
	w.durable.Store(last)
	w.open(last, true)
}

// crash ends the process, or the machine, and opens what is left.
func (w *world) crash(power bool) {
	safe := w.acked.Load()
	var left *vfs.Mem
	if power {
		w.tally.PowerCuts++
		safe = w.durable.Load()
		left = w.fs.PowerCut(w.rng)
	} else {
		w.tally.Kills++
		left = w.fs.Kill()
	}
	w.step("crash, power cut %v; safe up to LSN %d of %d", power, safe, len(w.ops))
	if w.e != nil {
		w.closeAll()
	}
	w.fs = left
	w.open(safe, false)
}

// closeAll ends the engine's goroutines and gives back its files, as the end of
// the process does.
func (w *world) closeAll() {
	e := w.e
	e.beginClose()
	close(e.stop)
	e.background.Wait()
	e.abandon()
	w.e = nil
}

func (w *world) noOpenFiles() {
	w.t.Helper()
	if open := w.fs.OpenFiles(); len(open) > 0 {
		w.fail("files are still open: %v", open)
	}
}

// modelSet is a keyspace to which ops are applied one by one.
type modelSet struct {
	set *shard.Set
	tx  *shard.Tx
}

func newModelSet() *modelSet {
	m := &modelSet{set: shard.NewSet(crashShards, crashDBs)}
	m.tx = m.set.NewTx(&op.LogPosition{})
	all := make([]int, crashShards)
	for i := range all {
		all[i] = i
	}
	m.tx.BeginReplay(all, 0)
	return m
}

func (m *modelSet) apply(t *testing.T, f *op.Frame) {
	if err := m.tx.Apply(f); err != nil {
		t.Errorf("the model: %v", err)
	}
}

// randomChange makes one change, or none, on a key of the Tx's shards.
func randomChange(rng *rand.Rand, tx *shard.Tx) {
	all := len(tx.Held()) == crashShards
	key := heldKey(rng, tx)
	value := make([]byte, rng.IntN(200))
	if rng.IntN(100) == 0 {
		value = make([]byte, 5000)
	}
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	small := []byte{byte('a' + rng.IntN(5))}
	kind, found := tx.Kind(key)
	n := rng.IntN(100)
	switch {
	case all && n == 0:
		tx.FlushAll()
	case all && n < 3:
		tx.FlushDB(tx.DB())
	case all && n < 6:
		tx.SwapDB(rng.IntN(crashDBs), rng.IntN(crashDBs))
	case n < 15:
		tx.Del(key)
	case n < 22:
		tx.ExpireAt(key, tx.NowMs()+rng.Int64N(2000))
	case n < 25:
		tx.Persist(key)
	case n < 27:
		tx.ExpireDue(3)
	case n < 31 && found:
		if to, db := heldKey(rng, tx), rng.IntN(crashDBs); string(to) != string(key) || db != tx.DB() {
			if rng.IntN(2) == 0 {
				tx.Copy(key, db, to)
			} else {
				tx.Move(key, db, to)
			}
		}
	case !found && n < 45:
		_, _ = tx.PushRight(key, small, value)
	case !found && n < 60:
		_, _ = tx.HSet(key, small, value)
	case !found && n < 70:
		_, _ = tx.SAdd(key, small, value)
	case !found && n < 80:
		_, _ = tx.ZAdd(key, shard.Scored{Member: small, Score: rng.NormFloat64()})
	case !found && n < 86, found && kind == shard.KindStream && n < 85:
		streamChange(rng, tx, key, value)
	case found && kind == shard.KindList && n < 50:
		_, _ = tx.PopLeft(key, 1+rng.IntN(2), nil)
	case found && kind == shard.KindList && n < 85:
		_, _ = tx.PushLeft(key, small)
	case found && kind == shard.KindHash && n < 42:
		_, _ = tx.HDel(key, small)
	case found && kind == shard.KindHash && n < 52:
		_ = tx.HExpireAt(key, tx.NowMs()+1+rng.Int64N(2000), [][]byte{small, []byte("b")}, nil, nil)
	case found && kind == shard.KindHash && n < 55:
		_ = tx.HPersist(key, [][]byte{small}, nil)
	case found && kind == shard.KindHash && n < 60:
		_, _ = tx.HSetKeepTTL(key, small, value)
	case found && kind == shard.KindHash && n < 85:
		_, _ = tx.HSet(key, small, value)
	case found && kind == shard.KindSet && n < 50:
		_, _ = tx.SRem(key, small)
	case found && kind == shard.KindSet && n < 85:
		_, _ = tx.SAdd(key, small)
	case found && kind == shard.KindZSet && n < 50:
		_, _ = tx.ZRem(key, small)
	case found && kind == shard.KindZSet && n < 85:
		_, _, _ = tx.ZAddIf(key, 0, []shard.Scored{{Member: small, Score: float64(rng.IntN(9))}})
	case found && kind == shard.KindString && n < 60:
		_ = tx.SetRange(key, rng.IntN(50), []byte("patch"))
	default:
		tx.Set(key, value, []int64{0, shard.KeepTTL, tx.NowMs() + 1000}[rng.IntN(3)])
	}
}

// streamChange changes a stream, or a group of it.
func streamChange(rng *rand.Rand, tx *shard.Tx, key, value []byte) {
	s, _ := tx.Stream(key)
	last := s.LastID()
	id := shard.StreamID{Ms: last.Ms - min(last.Ms, uint64(rng.IntN(8)))}
	group, consumer := []byte("g"), []byte{'a' + byte(rng.IntN(3))}
	switch rng.IntN(10) {
	case 0:
		_, _ = tx.XDel(key, []shard.StreamID{id})
	case 1:
		_, _ = tx.XTrim(key, shard.StreamTrim{ByID: true, MinID: id})
	case 2:
		_, _ = tx.XGroupCreate(key, group, id, 0, true)
	case 3:
		_, _ = tx.XGroupSetID(key, group, id, 3)
	case 4:
		_, _, _ = tx.XGroupDelConsumer(key, group, consumer)
	case 5:
		_, _ = tx.XAck(key, group, []shard.StreamID{id})
	case 6, 7:
		_, _ = tx.XClaim(key, group, shard.Claim{Consumer: consumer, DeliveredMs: tx.NowMs(), Count: 1}, id)
	default:
		_ = tx.XAdd(key, shard.StreamID{Ms: last.Ms + 1}, []byte("name"), value)
	}
}

// heldKey returns a random key of the Tx's shards.
func heldKey(rng *rand.Rand, tx *shard.Tx) []byte {
	for {
		key := fmt.Appendf(nil, "key%d", rng.IntN(24))
		if tx.Holds(key) {
			return key
		}
	}
}
