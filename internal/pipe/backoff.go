package pipe

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 30 * time.Second
)

// backoff is how long to wait before the next attempt: twice as long each time,
// up to maxDelay, and up to a half less by chance, so that many pipes do not
// come back as one. The zero value is ready.
type backoff struct{ next time.Duration }

// wait sleeps before the next attempt, at least for atLeast. It fails only with
// ctx.
func (b *backoff) wait(ctx context.Context, atLeast time.Duration) error {
	timer := time.NewTimer(max(b.delay(), atLeast))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *backoff) delay() time.Duration {
	d := max(b.next, firstDelay)
	b.next = min(2*d, maxDelay)
	return d/2 + rand.N(d/2+1)
}
