package feed

import "time"

// Tend gives up history beyond the retention as of nowMs (unix milliseconds) and
// what readers hold that did not come back. It is called every second or so.
func (s *Source) Tend(nowMs int64) {
	s.cache.expire()
	madeRoom := s.snapshots.tend()
	last, before := s.archive.Last(), time.Now().Add(-maxFollowedIdle)
	s.followers.each(func(f *Follower) { f.place.expire(last, before) })
	floor := s.floor(nowMs)
	if !s.opt.NeverDurable {
		// A DURABLE reader could not have read what is not fsynced yet.
		floor = min(floor, s.archive.Durable()+1)
	}
	if h := s.holds.Load(); h != nil {
		h.tend(floor, !madeRoom)
	}
	if floor > 0 {
		s.pins.setFloor(s.archive, floor)
		s.archive.RemoveDropped()
	}
}

// floor returns the lowest LSN that the retention keeps, 0 if it keeps all.
func (s *Source) floor(nowMs int64) uint64 {
	segs := s.archive.Segments()
	var bytes int64
	for i := len(segs) - 1; i >= 0; i-- {
		bytes += segs[i].Bytes
		tooMuch := s.opt.RetainBytes >= 0 && bytes > s.opt.RetainBytes
		tooOld := s.opt.RetainMs > 0 && segs[i].LastMs < nowMs-s.opt.RetainMs
		if !tooMuch && !tooOld {
			continue
		}
		if i+1 < len(segs) {
			return segs[i+1].FirstLSN
		}
		return s.archive.Last() + 1
	}
	return 0
}
