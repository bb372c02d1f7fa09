package kevy_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strconv"

	"kevy"
	"kevy/resp"
)

// opened is a store in memory, for the examples.
func opened(options ...kevy.Option) *kevy.DB {
	db, err := kevy.Open("", options...)
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "kevy")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for range 2 { // the second time it finds what the first has left
		db, err := kevy.Open(dir, kevy.WithFsync(kevy.FsyncAlways))
		if err != nil {
			log.Fatal(err)
		}
		n, err := db.Do(context.Background(), "INCR", "starts")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(n.Int)
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1
	// 2
}

func ExampleOpen_inUse() {
	dir, err := os.MkdirTemp("", "kevy")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := kevy.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := kevy.Open(dir); err != nil {
		fmt.Println("the directory belongs to one process at a time")
	}
	// Output:
	// the directory belongs to one process at a time
}

func ExampleDB_Close() {
	db := opened()
	fmt.Println(db.Close())
	_, err := db.Do(context.Background(), "PING")
	fmt.Println(errors.Is(err, kevy.ErrClosed), errors.Is(db.Close(), kevy.ErrClosed))
	// Output:
	// <nil>
	// true true
}

func ExampleDB_Do() {
	db := opened()
	defer db.Close()
	ctx := context.Background()
	if _, err := db.Do(ctx, "ZADD", "scores", "3", "carol", "1", "alice", "2", "bob"); err != nil {
		log.Fatal(err)
	}
	top, err := db.Do(ctx, "ZRANGE", "scores", "0", "1", "REV")
	if err != nil {
		log.Fatal(err)
	}
	for _, member := range top.Elems {
		fmt.Printf("%s\n", member.Str)
	}
	none, err := db.Do(ctx, "GET", "none")
	fmt.Println(none.Null, err)

	_, err = db.Do(ctx, "INCR", "scores")
	var reply *resp.Error
	if errors.As(err, &reply) {
		fmt.Println(reply.Code)
	}
	// Output:
	// carol
	// bob
	// true <nil>
	// WRONGTYPE
}

func ExampleDB_Update() {
	db := opened()
	defer db.Close()
	ctx := context.Background()
	if _, err := db.Do(ctx, "MSET", "alice", "10", "bob", "0"); err != nil {
		log.Fatal(err)
	}
	errPoor := errors.New("not enough")
	pay := func(amount int) error {
		_, err := db.Update(func(tx *kevy.Tx) error {
			left, err := tx.Do("DECRBY", "alice", strconv.Itoa(amount))
			if err != nil {
				return err
			}
			if left.Int < 0 {
				return errPoor // and alice has what she had
			}
			_, err = tx.Do("INCRBY", "bob", strconv.Itoa(amount))
			return err
		})
		return err
	}
	fmt.Println(pay(7))
	fmt.Println(pay(7))
	accounts, err := db.Do(ctx, "MGET", "alice", "bob")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(accounts)
	// Output:
	// <nil>
	// not enough
	// ["3", "7"]
}

