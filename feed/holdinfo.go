package feed

import (
	"cmp"
	"slices"

	"kevy/persist"
)

// Count returns how many holds there are, and how many of them are broken; none
// of nil.
func (h *Holds) Count() (all, broken int) {
	if h == nil {
		return 0, 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.consumers {
		for _, hd := range c.streams {
			if hd.broken != persist.NotBroken {
				broken++
			}
		}
	}
	return h.n, broken
}

// HoldInfo describes a hold.
type HoldInfo struct {
	Name    string
	Stream  int
	At      Cursor
	Epoch   uint64
	MovedMs int64 // unix milliseconds of the last Set
	// LagFrames is the number of frames behind the cursor, LagBytes about what the
	// log takes from it on, and LagMs the age of the first frame behind it; each -1
	// where nobody can tell any more.
	LagFrames, LagBytes, LagMs int64
	Broken                     persist.Broken
}

// List describes the holds of a stream, of all if it is negative, by name and
// stream.
func (h *Holds) List(stream int) []HoldInfo {
	h.mu.Lock()
	var list []HoldInfo
	var holds []hold
	for name, c := range h.consumers {
		for i, hd := range c.streams {
			if stream >= 0 && i != stream {
				continue
			}
			list = append(list, HoldInfo{Name: name, Stream: i, At: hd.at, Epoch: c.epoch, MovedMs: hd.movedMs, Broken: hd.broken})
			holds = append(holds, *hd)
		}
	}
	h.mu.Unlock()
	for i := range list {
		h.lag(&list[i], &holds[i])
	}
	slices.SortFunc(list, func(a, b HoldInfo) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Stream, b.Stream))
	})
	return list
}

// lag fills in how far a hold, of which hd is a copy, is behind.
func (h *Holds) lag(info *HoldInfo, hd *hold) {
	s := h.source
	info.LagFrames, info.LagBytes, info.LagMs = -1, -1, -1
	if g, ok := s.view.Load().find(info.Stream, info.At.Generation); ok && info.At.Offset <= g.end {
		info.LagFrames = int64(s.LagFrames(info.Stream, info.At))
	}
	if info.Broken != persist.NotBroken {
		return
	}
	if _, ok := s.caughtUp(info.Stream, info.At); ok {
		info.LagBytes, info.LagMs = 0, 0
		return
	}
	lsn, firstMs := hd.firstLSN, hd.firstMs
	if lsn == 0 || lsn < hd.lsn {
		var err error
		if lsn, firstMs, err = s.firstBehind(info.Stream, info.At); err != nil {
			return // it breaks at this moment
		}
		h.noteFirst(info.Name, info.Stream, info.At, lsn, firstMs)
	}
	info.LagBytes = s.archive.BytesFrom(lsn)
	if firstMs > 0 {
		info.LagMs = max(0, h.opt.NowMs()-firstMs)
	}
}

// noteFirst remembers the first frame behind a hold, unless it was moved.
func (h *Holds) noteFirst(name string, stream int, at Cursor, lsn uint64, firstMs int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.consumers[name]; c != nil {
		if hd := c.streams[stream]; hd != nil && hd.at == at && hd.broken == persist.NotBroken {
			hd.lsn = max(hd.lsn, lsn)
			hd.firstLSN, hd.firstMs = lsn, firstMs
		}
	}
}
