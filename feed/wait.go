package feed

import (
	"sync"
	"sync/atomic"
)

// waitList is where the readers of one stream wait for its next frame. For who
// commits it is one load while nobody waits. Otherwise one token is left, and
// the reader that takes it wakes the others: a commit never pays for more than
// one.
type waitList struct {
	waiters atomic.Int32
	token   chan struct{} // room for one

	mu  sync.Mutex
	all chan struct{} // closed to wake everyone; guarded by mu
}

func (w *waitList) init() {
	w.token = make(chan struct{}, 1)
	w.all = make(chan struct{})
}

func (w *waitList) wake() {
	if w.waiters.Load() == 0 {
		return
	}
	select {
	case w.token <- struct{}{}:
	default:
	}
}

// join registers a waiter, which must then look whether what it waits for has
// already happened, and returns the channel that is closed when others are
// woken. leave must follow.
func (w *waitList) join() <-chan struct{} {
	w.waiters.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

func (w *waitList) leave() { w.waiters.Add(-1) }

// wakeOthers passes a token on to everyone who waits.
func (w *waitList) wakeOthers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.all)
	w.all = make(chan struct{})
}

// current returns the channel that the next wakeOthers closes.
func (w *waitList) current() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}
