package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kevy/feed"
	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/persist"
	"kevy/shard"
)

// filled returns a store with so many keys of 1,000 bytes.
func filled(t *testing.T, opt Options, keys int) *written {
	w := openWritten(t, opt)
	tx := w.e.NewTx()
	for i := range keys {
		key := fmt.Appendf(nil, "filled%d", i)
		w.change([]int{w.e.set.ShardOf(key)}, tx, 0, func() { tx.Set(key, bytes.Repeat([]byte{'x'}, 1000), 0) })
	}
	return w
}

// readOn reads a snapshot to its end or its error, and returns how many ops there
// were.
func readOn(r *feed.SnapshotReader) (ops int, err error) {
	var p feed.SnapshotMessage
	for {
		ok, err := r.Next(context.Background(), &feed.SnapshotRequest{}, &p)
		if err != nil || !ok {
			return ops, err
		}
		ops += p.Ops
	}
}

func spools(t *testing.T, fs vfs.FS, dir string) (names []string) {
	infos, err := fs.List(filepath.Join(dir, "feed"))
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if strings.HasSuffix(info.Name, ".spool") {
			names = append(names, info.Name)
		}
	}
	return names
}

// TestSnapshotOfOverdue: what is overdue and has not gone belongs to the state,
// and goes by a frame.
func TestSnapshotOfOverdue(t *testing.T) {
	var clock int64 = 1_000_000
	var mu sync.Mutex
	now := func() int64 { mu.Lock(); defer mu.Unlock(); return clock }
	w := openWritten(t, Options{NowMs: now})
	defer w.close()
	w.e.PauseExpiry(true)
	tx := w.e.NewTx()
	key, hash := []byte("key"), []byte("hash")
	w.change(w.e.all, tx, 1, func() {
		tx.Set(key, []byte("v"), clock+100)
		_, _ = tx.HSet(hash, []byte("f"), []byte("v"), []byte("g"), []byte("w"))
		_ = tx.HExpireAt(hash, clock+100, [][]byte{[]byte("g")}, nil, nil)
	})
	mu.Lock()
	clock += 1000
	mu.Unlock()
	m := w.mirror(crashShards, nil)
	r := m.snapshot(-1)
	defer r.Close()
	if _, want := w.now(); m.digest(every) != want {
		t.Error("what is overdue is not as it is in the store")
	}
	w.change(w.e.all, tx, 1, func() {
		if n := tx.ExpireDue(10); n != 2 {
			t.Errorf("%d are overdue", n)
		}
	})
	tails, want := w.now()
	m.follow(tails[crashShards])
	if m.digest(every) != want {
		t.Error("what has expired is not gone")
	}
}

// TestSnapshotOfLargeValues: the ops of a large value go on in the next message,
// and no message has more than one op needs.
func TestSnapshotOfLargeValues(t *testing.T) {
	w := openWritten(t, Options{})
	defer w.close()
	tx := w.e.NewTx()
	big := bytes.Repeat([]byte{'x'}, 3<<20)
	w.change(w.e.all, tx, 0, func() {
		tx.Set([]byte("string"), big, 0)
		for i := range 20_000 {
			elem := fmt.Appendf(nil, "element-%020d", i)
			_, _ = tx.PushRight([]byte("list"), elem)
			_, _ = tx.HSet([]byte("hash"), elem, elem)
			_, _ = tx.SAdd([]byte("set"), elem)
			_, _ = tx.ZAdd([]byte("zset"), shard.Scored{Member: elem, Score: float64(i)})
			_ = tx.XAdd([]byte("stream"), shard.StreamID{Ms: uint64(i + 1)}, []byte("f"), elem)
			if i%10 == 0 {
				_ = tx.HExpireAt([]byte("hash"), 4e12+int64(i), [][]byte{elem}, nil, nil)
			}
		}
		_, _ = tx.XGroupCreate([]byte("stream"), []byte("g"), shard.StreamID{}, 0, false)
		tx.ExpireAt([]byte("list"), 4e12)
	})
	m := w.mirror(crashShards, nil)
	r, err := w.e.source.Snapshot(crashShards, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	messages := map[string]int{}
	last := ""
	for {
		var p feed.SnapshotMessage
		ok, err := r.Next(context.Background(), &feed.SnapshotRequest{}, &p)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		m.apply(p.Raw, p.DB, p.Ops)
		var sc op.Scanner
		sc.Reset(p.Raw, p.DB)
		size := 0
		for range p.Ops {
			f, err := sc.Next()
			if err != nil {
				t.Fatal(err)
			}
			if size >= snapshotPartBytes {
				t.Errorf("message %d goes on behind %d bytes", p.N, size)
			}
			size += len(f.Raw)
			key := string(f.Key())
			if key != last && messages[key] > 0 {
				t.Errorf("%s goes on in message %d behind another key", key, p.N)
			}
			last = key
		}
		messages[last]++
	}
	for _, key := range []string{"list", "hash", "set", "zset", "stream"} {
		if messages[key] < 5 {
			t.Errorf("%s is in %d messages", key, messages[key])
		}
	}
	if _, want := w.now(); m.digest(every) != want {
		t.Error("the messages do not rebuild the store")
	}
}

// TestSnapshotOnFullDisk: a snapshot that finds no room ends, and writes do not
// notice.
func TestSnapshotOnFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	w := filled(t, Options{FS: mem, FeedMemoryBytes: 1 << 20}, 5000)
	defer w.close()
	w.write(2, 1)
	for _, free := range []int64{persist.SpoolReserveBytes - 1, persist.SpoolReserveBytes + 2<<20} {
		before := w.e.log.Last()
		mem.SetQuota(mem.Used() + free)
		r, err := w.e.source.Snapshot(crashShards, nil)
		if err != nil {
			t.Fatal(err)
		}
		ops, err := readOn(r)
		if !errors.Is(err, persist.ErrSpoolFull) || ops > 4000 {
			t.Errorf("with %d bytes free there are %d ops, and then %v", free, ops, err)
		}
		r.Close()
		if names := spools(t, mem, "/data"); len(names) > 0 {
			t.Errorf("it leaves %v", names)
		}
		if err := w.e.LogErr(); err != nil {
			t.Errorf("the log suffers: %v", err)
		}
		mem.SetQuota(-1)
		for deadline := time.Now().Add(10 * time.Second); w.e.log.Last() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nothing is written any more")
			}
		}
	}
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpRead} {
		remove := mem.Inject(vfs.Fault{Op: op, Glob: "*.spool", After: 3, Err: syscall.EIO})
		r, err := w.e.source.Snapshot(crashShards, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readOn(r); !errors.Is(err, syscall.EIO) {
			t.Errorf("a disk that fails: %v", err)
		}
		r.Close()
		remove()
		if err := w.e.LogErr(); err != nil {
			t.Errorf("the log suffers: %v", err)
		}
	}
	m := w.mirror(crashShards, nil)
	defer m.snapshot(-1).Close()
	tails, want := w.now()
	m.follow(tails[crashShards])
	if m.digest(every) != want {
		t.Error("the next snapshot is not what the store has")
	}
}

