package feed

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"kevy/persist"
)

const (
	// SnapshotResume is how long a snapshot that nobody reads any more can be
	// resumed.
	SnapshotResume = time.Minute
	// MaxSnapshots is how many snapshots there are at a time. One more takes the place
	// of one that all have read to its end; if there is none, who asks shares the
	// youngest.
	MaxSnapshots = 8
)

var (
	// ErrNoSnapshot answers a token that resumes nothing.
	ErrNoSnapshot  = errors.New("no such snapshot: it can be resumed for a minute after the connection was lost, and by this run of the server; subscribe with SNAPSHOT alone")
	errOtherFilter = errors.New("the snapshot was begun with another database or other key filters")
	// ErrSnapshotDiskFull ends a snapshot because the log could not be written for
	// want of room.
	ErrSnapshotDiskFull = errors.New("the snapshot is given up: the disk is full; make room, then subscribe with SNAPSHOT again")
	// errSnapshotOver ends a snapshot that nobody has resumed.
	errSnapshotOver = errors.New("the snapshot is over")
)

// SnapshotMessageError says that a snapshot is to go on behind a message that was
// not sent.
type SnapshotMessageError struct{ N uint64 }

func (e *SnapshotMessageError) Error() string {
	return fmt.Sprintf("the snapshot has sent no message %d", e.N)
}

// SnapshotCostError ends a snapshot for which more log would have to be kept than
// is allowed.
type SnapshotCostError struct{ Bytes, Limit int64 }

func (e *SnapshotCostError) Error() string {
	return fmt.Sprintf("the snapshot is given up: %d bytes of log were written since its cut, and feed-snapshot-log-bytes keeps %d for it; "+
		"read faster, narrow the stream, or raise the setting", e.Bytes, e.Limit)
}

// Freezer is the store as snapshots need it.
type Freezer interface {
	// Freeze takes the state of the store as of one moment, at which no commit is
	// on its way, and calls cut in that moment.
	Freeze(cut func()) (Frozen, error)
}

// Frozen is the state of a store as of one moment.
type Frozen interface {
	// Write calls add with the ops that rebuild every key, overdue ones included,
	// whole ops each time: shards in ascending order, databases within a shard.
	// It gives the state up as it goes, and all of it when add returns an error,
	// which it returns.
	Write(add func(shard, db, ops int, payload []byte) error) error
}

// SnapshotOptions configure the snapshots of a Source.
type SnapshotOptions struct {
	Freezer Freezer
	Spool   persist.SpoolOptions
	// MaxLogBytes bounds the log that is kept for one snapshot; 0 sets no limit.
	MaxLogBytes int64
	// DiskFull reports whether the log cannot be written for want of room; nil if it
	// always can.
	DiskFull func() bool
	Logger   *slog.Logger
}

// snapshots are those of a source. One is written at a time, and who asks for one
// meanwhile shares the next: its cut comes after they have asked.
type snapshots struct {
	source *Source
	opt    SnapshotOptions

	mu      sync.Mutex
	alive   []*snapshot // oldest first, pending not included; guarded by mu
	writing *snapshot   // the last of alive; guarded by mu
	pending *snapshot   // to be cut once writing is written; guarded by mu
	closed  bool        // guarded by mu

	running sync.WaitGroup
}

// snapshot is one cut and the file that it is written to.
type snapshot struct {
	id    string
	ready chan struct{} // closed once the cut is taken, or there will be none
	over  chan struct{} // closed once err is set

	// Set before ready is closed:
	lsn     uint64 // the last op before the cut
	cursors []Cursor
	spool   *persist.Spool
	pin     *Pin
	cutAt   time.Time

	from    uint64    // what the log is kept from for it, 0 if it is not; guarded by snapshots.mu
	readers int       // guarded by snapshots.mu
	lost    int       // readers that left before the end, less those that came back; guarded by snapshots.mu
	leftAt  time.Time // when the last reader left; guarded by snapshots.mu
	err     error     // why it has ended; guarded by snapshots.mu

	bordersMu sync.Mutex
	borders   map[string]*borders // by stream and filter; guarded by bordersMu
}

// OpenSnapshots makes Snapshot work. It is called once, before readers come.
func (s *Source) OpenSnapshots(opt SnapshotOptions) {
	s.snapshots.opt = opt
	s.snapshots.source = s
}

// Snapshot returns a reader of the store's state as of a cut that is taken once
// no other snapshot is being written: of the keys of a stream that the filter
// lets pass, whatever their values; it must not change. The errors are
// ErrDisabled and ErrClosed.
func (s *Source) Snapshot(stream int, f *Filter) (*SnapshotReader, error) {
	sn, err := s.snapshots.join()
	if err != nil {
		return nil, err
	}
	return &SnapshotReader{source: s, snapshot: sn, stream: stream, filter: f, print: f.print()}, nil
}

