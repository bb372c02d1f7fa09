package shard

// yielded says that somebody uses every shard without their locks.
type yielded struct{ over chan struct{} } // closed by Retake

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
