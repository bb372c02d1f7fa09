package feed

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"kevy/internal/alarm"
)

const (
	// processorsPerSlow is for how many processors there is one turn of slow
	// filters: the others are left to those who write and to who reads without.
	processorsPerSlow = 2
	// slowTurn is how long a reader keeps its turn while others wait for one.
	slowTurn = 5 * time.Millisecond
)

// turns bound how many readers with slow filters look through the log at a time,
// however many there are, and make those leave the processor to who writes: they
// fall behind, and nobody waits for them. Readers come in the order of asking.
type turns struct {
	free    chan *turn
	waiting atomic.Int32
	closed  <-chan struct{}
}

// turn is one reader's to look.
type turn struct {
	rest  *alarm.Rest // nil before it was first used
	began time.Time
}

// init makes the turns. closed is closed before close is called.
func (t *turns) init(closed <-chan struct{}) {
	t.closed = closed
	t.free = make(chan *turn, max(1, runtime.GOMAXPROCS(0)/processorsPerSlow))
	for range cap(t.free) {
		t.free <- &turn{}
	}
}

// take waits for a turn, which give ends. writes is a number that every write
// changes, the same in every call. The errors are ctx.Err() and ErrClosed.
func (t *turns) take(ctx context.Context, writes func() uint64) (*turn, error) {
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	select {
	case mine := <-t.free:
		mine.began = time.Now()
		if mine.rest == nil {
			mine.rest = alarm.NewWorkRest(writes)
		} else {
			mine.rest.Resume()
		}
		return mine, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.closed:
		return nil, ErrClosed
	}
}

func (t *turns) give(mine *turn) {
	mine.rest.Suspend()
	t.free <- mine
}

// over reports whether somebody else is to have the turn now.
func (t *turns) over(mine *turn) bool {
	return t.waiting.Load() > 0 && time.Since(mine.began) >= slowTurn
}

// close waits until no turn is taken. The Source is closed already.
func (t *turns) close() {
	for range cap(t.free) {
		if mine := <-t.free; mine.rest != nil {
			mine.rest.Close()
		}
	}
}
