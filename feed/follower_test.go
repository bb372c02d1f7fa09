package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// drain reads until the follower is at the end and returns the offsets.
func drain(t *testing.T, f *Follower) (offsets []uint64) {
	t.Helper()
	var b Batch
	defer b.Release()
	for {
		if err := f.Next(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		_ = b.Each(func(fr *Frame) error {
			offsets = append(offsets, fr.Offset)
			return nil
		})
		if f.AtEnd() {
			return offsets
		}
	}
}

func TestFollow(t *testing.T) {
	s, l := openFake(t, 2)
	tail := s.Tail(2)
	var resync *ResyncError
	if _, err := s.Follow(Request{Stream: 2, Cursor: Cursor{tail.Generation, 1}}); !errors.Is(err, ErrAhead) {
		t.Errorf("following what is ahead: %v", err)
	}
	if _, err := s.Follow(Request{Stream: 2, Cursor: Cursor{tail.Generation + 99, 0}}); !errors.As(err, &resync) || resync.Tail != tail {
		t.Errorf("following another history: %v", err)
	}
	f, err := s.Follow(Request{Stream: 2, Cursor: tail})
	if err != nil {
		t.Fatal(err)
	}
	if !f.CaughtUp() || !f.AtEnd() {
		t.Error("at the tail it has not caught up")
	}
	if more, err := f.Wait(ctx, time.Now().Add(10*time.Millisecond)); more || err != nil {
		t.Errorf("there is nothing, and it waits for %v, %v", more, err)
	}
	woken := make(chan bool)
	go func() {
		more, err := f.Wait(ctx, time.Now().Add(time.Minute))
		woken <- more && err == nil
	}()
	l.append(commitOf(2, "SET a 1"))
	if !<-woken {
		t.Error("a frame does not wake it")
	}
	if f.CaughtUp() {
		t.Error("a frame is there, and it has caught up")
	}
	if got := drain(t, f); fmt.Sprint(got) != "[0]" {
		t.Errorf("offsets %v", got)
	}
	// It may go on where somebody else has read to.
	l.append(commitOf(2, "SET a 2", "SET b 2"))
	f.Skip(Cursor{tail.Generation, 3}, 3)
	if at, complete := f.Position(); at.Offset != 3 || complete != 3 || !f.CaughtUp() {
		t.Errorf("it stands at %v, complete up to %d", at, complete)
	}
	l.append(commitOf(2, "SET a 3"))
	if got := drain(t, f); fmt.Sprint(got) != "[3]" {
		t.Errorf("offsets %v", got)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := f.Wait(canceled, time.Now().Add(time.Minute)); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was given up: %v", err)
	}
	f.Close()
	if n := l.held(); n != 0 {
		t.Errorf("%d readers of the log are open", n)
	}
}

// TestFollowerLetsGo: one that is behind and does not come back holds nothing of
// the log; one that has caught up keeps its place. Both go on as if nothing had
// been.
func TestFollowerLetsGo(t *testing.T) {
	s, l := openFake(t, 1)
	follow := func() *Follower {
		f, err := s.Follow(Request{Stream: 1, Cursor: s.Tail(1), Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	behind, caughtUp := follow(), follow()
	var b Batch
	for i := range 10 {
		l.append(commitOf(1, fmt.Sprint("SET k ", i)))
	}
	if err := behind.Next(context.Background(), &b); err != nil || b.Len() != 1 {
		t.Fatal(b.Len(), err)
	}
	drain(t, caughtUp)
	opened := l.opened
	time.Sleep(maxFollowedIdle + 10*time.Millisecond)
	s.Tend(0)
	if n := l.held(); n != 1 {
		t.Errorf("%d readers of the log are open", n)
	}
	l.append(commitOf(1, "SET k 10"))
	if got := drain(t, caughtUp); fmt.Sprint(got) != "[10]" || l.opened != opened {
		t.Errorf("offsets %v, and %d readers were opened", got, l.opened-opened)
	}
	if got := drain(t, behind); fmt.Sprint(got) != "[1 2 3 4 5 6 7 8 9 10]" {
		t.Errorf("offsets %v", got)
	}
	// What it has not read may go; then that is said.
	for i := range 10 {
		l.append(commitOf(1, fmt.Sprint("SET k ", i, strings.Repeat("v", 1000))))
		l.seal()
	}
	l.drop(l.Last())
	behind.Skip(behind.Cursor(), 0)
	var resync *ResyncError
	if err := behind.Next(context.Background(), &b); !errors.As(err, &resync) || resync.Reason != ReasonEvicted {
		t.Errorf("what is gone: %v", err)
	}
	behind.Close()
	caughtUp.Close()
	if n := l.held(); n != 0 {
		t.Errorf("%d readers of the log are open", n)
	}
}

// TestFollowersMatchSince: whatever becomes of their places, followers read what
// Since reads.
func TestFollowersMatchSince(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("KEVY_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const shards = 3
	s, l := openFake(t, shards)
	start := make([]Cursor, shards+1)
	var all []*Follower
	for i := range 2 * (shards + 1) {
		stream := i % (shards + 1)
		start[stream] = s.Tail(stream)
		f, err := s.Follow(Request{Stream: stream, Cursor: start[stream], Count: 1 + rng.IntN(5)})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		all = append(all, f)
	}
	got := make([][]uint64, len(all))
	var b Batch
	for range 3000 {
		switch i := rng.IntN(len(all)); rng.IntN(6) {
		case 0:
			all[i].Skip(all[i].rd.at, all[i].complete)
		case 1:
			all[i].place.expire(l.Last(), time.Now().Add(time.Second))
		case 2:
			if !all[i].CaughtUp() {
				if lag := s.LagFrames(all[i].Stream(), all[i].rd.at); lag == 0 {
					t.Fatal("not caught up, and not behind")
				}
			}
		case 3, 4:
			if err := all[i].Next(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
			_ = b.Each(func(fr *Frame) error {
				got[i] = append(got[i], fr.Offset)
				return nil
			})
		case 5:
			var lines []string
			for range 1 + rng.IntN(3) {
				lines = append(lines, fmt.Sprintf("SET k%d %d", rng.IntN(30), rng.Int()))
			}
			l.append(commitOf(shards, lines...))
			if rng.IntN(4) == 0 {
				l.seal()
			}
		}
	}
	for i, f := range all {
		got[i] = append(got[i], drain(t, f)...)
		if want := s.Tail(f.Stream()).Offset; uint64(len(got[i])) != want || want < 100 {
			t.Errorf("stream %d: %d frames of %d", f.Stream(), len(got[i]), want)
		}
		for j, offset := range got[i] {
			if offset != uint64(j) {
				t.Fatalf("stream %d: offset %d at %d", f.Stream(), offset, j)
			}
		}
	}
}

func TestLag(t *testing.T) {
	s, l := openFake(t, 1)
	l.nowMs = time.Now().UnixMilli() - 5000
	at := s.Tail(1)
	if lag, err := s.Lag(1, at); err != nil || lag != (Lag{}) {
		t.Errorf("at the tail %v, %v", lag, err)
	}
	l.append(commitOf(1, "SET a 1"))
	l.append(commitOf(1, "SET a 2", "SET b 2"))
	s.ExpectFlushAll(at.Generation + 1000)
	l.append(commitOf(1, "FLUSHALL"))
	l.append(commitOf(1, "SET a 3"))
	for offset, want := range []uint64{5, 4, 3, 2, 1} {
		lag, err := s.Lag(1, Cursor{at.Generation, uint64(offset)})
		if err != nil || lag.Frames != want {
			t.Errorf("from offset %d: %v, %v", offset, lag, err)
		}
		if want > 1 && (lag.Ms < 4000 || lag.Ms > 60_000 || lag.Bytes < 30) {
			t.Errorf("from offset %d: %v", offset, lag)
		}
	}
	var resync *ResyncError
	if _, err := s.Lag(1, Cursor{1, 0}); !errors.As(err, &resync) {
		t.Errorf("an unknown generation: %v", err)
	}
}

// closeCounter is a reader of nothing that counts how often it is closed.
type closeCounter struct {
	closed  int
	closing func()
}

func (*closeCounter) Next() (Span, bool, error) { return Span{}, false, nil }

func (r *closeCounter) Close() {
	r.closed++
	if r.closing != nil {
		r.closing()
	}
}

// TestClosedPlaceKeepsNoScan has a read end while its place is being closed: its
// scan is let go as well.
func TestClosedPlaceKeepsNoScan(t *testing.T) {
	for range 1000 {
		var p followed
		var put sync.WaitGroup
		late := &closeCounter{}
		p.put(&scan{archive: &closeCounter{closing: func() {
			put.Go(func() { p.put(&scan{archive: late}) })
			time.Sleep(100 * time.Microsecond) // it waits for the place by now
		}}})
		p.close()
		put.Wait()
		if late.closed != 1 {
			t.Fatalf("the scan was closed %d times", late.closed)
		}
	}
}
