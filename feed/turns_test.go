package feed

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestSlowFiltersTakeTurns: readers with regular expressions look one after the
// other, those without do not wait for them, and who waits is not kept from its end.
func TestSlowFiltersTakeTurns(t *testing.T) {
	s, l := openFake(t, 1)
	for range 10 {
		l.append(commitOf(1, "SET k yes"))
	}
	slow := (&refFilter{valueRegexes: []string{"y.s"}}).filter(t)
	from := Cursor{s.Tail(0).Generation, 0}
	var held []*turn
	for range cap(s.turns.free) {
		mine, err := s.turns.take(ctx, s.lastLSN)
		must(t, err)
		held = append(held, mine)
	}

	const readers = 20
	type answer struct {
		frames int
		err    error
	}
	answers := make(chan answer, readers+1)
	impatient, leave := context.WithCancel(ctx)
	for i := range readers + 1 {
		go func() {
			f, err := s.Follow(Request{Cursor: from, Filter: slow})
			if err != nil {
				answers <- answer{err: err}
				return
			}
			defer f.Close()
			c := ctx
			if i == readers {
				c = impatient
			}
			var b Batch
			err = f.Next(c, &b)
			answers <- answer{b.Len(), err}
			b.Release()
		}()
	}
	for deadline := time.Now().Add(time.Minute); s.turns.waiting.Load() < readers+1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d readers wait", s.turns.waiting.Load())
		}
	}
	var b Batch
	must(t, s.Since(ctx, &Request{Cursor: from}, &b))
	if b.Len() != 10 {
		t.Errorf("who has no filter gets %d frames", b.Len())
	}
	b.Release()
	leave()
	if got := <-answers; !errors.Is(got.err, context.Canceled) {
		t.Errorf("who leaves gets %d frames, %v", got.frames, got.err)
	}
	for _, mine := range held {
		s.turns.give(mine)
	}
	for range readers {
		if got := <-answers; got.err != nil || got.frames != 10 {
			t.Errorf("a reader gets %d frames, %v", got.frames, got.err)
		}
	}

	// A turn that has lasted passes to who waits, and only then.
	mine, err := s.turns.take(ctx, s.lastLSN)
	must(t, err)
	mine.began = time.Now().Add(-2 * slowTurn)
	if s.turns.over(mine) {
		t.Error("a turn ends although nobody waits")
	}
	s.turns.waiting.Add(1)
	if !s.turns.over(mine) {
		t.Error("a turn does not end")
	}
	mine.began = time.Now().Add(time.Hour)
	if s.turns.over(mine) {
		t.Error("a turn ends early")
	}
	s.turns.waiting.Add(-1)

	// The end of the source waits for who looks, and ends who waits.
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	<-s.closed
	for {
		other, err := s.turns.take(ctx, s.lastLSN)
		if errors.Is(err, ErrClosed) {
			break
		}
		must(t, err)
		s.turns.give(other)
	}
	select {
	case <-closed:
		t.Error("the source has ended under a reader")
	default:
	}
	s.turns.give(mine)
	<-closed
}

// TestTurnIsGivenBack: however a read with a slow filter ends, its turn is free.
func TestTurnIsGivenBack(t *testing.T) {
	s, l := openFake(t, 1)
	free := len(s.turns.free)
	slow := (&refFilter{valueRegexes: []string{"y"}}).filter(t)
	from := Cursor{s.Tail(0).Generation, 0}
	var b Batch
	look := func(what string, want error, req *Request) {
		t.Helper()
		err := s.Since(ctx, req, &b)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
		b.Release()
		if len(s.turns.free) != free {
			t.Errorf("%s: %d turns are free, want %d", what, len(s.turns.free), free)
		}
	}
	look("at the tail", nil, &Request{Cursor: from, Filter: slow})
	l.append(commitOf(1, "SET k y"))
	look("a frame", nil, &Request{Cursor: from, Filter: slow})
	look("ahead", ErrAhead, &Request{Cursor: Cursor{from.Generation, 9}, Filter: slow})
	l.append(commitOf(1, "SWAPDB 0 1"))
	var resync *ResyncError
	if err := s.Since(ctx, &Request{Cursor: Cursor{from.Generation, 1}, Filter: slow}, &b); !errors.As(err, &resync) || len(s.turns.free) != free {
		t.Errorf("SWAPDB: %v, %d turns are free", err, len(s.turns.free))
	}
}
