package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kevy/aof"
	"kevy/internal/vfs"
	"kevy/shard"
)

// loaded is a store under load.
type loaded struct {
	t  *testing.T
	fs vfs.FS
	e  *Engine

	stop   chan struct{}
	wg     sync.WaitGroup
	writes atomic.Int64
}

const loadedDBs = 4

// change runs fn on the shards of some keys, or on all, as one commit.
func (l *loaded) change(tx *shard.Tx, db int, keys [][]byte, fn func()) {
	var held []int
	for _, k := range keys {
		if s := l.e.set.ShardOf(k); !slices.Contains(held, s) {
			held = append(held, s)
		}
	}
	slices.Sort(held)
	if keys == nil {
		held = l.e.all
	}
	l.e.set.Lock(held)
	tx.Begin(held, db, l.e.NowMs())
	fn()
	if tx.Commit().Ops() > 0 {
		l.e.Commit(tx)
		l.writes.Add(1)
	}
	tx.End()
	l.e.set.Unlock(held)
}

func openLoaded(t *testing.T, fs vfs.FS, dir string, smallKeys, elements int) *loaded {
	l := &loaded{t: t, fs: fs, stop: make(chan struct{})}
	e, err := Open(Options{FS: l.fs, Dir: dir, Shards: 8, DBs: loadedDBs, Fsync: aof.PolicyEverySec, FeedMemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l.e = e
	tx := e.NewTx()
	for i := range smallKeys {
		key := fmt.Appendf(nil, "small%d", i)
		l.change(tx, i%loadedDBs, [][]byte{key}, func() { tx.Set(key, key, []int64{0, 4e12}[i%2]) })
	}
	for _, name := range []string{"hash", "set", "list", "zset", "xstream"} {
		key := []byte(name)
		for i := 0; i < elements; i += 100 {
			l.change(tx, 0, [][]byte{key}, func() {
				for j := i; j < i+100; j++ {
					elem := fmt.Appendf(nil, "element%d", j)
					switch name {
					case "hash":
						_, _ = tx.HSet(key, elem, elem)
						if j%3 == 0 {
							_ = tx.HExpireAt(key, 4e12+int64(j%50), [][]byte{elem}, nil, nil)
						}
					case "set":
						_, _ = tx.SAdd(key, elem)
					case "list":
						_, _ = tx.PushRight(key, elem)
					case "zset":
						_, _ = tx.ZAdd(key, shard.Scored{Member: elem, Score: float64(j)})
					case "xstream":
						_ = tx.XAdd(key, shard.StreamID{Ms: uint64(j + 1)}, []byte("name"), elem)
						_, _ = tx.XGroupCreate(key, []byte("g"), shard.StreamID{}, 0, false)
						_, _ = tx.XClaim(key, []byte("g"), shard.Claim{Consumer: elem[:8], DeliveredMs: 1, Count: 1}, shard.StreamID{Ms: uint64(j + 1)})
					}
				}
			})
		}
	}
	return l
}

// write changes hot keys, elements of the large collections, and now and then
// whole databases, until the end.
func (l *loaded) write(rng *rand.Rand, smallKeys, elements int) {
	tx := l.e.NewTx()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		default:
		}
		if err := l.e.Admit(); err != nil {
			l.t.Errorf("admit: %v", err)
			return
		}
		elem := fmt.Appendf(nil, "element%d", rng.IntN(elements*2))
		key := [][]byte{[]byte("hash"), []byte("set"), []byte("list"), []byte("zset"), []byte("xstream"), fmt.Appendf(nil, "small%d", rng.IntN(10)), fmt.Appendf(nil, "small%d", rng.IntN(smallKeys))}[rng.IntN(7)]
		switch {
		case n%3000 == 1000:
			l.change(tx, 0, nil, func() { tx.FlushDB(3) })
			continue
		case n%3000 == 2000:
			l.change(tx, 0, nil, func() { tx.SwapDB(1, 2) })
			continue
		}
		l.change(tx, rng.IntN(loadedDBs), [][]byte{key}, func() {
			if key[0] != 's' || key[1] != 'm' {
				tx.Select(0)
			}
			switch string(key) {
			case "hash":
				_, _ = tx.HSet(key, elem, elem)
				switch rng.IntN(4) {
				case 0, 1:
					_, _ = tx.HDel(key, elem)
				case 2:
					_ = tx.HExpireAt(key, tx.NowMs()+rng.Int64N(100), [][]byte{elem}, nil, nil)
				}
			case "set":
				if _, _ = tx.SAdd(key, elem); rng.IntN(2) == 0 {
					_, _ = tx.SRem(key, elem)
				}
			case "list":
				if _, _ = tx.PushLeft(key, elem); rng.IntN(2) == 0 {
					_, _ = tx.LSet(key, -1-rng.IntN(100), elem)
					_, _ = tx.PopRight(key, 1, nil)
				}
			case "zset":
				if _, _, _ = tx.ZAddIf(key, 0, []shard.Scored{{Member: elem, Score: rng.Float64()}}); rng.IntN(2) == 0 {
					_, _ = tx.ZRem(key, elem)
				}
			case "xstream":
				s, _ := tx.Stream(key)
				id := shard.StreamID{Ms: 1 + rng.Uint64N(s.LastID().Ms)}
				switch rng.IntN(4) {
				case 0:
					_, _ = tx.XDel(key, []shard.StreamID{id})
				case 1:
					_, _ = tx.XClaim(key, []byte("g"), shard.Claim{Consumer: elem[:8], DeliveredMs: 2, Count: 2}, id)
				case 2:
					_, _ = tx.XAck(key, []byte("g"), []shard.StreamID{id})
				default:
					_ = tx.XAdd(key, shard.StreamID{Ms: s.LastID().Ms + 1}, []byte("name"), elem)
				}
			default:
				switch rng.IntN(5) {
				case 0:
					tx.Del(key)
				case 1:
					tx.ExpireAt(key, tx.NowMs()+rng.Int64N(100))
				case 2:
					if kind, ok := tx.Kind(key); !ok || kind == shard.KindString {
						_ = tx.SetRange(key, rng.IntN(30), elem)
					}
				default:
					tx.Set(key, elem, []int64{0, shard.KeepTTL, tx.NowMs() + 50}[rng.IntN(3)])
				}
			}
		})
	}
}

