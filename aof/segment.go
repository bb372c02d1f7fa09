package aof

import (
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"kevy/internal/vfs"
)

// directory is what the log knows of its files.
type directory struct {
	fs  vfs.FS
	dir string // the data directory

	// manifestMu is locked before segMu where both are.
	manifestMu sync.Mutex
	manifest   manifest // as on disk; guarded by manifestMu
	// foreign are the listed files that recovery took for no segment: of another
	// server, or damaged. All that they hold lies below any cut, so that every base
	// replaces them. Guarded by manifestMu.
	foreign map[int64]bool
	// baseSeq is the highest number that a base was ever given. One that could not
	// be installed may be listed all the same. Guarded by manifestMu.
	baseSeq int64
	// orphans are bases that could not be installed and may be listed on disk.
	// Guarded by manifestMu.
	orphans []string

	segMu    sync.Mutex
	segments []*segment // by first LSN, feed segments and then listed ones; guarded by segMu
	base     baseInfo   // guarded by segMu
	floor    uint64     // lowest LSN that readers still need; guarded by segMu
	dropped  []*segment // no longer found, their files not yet removed; guarded by segMu
	// history is the LSN below which the segments that are listed do not form an
	// unbroken log; guarded by segMu.
	history uint64
}

// baseInfo describes the base that the manifest lists.
type baseInfo struct {
	cut   uint64
	bytes int64
	ops   uint64
}

// segment is a file of the log.
type segment struct {
	name   string // path; guarded by segMu, as it changes when the file moves to feed/
	seq    int64  // in the manifest; 0 in feed/
	first  uint64
	random uint32
	unixMs int64 // of the header

	last  uint64 // LSN of the last op that readers may read; guarded by segMu
	bytes int64  // up to the end of the last block; guarded by segMu
	// index has about one mark for each markBytes of what was written or read so
	// far; guarded by segMu.
	index []mark
	// inOrder says that no place in it is to be guessed; guarded by segMu.
	inOrder bool
	// positions are those of the header, once known; guarded by segMu.
	positions []Position
}

// mark says that the block at offset at begins with LSN lsn, and when it was
// opened. One that was guessed may be a copy of a block inside a value: what
// follows it tells.
type mark struct {
	lsn     uint64
	at      int64
	unixMs  int64
	guessed bool
}

const markBytes = 256 << 10

func (d *directory) init(opt Options) {
	d.fs = opt.FS
	d.dir = opt.Dir
}

func (d *directory) logDir() string              { return filepath.Join(d.dir, logDirName) }
func (d *directory) feedDir() string             { return filepath.Join(d.dir, feedDirName) }
func (d *directory) logPath(name string) string  { return filepath.Join(d.dir, logDirName, name) }
func (d *directory) feedPath(name string) string { return filepath.Join(d.dir, feedDirName, name) }

// noteFailedSync leaves a note for the next open that the kernel may take for
// written what is not. If that fails too there is nothing left to do.
func (d *directory) noteFailedSync(name string, cause error) {
	text := fmt.Appendf(nil, "fsync of %s failed: %v\n", name, cause)
	_ = vfs.WriteFileAtomic(d.fs, d.logPath(failedSyncName), text)
}

// mark notes where a block begins. The caller holds segMu, or is alone.
func (s *segment) mark(m mark) {
	if n := len(s.index); n == 0 || m.at >= s.index[n-1].at+markBytes {
		s.index = append(s.index, m)
	}
}

// before returns the mark of a block at or before the one with lsn; offset 0 is
// the beginning of the file. The caller holds segMu.
func (s *segment) before(lsn uint64) mark {
	// Of several marks with one LSN the first is taken: the others may stand
	// behind a line that belongs to it.
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].lsn >= lsn })
	if i < len(s.index) && s.index[i].lsn == lsn {
		return s.index[i]
	}
	if i == 0 {
		return mark{lsn: s.first}
	}
	return s.index[i-1]
}

