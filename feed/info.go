package feed

import (
	"errors"

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