// cutNow takes a cut as a rewrite does, with the digest of what it must hold, and
// returns how long the store stood still for the cut.
func (l *loaded) cutNow() (lsn uint64, snap *shard.Snapshot, want shard.Digest, took time.Duration) {
	l.e.set.Lock(l.e.all)
	defer l.e.set.Unlock(l.e.all)
	locked := time.Now()
	lsn, err := l.e.log.Cut()
	if err != nil {
		l.t.Fatal(err)
	}
	snap = l.e.set.Freeze()
	took = time.Since(locked)
	return lsn, snap, l.e.set.Digest(), took
}

// baseDigest opens a store from the newest base alone.
func (l *loaded) baseDigest() (d shard.Digest, keys int) {
	l.t.Helper()
	var base string
	for _, line := range strings.Split(readAll(l.t, l.fs, "data/appendonlydir/appendonly.aof.manifest"), "\n") {
		if strings.HasSuffix(line, "type b") {
			base = strings.Fields(line)[1]
		}
	}
	if base == "" {
		l.t.Fatal("there is no base")
	}
	alone := vfs.NewMem()
	if err := alone.MkdirAll("data/appendonlydir"); err != nil {
		l.t.Fatal(err)
	}
	for name, text := range map[string]string{
		base: readAll(l.t, l.fs, "data/appendonlydir/"+base), "appendonly.aof.manifest": fmt.Sprintf("file %s seq 1 type b\n", base),
	} {
		if err := vfs.WriteFileAtomic(alone, "data/appendonlydir/"+name, []byte(text)); err != nil {
			l.t.Fatal(err)
		}
	}
	e, err := Open(Options{FS: alone, Dir: "data", Shards: 8, DBs: loadedDBs})
	if err != nil {
		l.t.Fatal(err)
	}
	e.PauseExpiry(true)
	defer func() { _ = e.Close() }()
	return digestOf(e), e.report.Keys
}

func readAll(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	return string(b)
}

