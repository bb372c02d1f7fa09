package pipe

import (
	"context"
	"sync"
	"time"

	"kevy/changes"
)

// item is what the consumer hands to the writer: one of its fields is set.
type item struct {
	commit *changes.Commit // without Frames: progress
	start  *snapshotStart
	part   *changes.SnapshotPart
	end    *snapshotEnd
	bytes  int // what it weighs in the queue and in a batch
}

type snapshotStart struct{ stream, token string }

type snapshotEnd struct {
	stream string
	at     changes.Cursor
}

func (it *item) isProgress() bool { return it.commit != nil && len(it.commit.Frames) == 0 }

const (
	// maxQueueItems bounds what waits for the writer, and maxQueueBytes what it
	// weighs; one item larger than that waits alone.
	maxQueueItems = 16 << 10
	maxQueueBytes = 16 << 20
	// slotBytes stands for what an item, a frame or an argument takes beside its
	// bytes.
	slotBytes = 48
)

func commitItem(c *changes.Commit) item {
	n := slotBytes
	for i := range c.Frames {
		n += slotBytes + argsBytes(c.Frames[i].Args)
	}
	return item{commit: c, bytes: n}
}

func partItem(p *changes.SnapshotPart) item {
	n := slotBytes
	for _, op := range p.Ops {
		n += argsBytes(op)
	}
	return item{part: p, bytes: n}
}

func argsBytes(args [][]byte) (n int) {
	for _, a := range args {
		n += slotBytes + len(a)
	}
	return n
}

// batchLimits say when a batch is whole: when it holds so many commits, weighs
// so much, or its first commit has waited so long.
type batchLimits struct {
	commits int
	bytes   int
	wait    time.Duration
}

// queue stands between the consumer, whose push waits while it is full, and the
// writer.
type queue struct {
	mu     sync.Mutex
	moved  sync.Cond // of mu: something below has changed, or somebody's time is over
	items  []item    // guarded by mu
	bytes  int       // guarded by mu; of items
	closed bool      // guarded by mu
}

func newQueue() *queue {
	q := &queue{}
	q.moved.L = &q.mu
	return q
}

// push adds an item as soon as there is room. Progress takes the place of
// progress of the same stream that waits at the end. Several may push at once.
// It fails only with ctx.
func (q *queue) push(ctx context.Context, it item) error {
	stop := context.AfterFunc(ctx, q.wake)
	defer stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	if last := len(q.items) - 1; last >= 0 && it.isProgress() && q.items[last].isProgress() && q.items[last].commit.Stream == it.commit.Stream {
		q.items[last] = it
		return nil
	}
	for len(q.items) > 0 && (len(q.items) >= maxQueueItems || q.bytes+it.bytes > maxQueueBytes) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		q.moved.Wait()
	}
	q.items = append(q.items, it)
	q.bytes += it.bytes
	q.moved.Broadcast()
	return nil
}

// close says that no item follows.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.moved.Broadcast()
}

func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.moved.Broadcast()
}

// take waits for a batch: commits up to the limits, or one item of a snapshot.
// It returns none at the time until, if that is set, and when the queue is
// closed and empty, which ended says.
func (q *queue) take(limits batchLimits, until time.Time) (batch []item, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 {
		if q.closed {
			return nil, true
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return nil, false
		}
		q.waitUntil(until)
	}
	if q.items[0].commit == nil {
		return q.cut(1), false
	}
	whole := time.Now().Add(limits.wait)
	for {
		n, full := q.batch(limits)
		if full || q.closed || !time.Now().Before(whole) {
			return q.cut(n), false
		}
		q.waitUntil(whole)
	}
}

// waitUntil waits for a change, or for a time if it is set. q.mu is held.
func (q *queue) waitUntil(at time.Time) {
	if !at.IsZero() {
		timer := time.AfterFunc(time.Until(at), q.wake)
		defer timer.Stop()
	}
	q.moved.Wait()
}

// batch counts the items that a batch would take now; full says that waiting
// would not add to it. q.mu is held.
func (q *queue) batch(limits batchLimits) (n int, full bool) {
	bytes := 0
	for n < len(q.items) {
		it := &q.items[n]
		if it.commit == nil {
			return n, true
		}
		bytes += it.bytes
		if n > 0 && bytes > limits.bytes {
			return n, true
		}
		n++
		if n >= limits.commits || bytes >= limits.bytes {
			return n, true
		}
	}
	return n, len(q.items) >= maxQueueItems || q.bytes >= maxQueueBytes
}

// cut takes the first n items. q.mu is held.
func (q *queue) cut(n int) []item {
	batch := q.items[:n:n]
	q.items = q.items[n:]
	if len(q.items) == 0 {
		q.items = nil // the batch keeps the array alive, and nothing else does
	}
	for i := range batch {
		q.bytes -= batch[i].bytes
	}
	q.moved.Broadcast()
	return batch
}
