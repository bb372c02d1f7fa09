package feed

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// fillSegments appends so many segments of ten ops each and fsyncs them.
func fillSegments(l *fakeLog, n int) {
	for range n {
		for range 10 {
			l.append(commitOf(1, "SET k v"))
		}
		l.cut()
	}
	l.sync()
}

func TestPinHoldsTheFloor(t *testing.T) {
	s, l := openFake(t, 1)
	s.opt.RetainBytes = 0
	fillSegments(l, 5)
	early, late := s.Pin(15), s.Pin(35)
	if !early.Kept() || !late.Kept() || early.LSN() != 15 {
		t.Fatal("what is there is not kept")
	}
	for _, step := range []struct {
		what   string
		do     func()
		oldest uint64
	}{
		{"both", func() {}, 11},
		{"moved on", func() { early.Move(32) }, 31},
		{"the other one is lower", func() { early.Move(51) }, 31},
		{"released", func() { late.Release(); late.Release(); late.Move(1) }, 51},
	} {
		step.do()
		s.Tend(0)
		if got := l.OldestLSN(); got != step.oldest {
			t.Fatalf("%s: the log begins with %d, not %d", step.what, got, step.oldest)
		}
	}
	below := s.Pin(20)
	if below.Kept() {
		t.Fatal("a pin below the oldest op says that it keeps it")
	}
	early.Move(50)
	if early.Kept() {
		t.Fatal("a pin that was moved back to what is gone says that it keeps it")
	}
}

// The floor may have passed an op that is still there, because recovery needs it.
// A pin then brings the floor back.
func TestPinBringsTheFloorBack(t *testing.T) {
	s, l := openFake(t, 1)
	s.opt.RetainBytes = 0
	fillSegments(l, 3)
	l.noFile = true // nothing is let go
	s.pins.setFloor(l, 31)
	p := s.Pin(12)
	if !p.Kept() || l.floor != 12 {
		t.Fatalf("floor %d", l.floor)
	}
	if p.Move(5); !p.Kept() || l.floor != 5 {
		t.Fatalf("floor %d", l.floor)
	}
}

// TestPinsBesideTend takes pins while the floor moves: of one that says that it
// is kept every op can be read, as long as it is held.
func TestPinsBesideTend(t *testing.T) {
	s, l := openFake(t, 1)
	s.opt.RetainBytes = 0
	fillSegments(l, 3)
	stop := make(chan struct{})
	var background, pinning sync.WaitGroup
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				fillSegments(l, 1)
				s.Tend(0)
			}
		}
	})
	seed := seedOf(t)
	var mu sync.Mutex
	kept, late := 0, 0
	for w := range 4 {
		pinning.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			enough := func() bool {
				mu.Lock()
				defer mu.Unlock()
				return kept >= 200 && late >= 20
			}
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !enough(); {
				last := l.Last()
				lsn := last - min(last-1, uint64(rng.IntN(60)))
				p := s.Pin(lsn)
				ok := p.Kept()
				for range rng.IntN(3) {
					time.Sleep(100 * time.Microsecond)
					if lsn += uint64(rng.IntN(5)); lsn <= l.Last() {
						p.Move(lsn)
					}
				}
				if oldest := l.OldestLSN(); ok && oldest > p.LSN() {
					t.Errorf("pinned at %d, and the log begins with %d", p.LSN(), oldest)
				}
				mu.Lock()
				if ok {
					kept++
				} else {
					late++
				}
				mu.Unlock()
				p.Release()
			}
		})
	}
	pinning.Wait()
	close(stop)
	background.Wait()
	if kept < 10 || late < 1 {
		t.Fatalf("%d pins were kept, %d came too late: too few to tell", kept, late)
	}
}
