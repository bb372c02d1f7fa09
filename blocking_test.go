package kevy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kevy"
	"kevy/resp"
)

// awaiting runs a command that may wait on a goroutine of its own.
func awaiting(ctx context.Context, db *kevy.DB, args ...string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		r, err := db.Do(ctx, args...)
		done <- outcome{r, err}
	}()
	return done
}

type outcome struct {
	reply resp.Reply
	err   error
}

func (o outcome) text() string {
	if o.err != nil {
		return "error " + o.err.Error()
	}
	words := make([]string, len(o.reply.Elems))
	for i, e := range o.reply.Elems {
		words[i] = string(e.Str)
	}
	return strings.Join(words, " ")
}

// TestDoWaits: Do of a command that waits returns when it is served, with what a
// transaction pushed whole, when its time is over, when its context ends and
// when the DB is closed.
func TestDoWaits(t *testing.T) {
	db := open(t, "")
	// Whether it waits already or finds the element is one to the caller.
	served := awaiting(context.Background(), db, "BLPOP", "q", "0")
	do(t, db, "RPUSH", "q", "a")
	if got := (<-served).text(); got != "q a" {
		t.Errorf("it was served %q", got)
	}
	both := awaiting(context.Background(), db, "BLMPOP", "0", "1", "q", "LEFT", "COUNT", "2")
	if _, err := db.Update(func(tx *kevy.Tx) error {
		if r, err := tx.Do("BLPOP", "nosuch", "0"); err != nil || !r.Null {
			t.Errorf("an update waits: %v, %v", r, err)
		}
		_, err := tx.Do("RPUSH", "q", "b")
		if err == nil {
			_, err = tx.Do("RPUSH", "q", "c")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := <-both; got.err != nil || len(got.reply.Elems) != 2 || len(got.reply.Elems[1].Elems) != 2 {
		t.Errorf("it was served %v, %v", got.reply, got.err)
	}
	if r, err := db.Do(context.Background(), "BLPOP", "q", "0.01"); err != nil || !r.Null {
		t.Errorf("after its time: %v, %v", r, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := db.Do(ctx, "BLPOP", "q", "0"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its context: %v", err)
	}
	do(t, db, "RPUSH", "q", "d")
	if got := do(t, db, "LLEN", "q"); got != ":1" {
		t.Errorf("one that has given up was served: %s", got)
	}
	do(t, db, "DEL", "q")
	var parked []<-chan outcome
	for range 10 {
		parked = append(parked, awaiting(context.Background(), db, "BZPOPMIN", "z", "0"))
	}
	time.Sleep(5 * time.Millisecond) // some wait by now; the others find the DB closed
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, done := range parked {
		if got := <-done; !errors.Is(got.err, kevy.ErrClosed) {
			t.Errorf("after Close: %v, %v", got.reply, got.err)
		}
	}
}
