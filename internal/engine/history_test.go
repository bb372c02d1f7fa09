package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/vfs"
	"kevy/persist"
	"kevy/shard"
)

// readFrames reads a stream from a cursor until it has caught up, and returns the
// frames; err is what ended it.
func readFrames(e *Engine, stream int, at feed.Cursor) (frames []string, err error) {
	var b feed.Batch
	defer b.Release()
	for {
		if err := e.source.Since(context.Background(), &feed.Request{Stream: stream, Cursor: at}, &b); err != nil {
			return frames, err
		}
		if err := b.Each(func(f *feed.Frame) error {
			frames = append(frames, fmt.Sprintf("%d %q", f.Offset, f.Raw))
			return nil
		}); err != nil {
			return frames, err
		}
		next := feed.Cursor{Generation: b.Generation, Offset: b.Next}
		if next == at {
			return frames, nil
		}
		at = next
	}
}

// setMany makes commits of one SET each, over all shards, and closes them off with
// a rewrite, so that they lie below the base.
func setMany(t *testing.T, e *Engine, n int, value string) {
	t.Helper()
	tx := e.NewTx()
	for i := range n {
		e.set.Lock(e.all)
		tx.Begin(e.all, 0, e.NowMs())
		tx.Set(fmt.Appendf(nil, "key%d", i), []byte(value), 0)
		e.Commit(tx)
		tx.End()
		e.set.Unlock(e.all)
		if i%100 == 99 {
			if err := e.log.WaitWritten(e.log.Last()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := e.log.Sync(); err != nil {
		t.Fatal(err)
	}
}

// A reader in a file that the retention removes reads it to its end, one of a
// large commit too, and then goes on or is told that what follows is gone; what it
// reads is what was written.
func TestReaderInARemovedFile(t *testing.T) {
	for _, large := range []bool{false, true} {
		fs := vfs.NewMem()
		opt := small(fs)
		opt.FeedMemoryBytes, opt.SegmentBytes = 1, 64<<10
		e := mustOpen(t, opt)
		all := e.source.All()
		from := e.source.Tail(all)
		if large {
			commit(t, e, func(tx *shard.Tx) {
				for i := range 10 {
					tx.Set(fmt.Appendf(nil, "large%d", i), bytes.Repeat([]byte("v"), 1<<20), 0)
				}
			})
		}
		for range 4 {
			setMany(t, e, 800, strings.Repeat("v", 40))
		}
		if err := e.Rewrite(); err != nil {
			t.Fatal(err)
		}
		if n := len(e.log.Segments()); n < 4 {
			t.Fatalf("only %d files", n)
		}
		want, err := readFrames(e, all, from)
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, e)
		e = mustOpen(t, opt) // nothing of it is in memory

		// It has begun to read when the files go.
		var b feed.Batch
		req := feed.Request{Stream: all, Cursor: from, Count: 5}
		if err := e.source.Since(context.Background(), &req, &b); err != nil {
			t.Fatal(err)
		}
		files := len(snapshot(fs))
		e.log.SetFloor(e.log.Last() + 1)
		e.log.RemoveDropped()
		if len(snapshot(fs)) >= files {
			t.Fatal("no file was removed")
		}
		var got []string
		note := func(f *feed.Frame) error {
			got = append(got, fmt.Sprintf("%d %q", f.Offset, f.Raw))
			return nil
		}
		var resync *feed.ResyncError
		for {
			if err := b.Each(note); err != nil {
				t.Fatal(err)
			}
			req.Cursor = feed.Cursor{Generation: b.Generation, Offset: b.Next}
			if err := e.source.Since(context.Background(), &req, &b); err != nil {
				if !errors.As(err, &resync) || resync.Reason != feed.ReasonEvicted {
					t.Fatal(err)
				}
				break
			}
			if b.Len() == 0 {
				t.Fatalf("large %v: it caught up at %v over what is gone, with %d frames of %d; the log begins with LSN %d", large, req.Cursor, len(got), len(want), e.log.OldestLSN())
			}
		}
		b.Release()
		if len(got) < 100 && !large || len(got) < 10 || len(got) >= len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("large %v: %d of %d frames were read to the end of the file, or others", large, len(got), len(want))
		}
		rest, err := readFrames(e, all, resync.Oldest)
		if err != nil || !slices.Equal(rest, want[len(want)-len(rest):]) {
			t.Fatalf("behind it %d frames: %v", len(rest), err)
		}
		mustClose(t, e)
	}
}

// TestFlippedHistory flips a bit in one or more files below the base. Whatever a
// reader is given then is what was written. Who stands before the damage is told
// that it is evicted, and goes on at the beginning of the file behind; each damage
// does so once at most. A hold there says that it is broken.
func TestFlippedHistory(t *testing.T) {
	seed := crashSeed(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	fs := vfs.NewMem()
	opt := small(fs)
	opt.FeedMemoryBytes, opt.SegmentBytes, opt.FeedHoldBytes = 1, 100<<10, 1<<40
	opt.tuneLog = func(o *aof.Options) { o.BlockBytes = 4 << 10 }
	e := mustOpen(t, opt)
	shards := e.source.All()
	from := make([]feed.Cursor, shards+1)
	for i := range from {
		from[i] = e.source.Tail(i)
	}
	setMany(t, e, 9000, strings.Repeat("v", 30))
	if err := e.Rewrite(); err != nil {
		t.Fatal(err)
	}
	if err := e.source.Holds().Set("c", shards, from[shards], 0); err != nil {
		t.Fatal(err)
	}
	want := make([][]string, shards+1)
	for i := range from {
		var err error
		if want[i], err = readFrames(e, i, from[i]); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, e)
	whole := snapshot(fs)
	var files []string
	for name := range whole {
		if strings.HasPrefix(name, "data/feed/") {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	if len(files) < 3 {
		t.Fatalf("%d files below the base", len(files))
	}
	evicted, twice, intact, broken, removed := 0, 0, 0, 0, 0
	for range 60 {
		// The last one is read by no start either, but what lies behind is needed.
		var flips []string
		behind := map[uint64]bool{} // offsets in ALL at which a file behind damage begins
		for _, i := range rng.Perm(len(files) - 1)[:1+rng.IntN(len(files)-1)*rng.IntN(2)] {
			bad := bytes.Clone(whole[files[i]])
			at := rng.IntN(len(bad))
			switch rng.IntN(8) {
			case 0:
				at %= 200 // what a start reads of it
			case 1:
				at = len(bad) - 1 - at%100
			}
			bad[at] ^= 1 << rng.IntN(8)
			overwrite(t, fs, files[i], bad)
			flips = append(flips, fmt.Sprintf("byte %d of %s", at, files[i]))
			var first uint64
			if _, err := fmt.Sscanf(files[i+1], "data/feed/%d.aof", &first); err != nil {
				t.Fatal(err)
			}
			behind[first-1] = true
		}
		e := mustOpen(t, opt)
		for n := range 6 {
			stream := rng.IntN(shards + 1)
			offset := uint64(rng.IntN(len(want[stream])))
			if n == 0 {
				stream, offset = shards, 0
			}
			at := feed.Cursor{Generation: from[stream].Generation, Offset: offset}
			evictions := 0
			for {
				got, err := readFrames(e, stream, at)
				expect := want[stream][at.Offset:]
				if len(got) > len(expect) || !slices.Equal(got, expect[:len(got)]) {
					t.Fatalf("%v: another frame was read from %v on", flips, at)
				}
				if err == nil && len(got) == len(expect) {
					break
				}
				var resync *feed.ResyncError
				if !errors.As(err, &resync) || resync.Reason != feed.ReasonEvicted {
					t.Fatalf("%v: %d of %d frames from %v on: %v", flips, len(got), len(expect), at, err)
				}
				evictions++
				next := resync.Oldest
				if next.Generation != at.Generation || next.Offset <= at.Offset+uint64(len(got)) || next.Offset >= uint64(len(want[stream])) ||
					stream == shards && !behind[next.Offset] || evictions > len(flips) {
					t.Fatalf("%v: stream %d, read from %v on to frame %d, was evicted to %v, the %d. time", flips, stream, at, len(got), next, evictions)
				}
				at = next
			}
			switch evictions {
			case 0:
				intact++
			case 1:
				evicted++
			default:
				twice++
			}
		}
		if _, err := e.source.At(shards, e.NowMs()-5000); err != nil {
			t.Fatalf("%v: AT: %v", flips, err)
		}
		e.tend()
		if e.source.Holds().List(-1)[0].Broken == persist.BrokenEvicted {
			broken++
		}
		mustClose(t, e)
		// A start removes the files that no longer join to the log: with one of them
		// back, the next round would have more damage than it made.
		there := snapshot(fs)
		for _, name := range files {
			if _, ok := there[name]; !ok {
				removed++
			}
			overwrite(t, fs, name, whole[name])
		}
		overwrite(t, fs, persist.HoldsFile("data"), whole[persist.HoldsFile("data")])
	}
	t.Logf("%d readers were evicted once, %d more often, %d read all, %d holds broke, %d files were removed", evicted, twice, intact, broken, removed)
	if evicted < 10 || twice < 1 || intact < 10 || broken < 10 || removed < 1 {
		t.Fatal("too little happened")
	}
}

// Files go once all in them is older than the retention allows, by the store's own
// clock, and not before.
func TestRetentionByAge(t *testing.T) {
	const age = 60_000
	fs := vfs.NewMem()
	var now atomic.Int64
	now.Store(1_700_000_000_000)
	opt := small(fs)
	opt.FeedMemoryBytes, opt.SegmentBytes, opt.FeedAgeMs, opt.NowMs = 1, 2<<10, age, now.Load
	e := mustOpen(t, opt)
	defer mustClose(t, e)
	e.PauseExpiry(true)
	all := e.source.All()
	times := []int64{0} // by LSN
	let := 0
	for round := range 60 {
		now.Add(3000)
		for range 10 {
			commit(t, e, func(tx *shard.Tx) { tx.Set([]byte("k"), bytes.Repeat([]byte("v"), 100), 0) })
			times = append(times, now.Load())
		}
		if err := e.log.Sync(); err != nil {
			t.Fatal(err)
		}
		if round%4 == 3 {
			if err := e.Rewrite(); err != nil {
				t.Fatal(err)
			}
		}
		before := e.log.OldestLSN()
		e.tend()
		oldest := e.log.OldestLSN()
		if oldest > before {
			let++
		}
		for lsn := before; lsn < oldest; lsn++ {
			if times[lsn] >= now.Load()-age {
				t.Fatalf("LSN %d is gone after %d ms", lsn, now.Load()-times[lsn])
			}
		}
		// Of what recovery does not need no whole file is older.
		segs := e.log.Segments()
		base := e.log.Status().BaseLSN
		for i, s := range segs {
			if i+1 < len(segs) && segs[i+1].FirstLSN <= base+1 && times[s.LastLSN] < now.Load()-age-3000 {
				t.Fatalf("the file of LSN %d to %d is still there after %d ms", s.FirstLSN, s.LastLSN, now.Load()-times[s.LastLSN])
			}
		}
		at, err := e.source.At(all, now.Load()-age/2)
		if err != nil {
			t.Fatal(err)
		}
		if lsn := at.Offset + 1; lsn < uint64(len(times)) && (times[lsn] < now.Load()-age/2 || lsn > 1 && times[lsn-1] >= now.Load()-age/2 && lsn > oldest) {
			t.Fatalf("AT is LSN %d, of %d", lsn, times[lsn])
		}
	}
	if let < 5 {
		t.Fatalf("history was let go %d times", let)
	}
}

// countReads counts what is read of files.
type countReads struct {
	vfs.FS
	bytes *atomic.Int64
}

type countedFile struct {
	vfs.File
	bytes *atomic.Int64
}

func (c countReads) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return countedFile{f, c.bytes}, nil
}

func (f countedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	f.bytes.Add(int64(n))
	return n, err
}

// A cursor a million frames back, below the base and after a restart, is found
// without reading the history from its beginning: of ALL by halving the file, of a
// shard from the beginning of its file.
func TestAMillionFramesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes a million frames")
	}
	const (
		frames       = 1_000_000
		segmentBytes = 4 << 20
	)
	mem := vfs.NewMem()
	opt := small(mem)
	opt.FeedMemoryBytes, opt.SegmentBytes = 1<<20, segmentBytes
	e := mustOpen(t, opt)
	shards := e.source.All()
	from := make([]feed.Cursor, shards+1)
	for i := range from {
		from[i] = e.source.Tail(i)
	}
	for range 10 {
		setMany(t, e, frames/10, "v")
	}
	if err := e.Rewrite(); err != nil {
		t.Fatal(err)
	}
	next := e.source.NextOffsets()
	mustClose(t, e)
	var read atomic.Int64
	opt.FS = countReads{mem, &read}
	e = mustOpen(t, opt)
	defer mustClose(t, e)
	var total int64
	for _, s := range e.log.Segments() {
		total += s.Bytes
	}
	for stream, most := range []int64{segmentBytes + 1<<20, segmentBytes + 1<<20, 3 << 20} {
		for i := range uint64(8) {
			at := feed.Cursor{Generation: from[stream].Generation, Offset: next[stream] / 9 * i}
			var b feed.Batch
			read.Store(0)
			if err := e.source.Since(context.Background(), &feed.Request{Stream: stream, Cursor: at, Count: 1}, &b); err != nil || b.Len() != 1 {
				t.Fatalf("%v: %d frames: %v", at, b.Len(), err)
			}
			if n := read.Load(); n > most {
				t.Errorf("stream %d, offset %d of %d: %d bytes of %d were read", stream, at.Offset, next[stream], n, total)
			}
			b.Release()
		}
	}
	if total < 8*segmentBytes {
		t.Fatalf("only %d bytes of history", total)
	}
}
