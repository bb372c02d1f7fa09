// Package backoff is how long programs of the tree wait before they try again
// what has failed.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	first       = 100 * time.Millisecond
	defaultMost = 30 * time.Second
)

// Backoff is the waits between attempts: twice as long each time, up to a bound,
// and each shorter by chance, by a half at most, so that many programs do not come
// back as one. The zero value is ready. It is not safe for concurrent use.
type Backoff struct {
	Most time.Duration // 0: 30 s
	next time.Duration
}

// Next returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	most := b.Most
	if most == 0 {
		most = defaultMost
	}
	d := min(max(b.next, first), most)
	b.next = 2 * d
	return d/2 + rand.N(d/2+1)
}

// Wait waits before the next attempt, at least for a time. It fails only with ctx.
func (b *Backoff) Wait(ctx context.Context, atLeast time.Duration) error {
	return Sleep(ctx, max(b.Next(), atLeast))
}

// Sleep waits. The error is that of ctx, if it ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
