package aof

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

// longLog writes n commits of two ops, a block each, over many segments.
func longLog(t *testing.T, opt Options, n int) *testLog {
	t.Helper()
	l, _ := openLog(t, opt)
	for i := range n {
		l.set(i%2, fmt.Sprint("key", i), "1", fmt.Sprint("pair", i), strings.Repeat("v", i%50))
		l.mustWrite()
	}
	return l
}

func smallSegments(fs vfs.FS) Options {
	opt := testOptions(fs)
	opt.SegmentBytes, opt.MemoryBytes = 4<<10, 2<<10
	return opt
}

// readFrom reads from an LSN to the end and returns the ops from that LSN on.
func readFrom(t *testing.T, l *testLog, lsn uint64) (ops []string) {
	t.Helper()
	r, err := l.NewReader(lsn)
	if err != nil {
		t.Fatalf("reader at LSN %d: %v", lsn, err)
	}
	defer r.Close()
	for first := true; ; first = false {
		s, ok, err := r.Next()
		if err != nil {
			t.Fatalf("reader at LSN %d: %v", r.LSN(), err)
		}
		if !ok {
			return ops
		}
		got, _, err := opsOf(s.Payload, -1)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "ops of the span", len(got), s.Ops)
		if first {
			if s.FirstLSN > lsn || s.FirstLSN+uint64(s.Ops) <= lsn && len(l.ops) >= int(lsn) {
				t.Fatalf("a reader at LSN %d begins with %d and %d ops", lsn, s.FirstLSN, s.Ops)
			}
			got = got[lsn-s.FirstLSN:]
		}
		ops = append(ops, got...)
	}
}

func TestReadFromEveryLSN(t *testing.T) {
	fs := vfs.NewMem()
	l := longLog(t, smallSegments(fs), 200)
	if n := l.Status().Segments; n < 4 {
		t.Fatalf("only %d segments", n)
	}
	if oldest := l.mem.oldest(0); oldest < 300 {
		t.Fatalf("memory reaches back to LSN %d: the files are not read", oldest)
	}
	l.set(0, "not", "written")
	for lsn := uint64(1); lsn <= l.Last()+1; lsn++ {
		checkOps(t, fmt.Sprint("from ", lsn), readFrom(t, l, lsn), l.ops[lsn-1:])
	}
	if _, err := l.NewReader(l.Last() + 2); err == nil {
		t.Fatal("a reader beyond the end")
	}
	if _, err := l.NewReader(0); !errors.Is(err, ErrTruncated) {
		t.Fatalf("a reader at LSN 0: %v", err)
	}
	l.mustClose()

	again, _ := openLog(t, smallSegments(fs))
	again.ops = l.ops
	for lsn := uint64(1); lsn <= again.Last()+1; lsn += 3 {
		checkOps(t, fmt.Sprint("after a restart, from ", lsn), readFrom(t, again, lsn), l.ops[lsn-1:])
	}
	again.mustClose()
}

