package persist

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"kevy/internal/vfs"
)

// Recovered is what the recovery of the log found. The log up to Tail must have
// been fsynced before it is handed over: ends of generations are taken from it,
// and an end on disk must never lie beyond what the disk keeps.
type Recovered struct {
	Tail Tail
	// Draw is the newest generation that the recovery met, in the log or among
	// Sidecars.Starts, and Next the offset of each stream's next frame in it at
	// the tail. A Draw of 0 says that it met none.
	Draw uint64
	Next []uint64
	// Changes are the beginnings of generations that the recovery passed, in
	// order.
	Changes []Change
	// NewHistory, if not empty, says why frames are missing between the past and
	// what follows: ops that no frame showed, or damage left out. No cursor can
	// then be moved on, so the lineage is dropped.
	NewHistory string
	// Why is noted as what ended the generation if it does not go on; Crash if
	// empty.
	Why Why
}

// Change is the border between two generations as the log shows it.
type Change struct {
	Start
	// From is the draw of the generation before, 0 if not known, and Ends the
	// offset at which each stream ended in it, nil if not known.
	From uint64
	Ends []uint64
}

// History is the state of all streams of a store.
type History struct {
	Draw uint64
	// FirstLSN is the LSN at which the current generation begins.
	FirstLSN uint64
	// Streams has an entry for each shard and, last, one for ALL.
	Streams []Stream
	// Resumed reports that the generation of the last run goes on; Reason says
	// why not.
	Resumed bool
	Reason  string
}

// FreshHistory returns the history of a store of n shards that remembers
// nothing, as one without a data directory.
func FreshHistory(nowUnixSec int64, n int) (History, error) {
	draw, err := Draw(nowUnixSec, 0, n)
	if err != nil {
		return History{}, err
	}
	h := History{Draw: draw, FirstLSN: 1, Streams: make([]Stream, n+1), Reason: "there is no data directory"}
	for i := range h.Streams {
		h.Streams[i] = Stream{Generation: draw + uint64(i), FirstLSN: 1}
	}
	return h, nil
}

func (h *History) clone() History {
	c := *h
	c.Streams = slices.Clone(h.Streams)
	for i := range c.Streams {
		c.Streams[i].Lineage = slices.Clone(c.Streams[i].Lineage)
	}
	return c
}

// Contract keeps the promise that no stream, generation and offset name two
// frames: it decides at open whether the generation goes on, records on disk
// where generations end, and marks a clean close. It is safe for concurrent use.
type Contract struct {
	fs  vfs.FS
	dir string
	n   int

	// diskMu is held while files are written; it comes before mu.
	diskMu sync.Mutex

	mu      sync.Mutex
	history History // guarded by mu
	// onDisk is the draw that the .gen files name as current. Guarded by mu.
	onDisk uint64
	closed bool // guarded by mu
}

// OpenContract decides whether the generation of the last run goes on. It
// removes every marker, durably, and where the generation does not go on it
// draws a new one and writes all .gen files, durably, before it returns. Nothing
// may be served before that, and any error must stop the start.
func OpenContract(s *Sidecars, facts Recovered, nowUnixSec int64) (*Contract, error) {
	if len(facts.Next) != s.n+1 {
		return nil, fmt.Errorf("the recovery counted %d streams of %d", len(facts.Next), s.n+1)
	}
	reason := s.whyNotResume(&facts)
	if err := s.removeMarks(); err != nil {
		return nil, fmt.Errorf("remove the feed's clean-close markers: %w", err)
	}
	c := &Contract{fs: s.fs, dir: s.dir, n: s.n}
	if reason == "" {
		c.history = s.resumed()
		c.onDisk = c.history.Draw
		return c, nil
	}
	h, err := s.bumped(&facts, nowUnixSec)
	if err != nil {
		return nil, err
	}
	h.Reason = reason
	if err := c.writeGenerations(h.Streams); err != nil {
		return nil, err
	}
	c.history, c.onDisk = h, h.Draw
	return c, nil
}

