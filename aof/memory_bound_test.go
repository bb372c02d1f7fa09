package aof

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

// What the line of a block says about its size costs no memory before it is
// known to be true.
func TestAnnouncedSizeTakesNoMemory(t *testing.T) {
	const payload = 128 << 20
	dir := t.TempDir()
	opt := diskOptions(dir)
	l, _ := openLog(t, opt)
	l.set(0, "a", "1")
	l.mustWrite()
	l.mustClose()
	name := l.dir.logPath(segmentName(1))
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		holds  int64 // of the payload
		reason string
	}{
		{"a torn tail", payload - 1, "a block is cut short"},
		{"a wrong checksum", payload, wrongChecksum},
		{"a length with a digit more", 10, "a block is cut short"},
	} {
		h := BlockHeader{FirstLSN: 2, Ops: 1, UnixMs: 1_700_000_000_000, PayloadBytes: payload}
		line := appendChecksum(appendBlockLine(nil, &h), 0)
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.WriteAt(line, info.Size()); err == nil {
			err = f.Truncate(info.Size() + int64(len(line)) + c.holds)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err = tryOpenLog(t, opt, RecoverWhole)
		runtime.ReadMemStats(&after)
		var torn *TornError
		if !errors.As(err, &torn) || torn.Reason != c.reason || torn.Offset != info.Size() {
			t.Fatalf("%s: %v", c.name, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
			t.Fatalf("%s: %d bytes were allocated", c.name, allocated)
		}
		if err := os.Truncate(name, info.Size()); err != nil {
			t.Fatal(err)
		}
	}
}

// A payload larger than what is read before it is proved comes back as it was,
// and a fault in any part of it is seen.
func TestLargeBlocks(t *testing.T) {
	rng := testRand(t)
	for _, size := range []int{maxWholeBytes - 100, maxWholeBytes + 1, maxWindowedKept + windowBytes + 7, 2 * maxWindowedKept} {
		fs := vfs.NewMem()
		l, _ := openLog(t, testOptions(fs))
		value := make([]byte, size)
		for i := range value {
			value[i] = 'a' + byte(i%23)
		}
		l.set(0, "big", string(value))
		l.mustWrite()
		l.set(0, "small", "1")
		l.mustWrite()
		l.mustClose()
		again, rec := openLog(t, testOptions(fs))
		checkOps(t, "recovered", rec.ops, l.ops)
		r, err := again.NewReader(1)
		if err != nil {
			t.Fatal(err)
		}
		s, ok, err := r.Next()
		if err != nil || !ok || (s.Large != nil) != (size >= maxWholeBytes) {
			t.Fatalf("size %d: %v %v, large: %v", size, ok, err, s.Large != nil)
		}
		if p := s.Large; p != nil {
			whole, err := p.Ahead(0, p.Size())
			if err != nil || int64(len(whole)) != p.Size() || !bytes.Contains(whole, value) {
				t.Fatalf("size %d: %d bytes were read: %v", size, len(whole), err)
			}
			whole = bytes.Clone(whole)
			for range 50 {
				at := rng.Int64N(p.Size())
				n := rng.Int64N(1 + rng.Int64N(p.Size()))
				b, err := p.Ahead(at, n)
				if err != nil || !bytes.HasPrefix(whole[at:], b) || int64(len(b)) < min(n, p.Size()-at) {
					t.Fatalf("size %d: %d bytes at %d: %d bytes, %v", size, n, at, len(b), err)
				}
			}
			if size == 2*maxWindowedKept { // what a large op took is let go behind it
				p.buf = nil
				for _, n := range []int64{1, maxWindowedKept + 1} {
					for _, at := range []int64{0, p.Size() - 1, 0} {
						if _, err := p.Ahead(at, n); err != nil {
							t.Fatal(err)
						}
					}
					if n == 1 && cap(p.buf) > 2*windowBytes {
						t.Fatalf("%d bytes are held for one", cap(p.buf))
					}
				}
				if _, err := p.Ahead(p.Size()-1, 1); err != nil || cap(p.buf) > 2*windowBytes {
					t.Fatalf("%d bytes are held for one: %v", cap(p.buf), err)
				}
			}
			if s, ok, err := r.Next(); err != nil || !ok || s.Large != nil {
				t.Fatal(ok, err)
			}
			if _, err := p.Ahead(0, 1); err == nil {
				t.Fatal("a payload is read after its span")
			}
		}
		r.Close()
		again.mustClose()
		text := readFileText(t, fs, firstSegment)
		for _, at := range []int{len(text) - size, len(text) - size/2, len(text) - 300} {
			changed := text[:at] + "?" + text[at+1:]
			sink, report, err := recoverWith(t, fs, firstSegment, changed, RecoverRefuse)
			var damage *DamageError
			if len(sink.byLSN) > 1 || err == nil && report.Torn == nil || err != nil && !errors.As(err, &damage) {
				t.Fatalf("size %d, byte %d: %d ops, %v", size, at, len(sink.byLSN), err)
			}
		}
	}
}

// Commits larger than a block do not gather behind each other in one chunk: the
// log's memory and what a reader holds that stands still are bounded by bytes,
// not by their number.
func TestLargeCommitsAreLetGo(t *testing.T) {
	opt := diskOptions(t.TempDir())
	opt.BlockBytes, opt.MemoryBytes = 64<<10, 4<<20
	l, _ := openLog(t, opt)
	l.set(0, "first", "1")
	r, err := l.NewReader(1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, ok, err := r.Next(); err != nil || !ok {
		t.Fatal(ok, err)
	}
	value := strings.Repeat("x", 256<<10)
	for range 400 {
		l.set(0, "k", value)
		l.mustWrite()
	}
	limit := opt.MemoryBytes + 2*int64(l.mem.chunkBytes) + 2*int64(len(value))
	if n := l.Status().MemoryBytes; n > limit {
		t.Errorf("%d bytes in memory, and %d are allowed", n, limit)
	}
	held := int64(len(r.chunk.buf)) + r.chunk.bytes
	if most := 2*int64(l.mem.chunkBytes) + 2*int64(len(value)); held > most {
		t.Errorf("a reader holds %d bytes, and %d are allowed", held, most)
	}
	l.mustClose()
}

// TestMemoryIsKept asks a log without files for more than it keeps by itself.
func TestMemoryIsKept(t *testing.T) {
	l, _ := openLog(t, Options{NoFile: true, MemoryBytes: 1 << 20, NowMs: func() int64 { return 1 }})
	value := strings.Repeat("x", 10<<10)
	write := func() {
		for range 1000 {
			l.set(0, "k", value)
		}
	}
	write()
	from := l.Last() + 1
	l.Keep(from)
	write()
	if oldest, n := l.OldestLSN(), l.Status().MemoryBytes; oldest > from || n < 10<<20 {
		t.Errorf("from LSN %d on all is to be kept, and what is kept begins with %d, in %d bytes", from, oldest, n)
	}
	r, err := l.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	l.Keep(from + 500)
	if oldest := l.OldestLSN(); oldest <= from || oldest > from+500 {
		t.Errorf("from LSN %d on all is to be kept, and what is kept begins with %d", from+500, oldest)
	}
	l.Keep(math.MaxUint64)
	if n := l.Status().MemoryBytes; n > 2<<20 {
		t.Errorf("nothing is to be kept, and %d bytes are", n)
	}
	l.mustClose()
}