func ExampleTx_Do() {
	db := opened()
	defer db.Close()
	_, err := db.Update(func(tx *kevy.Tx) error {
		if _, err := tx.Do("RPUSH", "jobs", "a", "b"); err != nil {
			return err
		}
		n, err := tx.Do("LLEN", "jobs") // sees what the transaction has changed
		if err != nil {
			return err
		}
		fmt.Println(n.Int)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 2
	// <nil>
}

func ExampleDB_ChangesSince() {
	db := opened()
	defer db.Close()
	at, err := db.ChangesTail()
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for _, cmd := range [][]string{{"SET", "user:1", "ann"}, {"SET", "other", "x"}, {"DEL", "user:1"}} {
		if _, err := db.Do(ctx, cmd...); err != nil {
			log.Fatal(err)
		}
	}
	for {
		batch, err := db.ChangesSince(at, 100, "user:")
		var resync *kevy.ResyncError
		if errors.As(err, &resync) {
			// The past is gone: read the state anew, and go on from here.
			at = resync.Tail
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range batch.Changes {
			fmt.Printf("%d %s\n", c.Offset, c.Args)
		}
		if len(batch.Changes) == 0 && batch.Next == at {
			break // caught up; keep the cursor, it is good after a restart too
		}
		at = batch.Next
	}
	// Output:
	// 0 [SET user:1 ann]
	// 2 [DEL user:1]
}

func ExampleDB_Subscribe() {
	db := opened()
	defer db.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from, err := db.ChangesTail() // or a cursor that was kept
	if err != nil {
		log.Fatal(err)
	}
	for _, cmd := range [][]string{{"SET", "user:1", "ann"}, {"SET", "other", "x"}, {"MSET", "user:2", "bob", "user:3", "cy"}} {
		if _, err := db.Do(ctx, cmd...); err != nil {
			log.Fatal(err)
		}
	}
	sub, err := db.Subscribe(ctx, from, kevy.Filter{Prefixes: []string{"user:"}})
	if err != nil {
		log.Fatal(err)
	}
	seen := 0
	for commit, err := range sub.Commits(ctx) { // goes on with what is written
		var resync *kevy.ResyncError
		if errors.As(err, &resync) {
			log.Fatal("the past is gone: read the state anew, and subscribe at resync.Tail")
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range commit.Changes {
			fmt.Printf("%s ", c.Args)
		}
		fmt.Println(commit.Next.Offset - from.Offset) // keep commit.Next together with what was made of it
		if seen++; seen == 2 {
			break // there is nothing to close
		}
	}
	// Output:
	// [SET user:1 ann] 1
	// [SET user:2 bob] [SET user:3 cy] 4
}

func ExampleSubscription_Next() {
	db := opened()
	defer db.Close()
	ctx := context.Background()
	from, err := db.ChangesTail()
	if err != nil {
		log.Fatal(err)
	}
	paid := kevy.Filter{Prefixes: []string{"order:"}, ValueExact: []string{"paid"}}
	sub, err := db.Subscribe(ctx, from, paid)
	if err != nil {
		log.Fatal(err)
	}
	for _, cmd := range [][]string{{"HSET", "order:1", "state", "open"}, {"HSET", "order:1", "state", "paid"}} {
		if _, err := db.Do(ctx, cmd...); err != nil {
			log.Fatal(err)
		}
	}
	commit, err := sub.Next(ctx) // waits until there is one
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", commit.Changes[0].Args)
	// Output:
	// [HSET order:1 state paid]
}

func ExampleDB_CommitAt() {
	db := opened()
	defer db.Close()
	after, err := db.Update(func(tx *kevy.Tx) error {
		_, err := tx.Do("MSET", "a", "1", "b", "2")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	last := after
	last.Offset--
	commit, err := db.CommitAt(last)
	fmt.Println(len(commit.Changes), commit.Next == after, err)
	// Output:
	// 2 true <nil>
}

func ExampleDB_Write() {
	db := opened()
	defer db.Close()
	_, after, err := db.Write(context.Background(), "SET", "k", "v")
	if err != nil {
		log.Fatal(err)
	}
	tail, err := db.ChangesTail()
	fmt.Println(after == tail, err) // a reader of the feed that stands there has seen the write
	// Output:
	// true <nil>
}

func ExampleDB_ChangesTail() {
	db := opened()
	defer db.Close()
	before, err := db.ChangesTail()
	if err != nil {
		log.Fatal(err)
	}
	after, err := db.Update(func(tx *kevy.Tx) error {
		_, err := tx.Do("MSET", "a", "1", "b", "2")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	tail, err := db.ChangesTail()
	fmt.Println(after.Offset-before.Offset, tail == after, err)
	// Output:
	// 2 true <nil>
}

func ExampleDB_FeedShards() {
	db := opened()
	defer db.Close()
	fmt.Println(db.FeedShards())
	// Output:
	// 1
}

func ExampleDB_InfoPrefix() {
	db := opened()
	defer db.Close()
	ctx := context.Background()
	for _, cmd := range [][]string{{"SET", "session:1", "x", "EX", "60"}, {"SET", "session:2", "y"}, {"SET", "user:1", "z"}} {
		if _, err := db.Do(ctx, cmd...); err != nil {
			log.Fatal(err)
		}
	}
	info, err := db.InfoPrefix("session:")
	fmt.Println(info.Keys, info.Expires, err)
	// Output:
	// 2 1 <nil>
}

func ExampleWithFsync() {
	db := opened(kevy.WithFsync(kevy.FsyncAlways)) // a write returns once a power cut cannot take it back
	defer db.Close()
}

func ExampleWithLogger() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	db := opened(kevy.WithLogger(logger))
	defer db.Close()
	// Output:
	// level=INFO msg="the store is in memory only: everything is gone when it closes"
}

func ExampleWithoutFeed() {
	db := opened(kevy.WithoutFeed())
	defer db.Close()
	_, err := db.ChangesTail()
	fmt.Println(errors.Is(err, kevy.ErrFeedDisabled))
	// Output:
	// true
}

func ExampleWithDatabases() {
	db := opened(kevy.WithDatabases(64))
	defer db.Close()
	ctx := context.Background()
	if _, err := db.Do(ctx, "SET", "k", "v"); err != nil {
		log.Fatal(err)
	}
	moved, err := db.Do(ctx, "MOVE", "k", "63")
	fmt.Println(moved.Int, err)
	// Output:
	// 1 <nil>
}

func ExampleWithRecover() {
	dir, err := os.MkdirTemp("", "kevy")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := kevy.Open(dir)
	if err != nil {
		// It names the file and the place. Once a person has decided:
		db, err = kevy.Open(dir, kevy.WithRecover(kevy.RecoverTruncate))
	}
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
}