// whyNotResume returns "" if the last run closed cleanly and nothing happened to
// the log since.
func (s *Sidecars) whyNotResume(facts *Recovered) string {
	if facts.NewHistory != "" {
		return facts.NewHistory
	}
	if s.unmarked != "" {
		return "no clean close: " + s.unmarked
	}
	draw := s.marks[0].generation
	for i, m := range s.marks {
		name := closeFile(s.dir, i, s.n)
		st := s.streams[i]
		switch {
		case st == nil:
			return generationFile(s.dir, i, s.n) + " is missing"
		case m.generation != draw+uint64(i):
			return name + " is of another generation than its siblings"
		case st.Generation != m.generation:
			return generationFile(s.dir, i, s.n) + " names another generation than " + name
		case m.tail.Inode != facts.Tail.Inode:
			return name + " is about another file than the log's last: the directory was copied"
		case m.tail != facts.Tail:
			return name + " names another end of the log than there is"
		case facts.Draw != draw:
			return "the log is of another generation than " + name
		case facts.Next[i] != m.next:
			return fmt.Sprintf("%s says that offset %d is next, the log says %d", name, m.next, facts.Next[i])
		}
	}
	return ""
}

func (s *Sidecars) resumed() History {
	h := History{Streams: make([]Stream, s.n+1), Resumed: true}
	for i := range h.Streams {
		h.Streams[i] = *s.streams[i]
		h.Streams[i].Next = s.marks[i].next
	}
	h.Draw, h.FirstLSN = h.Streams[0].Generation, h.Streams[0].FirstLSN
	return h
}

// bumped ends the current generation at the recovered tail and begins a new one.
func (s *Sidecars) bumped(facts *Recovered, nowUnixSec int64) (History, error) {
	epochs := s.epochs(facts)
	var last uint64
	if len(epochs) > 0 {
		last = epochs[len(epochs)-1].draw
	}
	for oldest := s.oldestDraw(); len(epochs) > 0 && epochs[0].draw < oldest; {
		epochs = epochs[1:]
	}
	draw, err := Draw(nowUnixSec, last, s.n)
	if err != nil {
		return History{}, err
	}
	if facts.NewHistory != "" {
		epochs = nil
	}
	epochs = clip(epochs, facts)
	h := History{Draw: draw, FirstLSN: facts.Tail.LSN + 1, Streams: make([]Stream, s.n+1)}
	for i := range h.Streams {
		st := &h.Streams[i]
		st.Generation, st.FirstLSN = draw+uint64(i), h.FirstLSN
		st.Lineage = lineageOf(epochs, i)
	}
	return h, nil
}

// oldestDraw returns the first generation of the lineage, 0 if the sidecars say
// nothing. What came before was forgotten for a reason, also where the log still
// shows it, and also if only one stream has forgotten it yet.
func (s *Sidecars) oldestDraw() uint64 {
	var oldest uint64
	for i, st := range s.streams {
		switch {
		case st == nil:
		case len(st.Lineage) > 0:
			oldest = max(oldest, st.Lineage[0].Generation-uint64(i))
		default:
			oldest = max(oldest, st.Generation-uint64(i))
		}
	}
	return oldest
}

// epoch is a generation of all streams, put together from what each knows.
type epoch struct {
	draw     uint64
	firstLSN uint64 // 0 if not known
	endLSN   uint64 // running if it has not ended
	ends     []uint64
	why      Why
	// torn says that the sources contradict each other.
	torn bool
}

const (
	running = math.MaxUint64 // an endLSN
	unknown = math.MaxUint64 // an offset in ends
)

// epochs merges what the sidecars and the log know, in the order of the draws. A
// crash while the .gen files were written leaves some streams without the newest
// generation, and a FLUSHALL shortly before a crash may be in the log alone.
func (s *Sidecars) epochs(facts *Recovered) []*epoch {
	var all []*epoch
	find := func(draw uint64) *epoch {
		for _, e := range all {
			if e.draw == draw {
				return e
			}
		}
		e := &epoch{draw: draw, endLSN: running, ends: make([]uint64, s.n+1)}
		for i := range e.ends {
			e.ends[i] = unknown
		}
		all = append(all, e)
		return e
	}
	for i, st := range s.streams {
		if st == nil {
			continue
		}
		for _, p := range st.Lineage {
			e := find(p.Generation - uint64(i))
			e.begin(p.FirstLSN)
			e.finish(p.EndLSN, p.Why)
			e.ends[i] = p.End
		}
		find(st.Generation - uint64(i)).begin(st.FirstLSN)
	}
	for _, c := range facts.Changes {
		find(c.Draw).begin(c.FirstLSN)
		if c.From == 0 {
			continue
		}
		// A change that the sidecars do not know is a FLUSHALL: every other one is
		// in them before it is in the log.
		e := find(c.From)
		e.finish(c.FirstLSN-1, FlushAll)
		for i, end := range c.Ends {
			e.know(i, end)
		}
	}
	if facts.Draw != 0 {
		find(facts.Draw)
	}
	slices.SortFunc(all, func(a, b *epoch) int {
		if a.draw < b.draw {
			return -1
		}
		return 1
	})
	return all
}