// TestRewriteUnderLoad: while everything changes, a base holds exactly what was
// there at its cut; the cut takes no time that anyone notices; and the memory of
// what was copied meanwhile comes back.
func TestRewriteUnderLoad(t *testing.T) {
	smallKeys, elements, rounds := 20_000, 10_000, 4
	if testing.Short() {
		smallKeys, elements, rounds = 2_000, 1_000, 2
	}
	seed := crashSeed(t)
	mem := vfs.NewMem()
	l := openLoaded(t, mem, "data", smallKeys, elements)
	for i := range 2 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		l.wg.Go(func() { l.write(rng, smallKeys, elements) })
	}
	var stops []time.Duration
	for round := range rounds {
		time.Sleep(30 * time.Millisecond)
		cut, snap, want, took := l.cutNow()
		stops = append(stops, took)
		before := l.writes.Load()
		if err := l.e.rewriteFrom(cut, snap); err != nil {
			t.Fatal(err)
		}
		during := l.writes.Load() - before
		got, keys := l.baseDigest()
		if got != want {
			t.Errorf("round %d: the base of %d keys is not what was there at its cut", round, keys)
		}
		if during == 0 {
			t.Errorf("round %d: nothing was written meanwhile", round)
		}
	}
	// The cut alone, many times.
	for range 200 {
		start := time.Now()
		_, snap, err := l.e.cut()
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, time.Since(start))
		snap.Release()
	}
	close(l.stop)
	l.wg.Wait()
	l.e.PauseExpiry(true)
	time.Sleep(2 * expireEvery)
	slices.Sort(stops)
	t.Logf("%d writes; a cut takes %v in the middle, %v at the 99th percentile, %v at most", l.writes.Load(), stops[len(stops)/2], stops[len(stops)*99/100], stops[len(stops)-1])
	if middle := stops[len(stops)/2]; middle > 20*time.Millisecond {
		t.Errorf("a cut takes %v", middle)
	}
	want := digestOf(l.e)
	if err := l.e.Close(); err != nil {
		t.Fatal(err)
	}
	if open := mem.OpenFiles(); len(open) > 0 {
		t.Errorf("files are still open: %v", open)
	}
	e, err := Open(Options{FS: l.fs, Dir: "data", Shards: 8, DBs: loadedDBs})
	if err != nil {
		t.Fatal(err)
	}
	e.PauseExpiry(true)
	if digestOf(e) != want {
		t.Error("what the store held is not what is found")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRewriteGivesMemoryBack: what writers copied while a base was written is
// garbage once it is, and they copy no longer.
func TestRewriteGivesMemoryBack(t *testing.T) {
	l := openLoaded(t, vfs.OS(), t.TempDir(), 20_000, 20_000)
	defer func() { _ = l.e.Close() }()
	heap := func() uint64 {
		// What is not written yet is in memory for that reason.
		if err := l.e.log.Sync(); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	touchAll := func() {
		tx := l.e.NewTx()
		for i := range 20_000 {
			key := fmt.Appendf(nil, "small%d", i)
			l.change(tx, i%loadedDBs, [][]byte{key}, func() { tx.Set(key, bytes.Repeat([]byte("x"), len(key)), 0) })
			hash, elem := []byte("hash"), fmt.Appendf(nil, "element%d", i)
			l.change(tx, 0, [][]byte{hash}, func() { _, _ = tx.HSet(hash, elem, elem) })
		}
	}
	touchAll()
	if err := l.e.Rewrite(); err != nil {
		t.Fatal(err)
	}
	before := heap()
	cut, snap, err := l.e.cut()
	if err != nil {
		t.Fatal(err)
	}
	touchAll()
	during := heap()
	if err := l.e.rewriteFrom(cut, snap); err != nil {
		t.Fatal(err)
	}
	touchAll()
	after := heap()
	t.Logf("%d KiB before, %d while the snapshot is held, %d after", before>>10, during>>10, after>>10)
	if during < before+before/20 {
		t.Error("the snapshot costs nothing: is it one?")
	}
	if after > before+(during-before)/2 {
		t.Error("the memory of the copies does not come back")
	}
	tx := l.e.NewTx()
	key := []byte("small1")
	held := []int{l.e.set.ShardOf(key)}
	if n := testing.AllocsPerRun(100, func() {
		l.e.set.Lock(held)
		tx.Begin(held, 1, l.e.NowMs())
		tx.Set(key, []byte("y"), 0)
		l.e.Commit(tx)
		tx.End()
		l.e.set.Unlock(held)
	}); n >= 1 {
		t.Errorf("a write still copies: %v allocations", n)
	}
}

// TestRewriteFaults makes every call of a rewrite on the file system fail in
// turn: the store goes on, the next rewrite succeeds, and no file is left over or
// open.
func TestRewriteFaults(t *testing.T) {
	failures := 0
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpSyncDir, vfs.OpTruncate, vfs.OpRemove, vfs.OpClose} {
		for after := 0; ; after++ {
			var again, failed bool
			synctest.Test(t, func(t *testing.T) { again, failed = rewriteWithFault(t, op, after) })
			if t.Failed() {
				t.Fatalf("%v fails after %d", op, after)
			}
			if failed {
				failures++
			}
			if !again {
				break
			}
		}
	}
	t.Logf("%d rewrites failed", failures)
	if failures < 15 {
		t.Error("too few rewrites failed")
	}
}

// rewriteWithFault reports whether the fault happened, and whether it made the
// rewrite fail.
func rewriteWithFault(t *testing.T, op vfs.Op, after int) (happened, failed bool) {
	fs := vfs.NewMem()
	e, err := Open(Options{FS: fs, Dir: "data", Shards: 2, DBs: 2, Fsync: aof.PolicyNo, FeedMemoryBytes: 1, FeedDiskBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	e.PauseExpiry(true)
	tx := e.NewTx()
	set := func(key string) uint64 {
		e.set.Lock(e.all)
		defer e.set.Unlock(e.all)
		tx.Begin(e.all, 0, e.NowMs())
		defer tx.End()
		tx.Set([]byte(key), bytes.Repeat([]byte(key), 100), 0)
		tx.FlushAll()
		tx.Set([]byte(key), bytes.Repeat([]byte(key), 100), 0)
		return e.Commit(tx)
	}
	set("a")
	if err := e.Rewrite(); err != nil {
		t.Fatal(err)
	}
	set("b")
	openBefore := fs.OpenFiles()
	fs.Trace(true)
	heal := fs.Inject(vfs.Fault{Op: op, After: after, Times: 1})
	err = e.Rewrite()
	heal()
	failed = err != nil
	for _, r := range fs.Ops() {
		happened = happened || r.Op == op && r.Err != nil
	}
	if failed && !happened {
		t.Fatalf("rewrite: %v", err)
	}
	if e.log.Err() != nil && errors.Is(e.log.Err(), aof.ErrFailed) {
		_ = e.Close()
		if open := fs.OpenFiles(); len(open) > 0 {
			t.Errorf("files are still open: %v", open)
		}
		return happened, failed
	}
	if failed {
		// What a failed rewrite leaves must not pile up.
		var bases, temps int
		for name := range snapshot(fs) {
			if strings.HasSuffix(name, ".base.aof") {
				bases++
			}
			if strings.Contains(name, "temp-") {
				temps++
			}
		}
		if op != vfs.OpRemove && (bases > 1 && op != vfs.OpSyncDir || temps > 0) {
			t.Errorf("%v leaves %d bases and %d unfinished ones", err, bases, temps)
		}
	}
	time.Sleep(110 * time.Millisecond) // a log that could not be written tries again
	lsn := set("c")
	if err := e.Wait(lsn); err != nil {
		t.Errorf("the log does not go on: %v", err)
	}
	if err := e.Rewrite(); err != nil {
		t.Errorf("the rewrite after it: %v", err)
	}
	e.tend()
	if open := fs.OpenFiles(); len(open) > len(openBefore)+1 {
		t.Errorf("files are open: %v, before %v", open, openBefore)
	}
	listed := readAll(t, fs, "data/appendonlydir/appendonly.aof.manifest")
	for name := range snapshot(fs) {
		if base := filepath.Base(name); strings.Contains(name, "/appendonlydir/") && !strings.Contains(listed, base) && base != "appendonly.aof.manifest" {
			if op == vfs.OpRemove {
				continue // the next start removes it
			}
			t.Errorf("%s is left over; the manifest lists\n%s", name, listed)
		}
	}
	want := digestOf(e)
	left := fs.Kill()
	e.beginClose()
	close(e.stop)
	e.background.Wait()
	e.abandon()
	if e, err = Open(Options{FS: left, Dir: "data", Shards: 2, DBs: 2}); err != nil {
		t.Fatal(err)
	}
	if digestOf(e) != want {
		t.Error("another keyspace is found after a kill")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return happened, failed
}

// TestRewriteRule: the log is rewritten by itself once it has grown over the base
// by the percentage and to the size of the rule, one rewrite at a time, and after
// a failure not before its time.
func TestRewriteRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		opt := small(fs)
		opt.Rewrite = RewriteRule{Percentage: 100, MinBytes: 20_000}
		e := mustOpen(t, opt)
		grow := func(bytes int) {
			for i := 0; i < bytes; i += 1000 {
				set(t, e, fmt.Sprint("k", i), strings.Repeat("v", 1000))
			}
		}
		rewrites := func() int64 {
			time.Sleep(3 * tendEvery)
			synctest.Wait()
			return e.RewriteStatus().Count
		}
		grow(10_000)
		if n := rewrites(); n != 0 {
			t.Fatalf("%d rewrites of a small log", n)
		}
		grow(20_000)
		if n := rewrites(); n != 1 {
			t.Fatalf("%d rewrites once it is due", n)
		}
		grow(10_000)
		if n := rewrites(); n != 1 {
			t.Fatalf("%d rewrites before the log has doubled", n)
		}
		e.SetRewriteRule(RewriteRule{})
		grow(100_000)
		if n := rewrites(); n != 1 {
			t.Fatalf("%d rewrites, and there is to be none", n)
		}
		heal := fs.Inject(vfs.Fault{Op: vfs.OpCreate, Glob: "temp-*"})
		e.SetRewriteRule(RewriteRule{Percentage: 100, MinBytes: 20_000})
		if n, st := rewrites(), e.RewriteStatus(); n != 2 || st.Failures != 1 || st.LastErr == nil {
			t.Fatalf("%d rewrites, %+v", n, st)
		}
		heal()
		if n := rewrites(); n != 2 {
			t.Fatalf("a rewrite that failed is tried again after %v", 6*tendEvery)
		}
		time.Sleep(retryRewriteAfter)
		if n, st := rewrites(), e.RewriteStatus(); n != 3 || st.Failures != 0 || st.LastErr != nil || st.Running {
			t.Fatalf("%d rewrites, %+v", n, st)
		}
		mustClose(t, e)
		for name, err := range map[string]error{"Rewrite": e.Rewrite(), "StartRewrite": e.StartRewrite()} {
			if !errors.Is(err, errClosing) {
				t.Errorf("%s of a closed store: %v", name, err)
			}
		}
		if err := e.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	})
}

// TestCloseDuringRewrites: Close waits for a rewrite whoever began it, which then
// stops or is done; what it leaves opens as if nothing had been.
func TestCloseDuringRewrites(t *testing.T) {
	fs := vfs.NewMem()
	for round := range 30 {
		e := mustOpen(t, small(fs))
		set(t, e, "k", fmt.Sprint(round))
		for i := range 300 {
			set(t, e, fmt.Sprint("k", i), "v")
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					err := e.Rewrite()
					if errors.Is(err, errClosing) {
						return
					}
					if err != nil && !errors.Is(err, ErrRewriting) {
						t.Errorf("rewrite: %v", err)
						return
					}
					_ = e.StartRewrite()
				}
			})
		}
		time.Sleep(time.Duration(round) * 200 * time.Microsecond)
		want := digestOf(e)
		mustClose(t, e)
		wg.Wait()
		if open := fs.OpenFiles(); len(open) > 0 {
			t.Fatalf("files are still open: %v", open)
		}
		e = mustOpen(t, small(fs))
		if digestOf(e) != want || !e.report.Resumed || e.report.Verdict() != "whole" {
			t.Fatalf("round %d: %s, resumed %v (%s)", round, e.report.Verdict(), e.report.Resumed, e.report.Reason)
		}
		mustClose(t, e)
	}
}
