package shard

import "sync"

// yielded says that somebody uses every shard without their locks.
type yielded struct {
	over chan struct{} // closed by Retake

	mu    sync.Mutex
	later []func() // guarded by mu
	ended bool     // nothing can be added any more; guarded by mu
}

// maxLater bounds what waits for RunLater.
const maxLater = 10_000

// later lets who uses the yielded shards run fn, in RunLater or Retake. It reports
// false if they are not yielded, or too much waits.
func (s *Set) later(fn func()) bool {
	y := s.yielded.Load()
	if y == nil {
		return false
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.ended || len(y.later) == maxLater {
		return false
	}
	y.later = append(y.later, fn)
	return true
}

// RunLater does what others have asked for who do not get the shards' locks. Who has
// yielded the shards calls it from time to time, and before each change: a WATCH that
// was answered by then must be told of it.
func (s *Set) RunLater() {
	if y := s.yielded.Load(); y != nil {
		y.run(false)
	}
}

func (y *yielded) run(last bool) {
	y.mu.Lock()
	fns := y.later
	y.later, y.ended = nil, last
	y.mu.Unlock()
	for _, fn := range fns {
		fn()
	}
}

// Yield lets go of the locks of all shards, which the caller holds, but not of the
// shards: whoever gets a lock from now on finds them yielded and lets go of it
// again, so that those who wait can be told that it takes long. The caller alone
// goes on to use them, until Retake.
func (s *Set) Yield() {
	s.yielded.Store(&yielded{over: make(chan struct{})})
	for _, sh := range s.shards {
		sh.mu.Unlock()
	}
}

// Retake takes back what Yield let go of: every shard is locked by the caller.
func (s *Set) Retake() {
	for _, sh := range s.shards {
		sh.mu.Lock()
	}
	y := s.yielded.Swap(nil)
	y.run(true)
	close(y.over)
}

// Yielded reports whether somebody uses every shard without their locks.
func (s *Set) Yielded() bool { return s.yielded.Load() != nil }

// AwaitReturn returns once the shards are no longer yielded. No lock is held.
func (s *Set) AwaitReturn() {
	if y := s.yielded.Load(); y != nil {
		<-y.over
	}
}

// lockOne takes the lock of one shard.
func (s *Set) lockOne(sh *Shard) {
	sh.mu.Lock()
	for s.yielded.Load() != nil {
		sh.mu.Unlock()
		s.AwaitReturn()
		sh.mu.Lock()
	}
}
