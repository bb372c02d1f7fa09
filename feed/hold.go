package feed

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"kevy/persist"
)

// Holds are positions that consumers told the store to keep: each keeps the log
// from its cursor on, across restarts, until it would keep more than it may. It
// is safe for concurrent use.
type Holds struct {
	source *Source
	opt    HoldOptions

	// saving is held while the file is written; it comes before mu.
	saving sync.Mutex

	mu        sync.Mutex
	consumers map[string]*consumer // guarded by mu
	n         int                  // holds of all consumers; guarded by mu
	// version counts the changes, saved is the one that the file has; both guarded
	// by mu.
	version, saved uint64
	changed        chan struct{} // closed at the next change; guarded by mu
}

// HoldOptions say how holds are kept.
type HoldOptions struct {
	// MaxBytes is how much log a hold keeps at most.
	MaxBytes int64
	// Save writes all holds durably.
	Save func(persist.Holds) error
	// DiskFull reports whether the log cannot be written for want of room; nil if it
	// always can.
	DiskFull func() bool
	// NowMs is the time in unix milliseconds.
	NowMs  func() int64
	Logger *slog.Logger
}

// consumer is all holds of one name.
type consumer struct {
	epoch   uint64
	streams map[int]*hold
}

// hold is one position. All of it is guarded by Holds.mu.
type hold struct {
	at      Cursor
	lsn     uint64 // as in persist.Hold
	movedMs int64
	broken  persist.Broken
	pin     *Pin // nil once broken; it follows at once that is in the file
	// crc is that of the block before crcLSN, once known.
	crcLSN uint64
	crc    uint32
	// firstMs is the time of the first frame behind the cursor, as long as lsn is
	// firstLSN.
	firstLSN uint64
	firstMs  int64
}

var (
	// ErrHoldName answers a name that no hold can have.
	ErrHoldName = fmt.Errorf("a hold's name is 1 to %d bytes of visible ASCII, without blanks", persist.MaxHoldNameBytes)
	// ErrHoldNeedsLog answers who wants to hold what is in memory only.
	ErrHoldNeedsLog = errors.New("HOLD needs a log")
	// ErrTooManyHolds answers one hold more than there may be.
	ErrTooManyHolds = fmt.Errorf("there are %d holds already, which is the most: delete those that nobody uses", persist.MaxHolds)
)

// NoHoldError says that there is no such hold.
type NoHoldError struct{ Name, Stream string }

func (e *NoHoldError) Error() string {
	return fmt.Sprintf("no such hold '%s' on stream %s", e.Name, e.Stream)
}

// HoldStaleError says that a hold was taken over under a higher epoch.
type HoldStaleError struct{ Epoch uint64 }

func (e *HoldStaleError) Error() string { return fmt.Sprintf("HOLDSTALE %d", e.Epoch) }

// HoldBrokenError says that a hold no longer keeps the log.
type HoldBrokenError struct{ Reason persist.Broken }

func (e *HoldBrokenError) Error() string { return "HOLDBROKEN " + string(e.Reason) }

// OpenHolds begins to keep what kept says, which must be done before the first
// Tend: what the log cannot serve any more is broken, said in the log, and
// written. The store must have a log.
func (s *Source) OpenHolds(opt HoldOptions, kept persist.Holds) error {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Holds{source: s, opt: opt, consumers: map[string]*consumer{}, changed: make(chan struct{})}
	for i := range kept.Holds {
		k := &kept.Holds[i]
		c := h.consumer(k.Name)
		c.epoch = k.Epoch
		hd := &hold{at: Cursor{k.Generation, k.Offset}, lsn: k.LSN, movedMs: k.MovedMs, broken: k.Broken}
		c.streams[k.Stream] = hd
		h.n++
		if hd.broken == persist.NotBroken {
			hd.pin = s.Pin(hd.lsn)
			if why := h.whyBroken(k); why != persist.NotBroken {
				h.breakHold(k.Name, k.Stream, hd, why)
			} else if hd.lsn > s.archive.Last()+1 {
				// What was lost came behind the cursor, in other streams. Its LSNs are
				// given again.
				hd.lsn = s.archive.Last() + 1
				hd.pin.Move(hd.lsn)
				h.version++
			}
		}
	}
	s.holds.Store(h)
	if h.version > 0 || kept.DurableLSN > s.archive.Durable() {
		h.version++
		return h.save()
	}
	return nil
}