// A reader at the tail sees each commit once, while its block grows, is closed
// and goes from memory to disk.
func TestReadTheOpenBlock(t *testing.T) {
	fs := vfs.NewMem()
	l, _ := openLog(t, smallSegments(fs))
	var readers []*Reader
	for range 3 {
		r, err := l.NewReader(1)
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	got := make([][]string, len(readers))
	grown := 0
	for i := range 400 {
		l.set(0, fmt.Sprint("k", i), strings.Repeat("v", 20))
		if i%7 == 0 {
			l.mustWrite()
		}
		for j, r := range readers {
			// The first reads at once, the others later and later.
			if j > 0 && i%(40*j) != 0 && i < 399 {
				continue
			}
			for {
				s, ok, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if !s.BlockStart {
					grown++
				}
				check(t, "first LSN", s.FirstLSN, uint64(len(got[j])+1))
				ops, _, err := opsOf(s.Payload, 0)
				if err != nil {
					t.Fatal(err)
				}
				got[j] = append(got[j], ops...)
			}
		}
	}
	for j := range readers {
		checkOps(t, fmt.Sprint("reader ", j), got[j], l.ops)
		readers[j].Close()
	}
	if grown == 0 {
		t.Fatal("no block was read in parts")
	}
	l.mustClose()
}

func TestFeedSegments(t *testing.T) {
	fs := vfs.NewMem()
	opt := smallSegments(fs)
	opt.FileHeader = func(dst []byte) []byte { return append(dst, "#kevy-pos 0 7 0\r\n"...) }
	l := longLog(t, opt, 150)
	away, err := l.NewReader(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := away.Next(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	cut, err := l.Cut()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		l.set(0, fmt.Sprint("behind", i), "v")
		l.mustWrite()
	}
	if err := rewriteAll(l, cut); err != nil {
		t.Fatal(err)
	}
	s := l.Status()
	if s.FeedSegments < 3 || s.BaseLSN != cut || s.BaseOps != cut || s.FeedBytes == 0 {
		t.Fatalf("%+v", s)
	}
	if names := mustList(t, fs, "data/feed"); names[0] != "00000000000000000001.aof" || len(names) != s.FeedSegments {
		t.Fatalf("%q", names)
	}
	checkOps(t, "a reader that had a file open", l.ops[away.LSN()-1:], readOn(t, away))
	check(t, "oldest", l.OldestLSN(), 1)
	for lsn := uint64(1); lsn <= l.Last()+1; lsn += 7 {
		checkOps(t, fmt.Sprint("from ", lsn), readFrom(t, l, lsn), l.ops[lsn-1:])
	}
	segments := l.Segments()
	check(t, "segments", len(segments), s.FeedSegments+s.Segments)
	for i, seg := range segments {
		check(t, "positions", len(seg.Positions), 1)
		check(t, "position", seg.Positions[0], Position{0, 7, 0})
		if i > 0 {
			check(t, "first LSN", seg.FirstLSN, segments[i-1].LastLSN+1)
		}
	}
	l.mustClose()

	again, rec := openLog(t, opt)
	checkOps(t, "base", rec.base, l.ops[:cut])
	checkOps(t, "log", rec.ops, l.ops[cut:])
	again.ops = l.ops
	if !slices.EqualFunc(again.Segments(), segments, func(a, b SegmentInfo) bool {
		return a.FirstLSN == b.FirstLSN && a.LastLSN == b.LastLSN && a.Bytes == b.Bytes && a.UnixMs == b.UnixMs && len(a.Positions) == len(b.Positions)
	}) {
		t.Fatalf("segments %+v instead of %+v", again.Segments(), segments)
	}
	for lsn := uint64(1); lsn <= again.Last()+1; lsn += 7 {
		checkOps(t, fmt.Sprint("after a restart, from ", lsn), readFrom(t, again, lsn), l.ops[lsn-1:])
	}
	// A floor within a segment keeps it, and a reader that has a removed file open
	// goes on to its end.
	open, err := again.NewReader(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := open.Next(); err != nil {
		t.Fatal(err)
	}
	floor := segments[2].FirstLSN + 1
	again.SetFloor(floor)
	again.RemoveDropped()
	check(t, "oldest", again.OldestLSN(), segments[2].FirstLSN)
	if _, err := again.NewReader(1); !errors.Is(err, ErrTruncated) {
		t.Fatalf("a reader below the floor: %v", err)
	}
	if _, err := again.PositionsAt(1); !errors.Is(err, ErrTruncated) {
		t.Fatalf("positions below the floor: %v", err)
	}
	var last uint64
	for {
		s, ok, err := open.Next()
		if errors.Is(err, ErrTruncated) {
			break
		}
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		last = s.FirstLSN + uint64(s.Ops) - 1
	}
	check(t, "read to", last, segments[0].LastLSN)
	open.Close()
	again.SetFloor(again.Last())
	again.RemoveDropped()
	check(t, "feed files", len(mustList(t, fs, "data/feed")), 0)
	check(t, "oldest", again.OldestLSN(), cut+1)
	again.mustClose()
}

// readOn reads to the end.
func readOn(t *testing.T, r *Reader) (ops []string) {
	t.Helper()
	defer r.Close()
	for {
		s, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return ops
		}
		got, _, err := opsOf(s.Payload, -1)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, got...)
	}
}

// Files of feed/ that do not join to the log cannot be served, and those that a
// base install left behind are found again.
func TestFeedSegmentsAtOpen(t *testing.T) {
	fs := vfs.NewMem()
	l := longLog(t, smallSegments(fs), 150)
	cut, err := l.Cut()
	if err != nil {
		t.Fatal(err)
	}
	l.set(0, "behind", "v")
	l.mustWrite()
	if err := rewriteAll(l, cut); err != nil {
		t.Fatal(err)
	}
	segments := l.Segments()
	l.mustClose()
	feedFile := func(i int) string { return "data/feed/" + feedName(segments[i].FirstLSN) }

	t.Run("gap", func(t *testing.T) {
		fs := fs.Clone()
		if err := fs.Remove(feedFile(1)); err != nil {
			t.Fatal(err)
		}
		l, _ := openLog(t, smallSegments(fs))
		check(t, "oldest", l.OldestLSN(), segments[2].FirstLSN)
		if slices.Contains(mustList(t, fs, "data/feed"), feedName(1)) {
			t.Fatal("a file that nobody can read is kept")
		}
		l.mustClose()
	})
	t.Run("moved back", func(t *testing.T) {
		fs := fs.Clone()
		for i := range 3 {
			if err := fs.Rename(feedFile(i), "data/appendonlydir/"+segmentName(int64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		// A power cut can leave both names.
		if err := fs.Link("data/appendonlydir/"+segmentName(3), feedFile(2)); err != nil {
			t.Fatal(err)
		}
		again, _ := openLog(t, smallSegments(fs))
		again.ops = l.ops
		check(t, "oldest", again.OldestLSN(), 1)
		checkOps(t, "from 1", readFrom(t, again, 1), l.ops)
		check(t, "files", len(mustList(t, fs, "data/feed")), len(segments)-1)
		again.mustClose()
	})
	t.Run("damaged", func(t *testing.T) {
		fs := fs.Clone()
		text := readFileText(t, fs, feedFile(1))
		writeFileText(t, fs, feedFile(1), text[:600]+"?"+text[601:])
		again, _ := openLog(t, smallSegments(fs))
		r, err := again.NewReader(1)
		if err != nil {
			t.Fatal(err)
		}
		var damage *DamageError
		for err == nil {
			var ok bool
			if _, ok, err = r.Next(); !ok && err == nil {
				t.Fatal("damage is not noticed")
			}
		}
		if !errors.As(err, &damage) || damage.File != feedFile(1) || !errors.Is(err, ErrTruncated) {
			t.Fatal(err)
		}
		r.Close()
		// Readers are not led there again.
		if oldest := again.OldestLSN(); oldest <= 1 {
			t.Fatalf("the oldest LSN is %d", oldest)
		}
		again.ops = l.ops
		checkOps(t, "from behind it", readFrom(t, again, again.OldestLSN()), l.ops[again.OldestLSN()-1:])
		again.mustClose()
	})
	t.Run("not closed", func(t *testing.T) {
		// Without the empty block at its end the blocks are counted.
		fs := fs.Clone()
		text := readFileText(t, fs, feedFile(1))
		writeFileText(t, fs, feedFile(1), text[:strings.LastIndex(text, "#kevy ")])
		again, _ := openLog(t, smallSegments(fs))
		again.ops = l.ops
		check(t, "oldest", again.OldestLSN(), 1)
		checkOps(t, "from 1", readFrom(t, again, 1), l.ops)
		again.mustClose()
	})
}

// The index makes a reader near the end of a large file read little of it.
func TestSparseIndex(t *testing.T) {
	fs := vfs.NewMem()
	opt := testOptions(fs)
	opt.BlockBytes = 64 << 10
	l, _ := openLog(t, opt)
	value := strings.Repeat("v", 1000)
	for i := range 8000 {
		l.set(0, fmt.Sprint("k", i), value)
		if i%20 == 19 {
			l.mustWrite()
		}
	}
	l.mustWrite()
	s := l.dir.segments[0]
	if n := int64(len(s.index)); n < s.bytes/(markBytes+64<<10) || n > s.bytes/markBytes+1 {
		t.Fatalf("%d marks in %d bytes", n, s.bytes)
	}
	reads := func(l *testLog, lsn uint64) (bytes int) {
		t.Helper()
		r, err := l.NewReader(lsn)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		fs.Trace(true)
		defer fs.Trace(false)
		if _, ok, err := r.Next(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		for _, op := range fs.Ops() {
			if op.Op == vfs.OpRead {
				bytes += op.Bytes
			}
		}
		return bytes
	}
	if n := reads(l, 7000); n > 2*(markBytes+windowBytes) {
		t.Fatalf("%d of %d bytes are read", n, s.bytes)
	}
	l.mustClose()
	again, _ := openLog(t, opt)
	if n := reads(again, 7000); n > 2*(markBytes+windowBytes) {
		t.Fatalf("after a restart %d of %d bytes are read", n, s.bytes)
	}
	again.mustClose()
}

func TestMemoryIsBounded(t *testing.T) {
	for _, noFile := range []bool{false, true} {
		opt := testOptions(vfs.NewMem())
		opt.NoFile = noFile
		opt.MemoryBytes = 256 << 10
		l, _ := openLog(t, opt)
		r, err := l.NewReader(1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5000 {
			size := 200
			if i%100 == 0 {
				size = 5000 // a block of its own, beside the chunks
			}
			l.set(0, fmt.Sprint("k", i), strings.Repeat("v", size))
			if i%3 == 0 {
				l.mustWrite()
			}
			if i == 0 {
				if _, ok, err := r.Next(); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
		}
		if n := l.Status().MemoryBytes; n > opt.MemoryBytes+int64(l.mem.chunkBytes) || n < opt.MemoryBytes/2 {
			t.Fatalf("%d bytes in memory, and the limit is %d", n, opt.MemoryBytes)
		}
		if noFile {
			if oldest := l.OldestLSN(); oldest < 2000 || oldest > 5000 {
				t.Fatalf("memory reaches back to LSN %d", oldest)
			}
			if _, _, err := r.Next(); !errors.Is(err, ErrTruncated) {
				t.Fatalf("a reader of what is gone: %v", err)
			}
			if err := l.WaitDurable(1); !errors.Is(err, ErrNoFile) {
				t.Fatal(err)
			}
			if _, err := l.Cut(); !errors.Is(err, ErrNoFile) {
				t.Fatal(err)
			}
			checkOps(t, "from memory", readFrom(t, l, l.OldestLSN()), l.ops[l.OldestLSN()-1:])
		} else {
			checkOps(t, "from memory and disk", readOn(t, r), l.ops[1:])
		}
		r.Close()
		// Chunks are used again.
		commit := benchCommit()
		if n := testing.AllocsPerRun(5000, func() { l.Append(commit) }); n > 0 {
			t.Errorf("%v allocations a commit", n)
		}
		l.mustClose()
	}
}

// A floor that goes down again keeps what recovery still needed while it was
// higher, also over the rewrite that makes recovery need it no more.
func TestFloorGoesDown(t *testing.T) {
	for _, lowered := range []bool{true, false} {
		fs := vfs.NewMem()
		l, _ := openLog(t, testOptions(fs))
		for i := range 3 {
			for range 4 {
				l.set(0, fmt.Sprint("k", i), "v")
			}
			l.mustWrite()
			if _, err := l.Cut(); err != nil {
				t.Fatal(err)
			}
		}
		l.mustWrite()
		l.SetFloor(9)
		check(t, "oldest of what recovery needs", l.OldestLSN(), 1)
		if lowered {
			l.SetFloor(6)
		}
		cut, err := l.Cut()
		if err != nil {
			t.Fatal(err)
		}
		if err := rewriteAll(l, cut); err != nil {
			t.Fatal(err)
		}
		l.RemoveDropped()
		want, files := uint64(9), 1
		if lowered {
			want, files = 5, 2
		}
		check(t, "oldest", l.OldestLSN(), want)
		check(t, "feed files", len(mustList(t, fs, "data/feed")), files)
		l.mustClose()
	}
}
