package feed

import "kevy/persist"

// tend moves holds of streams in which nothing happens along with the log, breaks
// those that keep too much and writes what has changed. retained is the floor
// that the retention asks for, 0 if it keeps all; mayGive says that no other room
// was made on a disk that is full.
func (h *Holds) tend(retained uint64, mayGive bool) {
	h.mu.Lock()
	var gives uint64
	if mayGive {
		gives = h.givesWay(retained)
	}
	for name, c := range h.consumers {
		for stream, hd := range c.streams {
			switch {
			case hd.broken != persist.NotBroken:
			case hd.pin.LSN() < gives:
				h.breakHold(name, stream, hd, persist.BrokenDiskFull)
			default:
				h.tendOne(name, stream, hd, retained)
			}
		}
	}
	h.mu.Unlock()
	if err := h.Save(); err != nil {
		h.opt.Logger.Error("cannot write the feed's holds, will try again", "error", err)
	}
}

// givesWay returns the LSN below which holds break because the disk is full: those
// that keep the oldest file of the log, if nothing else does. A file at a time
// goes, until the log can be written. The caller holds mu.
func (h *Holds) givesWay(retained uint64) uint64 {
	if h.opt.DiskFull == nil || !h.opt.DiskFull() {
		return 0
	}
	oldest := retained
	for _, c := range h.consumers {
		for _, hd := range c.streams {
			if hd.pin != nil {
				oldest = min(oldest, hd.pin.LSN())
			}
		}
	}
	if oldest >= retained || !h.source.spare(oldest) {
		return 0 // nothing would go
	}
	for _, seg := range h.source.archive.Segments() {
		if seg.FirstLSN > oldest {
			return min(seg.FirstLSN, retained)
		}
	}
	return retained
}

// tendOne is tend for one hold. The caller holds mu.
func (h *Holds) tendOne(name string, stream int, hd *hold, retained uint64) {
	s := h.source
	if _, ok := s.view.Load().find(stream, hd.at.Generation); !ok {
		h.breakHold(name, stream, hd, persist.BrokenGeneration)
		return
	}
	oldest := s.archive.OldestLSN()
	if retained > hd.pin.LSN() || oldest > hd.lsn {
		if lsn, ok := s.caughtUp(stream, hd.at); ok && lsn > hd.lsn {
			hd.lsn = lsn
			h.version++
		}
		// What counts is where the consumer stands; what the file says follows.
		switch kept := s.archive.BytesFrom(hd.lsn); {
		case kept > h.opt.MaxBytes && s.spare(hd.lsn):
			h.breakHold(name, stream, hd, persist.BrokenSize)
			return
		case s.archive.BytesFrom(hd.pin.LSN()) > h.opt.MaxBytes:
			hd.pin.Move(hd.lsn)
		}
	}
	if oldest > hd.lsn {
		h.breakHold(name, stream, hd, persist.BrokenEvicted) // the log is damaged there
	}
}