// TestSnapshotLimits: a snapshot ends at the limits that the options set.
func TestSnapshotLimits(t *testing.T) {
	for _, noFile := range []bool{false, true} {
		w := filled(t, Options{NoFile: noFile, SnapshotMaxBytes: 1 << 20, SnapshotLogBytes: 1 << 20, FeedMemoryBytes: 1 << 20}, 5000)
		r, err := w.e.source.Snapshot(crashShards, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readOn(r); !errors.Is(err, persist.ErrSpoolFull) {
			t.Errorf("NoFile=%v: a large file: %v", noFile, err)
		}
		r.Close()
		tx := w.e.NewTx()
		w.change(w.e.all, tx, 0, func() { tx.FlushAll() })
		r, err = w.e.source.Snapshot(crashShards, nil)
		if err == nil {
			err = r.Wait(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		w.write(2, 1)
		var cost *feed.SnapshotCostError
		for deadline := time.Now().Add(20 * time.Second); err == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it does not end")
			}
			w.e.source.Tend(w.e.NowMs())
			var again *feed.SnapshotReader
			if again, err = w.e.source.ResumeSnapshot(crashShards, nil, []byte(r.Token()), 0); err == nil {
				again.Close()
			}
		}
		if !errors.Is(err, feed.ErrNoSnapshot) {
			t.Fatal(err)
		}
		if _, err := readOn(r); !errors.As(err, &cost) || cost.Bytes < 1<<20 || cost.Limit != 1<<20 {
			t.Errorf("NoFile=%v: much log: %v", noFile, err)
		}
		r.Close()
		w.close()
	}
}

// TestSnapshotAndTheEnd: closing and crashing in the middle of a snapshot leaves
// nothing behind.
func TestSnapshotAndTheEnd(t *testing.T) {
	mem := vfs.NewMem()
	w := filled(t, Options{FS: mem}, 5000)
	var wg sync.WaitGroup
	start := func(w *written) {
		for range 3 {
			r, err := w.e.source.Snapshot(crashShards, nil)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				defer r.Close()
				if _, err := readOn(r); err != nil && !errors.Is(err, feed.ErrClosed) && !errors.Is(err, errClosing) && !errors.Is(err, vfs.ErrDead) {
					t.Errorf("at the end a reader gets %v", err)
				}
			})
		}
	}
	start(w)
	w.close()
	wg.Wait()
	if names := spools(t, mem, "/data"); len(names) > 0 || len(mem.OpenFiles()) > 0 {
		t.Errorf("a close leaves %v, open are %v", names, mem.OpenFiles())
	}
	rng := rand.New(rand.NewPCG(1, 1))
	found := 0
	for range 30 {
		w = openWritten(t, Options{FS: mem})
		if names := spools(t, mem, "/data"); len(names) > 0 {
			t.Fatalf("a start leaves %v", names)
		}
		if n := w.e.Keys(); n != 5000 {
			t.Fatalf("there are %d keys", n)
		}
		mem.DieAfter(rng.IntN(20), rng.IntN(1000))
		start(w)
		wg.Wait()
		_ = w.e.Close()
		mem = mem.Kill()
		found += len(spools(t, mem, "/data"))
	}
	if found == 0 {
		t.Error("no crash was in the middle of a snapshot")
	}
}

