package aof

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kevy/internal/vfs"
)

// syncs counts the fsyncs of segments in a trace.
func syncs(fs *vfs.Mem) (n int) {
	for _, op := range fs.Ops() {
		if op.Op == vfs.OpSync && strings.HasSuffix(op.Name, segmentSuffix) {
			n++
		}
	}
	return n
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		after  time.Duration // until a commit is durable by itself
	}{
		{PolicyEverySec, tickEvery},
		{PolicyNo, syncTicksNo * tickEvery},
	} {
		synctest.Test(t, func(t *testing.T) {
			fs := vfs.NewMem()
			opt := testOptions(fs)
			opt.Policy = c.policy
			l, _ := openLog(t, opt)
			l.set(0, "a", "1")
			l.mustWrite()
			time.Sleep(c.after - time.Millisecond)
			synctest.Wait()
			check(t, "durable early", l.Durable(), 0)
			time.Sleep(time.Second)
			synctest.Wait()
			check(t, "durable", l.Durable(), 1)

			l.SetPolicy(PolicyAlways)
			fs.Trace(true)
			l.set(0, "b", "2")
			if err := l.WaitDurable(2); err != nil {
				t.Fatal(err)
			}
			check(t, "durable", l.Durable(), 2)
			check(t, "fsyncs", syncs(fs), 1)
			l.mustClose()
		})
	}
}

// What nobody waits for is written within a second.
func TestUnwaitedCommitsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := openLog(t, testOptions(vfs.NewMem()))
		l.set(0, "a", "1")
		time.Sleep(tickEvery + time.Millisecond)
		synctest.Wait()
		check(t, "written", l.Written(), 1)
		check(t, "durable", l.Durable(), 1)
		l.mustClose()
	})
}

// An idle log states once that all of it is durable, and then is quiet.
func TestIdleLogStatesWhatIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		l, _ := openLog(t, testOptions(fs))
		l.set(0, "a", "1")
		l.mustWrite()
		time.Sleep(3*tickEvery + time.Millisecond)
		synctest.Wait()
		text := readFileText(t, fs, firstSegment)
		if !strings.Contains(text, "#kevy 2 0 1 1700000000000 0 ") {
			t.Fatalf("no block states that LSN 1 is durable: %q", text)
		}
		fs.Trace(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		check(t, "steps of an idle log", len(fs.Ops()), 0)
		l.mustClose()

		// A fault in what was stated durable is damage now, though it is the last op.
		at := strings.Index(text, "$1\r\na\r\n")
		if _, _, err := recoverWith(t, fs, firstSegment, text[:at]+"$1\r\nb\r\n"+text[at+7:], RecoverRefuse); err == nil {
			t.Fatal("damage is taken for a torn tail")
		}
		again, rec := openLog(t, testOptions(fs))
		checkOps(t, "recovered", rec.ops, l.ops)
		time.Sleep(time.Minute)
		synctest.Wait()
		check(t, "the file after a restart", readFileText(t, fs, firstSegment), text)
		again.mustClose()
	})
}

// slowSync is a file system whose fsyncs of segments take a while.
type slowSync struct {
	vfs.FS
	takes time.Duration
}

type slowFile struct {
	vfs.File
	takes time.Duration
}

func (s slowSync) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, segmentSuffix) {
		return f, err
	}
	return slowFile{f, s.takes}, nil
}

func (f slowFile) SyncData() error {
	time.Sleep(f.takes)
	return f.File.SyncData()
}

// A slow fsync holds up nobody who waits for the write only, and one fsync is
// enough for all who wait for it.
func TestSlowSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		opt := testOptions(slowSync{mem, 5 * time.Second})
		l, _ := openLog(t, opt)
		l.set(0, "a", "1")
		l.mustWrite()
		time.Sleep(tickEvery + time.Millisecond) // the fsync begins
		start := time.Now()
		for range 100 {
			l.set(0, "b", "2")
			l.mustWrite()
		}
		check(t, "time that 100 writes take", time.Since(start), 0)
		check(t, "durable", l.Durable(), 0)

		mem.Trace(true)
		done := make(chan error)
		for range 50 {
			lsn := l.set(0, "c", "3")
			go func() { done <- l.WaitDurable(lsn) }()
		}
		for range 50 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		// The one that was running, and one for all.
		if n := syncs(mem); n > 2 {
			t.Fatalf("%d fsyncs for 50 waiters", n)
		}
		check(t, "durable", l.Durable(), 151)
		l.mustClose()
	})
}

// A file is closed at its size, with the next one made beside the writing.
func TestRotationBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		opt := testOptions(fs)
		opt.SegmentBytes = 8 << 10
		l, _ := openLog(t, opt)
		for range 400 {
			l.set(0, "key", strings.Repeat("v", 100))
			l.mustWrite()
			synctest.Wait()
		}
		segments := l.Segments()
		for i, s := range segments[:len(segments)-1] {
			if s.Bytes < opt.SegmentBytes || s.Bytes > opt.SegmentBytes+1024 {
				t.Fatalf("segment %d has %d bytes", i, s.Bytes)
			}
		}
		check(t, "segments", len(segments), int(l.Status().LogBytes/opt.SegmentBytes)+1)
		want := manifestMark + "\n"
		for i := range segments {
			want += "file " + segmentName(int64(i+1)) + " seq " + string(appendUint(nil, uint64(i+1))) + " type i\n"
		}
		check(t, "manifest", readFileText(t, fs, "data/appendonlydir/"+manifestName), want)
		l.mustClose()
		again, rec := openLog(t, opt)
		checkOps(t, "recovered", rec.ops, l.ops)
		again.mustClose()
	})
}

// unix-ms is that of the block's beginning, and does not follow a clock that
// goes back.
func TestBlockTime(t *testing.T) {
	fs := vfs.NewMem()
	l, _ := openLog(t, testOptions(fs))
	l.clock.Store(5000)
	l.set(0, "a", "1")
	l.clock.Store(6000)
	l.set(0, "b", "2")
	l.mustWrite()
	l.clock.Store(4000)
	l.set(0, "c", "3")
	l.mustWrite()
	l.clock.Store(7000)
	l.set(0, "d", "4")
	l.mustClose()
	times := func(l *testLog) (ms []int64) {
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
	for i, want := range []int64{5000, 5000, 5000, 7000} {
		check(t, "time", times(l)[i], want)
	}
	opt := testOptions(fs)
	opt.NowMs = func() int64 { return 1 }
	again, _ := openLog(t, opt)
	check(t, "last time", again.report.LastUnixMs, 7000)
	again.set(0, "e", "5")
	check(t, "time after a restart", times(again)[4], 7000)
	again.mustClose()
}
