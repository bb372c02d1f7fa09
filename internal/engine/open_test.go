package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/vfs"
	"kevy/persist"
	"kevy/shard"
)

// small are the options of a store that tests open and close.
func small(fs vfs.FS) Options {
	return Options{FS: fs, Dir: "data", Shards: 2, DBs: 4, Fsync: aof.PolicyEverySec, FeedMemoryBytes: 1 << 20, FeedDiskBytes: -1}
}

func mustOpen(t *testing.T, opt Options) *Engine {
	t.Helper()
	e, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustClose(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// commit makes one commit of what fn does, on all shards.
func commit(t *testing.T, e *Engine, fn func(tx *shard.Tx)) uint64 {
	t.Helper()
	tx := e.NewTx()
	e.set.Lock(e.all)
	tx.Begin(e.all, 0, e.NowMs())
	fn(tx)
	lsn := e.Commit(tx)
	tx.End()
	e.set.Unlock(e.all)
	if err := e.Wait(lsn); err != nil {
		t.Fatal(err)
	}
	return lsn
}

func set(t *testing.T, e *Engine, key, value string) {
	t.Helper()
	commit(t, e, func(tx *shard.Tx) { tx.Set([]byte(key), []byte(value), 0) })
}

func get(e *Engine, db int, key string) string {
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	tx := e.NewTx()
	tx.Begin(e.all, db, e.NowMs())
	defer tx.End()
	v, _, _ := tx.String([]byte(key))
	return string(v)
}

// TestOpenSaysWhatToDo: what cannot be opened names what stands in the way.
func TestOpenSaysWhatToDo(t *testing.T) {
	with := func(change func(*Options)) func(*vfs.Mem) Options {
		return func(fs *vfs.Mem) Options {
			opt := small(fs)
			change(&opt)
			return opt
		}
	}
	failing := func(op vfs.Op, glob string, err error) func(*vfs.Mem) Options {
		return func(fs *vfs.Mem) Options {
			fs.Inject(vfs.Fault{Op: op, Glob: glob, Err: err})
			return small(fs)
		}
	}
	for _, tc := range []struct {
		name  string
		opt   func(*vfs.Mem) Options
		wants []string
	}{
		{"no shards", with(func(o *Options) { o.Shards = 0 }), []string{"1 to 1024 shards, not 0"}},
		{"too many shards", with(func(o *Options) { o.Shards = shard.MaxShards + 1 }), []string{"1 to 1024 shards, not 1025"}},
		{"no databases", with(func(o *Options) { o.DBs = 0 }), []string{"databases, not 0"}},
		{"too many databases", with(func(o *Options) { o.DBs = MaxDBs + 1 }), []string{"databases, not 65537"}},
		{"a directory that cannot be made", failing(vfs.OpMkdir, "data", syscall.EACCES), []string{"data", "permission denied", "data directory"}},
		{"a directory that cannot be written", failing(vfs.OpLock, "LOCK", syscall.EACCES), []string{"data/LOCK", "permission denied"}},
		{"a file system that is read-only", failing(vfs.OpCreate, "*", syscall.EROFS), []string{"data/LOCK", "read-only"}},
		{"a full disk", failing(vfs.OpWrite, "MANIFEST*", syscall.ENOSPC), []string{"MANIFEST", "no space left"}},
		{"a manifest that cannot be read", failing(vfs.OpOpen, "MANIFEST", syscall.EIO), []string{"data/MANIFEST", "input/output"}},
		{"sidecars that cannot be written", failing(vfs.OpRename, "feed-1.gen*", syscall.EIO), []string{"feed-1.gen", "generations"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fs := vfs.NewMem()
			e, err := Open(tc.opt(fs))
			if err == nil {
				_ = e.Close()
				t.Fatal("it opened")
			}
			for _, want := range tc.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if open := fs.OpenFiles(); len(open) > 0 {
				t.Errorf("files are still open: %v", open)
			}
		})
	}
	t.Run("a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		opt := small(nil)
		opt.Dir = file
		if _, err := Open(opt); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("%v", err)
		}
	})
	t.Run("in use", func(t *testing.T) {
		for _, fs := range []vfs.FS{vfs.NewMem(), vfs.OS()} {
			opt := small(fs)
			if _, mem := fs.(*vfs.Mem); !mem {
				opt.Dir = t.TempDir()
			}
			e := mustOpen(t, opt)
			set(t, e, "k", "v")
			_, err := Open(opt)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d", os.Getpid())) || !strings.Contains(err.Error(), opt.Dir) {
				t.Errorf("%v", err)
			}
			set(t, e, "k", "w") // the first one goes on
			mustClose(t, e)
			e = mustOpen(t, opt)
			if got := get(e, 0, "k"); got != "w" || !e.report.Resumed {
				t.Errorf("k is %q, resumed %v: %s", got, e.report.Resumed, e.report.Reason)
			}
			mustClose(t, e)
		}
	})
}

