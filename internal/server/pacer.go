package server

import (
	"sync"
	"time"

	"kevy/internal/alarm"
)

const (
	// minPace is the least time between two looks of a subscription that keeps up.
	// Each that does adds pacePerSubscription, up to maxPace, so that however many
	// there are, what they all send leaves time for those who write.
	minPace             = 500 * time.Microsecond
	pacePerSubscription = 75 * time.Microsecond
	maxPace             = 20 * time.Millisecond
)

// pacer gives all subscriptions that keep up one beat. It costs nothing while
// none waits for it.
type pacer struct {
	mu      sync.Mutex
	alarm   *alarm.Alarm  // once it was needed; guarded by mu
	beat    chan struct{} // closed at the next beat, nil if nobody waits; guarded by mu
	waiting int           // for the next beat; guarded by mu
	before  int           // for the last one; guarded by mu
}

// next returns what is closed at the next beat.
func (p *pacer) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alarm == nil {
		p.alarm = alarm.New(p.ring)
	}
	if p.beat == nil {
		p.beat = make(chan struct{})
		p.alarm.Set(paceOf(p.before))
	}
	p.waiting++
	return p.beat
}

func paceOf(subscriptions int) time.Duration {
	return min(max(time.Duration(subscriptions)*pacePerSubscription, minPace), maxPace)
}

func (p *pacer) ring() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.beat != nil {
		close(p.beat)
		p.beat = nil
		p.before, p.waiting = p.waiting, 0
	}
}

// stop ends the pacer. Nobody may wait for it any more.
func (p *pacer) stop() {
	p.mu.Lock()
	a := p.alarm
	p.mu.Unlock()
	if a != nil {
		a.Stop()
	}
}
