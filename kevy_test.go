package kevy_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"kevy"
)

func Example() {
	db, err := kevy.Open("") // in memory; a directory name keeps the data
	if err != nil {
		panic(err)
	}
	defer db.Close()
	ctx := context.Background()
	from, _ := db.ChangesTail()
	if _, err := db.Do(ctx, "SET", "greeting", "hello"); err != nil {
		panic(err)
	}
	if _, err := db.Do(ctx, "INCR", "visits"); err != nil {
		panic(err)
	}
	batch, err := db.ChangesSince(from, 100)
	if err != nil {
		panic(err)
	}
	for _, c := range batch.Changes {
		fmt.Printf("%d %s\n", c.Offset, c.Args)
	}
	// Output:
	// 0 [SET greeting hello]
	// 1 [SET visits 1 KEEPTTL]
}

func open(t *testing.T, dir string, o ...kevy.Option) *kevy.DB {
	t.Helper()
	db, err := kevy.Open(dir, o...)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func do(t *testing.T, db *kevy.DB, args ...string) string {
	t.Helper()
	r, err := db.Do(context.Background(), args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return r.String()
}

func TestUpdateRollsBackMemoryLogAndFeed(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, kevy.WithFsync(kevy.FsyncAlways))
	do(t, db, "SET", "s", "before", "EX", "1000")
	do(t, db, "HSET", "h", "f", "1")
	do(t, db, "SETRANGE", "raw", "0", "abc")
	tail, err := db.ChangesTail()
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	_, err = db.Update(func(tx *kevy.Tx) error {
		for _, cmd := range [][]string{
			{"SET", "s", "after"}, {"HSET", "h", "f", "2", "g", "3"}, {"SET", "new", "x"}, {"DEL", "raw"},
			{"FLUSHALL"}, {"SET", "s", "later"}, {"SWAPDB", "0", "1"}, {"SET", "swapped", "y"},
		} {
			if _, err := tx.Do(cmd...); err != nil {
				return err
			}
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("Update: %v", err)
	}
	check := func(db *kevy.DB) {
		t.Helper()
		for _, c := range []struct {
			want string
			cmd  []string
		}{
			{`"before"`, []string{"GET", "s"}}, {":1000", []string{"TTL", "s"}}, {`map{"f": "1"}`, []string{"HGETALL", "h"}},
			{`"abc"`, []string{"GET", "raw"}}, {":0", []string{"EXISTS", "new", "swapped"}}, {":3", []string{"DBSIZE"}},
		} {
			if got := do(t, db, c.cmd...); got != c.want {
				t.Errorf("%q = %s, want %s", c.cmd, got, c.want)
			}
		}
	}
	check(db)
	if b, err := db.ChangesSince(tail, 10); err != nil || len(b.Changes) != 0 || b.Next != tail {
		t.Errorf("the feed shows what was rolled back: %+v %v", b, err)
	}
	cur, err := db.Update(func(tx *kevy.Tx) error {
		_, err := tx.Do("MSET", "a", "1", "b", "2")
		return err
	})
	if err != nil || cur.Generation != tail.Generation || cur.Offset != tail.Offset+2 {
		t.Fatalf("cursor %+v after %+v: %v", cur, tail, err)
	}
	do(t, db, "DEL", "a", "b")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir)
	check(db)
	b, err := db.ChangesSince(tail, 1)
	if err != nil || len(b.Changes) != 2 || b.Changes[0].Last != tail.Offset+1 {
		t.Errorf("after a clean close the cursor is not served whole commits: %+v %v", b, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestErrors(t *testing.T) {
	db := open(t, "", kevy.WithoutFeed())
	if _, err := db.ChangesTail(); !errors.Is(err, kevy.ErrFeedDisabled) {
		t.Errorf("ChangesTail without a feed: %v", err)
	}
	if _, err := db.Do(context.Background(), "GET"); err == nil {
		t.Error("a wrong number of arguments is no error")
	}
	_ = db.Close()
	if _, err := db.Do(context.Background(), "GET", "k"); !errors.Is(err, kevy.ErrClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	db = open(t, "")
	defer db.Close()
	tail, _ := db.ChangesTail()
	if _, err := db.ChangesSince(kevy.Cursor{Generation: tail.Generation, Offset: tail.Offset + 1}, 1); !errors.Is(err, kevy.ErrFuture) {
		t.Errorf("a cursor of the future: %v", err)
	}
	var resync *kevy.ResyncError
	if _, err := db.ChangesSince(kevy.Cursor{Generation: 1}, 1); !errors.As(err, &resync) || resync.Reason != "generation" || resync.Tail != tail {
		t.Errorf("a foreign generation: %v", err)
	}
}

// TestInMemoryUnderAlways: there is nothing to fsync, and nothing fails for it.
func TestInMemoryUnderAlways(t *testing.T) {
	db := open(t, "", kevy.WithFsync(kevy.FsyncAlways))
	defer db.Close()
	if got := do(t, db, "SET", "k", "v"); got != "+OK" {
		t.Errorf("SET answers %s", got)
	}
	if _, err := db.Update(func(tx *kevy.Tx) error { _, err := tx.Do("INCR", "n"); return err }); err != nil {
		t.Errorf("Update: %v", err)
	}
}
