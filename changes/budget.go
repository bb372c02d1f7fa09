package changes

import (
	"context"
	"sync"
)

// budget bounds the bytes that wait for handlers on one connection. One
// goroutine takes, any give back.
type budget struct {
	most  int64
	freed chan struct{} // of capacity 1: something was given back

	mu   sync.Mutex
	held int64 // guarded by mu
}

func newBudget(most int64) *budget { return &budget{most: most, freed: make(chan struct{}, 1)} }

// take waits until n bytes have room beside what is held. More than there is in
// all has room when nothing is held. It returns false if ctx ended.
func (b *budget) take(ctx context.Context, n int64) bool {
	for {
		b.mu.Lock()
		ok := b.held == 0 || n <= b.most-b.held
		if ok {
			b.held += n
		}
		b.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-b.freed:
		case <-ctx.Done():
			return false
		}
	}
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	b.held -= n
	b.mu.Unlock()
	select {
	case b.freed <- struct{}{}:
	default:
	}
}
