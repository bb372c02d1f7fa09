package aof

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kevy/internal/vfs"
)

// A commit that a line belongs to is written once the line is: who knows of the
// commit's end may know of what the line says.
func TestCommitIsWrittenWithItsLine(t *testing.T) {
	for blocks := range 3 {
		synctest.Test(t, func(t *testing.T) {
			fs := vfs.NewMem()
			l, _ := openLog(t, testOptions(fs))
			before := l.set(0, "a", "1")
			l.mustWrite()
			for range []int{0, 1, maxBatchBlocks - 1}[blocks] {
				l.mu.Lock()
				l.mem.open = false // a block of its own
				l.mu.Unlock()
				before = l.set(0, "b", "1")
			}
			l.mu.Lock()
			l.mem.open = false
			l.mu.Unlock()
			lsn := l.AppendAnnotated(&testCommit{state: &l.state, pairs: [][2]string{{"c", "1"}}}, "#kevy-gen 5")
			l.ops = append(l.ops, "0 c 1")
			fs.Inject(vfs.Fault{Op: vfs.OpWrite, After: int(lsn-before) + int(before-1), Times: 1})
			if err := l.WaitWritten(lsn); !errors.Is(err, ErrStalled) {
				t.Fatalf("without its line it is written: %v", err)
			}
			check(t, "written", l.Written(), before)
			time.Sleep(retryAfter)
			l.mustWrite()
			check(t, "written", l.Written(), lsn)
			l.mustClose()
			again, rec := openLog(t, testOptions(fs))
			checkOps(t, "recovered", rec.ops, l.ops)
			check(t, "generations", fmt.Sprint(rec.generations), fmt.Sprintf("[[5 %d]]", lsn))
			again.mustClose()
		})
	}
}

func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		l, _ := openLog(t, testOptions(fs))
		l.set(0, "a", strings.Repeat("x", 100))
		l.mustWrite()
		before := readFileText(t, fs, firstSegment)
		fs.SetQuota(fs.Used() + 150)
		lsn := l.set(0, "b", strings.Repeat("y", 100))
		l.mem.open = false // a block of its own
		l.set(0, "c", strings.Repeat("z", 100))

		err := l.WaitWritten(l.Last())
		if !errors.Is(err, ErrStalled) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("a full disk: %v", err)
		}
		check(t, "written", l.Written(), 1)
		check(t, "file", readFileText(t, fs, firstSegment), before)
		if err := l.Admit(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("a writer is admitted: %v", err)
		}
		if err := l.WaitDurable(lsn); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("WaitDurable: %v", err)
		}
		check(t, "reads go on", l.WaitWritten(1), nil)
		check(t, "status", errors.Is(l.Status().Err, syscall.ENOSPC), true)
		l.set(0, "d", "appended while the disk is full")

		// Nobody tries again before its time, and then one who is admitted does.
		fs.SetQuota(-1)
		if err := l.Admit(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("a writer is admitted at once: %v", err)
		}
		time.Sleep(retryAfter)
		if err := l.Admit(); err != nil {
			t.Fatal(err)
		}
		check(t, "written", l.Written(), 4)
		check(t, "status", l.Status().Err, nil)
		l.mustClose()
		again, rec := openLog(t, testOptions(fs))
		checkOps(t, "recovered", rec.ops, l.ops)
		check(t, "torn", again.report.Torn, nil)
		again.mustClose()
	})
}

// The log comes back without anyone who asks for it.
func TestFullDiskIsTriedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		l, _ := openLog(t, testOptions(fs))
		l.set(0, "a", "1")
		l.mustWrite()
		fs.SetQuota(fs.Used())
		l.set(0, "b", "2")
		if err := l.WaitWritten(2); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		fs.SetQuota(-1)
		time.Sleep(2 * tickEvery)
		check(t, "written", l.Written(), 2)
		check(t, "durable", l.Durable(), 2)
		l.mustClose()
	})
}