// wrote notes a block that was written at offset at and ends at end.
func (d *directory) wrote(s *segment, h *BlockHeader, at, end int64) {
	d.segMu.Lock()
	defer d.segMu.Unlock()
	s.mark(mark{lsn: h.FirstLSN, at: at, unixMs: h.UnixMs})
	s.last = h.LastLSN()
	s.bytes = end
}

// find returns the segment that holds lsn, nil if none does.
func (d *directory) find(lsn uint64) *segment {
	i := sort.Search(len(d.segments), func(i int) bool { return d.segments[i].first > lsn })
	if i == 0 || lsn < d.history {
		return nil
	}
	return d.segments[i-1]
}

// beginHistoryBehind takes a segment and all before it from readers; false if
// there is none behind it.
func (d *directory) beginHistoryBehind(s *segment) bool {
	d.segMu.Lock()
	defer d.segMu.Unlock()
	i := slices.Index(d.segments, s)
	if i < 0 {
		return true // it is gone anyway
	}
	if i == len(d.segments)-1 {
		return false
	}
	d.history = max(d.history, d.segments[i+1].first)
	return true
}

// oldest returns the lowest LSN that a segment holds without a gap up to the
// end, next if there is none.
func (d *directory) oldest(next uint64) uint64 {
	d.segMu.Lock()
	defer d.segMu.Unlock()
	for _, s := range d.segments {
		if s.first >= d.history {
			return s.first
		}
	}
	return next
}

// Keep says that readers need all from lsn on, for now: a log without files keeps
// it in memory, however much that is. One with files is told by SetFloor what may
// go.
func (l *Log) Keep(lsn uint64) {
	if !l.opt.NoFile {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mem.keep = lsn
	l.mem.trim(l.opt.MemoryBytes, true)
}

// SetFloor says that no reader needs ops below lsn. Readers no longer find the
// segments wholly below it that recovery does not need either; RemoveDropped
// takes their files away. A floor that goes down again keeps what is still
// there. It touches memory only.
func (l *Log) SetFloor(lsn uint64) {
	if l.opt.NoFile {
		return
	}
	d := &l.dir
	d.segMu.Lock()
	defer d.segMu.Unlock()
	d.floor = lsn
	n := 0
	for n < len(d.segments) && d.segments[n].seq == 0 && d.segments[n].last < d.floor {
		n++
	}
	d.dropped = append(d.dropped, d.segments[:n]...)
	d.segments = append([]*segment(nil), d.segments[n:]...)
}

// RemoveDropped removes the files that SetFloor let go of. A reader that has one
// open goes on to its end.
func (l *Log) RemoveDropped() {
	d := &l.dir
	d.segMu.Lock()
	dropped := d.dropped
	d.dropped = nil
	d.segMu.Unlock()
	for _, s := range dropped {
		// The removal needs no fsync: a file that comes back is seen to at the next
		// open.
		if err := d.fs.Remove(s.name); err != nil {
			l.opt.Logger.Warn("an old segment of the log cannot be removed", "file", s.name, "err", err)
		}
	}
}

// retire moves a segment that the manifest no longer lists to feed/, or removes
// it if readers do not need it.
func (d *directory) retire(s *segment) error {
	d.segMu.Lock()
	if s.last >= s.first && s.last >= d.floor && s.first >= d.history {
		defer d.segMu.Unlock()
		to := d.feedPath(feedName(s.first))
		if err := d.fs.Rename(s.name, to); err != nil {
			return err
		}
		s.name, s.seq = to, 0
		return nil
	}
	d.segments = slices.DeleteFunc(d.segments, func(other *segment) bool { return other == s })
	d.segMu.Unlock()
	return d.fs.Remove(s.name)
}

// OldestLSN is the lowest LSN that a reader can be opened at.
func (l *Log) OldestLSN() uint64 {
	if l.opt.NoFile {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.mem.oldest(l.last.Load() + 1)
	}
	return l.dir.oldest(l.written.Load() + 1)
}