func TestFewerDatabasesThanTheLogUses(t *testing.T) {
	for _, rewritten := range []bool{false, true} {
		fs := vfs.NewMem()
		e := mustOpen(t, small(fs))
		commit(t, e, func(tx *shard.Tx) { tx.Select(3); tx.Set([]byte("k"), []byte("v"), 0) })
		if rewritten {
			if err := e.Rewrite(); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, e)
		opt := small(fs)
		opt.DBs = 3
		_, err := Open(opt)
		if err == nil || !strings.Contains(err.Error(), "set databases to 4 or more") || !strings.Contains(err.Error(), "appendonly.aof.") {
			t.Errorf("rewritten %v: %v", rewritten, err)
		}
		e = mustOpen(t, small(fs))
		if get(e, 3, "k") != "v" {
			t.Error("the key is gone")
		}
		mustClose(t, e)
	}
}

func TestShardsAreFixed(t *testing.T) {
	fs := vfs.NewMem()
	e := mustOpen(t, small(fs))
	set(t, e, "k", "v")
	tail := e.source.Tail(e.source.All())
	mustClose(t, e)
	opt := small(fs)
	opt.Shards = 16
	e = mustOpen(t, opt)
	if e.set.Shards() != 2 || !e.report.Resumed || e.source.Tail(e.source.All()) != tail || get(e, 0, "k") != "v" {
		t.Errorf("%d shards, resumed %v (%s)", e.set.Shards(), e.report.Resumed, e.report.Reason)
	}
	mustClose(t, e)

	// As many as there may be.
	opt = small(vfs.NewMem())
	opt.Shards = shard.MaxShards
	for range 2 {
		e = mustOpen(t, opt)
		for i := range 100 {
			set(t, e, fmt.Sprint("k", i), "v")
		}
		if err := e.Rewrite(); err != nil {
			t.Fatal(err)
		}
		mustClose(t, e)
	}
	// A manifest may hold more than a store can have.
	overwrite(t, opt.FS.(*vfs.Mem), "data/MANIFEST", manifestOf(t, shard.MaxShards+1))
	if _, err := Open(opt); err == nil || !strings.Contains(err.Error(), "1025 shards") {
		t.Errorf("%v", err)
	}
}

func TestInMemory(t *testing.T) {
	opt := Options{Shards: 2, DBs: 2, NoFile: true, FeedMemoryBytes: 1, Fsync: aof.PolicyAlways}
	e := mustOpen(t, opt)
	start := e.source.Tail(e.source.All())
	for i := range 100 {
		set(t, e, "k", fmt.Sprint(i)) // under always, which there is nothing to hold to
	}
	var b feed.Batch
	req := feed.Request{Stream: e.source.All(), Cursor: start, Durable: true}
	if err := e.source.Since(context.Background(), &req, &b); !errors.Is(err, feed.ErrNeedsLog) {
		t.Errorf("DURABLE: %v", err)
	}
	req.Durable = false
	if err := e.source.Since(context.Background(), &req, &b); err != nil || b.Len() != 100 {
		t.Errorf("%d frames: %v", b.Len(), err)
	}
	b.Release()
	// The history is what memory holds.
	for range 300 {
		set(t, e, "k", strings.Repeat("v", 10_000))
	}
	var resync *feed.ResyncError
	if err := e.source.Since(context.Background(), &req, &b); !errors.As(err, &resync) || resync.Reason != feed.ReasonEvicted {
		t.Fatalf("after %d bytes: %v", 300*10_000, err)
	}
	req.Cursor = resync.Oldest
	if err := e.source.Since(context.Background(), &req, &b); err != nil || b.Len() == 0 {
		t.Errorf("from the oldest cursor: %d frames, %v", b.Len(), err)
	}
	b.Release()
	commit(t, e, func(tx *shard.Tx) { tx.FlushAll() })
	for name, err := range map[string]error{"Rewrite": e.Rewrite(), "StartRewrite": e.StartRewrite()} {
		if !errors.Is(err, ErrNoLog) {
			t.Errorf("%s: %v", name, err)
		}
	}
	before := e.source.Tail(e.source.All())
	mustClose(t, e)
	e = mustOpen(t, opt)
	if tail := e.source.Tail(e.source.All()); tail.Generation == before.Generation || tail.Generation == start.Generation {
		t.Error("the next store has a generation of the last one")
	}
	mustClose(t, e)
}