// whyBroken says what keeps a hold from going on after a start.
func (h *Holds) whyBroken(k *persist.Hold) persist.Broken {
	s := h.source
	g, ok := s.view.Load().find(k.Stream, k.Generation)
	oldest := s.archive.OldestLSN()
	switch {
	case !ok:
		return persist.BrokenGeneration
	case k.Offset > g.end:
		return persist.BrokenLost
	case k.LSN < oldest:
		return persist.BrokenEvicted
	}
	if k.CRC == 0 || k.LSN == oldest || k.LSN > s.archive.Last()+1 {
		return persist.NotBroken
	}
	crc, err := s.archive.BlockCRC(k.LSN - 1)
	switch {
	case errors.Is(err, ErrTruncated):
		return persist.BrokenEvicted
	case err != nil:
		h.opt.Logger.Error("the block of a hold cannot be read", "hold", k.Name, "stream", s.StreamName(k.Stream), "lsn", k.LSN-1, "error", err)
		return persist.BrokenEvicted
	case crc != k.CRC:
		return persist.BrokenGeneration
	}
	return persist.NotBroken
}

// Holds returns the store's holds, nil where there is no log to hold.
func (s *Source) Holds() *Holds { return s.holds.Load() }

// consumer returns the holds of a name, made if there are none. The caller holds
// mu, or is alone.
func (h *Holds) consumer(name string) *consumer {
	c := h.consumers[name]
	if c == nil {
		c = &consumer{streams: map[int]*hold{}}
		h.consumers[name] = c
	}
	return c
}

// noteChange wakes who waits for a hold to move. The caller holds mu.
func (h *Holds) noteChange() {
	h.version++
	close(h.changed)
	h.changed = make(chan struct{})
}

// breakHold ends the holding. The caller holds mu, or is alone.
func (h *Holds) breakHold(name string, stream int, hd *hold, why persist.Broken) {
	kept := h.source.archive.BytesFrom(hd.lsn)
	hd.broken = why
	hd.pin.Release()
	hd.pin = nil
	h.noteChange()
	h.opt.Logger.Warn("a hold of the feed is broken: its consumer has to begin anew, and CHANGES HOLD DEL removes it",
		"hold", name, "stream", h.source.StreamName(stream), "reason", string(why), "generation", hd.at.Generation, "offset", hd.at.Offset,
		"behind_bytes", kept, "feed_hold_max_bytes", h.opt.MaxBytes)
}

// Set makes the hold of a name on a stream keep the log from a cursor on, which
// must be one that is served. A new hold, one that is moved back, and a higher
// epoch are on disk when it returns; another move follows within a second or so.
//
// The errors are those of Since, ErrHoldName, ErrTooManyHolds, *HoldStaleError,
// *HoldBrokenError, and what writing the file returned.
func (h *Holds) Set(name string, stream int, at Cursor, epoch uint64) error {
	if !persist.ValidHoldName(name) {
		return ErrHoldName
	}
	if err := h.admits(name, stream, epoch); err != nil {
		return err
	}
	// Nothing is let go while the place is sought.
	all := h.source.Pin(1)
	defer all.Release()
	lsn, err := h.source.lsnOf(stream, at)
	if err != nil {
		return err
	}
	urgent, fresh, err := h.set(name, stream, at, lsn, epoch)
	if err != nil || !urgent {
		return err
	}
	if err := h.save(); err != nil {
		if fresh {
			_, _ = h.remove(name, stream) // it was there already, or never
		}
		return err
	}
	return nil
}

// admits returns why a hold cannot be set, if that is so.
func (h *Holds) admits(name string, stream int, epoch uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refusal(name, stream, epoch)
}

// refusal is admits under mu.
func (h *Holds) refusal(name string, stream int, epoch uint64) error {
	c := h.consumers[name]
	if c != nil && epoch < c.epoch {
		return &HoldStaleError{Epoch: c.epoch}
	}
	if c != nil && c.streams[stream] != nil {
		if why := c.streams[stream].broken; why != persist.NotBroken {
			return &HoldBrokenError{Reason: why}
		}
		return nil
	}
	if h.n >= persist.MaxHolds {
		return ErrTooManyHolds
	}
	return nil
}

func (h *Holds) set(name string, stream int, at Cursor, lsn, epoch uint64) (urgent, fresh bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refusal(name, stream, epoch); err != nil {
		return false, false, err
	}
	c := h.consumer(name)
	hd := c.streams[stream]
	fresh = hd == nil
	urgent = fresh || epoch > c.epoch
	if fresh {
		hd = &hold{pin: h.source.Pin(lsn)}
		c.streams[stream] = hd
		h.n++
	}
	if at.before(hd.at) {
		urgent = true
	}
	if lsn < hd.pin.LSN() {
		hd.pin.Move(lsn)
	}
	c.epoch = epoch
	hd.at, hd.lsn, hd.movedMs = at, lsn, h.opt.NowMs()
	h.noteChange()
	return urgent, fresh, nil
}

