package engine

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kevy/internal/ds"
	"kevy/internal/vfs"
	"kevy/shard"
)

// fieldsOf returns how many fields the hashes of database 0 have, without
// letting any go.
func fieldsOf(e *Engine) (n int) {
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	_ = e.set.Freeze().Each(func(_, _ int, entry *ds.Entry) error {
		if o := entry.Object(); o != nil {
			n += o.Len()
		}
		return nil
	})
	return n
}

// TestFieldsExpireByThemselves: fields go soon after their deadline though
// nobody asks for them, unless that is paused, also those that were overdue when
// the store opened; the log has what went, and no more.
func TestFieldsExpireByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		e := mustOpen(t, small(fs))
		soon := 2 * expireEvery
		fill := func(after time.Duration) {
			commit(t, e, func(tx *shard.Tx) {
				at := e.NowMs() + after.Milliseconds()
				for i := range 10 {
					key := fmt.Appendf(nil, "hash%d", i)
					_, _ = tx.HSet(key, []byte("a"), []byte("1"), []byte("b"), []byte("2"))
					fields := [][]byte{[]byte("a")}
					if i >= 5 {
						fields = append(fields, []byte("b"))
					}
					_ = tx.HExpireAt(key, at, fields, nil, nil)
				}
			})
		}
		fill(time.Second)
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		if n := fieldsOf(e); n != 20 {
			t.Fatalf("%d fields before the deadline", n)
		}
		time.Sleep(soon)
		synctest.Wait()
		if n := fieldsOf(e); n != 5 || e.set.ExpiredFields() != 15 || e.set.Expired() != 0 {
			t.Fatalf("%d fields are left, %d fields and %d keys are counted", n, e.set.ExpiredFields(), e.set.Expired())
		}

		e.PauseExpiry(true)
		fill(time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := fieldsOf(e); n != 20 {
			t.Fatalf("%d fields while expiry is paused", n)
		}
		overdue := digestOf(e)
		mustClose(t, e)

		// A replay keeps them, and what follows removes them.
		e = mustOpen(t, small(fs))
		if digestOf(e) != overdue {
			t.Error("a replay has another digest")
		}
		time.Sleep(soon)
		synctest.Wait()
		if n := fieldsOf(e); n != 5 || e.set.ExpiredFields() != 15 {
			t.Fatalf("%d fields are left after the start, %d are counted", n, e.set.ExpiredFields())
		}
		want := digestOf(e)
		mustClose(t, e)
		e = mustOpen(t, small(fs))
		if digestOf(e) != want {
			t.Error("what had expired is back")
		}
		if err := e.Rewrite(); err != nil {
			t.Fatal(err)
		}
		mustClose(t, e)
		e = mustOpen(t, small(fs))
		if digestOf(e) != want || e.Report().Keys != 5 {
			t.Errorf("the base has %d keys", e.Report().Keys)
		}
		mustClose(t, e)
	})
}

// TestFieldsWaitForTheLog: while the log cannot be written nothing expires by
// itself, since it could not be logged.
func TestFieldsWaitForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		e := mustOpen(t, small(fs))
		commit(t, e, func(tx *shard.Tx) {
			for i := range 300 {
				f := strconv.AppendInt(nil, int64(i), 10)
				_, _ = tx.HSet([]byte("h"), f, f)
				_ = tx.HExpireAt([]byte("h"), e.NowMs()+3000, [][]byte{f}, nil, nil)
			}
		})
		time.Sleep(2 * time.Second)
		heal := fs.Inject(vfs.Fault{Op: vfs.OpWrite, Glob: "*.aof", Err: syscall.ENOSPC})
		try := func() {
			tx := e.NewTx()
			e.set.Lock(e.all)
			tx.Begin(e.all, 0, e.NowMs())
			tx.Set([]byte("k"), nil, 0)
			lsn := e.Commit(tx)
			tx.End()
			e.set.Unlock(e.all)
			_ = e.Wait(lsn)
		}
		try()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if e.log.Admit() == nil {
			t.Fatal("the log takes writes")
		}
		if n := fieldsOf(e); n != 300 {
			t.Errorf("%d fields of a hash whose log stands still", n)
		}
		heal()
		for range 50 {
			time.Sleep(time.Second)
			synctest.Wait()
			if e.log.Admit() == nil {
				break
			}
			try()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := fieldsOf(e); n != 0 {
			t.Errorf("%d fields are left once it goes on", n)
		}
		mustClose(t, e)
	})
}

// TestPauseStopsARound: once expiry is paused nothing that is written goes, also
// with a round under way that has to wait for the shards.
func TestPauseStopsARound(t *testing.T) {
	e := mustOpen(t, small(vfs.NewMem()))
	tx := e.NewTx()
	e.set.Lock(e.all)
	time.Sleep(4 * expireEvery) // a round waits now
	e.PauseExpiry(true)
	tx.Begin(e.all, 0, e.NowMs())
	for i := range 100 {
		tx.Set(fmt.Appendf(nil, "k%d", i), nil, e.NowMs()-1)
	}
	e.Commit(tx)
	e.release(tx)
	time.Sleep(2 * expireEvery)
	if n := e.set.Expired(); n != 0 {
		t.Errorf("%d keys went", n)
	}
	e.PauseExpiry(false)
	for end := time.Now().Add(time.Minute); e.set.Expired() < 100 && time.Now().Before(end); {
		time.Sleep(expireEvery)
	}
	if n := e.set.Expired(); n != 100 {
		t.Errorf("%d keys went in the end", n)
	}
	mustClose(t, e)
}