// ResumeSnapshot returns a reader that goes on behind message after of the
// snapshot with a token, as Token returned it for the same stream and filter. The
// errors are ErrNoSnapshot, errOtherFilter and *SnapshotMessageError.
func (s *Source) ResumeSnapshot(stream int, f *Filter, token []byte, after uint64) (*SnapshotReader, error) {
	id, of, _ := strings.Cut(string(token), "-")
	name, print, _ := strings.Cut(of, "-")
	sn := s.snapshots.rejoin(id, name == s.StreamName(stream))
	if sn == nil {
		return nil, ErrNoSnapshot
	}
	r := &SnapshotReader{source: s, snapshot: sn, stream: stream, filter: f, print: f.print()}
	err := r.resume(after)
	if print != r.print {
		err = errOtherFilter
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// IsSnapshotToken reports whether b looks like a token, whatever it may resume.
func IsSnapshotToken(b []byte) bool { return bytes.IndexByte(b, '-') > 0 }

// join counts a reader in to the snapshot that is to be taken next.
func (ss *snapshots) join() (*snapshot, error) {
	if ss.opt.Freezer == nil {
		return nil, ErrDisabled
	}
	ss.mu.Lock()
	if ss.closed {
		ss.mu.Unlock()
		return nil, ErrClosed
	}
	sn, evicted := ss.choose()
	sn.readers++
	ss.mu.Unlock()
	if evicted != nil {
		ss.end(evicted, errSnapshotOver)
	}
	return sn, nil
}

// choose returns the snapshot for one who asks for one, and one that makes room
// for it, nil if that is not needed. The caller holds mu.
func (ss *snapshots) choose() (sn, evicted *snapshot) {
	if ss.pending != nil {
		return ss.pending, nil
	}
	if len(ss.alive) >= MaxSnapshots {
		i := slices.IndexFunc(ss.alive, func(sn *snapshot) bool { return sn.spool != nil && sn.readers == 0 && sn.lost == 0 })
		if i < 0 {
			return ss.alive[len(ss.alive)-1], nil
		}
		evicted = ss.alive[i]
		ss.alive = slices.Delete(ss.alive, i, i+1)
	}
	sn = newSnapshot()
	if ss.writing != nil {
		ss.pending = sn
		return sn, evicted
	}
	ss.begin(sn)
	ss.running.Go(ss.run)
	return sn, evicted
}

func newSnapshot() *snapshot {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the process instead
	return &snapshot{id: hex.EncodeToString(id[:]), ready: make(chan struct{}), over: make(chan struct{})}
}

// begin makes a snapshot the one that is written. The caller holds mu.
func (ss *snapshots) begin(sn *snapshot) {
	ss.writing = sn
	ss.alive = append(ss.alive, sn)
}

// run writes snapshots until nobody waits for one.
func (ss *snapshots) run() {
	for sn := ss.next(nil); sn != nil; sn = ss.next(sn) {
		if err := ss.take(sn); err != nil {
			if ss.failure(sn) == nil {
				ss.opt.Logger.Warn("a snapshot that readers of the feed take is given up", "error", err)
			}
			ss.end(sn, fmt.Errorf("the snapshot is given up: %w", err))
		}
	}
}

// next returns the snapshot to write after one that is written, nil if there is
// none.
func (ss *snapshots) next(written *snapshot) *snapshot {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if written == nil {
		return ss.writing
	}
	sn := ss.pending
	ss.writing, ss.pending = nil, nil
	switch {
	case sn == nil:
		return nil
	case ss.closed || sn.readers == 0:
		// Nobody waits any more, or nobody is to.
		sn.err = ErrClosed
		close(sn.ready)
		close(sn.over)
		return nil
	}
	ss.begin(sn)
	return sn
}

// take takes the cut and writes it to a spool.
func (ss *snapshots) take(sn *snapshot) error {
	spool, err := persist.CreateSpool(ss.opt.Spool, sn.id)
	if err != nil {
		return err
	}
	// What keeps the log waits for other locks, so that it comes before those of the
	// cut.
	s := ss.source
	sn.cursors = make([]Cursor, s.shards+1)
	ss.mu.Lock()
	sn.from = s.archive.Last() + 1
	sn.pin = s.Pin(sn.from)
	ss.keep()
	ss.mu.Unlock()
	frozen, err := ss.opt.Freezer.Freeze(func() { sn.cut(s) })
	if err != nil {
		ss.release(sn)
		ss.remove(spool, err)
		return err
	}
	sn.cutAt = time.Now()
	sn.pin.Move(sn.lsn + 1)
	ss.mu.Lock()
	sn.from = sn.lsn + 1
	ss.keep()
	sn.spool = spool
	ended := sn.err
	if ended == nil {
		close(sn.ready)
	}
	ss.mu.Unlock()
	if ended != nil {
		// Nobody else knows the spool.
		ss.release(sn)
		ss.remove(spool, ended)
	}
	if err := frozen.Write(spool.Add); err != nil {
		return err
	}
	return spool.End()
}

// cut notes where the streams stand. No commit is on its way.
func (sn *snapshot) cut(s *Source) {
	l := s.view.Load().live
	sn.lsn = l.last.Load()
	for i := range sn.cursors {
		sn.cursors[i] = Cursor{Generation: l.draw + uint64(i), Offset: l.nextOf(i)}
	}
}

// end ends a snapshot, with err for those who read it.
func (ss *snapshots) end(sn *snapshot, err error) {
	ss.mu.Lock()
	if sn.err != nil {
		ss.mu.Unlock()
		return
	}
	sn.err = err
	close(sn.over)
	ss.alive = slices.DeleteFunc(ss.alive, func(other *snapshot) bool { return other == sn })
	taken := sn.spool != nil
	if !taken {
		close(sn.ready)
	}
	ss.mu.Unlock()
	if taken {
		ss.release(sn)
		ss.remove(sn.spool, err)
	}
}

// keep makes a log in memory keep what the snapshots need. A pin does not: it may
// be there for ever. The caller holds mu.
func (ss *snapshots) keep() {
	lowest := uint64(math.MaxUint64)
	for _, sn := range ss.alive {
		if sn.from > 0 {
			lowest = min(lowest, sn.from)
		}
	}
	ss.source.archive.Keep(lowest)
}

// release lets the log go of a snapshot that has ended.
func (ss *snapshots) release(sn *snapshot) {
	sn.pin.Release()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sn.from = 0
	ss.keep()
}

func (ss *snapshots) remove(spool *persist.Spool, cause error) {
	if err := spool.Close(cause); err != nil {
		ss.opt.Logger.Warn("the file of a snapshot cannot be removed; the next start does it", "error", err)
	}
}

func (ss *snapshots) failure(sn *snapshot) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return sn.err
}

// rejoin counts a reader in to the living snapshot with an id and returns it, nil
// if there is none, or if it is not the right one.
func (ss *snapshots) rejoin(id string, right bool) *snapshot {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	i := slices.IndexFunc(ss.alive, func(sn *snapshot) bool { return sn.id == id && sn.spool != nil })
	if i < 0 || !right {
		return nil
	}
	sn := ss.alive[i]
	sn.readers++
	sn.lost = max(sn.lost-1, 0)
	return sn
}

// leave counts a reader out. It has read all, or is lost.
func (ss *snapshots) leave(sn *snapshot, all bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sn.readers--
	if !all {
		sn.lost++
	}
	if sn.readers == 0 {
		sn.leftAt = time.Now()
	}
}

// tend ends the snapshots that nobody reads, those that cost too much and, while
// the disk is full, the oldest one: its file goes, and the log that it keeps. It
// reports whether that made room.
func (ss *snapshots) tend() (madeRoom bool) {
	type ending struct {
		sn  *snapshot
		err error
	}
	var due []ending
	full := ss.opt.DiskFull != nil && ss.opt.DiskFull()
	ss.mu.Lock()
	for _, sn := range ss.alive {
		if sn.spool == nil {
			continue // not cut yet
		}
		bytes, limit := ss.source.archive.BytesFrom(sn.lsn+1), ss.opt.MaxLogBytes
		switch {
		case sn.readers == 0 && time.Since(sn.leftAt) >= SnapshotResume:
			due = append(due, ending{sn, errSnapshotOver})
		case limit > 0 && bytes > limit:
			due = append(due, ending{sn, &SnapshotCostError{Bytes: bytes, Limit: limit}})
		case full && !madeRoom:
			due = append(due, ending{sn, ErrSnapshotDiskFull})
			madeRoom = true
		}
	}
	ss.mu.Unlock()
	for _, e := range due {
		if e.err != errSnapshotOver {
			ss.opt.Logger.Warn("a snapshot that readers of the feed take, or may resume, is given up", "error", e.err)
		}
		ss.end(e.sn, e.err)
	}
	return madeRoom
}

// close ends all snapshots and waits for the one that is written.
func (ss *snapshots) close() {
	ss.mu.Lock()
	ss.closed = true
	alive := slices.Clone(ss.alive)
	ss.mu.Unlock()
	for _, sn := range alive {
		ss.end(sn, ErrClosed)
	}
	ss.running.Wait()
}

// SnapshotInfo describes a snapshot that is being read or may be resumed.
type SnapshotInfo struct {
	LSN     uint64 // the last op before the cut
	Readers int
	// Bytes is the size of its file so far; Written says that it is complete.
	Bytes   int64
	Written bool
	// LogBytes is the log that was written since the cut and is kept for it.
	LogBytes int64
	Age      time.Duration // of the cut
}

// Snapshots describes all of them, oldest first.
func (s *Source) Snapshots() []SnapshotInfo {
	ss := &s.snapshots
	ss.mu.Lock()
	defer ss.mu.Unlock()
	var out []SnapshotInfo
	for _, sn := range ss.alive {
		if sn.spool == nil {
			continue
		}
		out = append(out, SnapshotInfo{
			LSN: sn.lsn, Readers: sn.readers, Bytes: sn.spool.Bytes(), Written: sn.spool.Ended(),
			LogBytes: s.archive.BytesFrom(sn.lsn + 1), Age: time.Since(sn.cutAt),
		})
	}
	return out
}
