package aof

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"kevy/internal/vfs"
)

// countReads is a file system that counts what is read of its files.
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

// belowTheBase moves all that was appended below a base and opens the log anew,
// so that nothing of it is indexed or in memory. bytes counts what is read from
// then on.
func belowTheBase(t *testing.T, l *testLog, opt Options) (again *testLog, bytes *atomic.Int64) {
	t.Helper()
	cut, err := l.Cut()
	if err != nil {
		t.Fatal(err)
	}
	base, err := l.BeginBase(cut)
	if err == nil {
		err = base.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	l.mustClose()
	bytes = new(atomic.Int64)
	opt.FS = countReads{opt.FS, bytes}
	again, _ = openLog(t, opt)
	again.ops = l.ops
	bytes.Store(0)
	return again, bytes
}

// A place a million ops back, in files that nothing was read of since the start,
// is found by its LSN and by its time without reading them from the beginning.
func TestAMillionOpsBack(t *testing.T) {
	const (
		ops       = 1_000_000
		batch     = 20
		mostBytes = 3 << 20 // of about 40 MiB
	)
	opt := testOptions(vfs.NewMem())
	opt.BlockBytes, opt.MemoryBytes = 0, 0
	l, _ := openLog(t, opt)
	c := &testCommit{state: &l.state}
	at := make(map[uint64]int64) // the time of some LSNs
	for n := 0; n < ops; n += batch {
		c.pairs = c.pairs[:0]
		for i := range batch {
			c.pairs = append(c.pairs, [2]string{fmt.Sprint("key", n+i), "v"})
		}
		l.clock.Add(3)
		last := l.Append(c)
		if n%(ops/50) == 0 {
			at[last+1-batch] = l.clock.Load()
		}
		if n%(ops/10) == 0 {
			l.mustWrite()
		}
	}
	l.mustWrite()
	again, read := belowTheBase(t, l, opt)
	size := again.Segments()[0].Bytes
	if size < 10*mostBytes {
		t.Fatalf("only %d bytes of history", size)
	}
	var most int64
	for lsn, ms := range at {
		read.Store(0)
		r, err := again.NewReader(lsn)
		if err != nil {
			t.Fatal(err)
		}
		s, ok, err := r.Next()
		if err != nil || !ok || s.FirstLSN > lsn || s.FirstLSN+uint64(s.Ops) <= lsn {
			t.Fatalf("LSN %d is sought in the span from %d with %d ops: %v %v", lsn, s.FirstLSN, s.Ops, ok, err)
		}
		if want := fmt.Sprint("key", s.FirstLSN-1); !strings.Contains(string(s.Payload[:200]), "\r\n"+want+"\r\n") {
			t.Fatalf("LSN %d is another op: %q", s.FirstLSN, s.Payload[:200])
		}
		r.Close()
		first, err := again.FirstAt(ms)
		if err != nil || first > lsn+uint64(s.Ops) || first < s.FirstLSN {
			t.Fatalf("LSN %d, in the block from %d, was written at %d, and FirstAt is %d: %v", lsn, s.FirstLSN, ms, first, err)
		}
		most = max(most, read.Load())
	}
	t.Logf("%d of %d bytes read at most", most, size)
	if most > mostBytes {
		t.Fatalf("%d of %d bytes were read for one place", most, size)
	}
}

// Values that look like blocks, commits larger than a look, and blocks without
// ops mislead nobody.
func TestNarrowAmongLookalikes(t *testing.T) {
	rng := testRand(t)
	opt := testOptions(vfs.NewMem())
	opt.SegmentBytes = 6 << 20
	l, _ := openLog(t, opt)
	l.set(0, "a", "1") // makes the first file
	genuine := ""
	for i := range 400 {
		l.clock.Add(7)
		switch rng.IntN(8) {
		case 0:
			l.set(0, fmt.Sprint("k", i), strings.Repeat("#kevy 5 1 0 1700000000000 40 00000000\r\n", 1+rng.IntN(3000)))
		case 1:
			l.set(0, fmt.Sprint("k", i), genuine)
		case 2:
			l.set(0, fmt.Sprint("k", i), strings.Repeat("x", rng.IntN(900<<10)))
		case 3:
			l.Annotate(fmt.Sprintf("#kevy-gen %d", 1000+i))
		case 4:
			l.mustWrite()
			text := readFileText(t, opt.FS, firstSegment)
			genuine = text[:min(len(text), 200<<10)] // blocks of this log, inside a value
		default:
			for range rng.IntN(200) {
				l.set(i%2, fmt.Sprint("k", i), "v")
			}
		}
	}
	l.mustWrite()
	times := timesOf(t, l)
	again, _ := belowTheBase(t, l, opt)
	if n := len(again.Segments()); n < 3 {
		t.Fatalf("only %d segments", n)
	}
	for range 60 {
		lsn := 1 + uint64(rng.IntN(len(l.ops)))
		r, err := again.NewReader(lsn)
		if err != nil {
			t.Fatal(err)
		}
		s, ok, err := r.Next()
		if err != nil || !ok || !s.BlockStart || s.FirstLSN > lsn || s.FirstLSN+uint64(s.Ops) <= lsn {
			t.Fatalf("LSN %d is sought in the span from %d with %d ops: %v %v", lsn, s.FirstLSN, s.Ops, ok, err)
		}
		got, _, err := opsOf(s.Payload, -1)
		if err != nil {
			t.Fatal(err)
		}
		checkOps(t, fmt.Sprint("from LSN ", s.FirstLSN), got, l.ops[s.FirstLSN-1:][:len(got)])
		r.Close()
	}
	checkTimes(t, again, times)
	// What was marked on the way is as good as what was indexed in order.
	checkOps(t, "all", readFrom(t, again, 1), l.ops)
}

// timesOf returns the time of each op.
func timesOf(t *testing.T, l *testLog) (ms []int64) {
	t.Helper()
	r, err := l.NewReader(1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		s, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return ms
		}
		for range s.Ops {
			ms = append(ms, s.UnixMs)
		}
	}
}

