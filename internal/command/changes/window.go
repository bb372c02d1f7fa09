package changes

import "sync/atomic"

// window is how many messages may still be sent.
type window struct {
	limited bool // set before the goroutine starts
	left    atomic.Int64
	more    chan struct{} // has room for one; something was added
}

// limit makes the window one of n messages.
func (w *window) limit(n int64) {
	w.limited = true
	w.left.Store(n)
}

// add adds credit, up to a bound.
func (w *window) add(n int64) {
	for {
		left := w.left.Load()
		if w.left.CompareAndSwap(left, min(left+n, maxCredit)) {
			break
		}
	}
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *window) open() bool { return !w.limited || w.left.Load() > 0 }

func (w *window) use() {
	if w.limited {
		w.left.Add(-1)
	}
}