// TestSnapshotWithoutDirectory: the file of a store without files has no name,
// and goes with its descriptor.
func TestSnapshotWithoutDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	w := filled(t, Options{FS: vfs.OS(), NoFile: true}, 5000)
	r, err := w.e.source.Snapshot(crashShards, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ops, err := readOn(r); ops != 5000 || err != nil {
		t.Errorf("there are %d ops, %v", ops, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("in the directory there are %v %v", entries, err)
	}
	open := func() (n int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc")
		}
		for _, fd := range fds {
			if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, dir) {
				n++
			}
		}
		return n
	}
	if open() != 1 {
		t.Errorf("%d files are open", open())
	}
	r.Close()
	w.close()
	if open() != 0 {
		t.Errorf("after a close %d files are open", open())
	}
}

// TestSnapshotCopies: while a snapshot is written, writers copy what they change,
// once, however often that is, and give it up as the writing goes on.
func TestSnapshotCopies(t *testing.T) {
	const keys = 100_000
	e, err := Open(Options{FS: vfs.NewMem(), Dir: "/data", Shards: crashShards, DBs: crashDBs, NoFile: true, FeedMemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w := &written{t: t, e: e, stop: make(chan struct{})}
	defer w.close()
	tx := e.NewTx()
	overwrite := func() {
		for i := range keys {
			key := fmt.Appendf(nil, "key%08d", i)
			w.change([]int{e.set.ShardOf(key)}, tx, 0, func() { tx.Set(key, bytes.Repeat(key, 10), 0) })
		}
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	empty := heap()
	overwrite()
	store := heap() - empty
	frozen, err := freezer{e}.Freeze(func() {})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		overwrite()
	}
	if copies := heap() - empty - store; copies > store*5/4 || copies < store/2 {
		t.Errorf("of a store of %d bytes %d are copied", store, copies)
	}
	ops := 0
	if err := frozen.Write(func(_, _, n int, _ []byte) error {
		if ops += n; ops-n < keys*3/4 && ops >= keys*3/4 {
			if copies := heap() - empty - store; copies > store/2 {
				t.Errorf("with three quarters written %d bytes of copies are left of %d", copies, store)
			}
		}
		return nil
	}); err != nil || ops != keys {
		t.Errorf("%d ops are written, %v", ops, err)
	}
	if copies := heap() - empty - store; copies > store/5 {
		t.Errorf("once it is written %d bytes of copies stay", copies)
	}
	runtime.KeepAlive(frozen)
}

// TestDurableSnapshotOverPowerCuts: who began with a DURABLE snapshot goes on
// behind its cut whatever a power cut takes.
func TestDurableSnapshotOverPowerCuts(t *testing.T) {
	seed := crashSeed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	mem := vfs.NewMem()
	var m *mirror
	waited := 0
	for range 8 {
		w := openWritten(t, Options{FS: mem, FeedMemoryBytes: 1 << 20, FeedDiskBytes: 1 << 20})
		if m != nil {
			tails, want := w.now()
			m.source = w.e.source
			m.follow(tails[crashShards])
			if m.digest(every) != want {
				t.Fatal("over a power cut the mirror has not what the store has")
			}
		}
		if err := w.e.Rewrite(); err != nil { // or each start has all logs to read
			t.Fatal(err)
		}
		w.write(2, rng.Uint64())
		time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
		pause := time.Duration(rng.IntN(10)) * time.Millisecond
		w.wg.Go(func() {
			time.Sleep(pause)
			if err := w.e.log.Sync(); err != nil && !w.dying.Load() {
				t.Error(err)
			}
		})
		m = w.mirror(crashShards, nil)
		r, err := w.e.source.Snapshot(crashShards, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		if w.e.log.Durable() < r.LSN() {
			waited++
		}
		for ok := true; ok; {
			var p feed.SnapshotMessage
			if ok, err = r.Next(context.Background(), &feed.SnapshotRequest{Durable: true}, &p); err != nil {
				t.Fatal(err)
			}
			m.apply(p.Raw, p.DB, p.Ops)
		}
		m.at = r.Cursor()
		if durable := w.e.log.Durable(); durable < r.LSN() {
			t.Errorf("the cut at LSN %d was read, and LSN %d is fsynced", r.LSN(), durable)
		}
		w.dying.Store(true)
		after := mem.PowerCut(rng)
		r.Close()
		w.quiet()
		_ = w.e.Close() // on a dead disk
		mem = after
	}
	if waited < 2 {
		t.Errorf("%d cuts of 8 were not fsynced yet", waited)
	}
}
