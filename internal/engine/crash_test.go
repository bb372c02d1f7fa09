package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/vfs"
	"kevy/shard"
)

// The crash test runs random histories of commits, fsyncs, rewrites, clean
// closes, kills and power cuts on a file system that forgets what a real one may
// forget, and holds the store's promises after each:
//
//   - what was acknowledged is there: after a kill under every policy, after a
//     power cut under always;
//   - what is there is the state after a prefix of the commits, across all
//     shards;
//   - no (stream, generation, offset) ever shows two different frames;
//   - a clean close resumes every cursor;
//   - a DURABLE reader is never told to resync and misses nothing.

const (
	crashShards = 4
	crashDBs    = 3
)

// frameID names a frame for ever.
type frameID struct {
	stream             int
	generation, offset uint64
}

// reader is a consumer that follows one stream.
type reader struct {
	stream  int
	at      feed.Cursor
	durable bool
}

// history is one random history.
type history struct {
	t      *testing.T
	rng    *rand.Rand
	fs     *vfs.Mem
	e      *Engine
	tx     *shard.Tx
	policy aof.Policy
	nowMs  atomic.Int64

	// ends and digests are the LSN and the keyspace after each commit, from the
	// empty store on.
	ends    []uint64
	digests []shard.Digest
	acked   uint64 // LSN that was acknowledged
	durable uint64 // LSN that was fsynced for certain

	frames  map[frameID]string
	readers []*reader
	steps   []string
}

func TestCrashes(t *testing.T) {
	seed, schedules := crashSeed(t), crashSchedules(t, 300)
	var crashes, closes, commits int
	for i := range schedules {
		h := &history{t: t, rng: rand.New(rand.NewPCG(seed, uint64(i))), fs: vfs.NewMem(), frames: make(map[frameID]string)}
		h.nowMs.Store(1_700_000_000_000)
		h.policy = aof.Policy(h.rng.IntN(3))
		c, cl := h.run(i)
		crashes += c
		closes += cl
		commits += len(h.ends)
		if t.Failed() {
			t.Fatalf("schedule %d of KEVY_SEED=%d, policy %v:\n%v", i, seed, h.policy, h.steps)
		}
	}
	t.Logf("%d crashes, %d clean closes, %d commits in the last histories", crashes, closes, commits)
	if crashes < schedules || closes == 0 {
		t.Errorf("too little happened: %d crashes, %d closes", crashes, closes)
	}
}

// crashSeed returns KEVY_SEED, or else a random number, and shows it.
func crashSeed(t *testing.T) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("KEVY_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("KEVY_SEED: %v", err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	return seed
}

// crashSchedules returns KEVY_CRASH_SCHEDULES, or else the number given, less in
// a short run.
func crashSchedules(t *testing.T, n int) int {
	if testing.Short() {
		n /= 5
	}
	if s := os.Getenv("KEVY_CRASH_SCHEDULES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("KEVY_CRASH_SCHEDULES: %v", err)
		}
	}
	return n
}

func (h *history) step(format string, a ...any) { h.steps = append(h.steps, fmt.Sprintf(format, a...)) }

func (h *history) fail(format string, a ...any) {
	h.t.Helper()
	h.t.Errorf(format, a...)
}

func (h *history) open() bool {
	e, err := Open(Options{
		FS: h.fs, Dir: "data", Shards: crashShards, DBs: crashDBs, Fsync: h.policy, FeedMemoryBytes: 1, FeedDiskBytes: -1,
		SegmentBytes: int64(1+h.rng.IntN(8)) << 10, NowMs: h.nowMs.Load,
	})
	if err != nil {
		h.fail("open: %v", err)
		return false
	}
	e.PauseExpiry(true) // every commit is the test's own
	h.e, h.tx = e, e.NewTx()
	return true
}

