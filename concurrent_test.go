package kevy_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kevy"
	"kevy/internal/engine"
	"kevy/internal/vfs"
	"kevy/resp"
)

// onDisk opens a store on a file system in memory.
func onDisk(fs vfs.FS) kevy.Option {
	return func(o *engine.Options) { o.FS = fs }
}

// TestConcurrentUse lets everything run at once until the store closes in the
// middle: what was acknowledged is there afterwards, transfers keep their sum, and
// whoever comes later is told.
func TestConcurrentUse(t *testing.T) {
	mem := vfs.NewMem()
	db := open(t, "data", onDisk(mem))
	const accounts, each = 8, 100
	for i := range accounts {
		do(t, db, "SET", fmt.Sprint("account", i), fmt.Sprint(each))
	}
	start, err := db.ChangesTail()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var acked [4]int64
	var closed atomic.Int64
	errBoom := errors.New("boom")
	over := func(err error) bool {
		if errors.Is(err, kevy.ErrClosed) {
			closed.Add(1)
			return true
		}
		if err != nil && !errors.Is(err, errBoom) {
			t.Error(err)
		}
		return err != nil && !errors.Is(err, errBoom)
	}
	for g := range acked {
		wg.Go(func() {
			for n := int64(1); ; n++ {
				r, err := db.Do(context.Background(), "INCR", fmt.Sprint("counter", g))
				if over(err) {
					return
				}
				if r.Int != n {
					t.Errorf("counter%d is %d, want %d", g, r.Int, n)
					return
				}
				atomic.StoreInt64(&acked[g], n)
			}
		})
	}
	for g := range 3 {
		wg.Go(func() {
			for i := g; ; i++ {
				from, to := fmt.Sprint("account", i%accounts), fmt.Sprint("account", (i*3+1)%accounts)
				_, err := db.Update(func(tx *kevy.Tx) error {
					if _, err := tx.Do("DECRBY", from, "1"); err != nil {
						return err
					}
					if i%5 == 0 {
						return errBoom
					}
					_, err := tx.Do("INCRBY", to, "1")
					return err
				})
				if over(err) {
					return
				}
			}
		})
	}
	wg.Go(func() {
		at, offset := start, start.Offset
		for {
			b, err := db.ChangesSince(at, 50)
			if over(err) {
				return
			}
			for _, c := range b.Changes {
				if c.Offset != offset {
					t.Errorf("offset %d comes where %d should", c.Offset, offset)
					return
				}
				offset++
			}
			if n := len(b.Changes); n > 0 && b.Changes[n-1].Last != b.Changes[n-1].Offset {
				t.Error("a batch splits a commit")
				return
			}
			at = b.Next
			if _, err := db.InfoPrefix("account"); over(err) {
				return
			}
		}
	})
	time.Sleep(300 * time.Millisecond)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if closed.Load() != 8 {
		t.Errorf("%d of 8 were told that the store is closed", closed.Load())
	}
	db = open(t, "data", onDisk(mem))
	defer db.Close()
	for g := range acked {
		got, err := strconv.ParseInt(strings.Trim(do(t, db, "GET", fmt.Sprint("counter", g)), `"`), 10, 64)
		if err != nil || got < acked[g] || got > acked[g]+1 {
			t.Errorf("counter%d is %d, and %d was acknowledged: %v", g, got, acked[g], err)
		}
	}
	sum := 0
	for i := range accounts {
		n, err := strconv.Atoi(strings.Trim(do(t, db, "GET", fmt.Sprint("account", i)), `"`))
		if err != nil {
			t.Error(err)
		}
		sum += n
	}
	if sum != accounts*each {
		t.Errorf("the accounts hold %d together, not %d", sum, accounts*each)
	}
	if tail, err := db.ChangesTail(); err != nil || tail.Generation != start.Generation {
		t.Errorf("after Close the generation does not go on: %v, %v", tail, err)
	}
}