// Del removes the hold of a name on a stream, or on all if stream is negative,
// durably, and returns how many there were. With the last one its epoch is
// forgotten.
func (h *Holds) Del(name string, stream int) (int, error) {
	n, err := h.remove(name, stream)
	if err == nil && n > 0 {
		err = h.save()
	}
	return n, err
}

func (h *Holds) remove(name string, stream int) (n int, err error) {
	if !persist.ValidHoldName(name) {
		return 0, ErrHoldName
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.consumers[name]
	if c == nil {
		return 0, nil
	}
	for i, hd := range c.streams {
		if stream >= 0 && i != stream {
			continue
		}
		if hd.pin != nil {
			hd.pin.Release()
		}
		delete(c.streams, i)
		n++
	}
	h.n -= n
	if len(c.streams) == 0 {
		delete(h.consumers, name)
	}
	if n > 0 {
		h.noteChange()
	}
	return n, nil
}

// save writes the holds as they are now, unless that was done meanwhile, and lets
// the log go that only their former positions kept.
func (h *Holds) save() error {
	h.mu.Lock()
	want := h.version
	h.mu.Unlock()
	h.saving.Lock()
	defer h.saving.Unlock()
	h.mu.Lock()
	if h.saved >= want {
		h.mu.Unlock()
		return nil // another writer took this change along
	}
	version := h.version
	// What is durable is asked before the positions: it covers no less.
	out := persist.Holds{DurableLSN: h.source.archive.Durable()}
	type saved struct {
		persist.Hold
		hd *hold
	}
	var all []saved
	for name, c := range h.consumers {
		for stream, hd := range c.streams {
			k := persist.Hold{
				Name: name, Stream: stream, Generation: hd.at.Generation, Offset: hd.at.Offset, LSN: hd.lsn,
				Epoch: c.epoch, MovedMs: hd.movedMs, Broken: hd.broken,
			}
			if hd.crcLSN == hd.lsn {
				k.CRC = hd.crc
			}
			all = append(all, saved{k, hd})
		}
	}
	h.mu.Unlock()
	slices.SortFunc(all, func(a, b saved) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Stream, b.Stream))
	})
	for i := range all {
		out.Holds = append(out.Holds, all[i].Hold)
	}
	h.addChecksums(&out)
	if err := h.opt.Save(out); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.saved = version
	for i := range out.Holds {
		k, hd := &out.Holds[i], all[i].hd
		if k.CRC != 0 {
			hd.crcLSN, hd.crc = k.LSN, k.CRC
		}
		// One that was moved back meanwhile keeps what it went back to.
		if hd.pin != nil && hd.pin.LSN() < k.LSN {
			hd.pin.Move(min(k.LSN, hd.lsn))
		}
	}
	return nil
}

// Save writes the moves that are not on disk yet.
func (h *Holds) Save() error {
	h.mu.Lock()
	dirty := h.version != h.saved
	h.mu.Unlock()
	if !dirty {
		return nil
	}
	return h.save()
}

// addChecksums fills in those that are not known, where the block is durable.
// Holds that stand close to each other share one.
func (h *Holds) addChecksums(out *persist.Holds) {
	known := map[uint64]uint32{}
	for i := range out.Holds {
		k := &out.Holds[i]
		if k.CRC != 0 || k.LSN == 1 || k.LSN-1 > out.DurableLSN || k.Broken != persist.NotBroken {
			continue
		}
		crc, ok := known[k.LSN]
		if !ok {
			// Without it the hold is as good, but for a history that took this one's
			// place.
			if got, err := h.source.archive.BlockCRC(k.LSN - 1); err == nil {
				crc = got
			}
			known[k.LSN] = crc
		}
		k.CRC = crc
	}
}

// Position returns where the hold of a name on a stream stands and the channel
// that is closed when that may have changed. The errors are *NoHoldError and
// *HoldBrokenError.
func (h *Holds) Position(name string, stream int) (Cursor, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.consumers[name]
	if c == nil || c.streams[stream] == nil {
		return Cursor{}, nil, &NoHoldError{name, h.source.StreamName(stream)}
	}
	hd := c.streams[stream]
	if hd.broken != persist.NotBroken {
		return Cursor{}, nil, &HoldBrokenError{Reason: hd.broken}
	}
	return hd.at, h.changed, nil
}