func (h *history) run(number int) (crashes, closes int) {
	if !h.open() {
		return 0, 0
	}
	h.ends, h.digests = []uint64{0}, []shard.Digest{h.digest()}
	for s := range crashShards + 1 {
		h.readers = append(h.readers, &reader{stream: s, at: h.e.source.Tail(s)}, &reader{stream: s, at: h.e.source.Tail(s), durable: true})
	}
	for range 2 + h.rng.IntN(4) {
		for range h.rng.IntN(40) {
			h.nowMs.Add(int64(h.rng.IntN(400)))
			h.act()
			if h.t.Failed() {
				return crashes, closes
			}
		}
		switch h.rng.IntN(5) {
		case 0:
			h.closeAndOpen()
			closes++
		case 1, 2:
			h.crash("kill", h.fs.Kill(), h.acked)
			crashes++
		default:
			safe := h.durable
			if h.policy == aof.PolicyAlways {
				safe = max(safe, h.acked)
			}
			h.crash("power cut", h.fs.PowerCut(h.rng), safe)
			crashes++
		}
		if h.t.Failed() {
			return crashes, closes
		}
	}
	if err := h.e.Close(); err != nil {
		h.fail("close: %v", err)
	}
	if n := h.fs.OpenFiles(); len(n) != 0 {
		h.fail("files are still open: %v", n)
	}
	return crashes, closes
}

func (h *history) act() {
	switch n := h.rng.IntN(100); {
	case n < 70:
		h.commit()
	case n < 80:
		h.step("wait")
		if err := h.e.Wait(h.last()); err != nil {
			h.fail("wait: %v", err)
		}
		h.acked = h.last()
	case n < 85:
		h.step("sync")
		if err := h.e.log.Sync(); err != nil {
			h.fail("sync: %v", err)
		}
		h.acked, h.durable = h.last(), h.last()
	case n < 88:
		h.step("rewrite")
		if err := h.e.Rewrite(); err != nil {
			h.fail("rewrite: %v", err)
		}
	case n < 90:
		h.step("tend")
		h.e.tend()
	default:
		h.read()
	}
}

func (h *history) last() uint64 { return h.ends[len(h.ends)-1] }

func (h *history) digest() shard.Digest {
	h.e.set.Lock(h.e.all)
	defer h.e.set.Unlock(h.e.all)
	return h.e.set.Digest()
}

// commit makes one commit of random ops over all shards.
func (h *history) commit() {
	h.e.set.Lock(h.e.all)
	h.tx.Begin(h.e.all, 0, h.nowMs.Load())
	for range 1 + h.rng.IntN(4) {
		h.tx.Select(h.rng.IntN(crashDBs))
		h.change()
	}
	ops := h.tx.Commit().Ops()
	if ops > 0 {
		lsn := h.e.Commit(h.tx)
		if want := h.last() + uint64(ops); lsn != want {
			h.fail("commit of %d ops after LSN %d ends at %d", ops, h.last(), lsn)
		}
		h.ends = append(h.ends, lsn)
		h.digests = append(h.digests, h.e.set.Digest())
		h.step("commit %d", lsn)
	}
	h.tx.End()
	h.e.set.Unlock(h.e.all)
}

func (h *history) change() {
	key := fmt.Appendf(nil, "key%d", h.rng.IntN(12))
	value := make([]byte, h.rng.IntN(300))
	for i := range value {
		value[i] = byte(h.rng.Uint32())
	}
	kind, found := h.tx.Kind(key)
	switch n := h.rng.IntN(40); {
	case n == 0:
		h.tx.FlushAll()
	case n == 1:
		h.tx.FlushDB(h.tx.DB())
	case n == 2:
		h.tx.SwapDB(h.rng.IntN(crashDBs), h.rng.IntN(crashDBs))
	case n < 12:
		h.tx.Del(key)
	case n < 15:
		h.tx.ExpireAt(key, h.nowMs.Load()+int64(h.rng.IntN(5000)))
	case !found && n < 22:
		_, _ = h.tx.PushRight(key, value, value)
	case !found && n < 28:
		_, _ = h.tx.HSet(key, value, value)
	case found && kind == shard.KindList:
		_, _ = h.tx.PopLeft(key, 1, nil)
	case found && kind == shard.KindHash && n < 25:
		_, _ = h.tx.HSet(key, []byte("f"), value)
	case found && kind == shard.KindHash && n < 28:
		_, _ = h.tx.HSetKeepTTL(key, []byte("f"), value)
	case found && kind == shard.KindHash && n < 30:
		_ = h.tx.HPersist(key, [][]byte{[]byte("f")}, nil)
	case found && kind == shard.KindHash && n < 37:
		_ = h.tx.HExpireAt(key, h.nowMs.Load()+int64(h.rng.IntN(5000)), [][]byte{[]byte("f"), value}, nil, nil)
	default:
		h.tx.Set(key, value, 0)
	}
}