// Where even the cut back to the last block fails, it is made before the next
// write.
func TestShortWriteThatCannotBeCutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		l, _ := openLog(t, testOptions(fs))
		l.set(0, "a", "1")
		l.mustWrite()
		fs.Inject(vfs.Fault{Op: vfs.OpWrite, Times: 1, Bytes: 30, Err: syscall.ENOSPC})
		fs.Inject(vfs.Fault{Op: vfs.OpTruncate, Times: 2})
		l.set(0, "b", "2")
		for range 2 {
			if err := l.WaitWritten(2); !errors.Is(err, ErrStalled) {
				t.Fatal(err)
			}
			time.Sleep(retryAfter)
		}
		if err := l.WaitWritten(2); err != nil {
			t.Fatal(err)
		}
		l.mustClose()
		again, rec := openLog(t, testOptions(fs))
		checkOps(t, "recovered", rec.ops, l.ops)
		check(t, "torn", again.report.Torn, nil)
		again.mustClose()
	})
}

func TestFailedSyncIsFinal(t *testing.T) {
	for _, policy := range []Policy{PolicyAlways, PolicyEverySec, PolicyNo} {
		synctest.Test(t, func(t *testing.T) {
			fs := vfs.NewMem()
			opt := testOptions(fs)
			opt.Policy = policy
			l, _ := openLog(t, opt)
			l.set(0, "a", "1")
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
			fs.Inject(vfs.Fault{Op: vfs.OpSync, Glob: "*.incr.aof", Times: 1})
			l.set(0, "b", "2")
			l.mustWrite()
			if policy == PolicyAlways {
				if err := l.WaitDurable(2); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
					t.Fatal(err)
				}
			} else {
				time.Sleep(31 * time.Second)
				synctest.Wait()
			}
			for range 3 {
				time.Sleep(time.Second)
				if err := l.Admit(); !errors.Is(err, ErrFailed) {
					t.Fatalf("a writer is admitted: %v", err)
				}
				if err := l.WaitDurable(2); !errors.Is(err, ErrFailed) {
					t.Fatal(err)
				}
				check(t, "durable", l.Durable(), 1)
			}
			if _, err := l.Cut(); !errors.Is(err, ErrFailed) {
				t.Fatal(err)
			}
			l.set(0, "c", "3")
			if err := l.WaitWritten(3); !errors.Is(err, ErrFailed) {
				t.Fatal(err)
			}
			r, err := l.NewReader(1)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "ops in memory", readAll(t, r), 3)
			r.Close()
			if tail, err := l.Close(); !errors.Is(err, ErrFailed) || tail != (Tail{}) {
				t.Fatalf("a clean close: %+v, %v", tail, err)
			}

			// The kernel has dropped what was to be written and calls the file clean.
			// What recovery reads it must therefore write again.
			again, rec := openLog(t, opt)
			checkOps(t, "recovered", rec.ops, l.ops[:2])
			again.mustClose()
			after := fs.PowerCut(testRand(t))
			opt.FS = after
			third, rec := openLog(t, opt)
			checkOps(t, "after a power cut", rec.ops, l.ops[:2])
			third.mustClose()
		})
	}
}

// Each step of a change of files fails once, and is made later.
func TestRotationThatFails(t *testing.T) {
	for _, f := range []vfs.Fault{
		{Op: vfs.OpCreate, Glob: "*.2.incr.aof"},
		{Op: vfs.OpSyncDir, Glob: "appendonlydir"},
		{Op: vfs.OpSyncDir, Glob: "appendonlydir", After: 1},
		{Op: vfs.OpWrite, Glob: "*.1.incr.aof", Bytes: 10, After: 1},
		{Op: vfs.OpWrite, Glob: "*.2.incr.aof", Bytes: 10},
		{Op: vfs.OpTruncate, Glob: "*.2.incr.aof"},
		{Op: vfs.OpCreate, Glob: "*.tmp"},
		{Op: vfs.OpWrite, Glob: "*.tmp", Bytes: 10},
		{Op: vfs.OpSync, Glob: "*.tmp"},
		{Op: vfs.OpRename, Glob: "*.tmp"},
	} {
		t.Run(fmt.Sprint(f.Op, f.Glob, f.After), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewMem()
				l, _ := openLog(t, testOptions(fs))
				l.set(0, "a", "1")
				l.mustWrite()
				f.Times = 1
				fs.Inject(f)
				l.set(0, "b", "2")
				if _, err := l.Cut(); err != nil {
					t.Fatal(err)
				}
				l.set(0, "c", "3")
				if err := l.WaitWritten(3); !errors.Is(err, ErrStalled) {
					t.Fatalf("the fault was not met: %v", err)
				}
				killed := fs.Clone()
				time.Sleep(retryAfter)
				if err := l.WaitWritten(3); err != nil {
					t.Fatal(err)
				}
				check(t, "segments", l.Status().Segments, 2)
				l.mustClose()
				again, rec := openLog(t, testOptions(fs))
				checkOps(t, "recovered", rec.ops, l.ops)
				again.mustClose()

				// The same, had the process ended in between.
				again, rec = openLog(t, testOptions(killed))
				checkOps(t, "recovered", rec.ops, l.ops[:len(rec.ops)])
				if n := len(rec.ops); n < 1 {
					t.Fatalf("%d ops", n)
				}
				again.mustClose()
			})
		})
	}
}

