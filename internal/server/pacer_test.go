package server

import (
	"testing"
	"time"
)

// TestPacer: those who wait get one beat, the more of them the later, and the
// runtime's coarse timers do not make it late.
func TestPacer(t *testing.T) {
	var p pacer
	defer p.stop()
	shortest := time.Hour
	for range 200 {
		began := time.Now()
		a, b := p.next(), p.next()
		<-a
		<-b
		took := time.Since(began)
		if took < minPace*9/10 {
			t.Fatalf("a beat after %v", took)
		}
		shortest = min(shortest, took)
	}
	if shortest > 2*minPace {
		t.Errorf("a beat takes %v at least, and should %v", shortest, minPace)
	}
	for subscriptions, want := range map[int]time.Duration{0: minPace, 1: minPace, 10: 10 * pacePerSubscription, 1_000_000: maxPace} {
		if got := paceOf(subscriptions); got != want {
			t.Errorf("%d subscriptions: %v, want %v", subscriptions, got, want)
		}
	}
	crowd := make([]<-chan struct{}, 100)
	for range 2 {
		began := time.Now()
		for i := range crowd {
			crowd[i] = p.next()
		}
		for _, beat := range crowd {
			<-beat
		}
		p.mu.Lock()
		if p.before != len(crowd) {
			t.Errorf("%d waited", p.before)
		}
		p.mu.Unlock()
		shortest = time.Since(began)
	}
	if shortest < 100*pacePerSubscription*9/10 {
		t.Errorf("a hundred have a beat after %v", shortest)
	}
}
