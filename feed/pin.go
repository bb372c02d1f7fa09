package feed

import "sync"

// Pin keeps the log from an LSN on, for a reader that the retention knows nothing
// of. What bounds how much that is, is its owner's affair. It is safe for
// concurrent use. Where the log has no files there is nothing to keep: the
// history is what memory holds.
type Pin struct {
	source *Source
	lsn    uint64 // guarded by the source's pins.mu
	kept   bool   // guarded by the source's pins.mu
}

// pins are those of one source. The log's floor is set under mu, so that none
// passes a pin that was taken before.
type pins struct {
	mu   sync.Mutex
	held map[*Pin]struct{} // guarded by mu
	// retained is the floor that the retention alone asks for, 0 for none; guarded
	// by mu.
	retained uint64
}

// Pin keeps the op lsn and all behind it from now on, until it is released. Kept
// says whether the log still reached back that far; if not, the pin keeps what is
// left. It does no I/O.
func (s *Source) Pin(lsn uint64) *Pin {
	p := &Pin{source: s}
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	if s.pins.held == nil {
		s.pins.held = map[*Pin]struct{}{}
	}
	s.pins.held[p] = struct{}{}
	p.move(lsn)
	return p
}

// Move makes the pin keep the log from lsn on, which may lie before where it
// stood: Kept then says whether the log still reached back that far.
func (p *Pin) Move(lsn uint64) {
	p.source.pins.mu.Lock()
	defer p.source.pins.mu.Unlock()
	p.move(lsn)
}

// move is Move under pins.mu.
func (p *Pin) move(lsn uint64) {
	s := p.source
	back := p.lsn == 0 || lsn < p.lsn
	p.lsn = lsn
	if _, held := s.pins.held[p]; !back || !held {
		return
	}
	// The floor may lie above it over a log that recovery still needs. It comes
	// down first: what is there then stays.
	if s.pins.retained > lsn {
		s.archive.SetFloor(s.pins.lowest())
	}
	p.kept = s.archive.OldestLSN() <= lsn
}

// Kept reports whether the log reached back to the pin's LSN when the pin was
// taken, or was last moved back.
func (p *Pin) Kept() bool {
	p.source.pins.mu.Lock()
	defer p.source.pins.mu.Unlock()
	return p.kept
}

// LSN returns from where on the pin keeps the log.
func (p *Pin) LSN() uint64 {
	p.source.pins.mu.Lock()
	defer p.source.pins.mu.Unlock()
	return p.lsn
}

// Release gives the pin up. It may be called again.
func (p *Pin) Release() {
	p.source.pins.mu.Lock()
	defer p.source.pins.mu.Unlock()
	delete(p.source.pins.held, p)
}

// setFloor makes the floor what the retention asks for, or the lowest pin if that
// lies below it.
func (ps *pins) setFloor(a Archive, retained uint64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.retained = retained
	a.SetFloor(ps.lowest())
}

// lowest returns the floor with the pins. The caller holds mu.
func (ps *pins) lowest() uint64 {
	floor := ps.retained
	for p := range ps.held {
		floor = min(floor, p.lsn)
	}
	return floor
}