// TestUpdateEnds: however fn ends, nobody is locked out and nothing half done
// stays.
func TestUpdateEnds(t *testing.T) {
	mem := vfs.NewMem()
	db := open(t, "data", onDisk(mem), kevy.WithFsync(kevy.FsyncAlways))
	do(t, db, "SET", "k", "before")
	tail, err := db.ChangesTail()
	if err != nil {
		t.Fatal(err)
	}
	var kept *kevy.Tx
	change := func(tx *kevy.Tx) {
		kept = tx
		for _, cmd := range []string{"SET k after", "RPUSH l 1 2 3", "FLUSHALL", "SET other v", "NOSUCH command", "LPUSH other x", "GET"} {
			_, _ = tx.Do(strings.Fields(cmd)...)
		}
	}
	for name, fn := range map[string]func(tx *kevy.Tx) error{
		"error": func(tx *kevy.Tx) error { change(tx); return errors.New("no") },
		"panic": func(tx *kevy.Tx) error { change(tx); panic("no") },
	} {
		func() {
			defer func() {
				if p := recover(); (p != nil) != (name == "panic") {
					t.Errorf("%s: recovered %v", name, p)
				}
			}()
			if _, err := db.Update(fn); err == nil {
				t.Errorf("%s: no error", name)
			}
		}()
		if got := do(t, db, "GET", "k"); got != `"before"` {
			t.Errorf("%s: k is %s", name, got)
		}
		if now, err := db.ChangesTail(); err != nil || now != tail {
			t.Errorf("%s: the feed has moved: %v %v", name, now, err)
		}
		if _, err := kept.Do("SET", "k", "too late"); err == nil {
			t.Errorf("%s: a transaction that is over runs a command", name)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = db.Update(func(tx *kevy.Tx) error { change(tx); runtime.Goexit(); return nil })
	}()
	<-done
	if got := do(t, db, "GET", "k"); got != `"before"` {
		t.Errorf("after the goroutine's end k is %s", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if open := mem.OpenFiles(); len(open) > 0 {
		t.Errorf("files are still open: %v", open)
	}
}

func misconf(err error) bool {
	var e *resp.Error
	return errors.As(err, &e) && e.Code == "MISCONF"
}

// TestLogCannotBeWritten: a write that did not get there is never acknowledged;
// reads go on; and once a full disk has room, so do writes.
func TestLogCannotBeWritten(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fail  func(mem *vfs.Mem) (heal func())
		final bool
	}{
		{"a full disk", func(mem *vfs.Mem) func() {
			mem.SetQuota(mem.Used() + 20)
			return func() { mem.SetQuota(-1) }
		}, false},
		{"a write that fails", func(mem *vfs.Mem) func() {
			return mem.Inject(vfs.Fault{Op: vfs.OpWrite, Glob: "*.incr.aof"})
		}, false},
		{"an fsync that fails", func(mem *vfs.Mem) func() {
			return mem.Inject(vfs.Fault{Op: vfs.OpSync, Glob: "*.incr.aof", Times: 1, Err: syscall.EIO})
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := vfs.NewMem()
			db := open(t, "data", onDisk(mem), kevy.WithFsync(kevy.FsyncAlways))
			ctx := context.Background()
			do(t, db, "SET", "acked", "v")
			heal := tc.fail(mem)
			for i := range 20 {
				if r, err := db.Do(ctx, "SET", fmt.Sprint("lost", i), strings.Repeat("v", 100)); !misconf(err) {
					t.Fatalf("SET answers %s, %v", r, err)
				}
				called := false
				if cur, err := db.Update(func(tx *kevy.Tx) error {
					called = true
					_, err := tx.Do("SET", "updated", "v")
					return err
				}); !misconf(err) || cur != (kevy.Cursor{}) {
					t.Fatalf("Update answers %v, %v", cur, err)
				}
				if called {
					t.Error("an update was run that could not be logged")
				}
				if r, err := db.Do(ctx, "GET", "acked"); err != nil || string(r.Str) != "v" {
					t.Fatalf("GET answers %s, %v", r, err)
				}
				if _, err := db.ChangesTail(); err != nil {
					t.Fatal(err)
				}
			}
			heal()
			time.Sleep(150 * time.Millisecond)
			r, err := db.Do(ctx, "SET", "later", "v")
			if tc.final != (err != nil) || tc.final != misconf(err) {
				t.Errorf("once the disk is well SET answers %s, %v", r, err)
			}
			err = db.Close()
			if tc.final != (err != nil) {
				t.Errorf("Close: %v", err)
			}
			if open := mem.OpenFiles(); len(open) > 0 {
				t.Errorf("files are still open: %v", open)
			}
			db = open(t, "data", onDisk(mem))
			defer db.Close()
			if got := do(t, db, "GET", "acked"); got != `"v"` {
				t.Errorf("what was acknowledged is %s", got)
			}
			if got := do(t, db, "EXISTS", "later"); (got == ":1") == tc.final {
				t.Errorf("what came later: %s", got)
			}
		})
	}
}

// TestLargeValues: what Redis takes, the library takes, over a restart too.
func TestLargeValues(t *testing.T) {
	mem := vfs.NewMem()
	db := open(t, "data", onDisk(mem))
	ctx := context.Background()
	large := strings.Repeat("0123456789abcdef", 40<<20/16)
	do(t, db, "SET", "large", large)
	from, err := db.ChangesTail()
	if err != nil {
		t.Fatal(err)
	}
	const members = 100_000
	cur, err := db.Update(func(tx *kevy.Tx) error {
		for i := range members {
			if _, err := tx.Do("SADD", "set", fmt.Sprint("member", i)); err != nil {
				return err
			}
		}
		_, err := tx.Do("RENAME", "large", "renamed")
		return err
	})
	if err != nil || cur.Offset != from.Offset+members+2 {
		t.Fatalf("the cursor is %v after %v: %v", cur, from, err)
	}
	b, err := db.ChangesSince(from, 1)
	if err != nil || len(b.Changes) != members+2 || b.Next != cur {
		t.Errorf("%d changes of one commit, next %v: %v", len(b.Changes), b.Next, err)
	}
	do(t, db, "RENAME", "set", "other")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, "data", onDisk(mem))
	defer db.Close()
	if got := do(t, db, "SCARD", "other"); got != fmt.Sprint(":", members) {
		t.Errorf("the set has %s members", got)
	}
	if r, err := db.Do(ctx, "GET", "renamed"); err != nil || string(r.Str) != large {
		t.Errorf("the large value has %d bytes: %v", len(r.Str), err)
	}
}

func TestUpdateWithoutFeed(t *testing.T) {
	db := open(t, "", kevy.WithoutFeed())
	defer db.Close()
	cur, err := db.Update(func(tx *kevy.Tx) error { _, err := tx.Do("SET", "k", "v"); return err })
	if err != nil || cur != (kevy.Cursor{}) {
		t.Errorf("%v, %v", cur, err)
	}
	if got := do(t, db, "GET", "k"); got != `"v"` {
		t.Errorf("k is %s", got)
	}
}

// TestNoConnectionCommands: what would change a session that others use next is
// unknown.
func TestNoConnectionCommands(t *testing.T) {
	db := open(t, "")
	defer db.Close()
	for _, cmd := range []string{"SELECT 1", "MULTI", "EXEC", "DISCARD", "WATCH k", "UNWATCH", "RESET", "QUIT", "HELLO 2", "AUTH x", "SUBSCRIBE c", "CLIENT ID", "SHUTDOWN", "CONFIG GET *"} {
		if _, err := db.Do(context.Background(), strings.Fields(cmd)...); err == nil || !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("%s: %v", cmd, err)
		}
		_, err := db.Update(func(tx *kevy.Tx) error { _, err := tx.Do(strings.Fields(cmd)...); return err })
		if err == nil {
			t.Errorf("%s in an update: %v", cmd, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := db.Do(ctx, "SET", "k", "v"); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is over: %v", err)
	}
	if got := do(t, db, "DBSIZE"); got != ":0" {
		t.Errorf("%s keys", got)
	}
}