// TestFeedSwitchedOff: what is written without a feed is in nobody's way when it
// comes back, and no name is given twice.
func TestFeedSwitchedOff(t *testing.T) {
	for _, rewritten := range []bool{false, true} {
		for _, crashed := range []bool{false, true} {
			w := newWorld(t, 1, 1)
			w.retainBytes, w.retainMs = -1, 0
			on := w.options(w.fs)
			off := on
			off.NoFeed = true
			end := func(e *Engine) {
				if !crashed {
					mustClose(t, e)
					return
				}
				left := w.fs.Kill()
				e.beginClose()
				close(e.stop)
				e.background.Wait()
				e.abandon()
				w.fs, on.FS, off.FS = left, left, left
			}
			readAll := func(e *Engine) (frames int) {
				for s := range crashShards + 1 {
					at, err := e.source.Oldest(s)
					if err != nil {
						t.Fatal(err)
					}
					for f := (&follower{stream: s, at: at}); ; {
						before := f.at
						w.e = e
						if err := w.follow(f, 100, 0); err != nil {
							t.Fatal(err)
						}
						frames += len(f.seen)
						f.seen = nil
						if f.at == before {
							break
						}
					}
				}
				return frames
			}
			e := mustOpen(t, on)
			set(t, e, "a", "1")
			commit(t, e, func(tx *shard.Tx) { tx.FlushAll() })
			set(t, e, "b", "1")
			readAll(e)
			end(e)
			e = mustOpen(t, off)
			if !e.FeedDisabled() {
				t.Error("the feed is on")
			}
			set(t, e, "c", "1")
			commit(t, e, func(tx *shard.Tx) { tx.FlushAll(); tx.Set([]byte("d"), []byte("1"), 0) })
			if rewritten {
				if err := e.Rewrite(); err != nil {
					t.Fatal(err)
				}
			}
			set(t, e, "e", "1")
			e.tend()
			end(e)
			e = mustOpen(t, on)
			if e.report.Resumed {
				t.Error("the generation goes on over what no reader was shown")
			}
			set(t, e, "f", "1")
			if n := readAll(e); n == 0 {
				t.Error("there is no frame")
			}
			if get(e, 0, "d")+get(e, 0, "e")+get(e, 0, "f") != "111" || get(e, 0, "c") != "" {
				t.Error("the keys are others")
			}
			end(e)
			e = mustOpen(t, on)
			if e.report.Resumed == crashed {
				t.Errorf("resumed %v: %s", e.report.Resumed, e.report.Reason)
			}
			readAll(e)
			mustClose(t, e)
		}
	}
}

// TestLargeCommits: a commit, a value and a collection that are larger than a
// block, a chunk of memory and a segment.
func TestLargeCommits(t *testing.T) {
	fs := vfs.NewMem()
	opt := small(fs)
	opt.SegmentBytes = 1 << 20
	e := mustOpen(t, opt)
	from := e.source.Tail(e.source.All())
	value := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
	commit(t, e, func(tx *shard.Tx) { tx.Set([]byte("large"), value, 0) })
	commit(t, e, func(tx *shard.Tx) {
		for i := range 100_000 {
			tx.Set(fmt.Appendf(nil, "k%d", i), []byte("v"), 0)
		}
	})
	commit(t, e, func(tx *shard.Tx) {
		members := make([][]byte, 100_000)
		for i := range members {
			members[i] = fmt.Appendf(nil, "member%d", i)
		}
		_, _ = tx.SAdd([]byte("set"), members...)
	})
	lsn := commit(t, e, func(tx *shard.Tx) { tx.Move([]byte("set"), 1, []byte("renamed")) })
	var b feed.Batch
	defer b.Release()
	frames := uint64(0)
	for at := from; ; {
		if err := e.source.Since(context.Background(), &feed.Request{Stream: e.source.All(), Cursor: at, Count: 10}, &b); err != nil {
			t.Fatal(err)
		}
		if err := b.Each(func(f *feed.Frame) error {
			if frames++; f.LSN != frames {
				return fmt.Errorf("LSN %d comes as frame %d", f.LSN, frames)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		next := feed.Cursor{Generation: b.Generation, Offset: b.Next}
		if next == at {
			break
		}
		at = next
	}
	if frames != lsn {
		t.Errorf("%d frames of %d ops", frames, lsn)
	}
	want := digestOf(e)
	for round := range 2 {
		left := fs.Kill()
		e.beginClose()
		close(e.stop)
		e.background.Wait()
		e.abandon()
		fs = left
		opt.FS = fs
		start := time.Now()
		e = mustOpen(t, opt)
		if digestOf(e) != want {
			t.Errorf("round %d: another keyspace is found", round)
		}
		t.Logf("round %d: opened in %v", round, time.Since(start))
		if err := e.Rewrite(); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, e)
}

// manifestOf encodes a manifest with any number of shards.
func manifestOf(t *testing.T, shards int) []byte {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	if err := persist.WriteManifest(fs, "data", persist.Manifest{Shards: shards}); err != nil {
		t.Fatal(err)
	}
	return []byte(readAll(t, fs, "data/MANIFEST"))
}

// Who starts without a feed is told so, and not that it begins.
func TestLogWithoutFeed(t *testing.T) {
	opt := small(vfs.NewMem())
	for range 2 {
		for _, noFeed := range []bool{true, false} {
			var log bytes.Buffer
			opt.NoFeed, opt.Logger = noFeed, slog.New(slog.NewTextHandler(&log, nil))
			if err := mustOpen(t, opt).Close(); err != nil {
				t.Fatal(err)
			}
			off, on := strings.Contains(log.String(), "the feed is off"), strings.Contains(log.String(), "the feed begins")
			if off != noFeed || on == noFeed {
				t.Errorf("without a feed %v: %s", noFeed, log.String())
			}
		}
	}
}