// Each step of a rewrite fails. The log goes on, and the next rewrite works.
func TestRewriteThatFails(t *testing.T) {
	for _, f := range []vfs.Fault{
		{Op: vfs.OpCreate, Glob: "temp-*"},
		{Op: vfs.OpWrite, Glob: "temp-*", Bytes: 5},
		{Op: vfs.OpWrite, Glob: "temp-*", Bytes: 5, After: 2},
		{Op: vfs.OpSync, Glob: "temp-*"},
		{Op: vfs.OpRename, Glob: "temp-*"},
		{Op: vfs.OpSyncDir, Glob: "appendonlydir"},
		{Op: vfs.OpWrite, Glob: "*.tmp"},
		{Op: vfs.OpRename, Glob: "*.tmp"},
		{Op: vfs.OpSyncDir, Glob: "appendonlydir", After: 1},
	} {
		t.Run(fmt.Sprint(f.Op, f.Glob, f.After), func(t *testing.T) {
			fs := vfs.NewMem()
			l, _ := openLog(t, testOptions(fs))
			for i := range 5 {
				l.set(0, fmt.Sprint("k", i), "v")
			}
			l.mustWrite()
			cut, err := l.Cut()
			if err != nil {
				t.Fatal(err)
			}
			l.set(0, "behind", "v")
			l.mustWrite()
			f.Times = 1
			fs.Inject(f)
			if err := rewriteAll(l, cut); err == nil {
				t.Fatal("the fault was not met")
			}
			check(t, "rewriting", l.Status().Rewriting, false)
			failed := fs.Clone()
			l.set(0, "more", "v")
			l.mustWrite()
			if err := rewriteAll(l, cut); err != nil {
				t.Fatal(err)
			}
			l.mustClose()
			for i, fs := range []*vfs.Mem{fs, failed} {
				again, rec := openLog(t, testOptions(fs))
				checkOps(t, "recovered", slices.Concat(rec.base, rec.ops), l.ops[:len(l.ops)-i])
				if i == 0 && len(rec.base) != int(cut) {
					t.Fatalf("a base of %d ops", len(rec.base))
				}
				again.mustClose()
				for _, info := range mustList(t, fs, "data/appendonlydir") {
					if strings.Contains(info, "temp") || strings.Contains(info, "tmp") {
						t.Fatalf("%s is left over", info)
					}
				}
			}
		})
	}
}

// rewriteAll writes a base of all ops up to a cut.
func rewriteAll(l *testLog, cut uint64) error {
	w, err := l.BeginBase(cut)
	if err != nil {
		return err
	}
	for _, op := range l.ops[:cut] {
		db, kv, _ := strings.Cut(op, " ")
		key, value, _ := strings.Cut(kv, " ")
		if err := w.Write(appendCommand(appendCommand(nil, "select", db), "SET", key, value), 1); err != nil {
			w.Abort()
			return err
		}
	}
	return w.Commit()
}

func mustList(t testing.TB, fs vfs.FS, dir string) (names []string) {
	t.Helper()
	infos, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

// readAll reads to the end and returns the number of ops.
func readAll(t testing.TB, r *Reader) (ops int) {
	t.Helper()
	for {
		s, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return ops
		}
		ops += s.Ops
	}
}
