package changes

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is how long to wait before the next try. The random part keeps many
// consumers from coming back at the same moment.
type backoff struct {
	least, most time.Duration
	next        time.Duration
}

func (b *backoff) reset() { b.next = 0 }

// delay returns how long to wait now: from half of least on, doubling up to most.
func (b *backoff) delay() time.Duration {
	d := max(b.next, b.least)
	b.next = min(2*d, b.most)
	if d < 2 {
		return d
	}
	return d/2 + rand.N(d/2+1)
}

// sleep waits; it returns false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