// read lets a random reader go on and compares what it sees with what was seen
// before.
func (h *history) read() {
	r := h.readers[h.rng.IntN(len(h.readers))]
	h.step("read %d durable=%v from %v", r.stream, r.durable, r.at)
	h.follow(r, 1+h.rng.IntN(20))
}

func (h *history) follow(r *reader, count int) (caughtUp bool) {
	var b feed.Batch
	defer b.Release()
	req := feed.Request{Stream: r.stream, Cursor: r.at, Count: count, Durable: r.durable}
	err := h.e.source.Since(context.Background(), &req, &b)
	var resync *feed.ResyncError
	switch {
	case errors.As(err, &resync):
		if r.durable {
			h.fail("a DURABLE reader of stream %d at %v is told to resync: %v", r.stream, r.at, err)
		}
		r.at = resync.Tail
		return true
	case err != nil:
		h.fail("read stream %d at %v: %v", r.stream, r.at, err)
		return true
	}
	next := r.at.Offset
	err = b.Each(func(f *feed.Frame) error {
		if f.Offset != next {
			h.fail("stream %d at %v: frame %d comes after %d", r.stream, r.at, f.Offset, next)
		}
		next = f.Offset + 1
		h.saw(frameID{r.stream, r.at.Generation, f.Offset}, f)
		return nil
	})
	if err != nil {
		h.fail("read frames of stream %d: %v", r.stream, err)
	}
	at := feed.Cursor{Generation: b.Generation, Offset: b.Next}
	caughtUp = at == r.at
	r.at = at
	return caughtUp
}

func (h *history) saw(id frameID, f *feed.Frame) {
	text := fmt.Sprintf("lsn %d db %d %v %q", f.LSN, f.DB, f.Cause, f.Raw)
	if seen, ok := h.frames[id]; ok && seen != text {
		h.fail("%+v names two frames:\n%s\n%s", id, seen, text)
	}
	h.frames[id] = text
}

// closeAndOpen closes cleanly; every cursor must be good afterwards.
func (h *history) closeAndOpen() {
	h.step("close")
	if err := h.e.Close(); err != nil {
		h.fail("close: %v", err)
		return
	}
	h.acked, h.durable = h.last(), h.last()
	if !h.open() {
		return
	}
	if !h.e.report.Resumed {
		h.fail("after a clean close the generation does not go on: %s", h.e.report.Reason)
	}
	h.check(h.last())
	for _, r := range h.readers {
		for range 1000 {
			at := r.at
			if h.follow(r, 50) {
				if !r.durable && r.at != at && h.t.Failed() {
					return
				}
				break
			}
		}
	}
}

// crash ends the engine at once and opens what is left on fs. Everything up to
// the LSN safe must be there.
func (h *history) crash(how string, fs *vfs.Mem, safe uint64) {
	h.step("%s, safe up to %d", how, safe)
	old := h.e
	h.fs = fs
	old.closing.Store(true)
	close(old.stop)
	old.background.Wait()
	old.source.Close()
	_, _ = old.log.Close() // on the dead file system: only ends the goroutines
	if !h.open() {
		return
	}
	h.check(safe)
	// All that can be read now must agree with what was read before.
	for s := range crashShards + 1 {
		oldest, err := h.e.source.Oldest(s)
		if err != nil {
			h.fail("oldest of stream %d: %v", s, err)
			return
		}
		r := &reader{stream: s, at: oldest}
		for !h.follow(r, 100) && !h.t.Failed() {
		}
		if tail := h.e.source.Tail(s); r.at != tail {
			h.fail("from %v stream %d ends at %v, not at its tail %v", oldest, s, r.at, tail)
		}
	}
}

// check finds the prefix of the commits that was recovered.
func (h *history) check(safe uint64) {
	last := h.e.log.Last()
	if last < safe {
		h.fail("LSN %d was safe, and the log ends at %d", safe, last)
		return
	}
	n := len(h.ends) - 1
	for n >= 0 && h.ends[n] != last {
		n--
	}
	if n < 0 {
		h.fail("the log ends at LSN %d, inside a commit", last)
		return
	}
	if got := h.digest(); got != h.digests[n] {
		h.fail("at LSN %d the keyspace is not what it was after that commit", last)
	}
	h.ends, h.digests = h.ends[:n+1], h.digests[:n+1]
	// What was recovered is on the disk now.
	h.acked, h.durable = last, last
}
