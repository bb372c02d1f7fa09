package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"kevy/feed"
	"kevy/internal/vfs"
	"kevy/shard"
)

// largeValue is the value of op i of a large commit.
func largeValue(i, size int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%07d,", i), size/8)
}

// openLargeCommit returns a store whose log ends, on disk, with a commit of SETs of
// 1 MiB each and a small one behind it, and where the large one begins.
func openLargeCommit(t *testing.T, opt Options, ops int) (*Engine, feed.Cursor) {
	t.Helper()
	opt.FeedMemoryBytes = 1
	e := mustOpen(t, opt)
	commit(t, e, func(tx *shard.Tx) { tx.Set([]byte("before"), []byte("1"), 0) })
	from := e.source.Tail(e.source.All())
	commit(t, e, func(tx *shard.Tx) {
		for i := range ops {
			tx.Set([]byte("k"), largeValue(i, 1<<20), 0)
		}
	})
	commit(t, e, func(tx *shard.Tx) { tx.Set([]byte("after"), []byte("1"), 0) })
	mustClose(t, e)
	return mustOpen(t, opt), from // nothing of it is in memory
}

// followLarge reads the large commit some times and calls each for every op of it,
// which is checked.
func followLarge(e *Engine, from feed.Cursor, ops, times int, each func(i int)) error {
	f, err := e.source.Follow(feed.Request{Stream: e.source.All(), Cursor: from})
	if err != nil {
		return err
	}
	defer f.Close()
	var b feed.Batch
	defer b.Release()
	if err := f.Next(context.Background(), &b); err != nil {
		return err
	}
	if !b.Large() || b.Len() != ops {
		return fmt.Errorf("a batch of %d frames, large: %v", b.Len(), b.Large())
	}
	for range times { // a batch can be read again
		i := 0
		err := b.Each(func(f *feed.Frame) error {
			if f.Offset != from.Offset+uint64(i) || f.First != from.Offset || f.Last != from.Offset+uint64(ops)-1 {
				return fmt.Errorf("op %d at %d of %d-%d", i, f.Offset, f.First, f.Last)
			}
			each(i)
			if !bytes.Contains(f.Raw, largeValue(i, 1<<20)) {
				return fmt.Errorf("op %d is another one", i)
			}
			i++
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := f.Next(context.Background(), &b); err != nil || b.Len() != 1 || b.Large() {
		return fmt.Errorf("behind it a batch of %d frames: %w", b.Len(), err)
	}
	return nil
}

// TestLargeCommitFromDisk: many readers of a large commit that is on disk, some of
// which stand still in the middle of it, hold no more of it than an op each.
func TestLargeCommitFromDisk(t *testing.T) {
	const ops, readers, stalled = 200, 20, 15
	const each = 4 << 20 // an op, the pieces around it, and what else a reader has
	opt := small(vfs.OS())
	opt.Dir = t.TempDir()
	e, from := openLargeCommit(t, opt, ops)
	defer mustClose(t, e)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var wg, there sync.WaitGroup
	goOn := make(chan struct{})
	errs := make(chan error, readers)
	for n := range readers {
		wg.Add(1)
		there.Add(1)
		go func() {
			defer wg.Done()
			var once sync.Once
			defer once.Do(there.Done)
			errs <- followLarge(e, from, ops, 1+n%2, func(i int) {
				if n < stalled && i == n*ops/stalled {
					once.Do(there.Done)
					<-goOn
				}
			})
		}()
	}
	there.Wait()
	if took := heap() - before; took > readers*each {
		t.Errorf("%d readers of a commit of %d MiB, %d of them in the middle of it, hold %d MiB", readers, ops, stalled, took>>20)
	}
	close(goOn)
	wg.Wait()
	for range readers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	// A consumer that wants what holds an offset inside it.
	var b feed.Batch
	defer b.Release()
	first, last, err := e.source.Get(e.source.All(), feed.Cursor{Generation: from.Generation, Offset: from.Offset + ops/2}, &b)
	if err != nil || first != from.Offset || last != from.Offset+ops-1 || b.Len() != ops {
		t.Errorf("%d-%d, %d frames: %v", first, last, b.Len(), err)
	}
}

// TestLargeCommitGoesBadWhileItIsRead: what has changed on disk since a large
// commit was checked is not handed on, nor is its last op.
func TestLargeCommitGoesBadWhileItIsRead(t *testing.T) {
	const ops = 10
	for _, bad := range []int{0, ops / 2, ops - 1} {
		for _, behind := range []bool{false, true} {
			fs := vfs.NewMem()
			opt := small(fs)
			e, from := openLargeCommit(t, opt, ops)
			if behind { // another file follows, from which on there still is a history
				if err := e.Rewrite(); err != nil {
					t.Fatal(err)
				}
			}
			var b feed.Batch
			req := feed.Request{Stream: e.source.All(), Cursor: from}
			if err := e.source.Since(context.Background(), &req, &b); err != nil || !b.Large() {
				t.Fatal(err)
			}
			changed := 0
			for name, data := range snapshot(fs) {
				if at := bytes.Index(data, largeValue(bad, 1<<20)); at >= 0 && !strings.Contains(name, ".base.") {
					data[at+1<<19] ^= 1
					overwrite(t, fs, name, data)
					changed++
				}
			}
			if changed != 1 {
				t.Fatalf("%d files hold op %d", changed, bad)
			}
			read := 0
			err := b.Each(func(f *feed.Frame) error {
				if !bytes.Contains(f.Raw, largeValue(read, 1<<20)) {
					t.Fatalf("op %d was handed on, and it is another one", read)
				}
				read++
				return nil
			})
			if err == nil || read > bad || read < bad-1 {
				t.Errorf("op %d is bad: %d were read, %v", bad, read, err)
			}
			b.Release()
			err = e.source.Since(context.Background(), &req, &b)
			var resync *feed.ResyncError
			if err == nil || behind && (!errors.As(err, &resync) || resync.Reason != feed.ReasonEvicted) {
				t.Errorf("op %d is bad: %d frames are read again, %v", bad, b.Len(), err)
			}
			b.Release()
			_ = e.Close()
		}
	}
}
