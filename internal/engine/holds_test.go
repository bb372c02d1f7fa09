package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/vfs"
	"kevy/persist"
	"kevy/shard"
)

// heldHistory is a random history of a store that keeps nothing for readers but
// what they hold.
type heldHistory struct {
	t      *testing.T
	rng    *rand.Rand
	fs     *vfs.Mem
	e      *Engine
	tx     *shard.Tx
	policy aof.Policy
	cap    int64
	nowMs  atomic.Int64

	consumers []*holder
	frames    map[frameID]string
	steps     []string
	dies      bool // the file system may be dead
	tally     heldTally
}

type heldTally struct{ crashes, closes, frames, sets, lost, capped, durable, let int }

// holder is a consumer with a hold.
type holder struct {
	name    string
	stream  int
	durable bool
	epoch   uint64
	at      feed.Cursor // what it has read
	set     feed.Cursor // what it was told to be held, zero if nothing is
	onDisk  feed.Cursor // what the file certainly has, zero if nothing
	unsure  bool        // a change of the file failed
}

// TestHoldsOverCrashes kills stores and cuts their power while consumers move
// their holds, at any step. What was held before is held after; a DURABLE
// consumer never has to begin anew, though nothing is retained, and one that
// reads what is not fsynced only where frames were lost.
func TestHoldsOverCrashes(t *testing.T) {
	seed, schedules := crashSeed(t), crashSchedules(t, 300)
	var sum heldTally
	for i := range schedules {
		h := &heldHistory{t: t, rng: rand.New(rand.NewPCG(seed, uint64(i))), fs: vfs.NewMem(), frames: map[frameID]string{}}
		h.nowMs.Store(1_700_000_000_000)
		h.policy = aof.Policy(h.rng.IntN(3))
		h.cap = 1 << 40
		if h.rng.IntN(5) == 0 {
			h.cap = 4 << 10
		}
		h.run()
		if t.Failed() {
			t.Fatalf("schedule %d of KEVY_SEED=%d, policy %v, cap %d:\n%s", i, seed, h.policy, h.cap, strings.Join(h.steps, "\n"))
		}
		sum.crashes += h.tally.crashes
		sum.closes += h.tally.closes
		sum.frames += h.tally.frames
		sum.sets += h.tally.sets
		sum.lost += h.tally.lost
		sum.capped += h.tally.capped
		sum.durable += h.tally.durable
		sum.let += h.tally.let
	}
	t.Logf("%+v", sum)
	if schedules >= 60 && (sum.crashes < schedules || sum.lost == 0 || sum.capped == 0 || sum.durable < schedules || sum.let == 0) {
		t.Errorf("too little happened: %+v", sum)
	}
}

func (h *heldHistory) step(format string, a ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, a...))
}

func (h *heldHistory) open() bool {
	e, err := Open(Options{
		FS: h.fs, Dir: "data", Shards: crashShards, DBs: 1, Fsync: h.policy, FeedMemoryBytes: 1, FeedDiskBytes: 0, FeedHoldBytes: h.cap,
		SegmentBytes: int64(1+h.rng.IntN(4)) << 10, NowMs: h.nowMs.Load, tuneLog: func(o *aof.Options) { o.BlockBytes = 512 },
	})
	if err != nil {
		h.t.Errorf("open: %v", err)
		return false
	}
	e.PauseExpiry(true)
	h.e, h.tx, h.dies = e, e.NewTx(), false
	return true
}

func (h *heldHistory) run() {
	if !h.open() {
		return
	}
	for i := range 4 {
		c := &holder{name: fmt.Sprint("c", i), stream: h.rng.IntN(crashShards + 1), durable: i%2 == 0, epoch: 1}
		c.at = h.e.source.Tail(c.stream)
		h.consumers = append(h.consumers, c)
	}
	for range 2 + h.rng.IntN(4) {
		if h.rng.IntN(3) == 0 {
			h.dies = true
			h.fs.DieAfter(h.rng.IntN(60), h.rng.IntN(300))
		}
		for range 10 + h.rng.IntN(60) {
			h.nowMs.Add(int64(h.rng.IntN(400)))
			if !h.act() {
				break
			}
		}
		h.end()
		if h.t.Failed() {
			return
		}
	}
	h.step("close at the end")
	if err := h.e.Close(); err != nil {
		h.t.Errorf("close: %v", err)
	}
}