// checkTimes compares FirstAt with a look at every op.
func checkTimes(t *testing.T, l *testLog, times []int64) {
	t.Helper()
	from, to := times[0]-3, times[len(times)-1]+3
	for ms := from; ms <= to; ms += max(1, (to-from)/300) {
		want := uint64(1)
		for _, at := range times {
			if at < ms {
				want++
			}
		}
		got, err := l.FirstAt(ms)
		if err != nil || got != want {
			t.Fatalf("the first op at %d is %d: %v, should be %d of %d", ms, got, err, want, len(times))
		}
	}
}

// FirstAt in memory, in files and in both, over segments, and without files.
func TestFirstAt(t *testing.T) {
	for _, opt := range []Options{testOptions(vfs.NewMem()), {NoFile: true, MemoryBytes: 1 << 30}} {
		rng := testRand(t)
		opt.SegmentBytes = 16 << 10
		l, _ := openLog(t, opt)
		first, err := l.FirstAt(5)
		if err != nil || first != 1 {
			t.Fatalf("of an empty log it is %d: %v", first, err)
		}
		for i := range 3000 {
			l.set(0, fmt.Sprint("k", i), strings.Repeat("v", rng.IntN(100)))
			if rng.IntN(4) == 0 {
				l.clock.Add(int64(rng.IntN(50)))
			}
			if i%300 == 0 && !opt.NoFile {
				l.mustWrite()
			}
		}
		times := timesOf(t, l)
		checkTimes(t, l, times)
		if opt.NoFile {
			return
		}
		l.mustWrite()
		again, _ := belowTheBase(t, l, opt)
		checkTimes(t, again, times)
		// Below the floor there is nothing.
		again.SetFloor(again.Segments()[2].FirstLSN)
		if got, err := again.FirstAt(0); err != nil || got != again.OldestLSN() || got == 1 {
			t.Fatalf("below the floor: %d %v", got, err)
		}
	}
}

func TestBlockCRCAndBytesFrom(t *testing.T) {
	opt := testOptions(vfs.NewMem())
	opt.SegmentBytes = 300 << 10
	l, _ := openLog(t, opt)
	for i := range 8000 {
		l.set(0, fmt.Sprint("key", i), strings.Repeat("v", 60))
	}
	l.mustWrite()
	crcs := map[uint64]uint32{}
	for lsn := uint64(1); lsn <= l.Last(); lsn += 97 {
		crc, err := l.BlockCRC(lsn)
		if err != nil || crc == 0 {
			t.Fatal(lsn, crc, err)
		}
		crcs[lsn] = crc
	}
	if crcs[1] == crcs[98] {
		t.Fatal("two blocks have one checksum")
	}
	l.mustClose()
	l, _ = openLog(t, opt)
	total := l.Status().LogBytes
	again, _ := belowTheBase(t, l, opt)
	for lsn, want := range crcs {
		if crc, err := again.BlockCRC(lsn); err != nil || crc != want {
			t.Fatalf("LSN %d: %x %v, not %x", lsn, crc, err, want)
		}
		// All ops are of about one size.
		exact := total - total*int64(lsn-1)/8000
		if got := again.BytesFrom(lsn); got < exact-8<<10 || got > exact+8<<10 {
			t.Fatalf("LSN %d: %d bytes behind it, not %d", lsn, got, exact)
		}
	}
	last := again.set(0, "unwritten", "v")
	if _, err := again.BlockCRC(last); err == nil {
		t.Fatal("a block that is in no file has a checksum")
	}
	again.mustClose()
}