func (e *epoch) begin(lsn uint64) {
	if e.firstLSN != 0 && e.firstLSN != lsn {
		e.torn = true
	}
	e.firstLSN = lsn
}

func (e *epoch) finish(lsn uint64, why Why) {
	if e.endLSN == running {
		e.endLSN, e.why = lsn, why
	}
	if e.endLSN != lsn {
		e.torn = true
	}
}

// know notes the end of a stream as counted in the log.
func (e *epoch) know(stream int, end uint64) {
	if e.ends[stream] != unknown && e.ends[stream] != end {
		e.torn = true
	}
	e.ends[stream] = end
}

// clip ends every epoch where the recovered log ends at the latest, the current
// one included, and drops all that lies before a hole. What it returns follows
// without a gap and ends at the tail.
func clip(epochs []*epoch, facts *Recovered) []*epoch {
	tail := facts.Tail.LSN
	var kept []*epoch
	for i, e := range epochs {
		if i+1 < len(epochs) {
			e.finishBefore(epochs[i+1])
		}
		if e.firstLSN > tail+1 {
			// The disk lost what it had called durable, this beginning included: its
			// readers have seen frames before it that are gone.
			continue
		}
		if len(kept) > 0 && kept[len(kept)-1].endLSN+1 != e.firstLSN {
			kept = kept[:0]
		}
		if e.torn || e.firstLSN == 0 {
			kept = kept[:0]
			continue
		}
		e.endAt(tail, facts)
		kept = append(kept, e)
	}
	if len(kept) > 0 && kept[len(kept)-1].endLSN != tail {
		return nil
	}
	return kept
}

// finishBefore ends an epoch whose end nobody noted, which only a crash can
// leave, where the next one begins.
func (e *epoch) finishBefore(next *epoch) {
	if e.endLSN == running && e.firstLSN != 0 && next.firstLSN >= e.firstLSN {
		e.endLSN, e.why = next.firstLSN-1, Crash
	}
}

// endAt moves the end back to the tail if it lies beyond, and takes from the
// recovery what it counted there.
func (e *epoch) endAt(tail uint64, facts *Recovered) {
	if e.endLSN < tail {
		return
	}
	if e.endLSN == running {
		e.why = facts.Why
		if e.why == "" {
			e.why = Crash
		}
	}
	beyond := e.endLSN > tail
	e.endLSN = tail
	for i := range e.ends {
		switch {
		case e.firstLSN == tail+1:
			e.ends[i] = 0
		case e.draw == facts.Draw && (beyond || e.ends[i] == unknown):
			e.ends[i] = facts.Next[i]
		case beyond:
			e.ends[i] = unknown
		}
		if e.ends[i] > tail+1-e.firstLSN {
			e.ends[i] = unknown // more frames than ops: the count is wrong
		}
	}
}

// lineageOf returns what stream i keeps of epochs: from the newest back to the
// first one whose end it does not know, at most MaxPast.
func lineageOf(epochs []*epoch, i int) []Past {
	first := len(epochs)
	for first > 0 && len(epochs)-first < MaxPast && epochs[first-1].ends[i] != unknown {
		first--
	}
	lineage := make([]Past, 0, len(epochs)-first)
	for _, e := range epochs[first:] {
		lineage = append(lineage, Past{
			Generation: e.draw + uint64(i), FirstLSN: e.firstLSN, EndLSN: e.endLSN, End: e.ends[i], Why: e.why,
		})
	}
	return lineage
}

// History returns a copy of the current state; Next is as of open.
func (c *Contract) History() History {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history.clone()
}

// Draw returns a number for the next generation.
func (c *Contract) Draw(nowUnixSec int64) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Draw(nowUnixSec, c.history.Draw, c.n)
}

