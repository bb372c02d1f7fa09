package feed

import (
	"errors"
	"time"

	"kevy/persist"
)

// Info is the state of one stream.
type Info struct {
	Stream     int
	Generation uint64
	Oldest     Cursor // the oldest cursor still served
	Next       uint64 // offset of the next frame
	// Durable is the cursor up to which frames are fsynced; equal to Oldest where
	// nothing is.
	Durable Cursor
	// MemoryBytes and DiskBytes are what the log takes that this stream, as all
	// others, is read from.
	MemoryBytes, DiskBytes int64
	Lineage                []PastGeneration
	// Holds are those on this stream.
	Holds []HoldInfo
	// Waiting is the number of readers that wait for the next frame.
	Waiting int
}

// PastGeneration is a generation that has ended.
type PastGeneration struct {
	Generation uint64
	End        uint64 // number of its frames
	EndLSN     uint64
	Why        persist.Why
}

// Info returns the state of a stream.
func (s *Source) Info(stream int) (Info, error) {
	oldest, err := s.Oldest(stream)
	if err != nil {
		return Info{}, err
	}
	v := s.view.Load()
	info := Info{
		Stream: stream, Generation: v.live.draw + uint64(stream), Oldest: oldest, Next: v.live.nextOf(stream), Durable: oldest,
		MemoryBytes: s.archive.MemoryBytes(), Waiting: int(s.waiting[stream].waiters.Load()),
	}
	if !s.opt.NeverDurable {
		if info.Durable, err = s.DurableTail(stream); err != nil {
			return Info{}, err
		}
	}
	for _, seg := range s.archive.Segments() {
		info.DiskBytes += seg.Bytes
	}
	for k := range v.past {
		if g := v.ended(stream, k); g.end != unknownEnd {
			info.Lineage = append(info.Lineage, PastGeneration{g.number, g.end, g.endLSN, g.why})
		}
	}
	if h := s.holds.Load(); h != nil {
		info.Holds = h.List(stream)
	}
	return info, nil
}

// DurableTail returns where a fresh reader starts that must not be behind a frame
// which a crash can take: all before it is fsynced. A DURABLE reader that started
// at Tail would have to resync after a crash without having seen anything.
func (s *Source) DurableTail(stream int) (Cursor, error) {
	at, err := s.CursorAt(stream, s.archive.Durable()+1)
	if errors.Is(err, ErrTruncated) {
		return s.Oldest(stream)
	}
	return at, err
}

// Tend gives up history beyond the retention as of nowMs (unix milliseconds) and
// what readers hold that did not come back. It is called every second or so.
func (s *Source) Tend(nowMs int64) {
	s.cache.expire()
	s.snapshots.tend()
	last, before := s.archive.Last(), time.Now().Add(-maxFollowedIdle)
	s.followers.each(func(f *Follower) { f.place.expire(last, before) })
	floor := s.floor(nowMs)
	if !s.opt.NeverDurable {
		// A DURABLE reader could not have read what is not fsynced yet.
		floor = min(floor, s.archive.Durable()+1)
	}
	if h := s.holds.Load(); h != nil {
		h.tend(floor)
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
