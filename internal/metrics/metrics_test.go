package metrics

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestBuckets: every duration lies in its bucket, the buckets touch, and none is wider
// than a percent.
func TestBuckets(t *testing.T) {
	for b := range buckets {
		if lo, hi := lowest(b), highest(b); bucketOf(lo) != b || bucketOf(hi) != b || (b > 0 && highest(b-1)+1 != lo) || float64(hi-lo) > float64(lo)/100 {
			t.Fatalf("bucket %d has %d to %d", b, lo, hi)
		}
	}
	if b := bucketOf(int64(maxDuration)); b >= buckets {
		t.Errorf("the longest is in bucket %d of %d", b, buckets)
	}
}

// TestSteps: the durations are those of redis-server, which counts in the same way.
func TestSteps(t *testing.T) {
	var h Histogram
	if steps := h.Steps(); len(steps) != 0 || h.Percentile(50) != 0 {
		t.Fatalf("nothing was recorded: %v", steps)
	}
	for _, us := range []int64{1, 1, 3, 20, 100, 5_000_000} {
		h.Record(time.Duration(us)*time.Microsecond, 1)
	}
	h.Record(0, 10)
	if got := fmt.Sprint(h.Steps()); got != "[{1 12} {4 13} {33 14} {132 15} {1082130 16}]" {
		t.Errorf("got %s", got)
	}
	if h.Count() != 16 {
		t.Errorf("%d calls", h.Count())
	}
}

func TestPercentiles(t *testing.T) {
	var h Histogram
	rng := rand.New(rand.NewPCG(1, 2))
	var all []int64
	for range 10_000 {
		ns := rng.Int64N(10_000_000) + 1
		all = append(all, ns)
		h.Record(time.Duration(ns), 1)
	}
	slices.Sort(all)
	for _, p := range []float64{0, 1, 50, 99, 99.9, 100} {
		want := float64(all[min(int(p/100*float64(len(all))), len(all)-1)])
		if got := float64(h.Percentile(p)); got < 0.98*want-1 || got > 1.02*want+2000 {
			t.Errorf("p%v is %v, want about %v", p, got, want)
		}
	}
}

func TestSlowLog(t *testing.T) {
	var l SlowLog
	var many [][]byte
	for i := range 33 {
		many = append(many, fmt.Append(nil, i))
	}
	many[1] = []byte(strings.Repeat("A", 129))
	for i := range 20 {
		l.Add(SlowCommand{Microseconds: int64(i)}, many, 3)
	}
	got := l.Newest(5)
	if l.Len() != 3 || len(got) != 3 || got[0].ID != 19 || got[2].ID != 17 || got[0].Microseconds != 19 {
		t.Fatalf("%+v", got)
	}
	args := got[0].Args
	if len(args) != 32 || args[31] != "... (2 more arguments)" || args[1] != strings.Repeat("A", 128)+"... (1 more bytes)" {
		t.Errorf("%d: %q", len(args), args)
	}
	l.Trim(1)
	if l.Len() != 1 || l.Newest(1)[0].ID != 19 {
		t.Error("the wrong one was let go")
	}
	l.Reset()
	l.Add(SlowCommand{}, many[:32], 3)
	if e := l.Newest(1)[0]; e.ID != 20 || len(e.Args) != 32 || e.Args[31] != "31" {
		t.Errorf("after Reset: %+v", e)
	}
}

func TestEvents(t *testing.T) {
	var l Events
	for second := range int64(maxSamples + 2) {
		l.Add("a", second, 5)
		l.Add("a", second, 100+second)
		l.Add("a", second, 7)
	}
	l.Add("b", 1, 1)
	all := l.All()
	if len(all) != 2 || all[0].Name != "a" || len(all[0].Samples) != maxSamples || all[0].Samples[0] != (Sample{2, 102}) ||
		all[0].Latest() != (Sample{maxSamples + 1, 101 + maxSamples}) || all[0].MaxMs != 101+maxSamples {
		t.Fatalf("%+v", all)
	}
	if _, ok := l.Named("c"); ok || l.Forget("c", "b") != 1 || l.Forget() != 1 || len(l.All()) != 0 {
		t.Error("what was forgotten is there")
	}
	for i := range 2 * maxEvents {
		l.Add(fmt.Sprint(i), 1, 1)
	}
	if n := len(l.All()); n != maxEvents {
		t.Errorf("%d events are kept", n)
	}
}

// TestAtOnce is for the race detector.
func TestAtOnce(t *testing.T) {
	var (
		h  Histogram
		l  SlowLog
		e  Events
		wg sync.WaitGroup
	)
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				h.Record(time.Duration(i), 1)
				h.Percentile(50)
				l.Add(SlowCommand{}, nil, 10)
				l.Newest(3)
				e.Add("x", int64(i), 1)
				e.All()
			}
		})
	}
	wg.Wait()
	if h.Count() != 800 || l.Len() != 10 {
		t.Errorf("%d calls, %d entries", h.Count(), l.Len())
	}
}