// ok reports whether a step succeeded; one may fail once the file system dies.
func (h *heldHistory) ok(what string, err error) bool {
	if err != nil && !h.dies {
		h.t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

// act does one random thing, and returns false when the store is at its end.
func (h *heldHistory) act() bool {
	if h.t.Failed() || h.e.LogErr() != nil {
		return false
	}
	switch n := h.rng.IntN(100); {
	case n < 45:
		h.commit()
	case n < 53:
		return h.ok("wait", h.e.Wait(h.e.log.Last()))
	case n < 59:
		return h.ok("sync", h.e.log.Sync())
	case n < 64:
		return h.ok("rewrite", h.e.Rewrite())
	case n < 72:
		h.step("tend")
		oldest := h.e.log.OldestLSN()
		h.e.tend()
		if h.e.log.OldestLSN() > oldest {
			h.tally.let++
		}
		if !h.dies {
			for _, c := range h.consumers {
				c.onDisk = c.set
			}
		}
		h.noteBroken()
	case n < 90:
		h.read(h.consumers[h.rng.IntN(len(h.consumers))], 1+h.rng.IntN(15))
	default:
		h.set(h.consumers[h.rng.IntN(len(h.consumers))])
	}
	return true
}

func (h *heldHistory) commit() {
	h.e.set.Lock(h.e.all)
	h.tx.Begin(h.e.all, 0, h.nowMs.Load())
	for range 1 + h.rng.IntN(4) {
		if h.rng.IntN(60) == 0 {
			h.tx.FlushAll()
			continue
		}
		h.tx.Set(fmt.Appendf(nil, "key%d", h.rng.IntN(12)), bytes.Repeat([]byte("v"), h.rng.IntN(200)), 0)
	}
	h.step("commit %d", h.e.Commit(h.tx))
	h.tx.End()
	h.e.set.Unlock(h.e.all)
}

// read lets a consumer go on.
func (h *heldHistory) read(c *holder, count int) (caughtUp bool) {
	var b feed.Batch
	defer b.Release()
	err := h.e.source.Since(context.Background(), &feed.Request{Stream: c.stream, Cursor: c.at, Count: count, Durable: c.durable}, &b)
	var resync *feed.ResyncError
	switch {
	case errors.As(err, &resync):
		// Nothing but its hold keeps the log for it.
		info := h.info(c)
		held := info != nil && info.Broken != persist.BrokenSize
		if held && (c.durable || !lostFrames(resync.Reason)) {
			h.t.Errorf("%s, durable %v, holds %v and has to begin anew at %v: %v", c.name, c.durable, c.set, c.at, err)
		}
		h.anew(c)
		return true
	case err != nil:
		h.ok("read", err)
		return true
	}
	next := c.at.Offset
	h.ok("frames", b.Each(func(f *feed.Frame) error {
		if f.Offset != next {
			h.t.Errorf("%s at %v: frame %d follows %d", c.name, c.at, f.Offset, next)
		}
		next++
		id := frameID{c.stream, c.at.Generation, f.Offset}
		text := fmt.Sprintf("lsn %d %q", f.LSN, f.Raw)
		if seen, ok := h.frames[id]; ok && seen != text {
			h.t.Errorf("%+v names two frames: %s and %s", id, seen, text)
		}
		h.frames[id] = text
		h.tally.frames++
		if c.durable {
			h.tally.durable++
		}
		return nil
	}))
	at := feed.Cursor{Generation: b.Generation, Offset: b.Next}
	caughtUp = at == c.at
	c.at = at
	return caughtUp
}

// lostFrames reports whether a reason may be that of a reader who saw what a crash
// took: frames, or the FLUSHALL that began its generation.
func lostFrames(reason string) bool {
	return reason == feed.ReasonLost || reason == feed.ReasonGeneration
}

// anew gives up a hold and begins at the tail.
func (h *heldHistory) anew(c *holder) {
	if _, err := h.e.source.Holds().Del(c.name, -1); !h.ok("del", err) {
		c.unsure = true
	}
	c.at, c.set, c.onDisk = h.tail(c), feed.Cursor{}, feed.Cursor{}
}

// tail is where a consumer may begin: one that reads what is fsynced must not
// begin behind what is not.
func (h *heldHistory) tail(c *holder) feed.Cursor {
	if !c.durable {
		return h.e.source.Tail(c.stream)
	}
	info, err := h.e.source.Info(c.stream)
	if !h.ok("info", err) {
		return c.at // of a dead store; it is asked again
	}
	return info.Durable
}

// set moves a hold to where its consumer is, now and then back, or under a higher
// epoch.
func (h *heldHistory) set(c *holder) {
	at, epoch := c.at, c.epoch
	fresh := c.set == (feed.Cursor{})
	if !fresh && h.rng.IntN(8) == 0 {
		at = c.set // no move
	}
	if h.rng.IntN(6) == 0 {
		epoch++
	}
	err := h.e.source.Holds().Set(c.name, c.stream, at, epoch)
	h.step("%s of stream %d, durable %v, holds %v under %d: %v", c.name, c.stream, c.durable, at, epoch, err)
	var resync *feed.ResyncError
	var broken *feed.HoldBrokenError
	switch {
	case errors.As(err, &resync) && (fresh || lostFrames(resync.Reason) && !c.durable):
		h.anew(c)
		return
	case errors.As(err, &broken):
		h.noteBroken() // the store looks after its holds by itself too
		return
	case !h.ok("set", err):
		c.unsure = true
		return
	}
	h.tally.sets++
	if fresh || epoch > c.epoch || c.unsure {
		c.onDisk = at
		if c.unsure && !fresh && epoch == c.epoch {
			c.onDisk = feed.Cursor{} // it may have been there already, or not
		}
	}
	c.set, c.epoch = at, epoch
	if epoch > 1 {
		var stale *feed.HoldStaleError
		if err := h.e.source.Holds().Set(c.name, c.stream, at, epoch-1); !errors.As(err, &stale) {
			h.t.Errorf("a lower epoch: %v", err)
		}
	}
}

// info returns what LIST says of a consumer's hold.
func (h *heldHistory) info(c *holder) *feed.HoldInfo {
	for _, info := range h.e.source.Holds().List(c.stream) {
		if info.Name == c.name {
			return &info
		}
	}
	return nil
}

// noteBroken lets consumers whose hold was at its cap begin anew.
func (h *heldHistory) noteBroken() {
	for _, c := range h.consumers {
		info := h.info(c)
		if info == nil || info.Broken == persist.NotBroken {
			continue
		}
		if info.Broken != persist.BrokenSize || h.cap == 1<<40 {
			h.t.Errorf("%+v is broken", info)
		}
		h.tally.capped++
		h.anew(c)
	}
}

// end closes the store, or lets it crash, opens it again and looks at the holds.
func (h *heldHistory) end() {
	clean := h.rng.IntN(4) == 0
	power := h.rng.IntN(3) > 0
	old := h.e
	if clean {
		err := old.Close()
		clean = h.ok("close", err)
		if clean {
			for _, c := range h.consumers {
				c.onDisk = c.set
			}
		}
	}
	fs := h.fs.Kill()
	if power {
		fs = h.fs.PowerCut(h.rng)
	}
	h.step("clean %v, power cut %v", clean, power)
	if clean {
		h.tally.closes++
	} else {
		h.tally.crashes++
		if old.beginClose() {
			close(old.stop)
			old.background.Wait()
			old.source.Close()
			_, _ = old.log.Close()
		}
	}
	h.fs = fs
	if !h.open() {
		return
	}
	for _, c := range h.consumers {
		h.afterStart(c)
	}
}

func (h *heldHistory) afterStart(c *holder) {
	info := h.info(c)
	unsure, none := c.unsure, feed.Cursor{}
	c.unsure = false
	if info == nil {
		if c.onDisk != none && !unsure {
			h.t.Errorf("the hold of %s at %v is gone", c.name, c.onDisk)
		}
		c.set, c.onDisk = none, none
		h.read(c, 1)
		return
	}
	if c.set == none && !unsure {
		h.t.Errorf("%s was deleted and is there: %+v", c.name, info)
		return
	}
	if !unsure && info.Epoch != c.epoch {
		h.t.Errorf("%s has epoch %d, not %d", c.name, info.Epoch, c.epoch)
	}
	c.epoch = max(c.epoch, info.Epoch)
	switch {
	case lostFrames(string(info.Broken)) && !c.durable:
		h.tally.lost++
		h.anew(c)
		return
	case h.cap != 1<<40 && (info.Broken == persist.BrokenSize || info.Broken == persist.BrokenEvicted):
		h.anew(c) // evicted where the crash came before the file said why
		return
	case info.Broken != persist.NotBroken:
		h.t.Errorf("after a start %s, durable %v, is broken: %+v", c.name, c.durable, info)
		return
	}
	before := func(a, b feed.Cursor) bool {
		return a.Generation < b.Generation || a.Generation == b.Generation && a.Offset < b.Offset
	}
	if !unsure && (before(info.At, c.onDisk) || before(c.set, info.At)) {
		h.t.Errorf("%s is held at %v, was on disk at %v and set to %v", c.name, info.At, c.onDisk, c.set)
	}
	// What it holds can be read, to the end.
	again := &holder{name: c.name, stream: c.stream, durable: c.durable, at: info.At, set: info.At}
	for n := 0; !h.read(again, 50) && !h.t.Failed(); n++ {
		if n > 10000 {
			h.t.Error("it has no end")
		}
	}
	c.set, c.onDisk = info.At, info.At
	if c.durable {
		h.read(c, 20) // it never saw what is gone
	}
}

// What the file of holds says was fsynced is damage where it is gone; told to
// truncate, a start goes on, and breaks what lies beyond.
func TestHoldsProveTheTail(t *testing.T) {
	for _, held := range []bool{true, false} {
		fs := vfs.NewMem()
		opt := holdOptions(fs)
		e := mustOpen(t, opt)
		setKeys(t, e, 40)
		at := e.source.Tail(e.source.All())
		if held {
			if err := e.source.Holds().Set("c", e.source.All(), at, 0); err != nil {
				t.Fatal(err)
			}
		}
		kill(e)
		fs = fs.Kill()
		name := "data/appendonlydir/appendonly.aof.1.incr.aof"
		whole := fileText(t, fs, name)
		// In the middle of what was written last; an idle log may have added a block without ops.
		cut := bytes.LastIndex(whole, []byte("key39")) + 10
		if cut < 10 {
			t.Fatal("key39 is not in the log")
		}
		overwrite(t, fs, name, whole[:cut])
		opt.FS = fs
		e, err := Open(opt)
		var damage *aof.DamageError
		if errors.As(err, &damage) != held {
			t.Fatalf("held %v: %v", held, err)
		}
		if !held {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		opt.Recover = aof.RecoverTruncate
		e = mustOpen(t, opt)
		list := e.source.Holds().List(-1)
		// A start over damage begins a new history: no cursor of the old one is good.
		if len(list) != 1 || list[0].Broken != persist.BrokenGeneration {
			t.Fatalf("%+v", list)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		opt.Recover = aof.RecoverRefuse
		e = mustOpen(t, opt)
		if list := e.source.Holds().List(-1); len(list) != 1 || list[0].Broken != persist.BrokenGeneration {
			t.Fatalf("%+v", list)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamagedHolds(t *testing.T) {
	fs := vfs.NewMem()
	opt := holdOptions(fs)
	e := mustOpen(t, opt)
	setKeys(t, e, 3)
	if err := e.source.Holds().Set("c", 0, e.source.Tail(0), 0); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	text := fileText(t, fs, persist.HoldsFile("data"))
	overwrite(t, fs, persist.HoldsFile("data"), bytes.Replace(text, []byte("hold c 0"), []byte("hold c 1"), 1))
	before := snapshot(fs)
	_, err := Open(opt)
	var bad *persist.FileError
	if !errors.As(err, &bad) || bad.File != persist.HoldsFile("data") {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), "feed-holds") || !strings.Contains(err.Error(), "--recover") || len(before) != len(snapshot(fs)) {
		t.Fatalf("%v", err)
	}
	var log bytes.Buffer
	opt.Recover, opt.Logger = aof.RecoverSkip, slog.New(slog.NewTextHandler(&log, nil))
	e = mustOpen(t, opt)
	if !e.report.Resumed || len(e.source.Holds().List(-1)) != 0 || !strings.Contains(log.String(), "holds is damaged") {
		t.Fatalf("resumed %v: %s", e.report.Resumed, log.String())
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if fileText(t, fs, persist.HoldsFile("data")+".damaged"); len(fileText(t, fs, persist.HoldsFile("data")+".damaged")) != len(text) {
		t.Fatal("it was not set aside")
	}
}

// A run without a feed keeps what is held, and the hold goes on afterwards.
func TestHoldsOverARunWithoutFeed(t *testing.T) {
	fs := vfs.NewMem()
	opt := holdOptions(fs)
	opt.SegmentBytes = 1 << 10
	e := mustOpen(t, opt)
	all := e.source.All()
	setKeys(t, e, 20)
	at := e.source.Tail(all)
	if err := e.source.Holds().Set("c", all, at, 0); err != nil {
		t.Fatal(err)
	}
	setKeys(t, e, 20)
	for _, noFeed := range []bool{true, false} {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		opt.NoFeed = noFeed
		e = mustOpen(t, opt)
		setKeys(t, e, 20)
		if err := e.log.Sync(); err != nil {
			t.Fatal(err)
		}
		e.tend()
	}
	if list := e.source.Holds().List(-1); len(list) != 1 || list[0].Broken != persist.NotBroken || list[0].LagFrames != 60 {
		t.Fatalf("%+v", list)
	}
	var b feed.Batch
	defer b.Release()
	n := 0
	for {
		if err := e.source.Since(context.Background(), &feed.Request{Stream: all, Cursor: at}, &b); err != nil {
			t.Fatal(err)
		}
		next := feed.Cursor{Generation: b.Generation, Offset: b.Next}
		if n += b.Len(); next == at {
			break
		}
		at = next
	}
	if n != 60 {
		t.Fatalf("%d frames behind the hold", n)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// A hold never fills the disk: where the log cannot be written for want of room,
// holds give way, and writes go on.
func TestHoldsGiveWayOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		opt := holdOptions(fs)
		opt.SegmentBytes = 32 << 10
		e := mustOpen(t, opt)
		all := e.source.All()
		if err := e.source.Holds().Set("far", all, e.source.Tail(all), 0); err != nil {
			t.Fatal(err)
		}
		fillDisk(t, e, fs)
		for _, info := range e.source.Holds().List(-1) {
			want := map[string]persist.Broken{"far": persist.BrokenDiskFull, "near": persist.NotBroken}[info.Name]
			if info.Broken != want {
				t.Errorf("%+v", info)
			}
		}
		mustClose(t, e)
	})
}

// fillDisk makes history that the base no longer needs, puts the hold "near" behind it
// and writes until the disk is full.
func fillDisk(t *testing.T, e *Engine, fs *vfs.Mem) {
	t.Helper()
	setMany(t, e, 2000, strings.Repeat("v", 50))
	if err := e.Rewrite(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	all := e.source.All()
	if err := e.source.Holds().Set("near", all, e.source.Tail(all), 0); err != nil {
		t.Fatal(err)
	}
	fs.SetQuota(fs.Used() + 20<<10)
	writeOnFullDisk(t, e)
}

// What a snapshot keeps for readers that do not read gives way before any hold: its
// readers can begin anew.
func TestSnapshotsGiveWayOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		opt := holdOptions(fs)
		opt.SegmentBytes = 32 << 10
		e := mustOpen(t, opt)
		all := e.source.All()
		setMany(t, e, 100, "v")
		r, err := e.source.Snapshot(all, nil)
		if err == nil {
			err = r.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		fillDisk(t, e, fs)
		if _, err := readOn(r); !errors.Is(err, feed.ErrSnapshotDiskFull) {
			t.Errorf("the snapshot ends with %v", err)
		}
		if left := len(e.source.Snapshots()); left > 0 {
			t.Errorf("there are %d snapshots", left)
		}
		for _, info := range e.source.Holds().List(-1) {
			if info.Broken != persist.NotBroken {
				t.Errorf("%+v", info)
			}
		}
		mustClose(t, e)
	})
}

// writeOnFullDisk writes for a while, ten commits a second where they are let in,
// and fails the test if that ends in a log that cannot be written.
func writeOnFullDisk(t *testing.T, e *Engine) {
	t.Helper()
	tx := e.NewTx()
	for range 40 {
		for range 10 {
			if e.Admit() != nil {
				break // until room was made
			}
			e.set.Lock(e.all)
			tx.Begin(e.all, 0, e.NowMs())
			tx.Set([]byte("k"), bytes.Repeat([]byte("v"), 200), 0)
			e.Commit(tx)
			tx.End()
			e.set.Unlock(e.all)
		}
		time.Sleep(time.Second)
	}
	if err := e.log.Err(); err != nil {
		t.Errorf("writes do not go on: %v", err)
	}
}

func holdOptions(fs vfs.FS) Options {
	return Options{FS: fs, Dir: "data", Shards: 2, DBs: 1, Fsync: aof.PolicyEverySec, FeedMemoryBytes: 1, FeedDiskBytes: 0, FeedHoldBytes: 1 << 40}
}

// setKeys makes n commits and fsyncs them.
func setKeys(t *testing.T, e *Engine, n int) {
	t.Helper()
	tx := e.NewTx()
	for i := range n {
		e.set.Lock(e.all)
		tx.Begin(e.all, 0, e.NowMs())
		tx.Set(fmt.Appendf(nil, "key%d", i), []byte(strings.Repeat("v", 50)), 0)
		e.Commit(tx)
		tx.End()
		e.set.Unlock(e.all)
	}
	if err := e.log.Sync(); err != nil {
		t.Fatal(err)
	}
}

// kill ends the goroutines of a store without closing it cleanly.
func kill(e *Engine) {
	e.closing.Store(true)
	close(e.stop)
	e.background.Wait()
	e.source.Close()
	_, _ = e.log.Close()
	_ = e.lock.Close()
}

func fileText(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	text, ok := snapshot(fs)[name]
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	return text
}

// A reader that begins at the tail, while the last block is open still, goes on
// when the next commit joins that block.
func TestReaderAtTheTailOfAnOpenBlock(t *testing.T) {
	opt := small(vfs.NewMem())
	opt.Shards = 1
	e := mustOpen(t, opt)
	defer mustClose(t, e)
	tx := e.NewTx()
	set := func(value string) {
		e.set.Lock(e.all)
		tx.Begin(e.all, 0, e.NowMs())
		tx.Set([]byte("k"), []byte(value), 0)
		e.Commit(tx)
		tx.End()
		e.set.Unlock(e.all)
	}
	for _, stream := range []int{0, e.source.All()} {
		set("1")
		set("2")
		before := e.source.Tail(stream)
		var b feed.Batch
		for want := range 2 {
			if err := e.source.Since(context.Background(), &feed.Request{Stream: stream, Cursor: before}, &b); err != nil || b.Len() != want {
				t.Fatalf("stream %d: %d frames, want %d: %v", stream, b.Len(), want, err)
			}
			set("3")
		}
		b.Release()
	}
}
