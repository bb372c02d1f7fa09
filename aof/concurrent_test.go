package aof

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kevy/internal/vfs"
)

// Appenders, readers, changes of files, rewrites and the floor at the same
// time: every reader gets every op once and in order, and so does recovery.
func TestConcurrentUse(t *testing.T) {
	const (
		appenders = 8
		readers   = 4
	)
	perAppender := 1500
	if testing.Short() {
		perAppender = 300
	}
	fs := vfs.NewMem()
	opt := testOptions(fs)
	opt.SegmentBytes, opt.MemoryBytes, opt.MaxUnwrittenBytes = 16<<10, 16<<10, 8<<10
	opt.FileHeader = func(dst []byte) []byte { return append(dst, "#kevy-pos 0 1 2\r\n"...) }
	var published []string // guarded by the log's mutex
	opt.Publish = func(firstLSN uint64, e Encoder) {
		if firstLSN != uint64(len(published)+1) {
			t.Errorf("LSN %d is published after %d ops", firstLSN, len(published))
		}
		for _, p := range e.(*testCommit).pairs {
			published = append(published, fmt.Sprintf("%d %s %s", e.(*testCommit).db, p[0], p[1]))
		}
	}
	l, _ := openLog(t, opt)
	var appending, others sync.WaitGroup
	var done atomic.Bool
	for a := range appenders {
		appending.Go(func() {
			for i := range perAppender {
				if err := l.Admit(); err != nil {
					t.Error(err)
					return
				}
				c := &testCommit{db: a % 3, state: &l.state, pairs: [][2]string{{fmt.Sprint(a), fmt.Sprint(i)}}}
				if i%10 == 0 {
					c.pairs = append(c.pairs, [2]string{fmt.Sprint(a), fmt.Sprint("also ", i)})
				}
				lsn := l.Append(c)
				var err error
				switch {
				case i%50 == 0:
					err = l.WaitDurable(lsn)
				case i%3 > 0:
					err = l.WaitWritten(lsn)
				}
				if err != nil || i%50 == 0 && l.Durable() < lsn || i%50 > 0 && i%3 > 0 && l.Written() < lsn {
					t.Errorf("LSN %d: written %d, durable %d, error %v", lsn, l.Written(), l.Durable(), err)
					return
				}
			}
		})
	}
	got := make([][]string, readers)
	var reached [readers]atomic.Uint64
	for i := range readers {
		others.Go(func() {
			r, err := l.NewReader(1)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			db := 9
			for {
				last := done.Load()
				s, ok, err := r.Next()
				if err != nil {
					t.Errorf("reader %d at LSN %d: %v", i, r.LSN(), err)
					return
				}
				if !ok {
					if last {
						return
					}
					time.Sleep(time.Duration(i) * time.Millisecond)
					continue
				}
				if s.BlockStart {
					db = -1
				}
				ops, after, err := opsOf(s.Payload, db)
				if err != nil || len(ops) != s.Ops || s.FirstLSN != uint64(len(got[i])+1) {
					t.Errorf("reader %d: a span of %d ops at LSN %d, after %d ops: %v", i, s.Ops, s.FirstLSN, len(got[i]), err)
					return
				}
				db = after
				got[i] = append(got[i], ops...)
				reached[i].Store(r.LSN())
			}
		})
	}
	rewrites := 0
	others.Go(func() {
		for !done.Load() {
			cut, err := l.Cut()
			if err != nil {
				t.Error(err)
				return
			}
			w, err := l.BeginBase(cut)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := l.BeginBase(cut); !errors.Is(err, ErrBaseRunning) {
				t.Errorf("a second base: %v", err)
			}
			for i := range 20 {
				if err := w.Write(appendCommand(appendCommand(nil, "select", "0"), "SET", "base", fmt.Sprint(cut, i)), 1); err != nil {
					t.Error(err)
					return
				}
			}
			if err := w.Commit(); err != nil {
				t.Error(err)
				return
			}
			rewrites++
			floor := reached[0].Load()
			for i := range reached {
				floor = min(floor, reached[i].Load())
			}
			l.SetFloor(floor)
			l.RemoveDropped()
			time.Sleep(5 * time.Millisecond)
		}
	})
	others.Go(func() {
		for i := 0; !done.Load(); i++ {
			l.SetPolicy(Policy(i % 3))
			s := l.Status()
			if s.Durable > s.Written || s.Written > s.Last || s.Err != nil {
				t.Errorf("%+v", s)
			}
			for j, seg := range l.Segments() {
				if len(seg.Positions) != 1 {
					t.Errorf("segment %d: %+v", j, seg)
				}
			}
			if i%5 == 0 {
				l.Annotate(fmt.Sprint("#kevy-gen ", i+1))
			}
			if err := l.Sync(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
	})
	appending.Wait()
	done.Store(true)
	others.Wait()
	if t.Failed() {
		l.Close()
		return
	}
	if rewrites == 0 || l.Status().BaseLSN == 0 {
		t.Fatal("the log was never rewritten")
	}
	for i := range got {
		checkOps(t, fmt.Sprint("reader ", i), got[i], published)
	}
	base := l.Status().BaseLSN
	l.mustClose()
	opt.Publish = nil
	again, rec := openLog(t, opt)
	check(t, "base", again.report.BaseLSN, base)
	checkOps(t, "recovered", rec.ops, published[base:])
	again.mustClose()
}

// Whoever waits is released when the log stalls or fails, whoever leads.
func TestWaitersAreReleased(t *testing.T) {
	for _, f := range []vfs.Fault{
		{Op: vfs.OpWrite, Glob: "*.incr.aof"},
		{Op: vfs.OpSync, Glob: "*.incr.aof"},
	} {
		fs := vfs.NewMem()
		l, _ := openLog(t, testOptions(fs))
		l.set(0, "a", "1")
		l.mustWrite()
		fs.Inject(f)
		var wg sync.WaitGroup
		var released atomic.Int32
		for i := range 64 {
			wg.Go(func() {
				lsn := l.Append(&testCommit{state: &l.state, pairs: [][2]string{{"k", fmt.Sprint(i)}}})
				if err := l.WaitDurable(lsn); errors.Is(err, ErrStalled) || errors.Is(err, ErrFailed) {
					released.Add(1)
				} else {
					t.Errorf("%v: %v", f.Op, err)
				}
			})
		}
		wg.Wait()
		check(t, "released", released.Load(), 64)
		if _, err := l.Close(); err == nil {
			t.Fatal("a clean close")
		}
		if err := l.WaitWritten(l.Last()); f.Op == vfs.OpWrite && err == nil {
			t.Fatal("written after the close")
		}
		if _, err := l.Close(); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
}
