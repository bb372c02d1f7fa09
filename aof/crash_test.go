package aof

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"kevy/internal/vfs"
)

// crashRun is a fixed history that ends at some step.
type crashRun struct {
	fs               *vfs.Mem
	ops              []string
	written, durable uint64
}

// playCrashRun appends, changes files, rewrites, closes and opens again, until
// the file system dies after so many steps.
func playCrashRun(t *testing.T, steps int) *crashRun {
	t.Helper()
	r := &crashRun{fs: vfs.NewMem()}
	if err := r.fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	r.fs.DieAfter(steps, 33)
	for range 2 {
		l, _, err := tryOpenLog(t, testOptions(r.fs), RecoverRefuse)
		if errors.Is(err, vfs.ErrDead) {
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		l.ops = r.ops
		note := func() {
			r.ops = l.ops
			r.written, r.durable = max(r.written, l.Written()), max(r.durable, l.Durable())
		}
		note()
		for range 2 {
			l.set(0, fmt.Sprint("a", len(l.ops)), "1", "pair", "2")
			_ = l.WaitWritten(l.Last())
			note()
			l.set(1, fmt.Sprint("b", len(l.ops)), "1")
			l.Annotate("#kevy-gen 5")
			_ = l.WaitWritten(l.Last())
			note()
			cut, err := l.Cut()
			l.set(1, fmt.Sprint("c", len(l.ops)), "1")
			_ = l.WaitDurable(l.Last())
			note()
			if err == nil {
				_ = rewriteAll(l, cut)
				note()
			}
			l.set(0, fmt.Sprint("d", len(l.ops)), "1")
			_ = l.WaitWritten(l.Last())
			note()
			l.SetFloor(l.durable.Load() / 2)
			l.RemoveDropped()
		}
		l.set(0, fmt.Sprint("e", len(l.ops)), "1")
		_, _ = l.Close()
		note()
	}
	return r
}

// check recovers a file system that a crash left.
func (r *crashRun) check(t *testing.T, what string, fs *vfs.Mem, bound uint64) (died bool) {
	t.Helper()
	l, rec, err := tryOpenLog(t, testOptions(fs), RecoverRefuse)
	if errors.Is(err, vfs.ErrDead) {
		return true
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got := slices.Concat(rec.base, rec.ops)
	if uint64(len(got)) < bound || len(got) > len(r.ops) {
		t.Fatalf("%s: %d ops of %d, of which %d must be there", what, len(got), len(r.ops), bound)
	}
	checkOps(t, what, got, r.ops[:len(got)])
	checkOps(t, what+": reader", readFrom(t, &testLog{Log: l.Log, t: t, ops: got}, l.OldestLSN()), got[l.OldestLSN()-1:])
	_, err = l.Close()
	if err != nil && !errors.Is(err, vfs.ErrDead) {
		t.Fatalf("%s: %v", what, err)
	}
	return err != nil
}

// Every step of a history is the last one of a process or a machine, and so is
// every step of the recovery after it.
func TestEveryCrashPoint(t *testing.T) {
	rng := testRand(t)
	end := playCrashRun(t, 1<<30)
	total := end.fs.Steps()
	check(t, "everything is durable", end.durable, uint64(len(end.ops)))
	if total < 80 {
		t.Fatalf("only %d steps", total)
	}
	recoveries := 0
	for steps := 0; steps < total; steps += thin {
		r := playCrashRun(t, steps)
		for cut := range 3 {
			crash := func() (fs *vfs.Mem, bound uint64) {
				if cut == 0 {
					return r.fs.Kill(), r.written
				}
				return r.fs.PowerCut(rng), r.durable
			}
			what := fmt.Sprintf("crash %d after step %d", cut, steps)
			for again := 0; ; again++ {
				fs, bound := crash()
				fs.DieAfter(again, 5)
				died := r.check(t, what, fs, bound)
				recoveries++
				if !died {
					break
				}
				what := fmt.Sprintf("%s, and then after step %d of the recovery", what, again)
				r.check(t, what+" a kill", fs.Kill(), bound)
				r.check(t, what+" a power cut", fs.PowerCut(rng), min(bound, r.durable))
				recoveries += 2
			}
		}
	}
	if recoveries < 3000/thin {
		t.Fatalf("only %d recoveries", recoveries)
	}
}