// Bump notes that the current generation ended with the op endLSN, at the given
// offset of each stream, and that draw is the new one. It touches memory only;
// Sync makes it durable.
func (c *Contract) Bump(draw, endLSN uint64, ends []uint64, why Why) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.history
	for i := range h.Streams {
		st := &h.Streams[i]
		if len(st.Lineage) >= MaxPast {
			st.Lineage = slices.Delete(st.Lineage, 0, len(st.Lineage)-MaxPast+1)
		}
		st.Lineage = append(st.Lineage, Past{
			Generation: st.Generation, FirstLSN: st.FirstLSN, EndLSN: endLSN, End: ends[i], Why: why,
		})
		*st = Stream{Generation: draw + uint64(i), FirstLSN: endLSN + 1, Lineage: st.Lineage}
	}
	h.Draw, h.FirstLSN = draw, endLSN+1
}

// Pending reports whether a bump waits for Sync.
func (c *Contract) Pending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.onDisk != c.history.Draw
}

// Sync writes the .gen files for every bump whose end is durable in the log: an
// end on disk must not lie beyond what a power cut leaves. It is cheap when
// there is nothing to write.
func (c *Contract) Sync(durableLSN uint64) error {
	c.diskMu.Lock()
	defer c.diskMu.Unlock()
	return c.syncGenerations(durableLSN)
}

// syncGenerations is Sync with diskMu held.
func (c *Contract) syncGenerations(durableLSN uint64) error {
	c.mu.Lock()
	if c.onDisk == c.history.Draw || c.closed {
		c.mu.Unlock()
		return nil
	}
	h := c.history.clone()
	onDisk := c.onDisk
	c.mu.Unlock()
	h.rewind(durableLSN)
	if h.Draw <= onDisk {
		return nil
	}
	if err := c.writeGenerations(h.Streams); err != nil {
		return err
	}
	c.mu.Lock()
	c.onDisk = h.Draw
	c.mu.Unlock()
	return nil
}

// rewind takes back the bumps whose end lies beyond durableLSN.
func (h *History) rewind(durableLSN uint64) {
	for i := range h.Streams {
		st := &h.Streams[i]
		for k := len(st.Lineage) - 1; k >= 0 && st.Lineage[k].EndLSN > durableLSN; k-- {
			p := st.Lineage[k]
			*st = Stream{Generation: p.Generation, FirstLSN: p.FirstLSN, Lineage: st.Lineage[:k]}
		}
	}
	h.Draw, h.FirstLSN = h.Streams[0].Generation, h.Streams[0].FirstLSN
}

func (c *Contract) writeGenerations(streams []Stream) error {
	files := make([]namedData, len(streams))
	for i := range streams {
		name := generationFile(c.dir, i, c.n)
		data := encodeStream(&streams[i], i, c.n)
		// What the next start would refuse is not written.
		if _, err := parseStream(name, data, i, c.n); err != nil {
			return fmt.Errorf("write the feed's generations: %w", err)
		}
		files[i] = namedData{name, data}
	}
	if err := replaceFiles(c.fs, c.dir, files); err != nil {
		return fmt.Errorf("write the feed's generations: %w", err)
	}
	return nil
}

// Close marks a clean close: the log is fsynced and closed, it ends at tail, and
// next has the offset of each stream's next frame. After a failure of the log
// that was not made good it must not be called.
func (c *Contract) Close(tail Tail, next []uint64) error {
	c.diskMu.Lock()
	defer c.diskMu.Unlock()
	if err := c.syncGenerations(tail.LSN); err != nil {
		return err
	}
	c.mu.Lock()
	c.closed = true
	draw, onDisk := c.history.Draw, c.onDisk
	c.mu.Unlock()
	if draw != onDisk || len(next) != c.n+1 {
		return fmt.Errorf("mark the clean close: the log ends at LSN %d, before the generation that it is in", tail.LSN)
	}
	files := make([]namedData, c.n+1)
	for i := range files {
		mark := closeMark{generation: draw + uint64(i), next: next[i], tail: tail}
		files[i] = namedData{closeFile(c.dir, i, c.n), encodeClose(mark, i, c.n)}
	}
	if err := replaceFiles(c.fs, c.dir, files); err != nil {
		return fmt.Errorf("mark the clean close: %w", err)
	}
	return nil
}
