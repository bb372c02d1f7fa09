package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"kevy/internal/vfs"
)

const (
	generationKind   = "kevy-feed-generation"
	generationFormat = 1
	closeKind        = "kevy-feed-close"
	closeFormat      = 1

	// MaxPast is how many past generations a stream remembers.
	MaxPast = 64
)

// Why says what ended a generation. The texts are on disk and on the wire.
type Why string

const (
	// Crash: the directory was not closed cleanly, so that frames may be lost.
	Crash Why = "crash"
	// FlushAll: FLUSHALL was the last op.
	FlushAll Why = "flushall"
	// Restore: a backup took the place of the data.
	Restore Why = "restore"
	// Promotion: a replica began to take writes.
	Promotion Why = "promotion"
)

func (w Why) known() bool {
	switch w {
	case Crash, FlushAll, Restore, Promotion:
		return true
	}
	return false
}

// Past is a generation that has ended, as one stream sees it.
type Past struct {
	// Generation is the stream's own number, draw + stream.
	Generation uint64
	// FirstLSN is the LSN of the first op after its beginning; EndLSN is that of
	// its last op, FirstLSN-1 if it had none. Every stream has the same two.
	FirstLSN, EndLSN uint64
	// End is the number of frames that the stream had in it: the offset after the
	// last one.
	End uint64
	Why Why
}

// Stream is the history of one stream.
type Stream struct {
	// Generation is the current one, draw + stream; FirstLSN is the LSN at which
	// it begins, Next the offset of the next frame.
	Generation uint64
	FirstLSN   uint64
	Next       uint64
	// Lineage lists past generations, oldest first, without a hole: the next one
	// in the list, and the current one after the last, go on where each ends.
	Lineage []Past
}

// closeMark is the content of feed-N.meta.
type closeMark struct {
	generation uint64
	next       uint64
	tail       Tail
}

// Tail identifies the end of the log.
type Tail struct {
	// LSN is that of the last op, CRC the checksum of the last block; both are 0
	// for a log without a block.
	LSN uint64
	CRC uint32
	// Inode is that of the file which holds the end: the tail of a copied
	// directory is another one.
	Inode uint64
}

// StreamName returns how files name a stream of a store of n shards: its number,
// or "all" for stream n.
func StreamName(stream, n int) string {
	if stream == n {
		return "all"
	}
	return strconv.Itoa(stream)
}

func generationFile(dir string, stream, n int) string {
	return filepath.Join(dir, "feed-"+StreamName(stream, n)+".gen")
}

func closeFile(dir string, stream, n int) string {
	return filepath.Join(dir, "feed-"+StreamName(stream, n)+".meta")
}

func encodeStream(s *Stream, stream, n int) []byte {
	w := newFactWriter(generationKind, generationFormat)
	w.fact("stream", StreamName(stream, n), strconv.Itoa(n))
	for _, p := range s.Lineage {
		w.fact("past", decimal(p.Generation), decimal(p.FirstLSN), decimal(p.EndLSN), decimal(p.End), string(p.Why))
	}
	w.fact("current", decimal(s.Generation), decimal(s.FirstLSN))
	return w.seal()
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// parseStream checks a .gen file: what its grammar asks for, that its numbers
// are this stream's, and that the generations follow each other without a hole.
func parseStream(file string, data []byte, stream, n int) (*Stream, error) {
	lines, err := parseFacts(file, data, generationKind, generationFormat)
	if err != nil {
		return nil, err
	}
	if len(lines) < 2 || len(lines) > MaxPast+2 {
		return nil, &FileError{File: file, Reason: fmt.Sprintf("it has %d lines of facts instead of 2 to %d", len(lines), MaxPast+2)}
	}
	if err := checkStreamLine(&lines[0], stream, n); err != nil {
		return nil, err
	}
	s := &Stream{}
	last := &lines[len(lines)-1]
	if last.name != "current" {
		return nil, last.errorf("%q stands where the current generation belongs", last.name)
	}
	if err := last.count(2); err != nil {
		return nil, err
	}
	if s.Generation, s.FirstLSN, err = generationFacts(last, stream); err != nil {
		return nil, err
	}
	s.Lineage = make([]Past, 0, len(lines)-2)
	for i := 1; i < len(lines)-1; i++ {
		p, err := parsePast(&lines[i], stream)
		if err != nil {
			return nil, err
		}
		s.Lineage = append(s.Lineage, p)
	}
	for i, p := range s.Lineage {
		next, first := s.Generation, s.FirstLSN
		if i+1 < len(s.Lineage) {
			next, first = s.Lineage[i+1].Generation, s.Lineage[i+1].FirstLSN
		}
		if next <= p.Generation || first != p.EndLSN+1 {
			return nil, lines[i+1].errorf("the next generation does not go on where this one ends")
		}
	}
	return s, nil
}

func checkStreamLine(l *factLine, stream, n int) error {
	if l.name != "stream" {
		return l.errorf("%q stands where the stream belongs", l.name)
	}
	if err := l.count(2); err != nil {
		return err
	}
	if l.values[0] != StreamName(stream, n) || l.values[1] != strconv.Itoa(n) {
		return l.errorf("it is about stream %s of %s shards, not stream %s of %d", l.values[0], l.values[1], StreamName(stream, n), n)
	}
	return nil
}

// generationFacts reads a generation number and a first LSN from the first two
// values.
func generationFacts(l *factLine, stream int) (generation, firstLSN uint64, err error) {
	if generation, err = l.uint(0, MaxGeneration); err != nil {
		return 0, 0, err
	}
	if _, ok := DrawOf(generation, stream); !ok {
		return 0, 0, l.errorf("%d is too small for a generation of this stream", generation)
	}
	if firstLSN, err = l.uint(1, 1<<64-1); err != nil {
		return 0, 0, err
	}
	if firstLSN == 0 {
		return 0, 0, l.errorf("there is no LSN 0")
	}
	return generation, firstLSN, nil
}

func parsePast(l *factLine, stream int) (p Past, err error) {
	if l.name != "past" {
		return p, l.errorf("%q stands where a past generation belongs", l.name)
	}
	if err := l.count(5); err != nil {
		return p, err
	}
	if p.Generation, p.FirstLSN, err = generationFacts(l, stream); err != nil {
		return p, err
	}
	if p.EndLSN, err = l.uint(2, 1<<64-2); err != nil {
		return p, err
	}
	if p.End, err = l.uint(3, 1<<64-1); err != nil {
		return p, err
	}
	p.Why = Why(l.values[4])
	if !p.Why.known() {
		return p, l.errorf("%q is no reason for which a generation ends", l.values[4])
	}
	if p.EndLSN+1 < p.FirstLSN || p.End > p.EndLSN+1-p.FirstLSN {
		return p, l.errorf("%d frames do not fit between LSN %d and %d", p.End, p.FirstLSN, p.EndLSN)
	}
	return p, nil
}

func encodeClose(m closeMark, stream, n int) []byte {
	w := newFactWriter(closeKind, closeFormat)
	w.fact("stream", StreamName(stream, n), strconv.Itoa(n))
	w.number("generation", m.generation)
	w.number("next-offset", m.next)
	w.number("tail-lsn", m.tail.LSN)
	w.fact("tail-crc32c", fmt.Sprintf("%08x", m.tail.CRC))
	w.number("tail-inode", m.tail.Inode)
	return w.seal()
}

func parseClose(file string, data []byte, stream, n int) (m closeMark, err error) {
	lines, err := parseFacts(file, data, closeKind, closeFormat)
	if err != nil {
		return m, err
	}
	names := []string{"stream", "generation", "next-offset", "tail-lsn", "tail-crc32c", "tail-inode"}
	if len(lines) != len(names) {
		return m, &FileError{File: file, Reason: fmt.Sprintf("it has %d lines of facts instead of %d", len(lines), len(names))}
	}
	if err := checkStreamLine(&lines[0], stream, n); err != nil {
		return m, err
	}
	for i := 1; i < len(lines); i++ {
		l := &lines[i]
		if l.name != names[i] {
			return m, l.errorf("%q stands where %q belongs", l.name, names[i])
		}
		if err := l.count(1); err != nil {
			return m, err
		}
		switch i {
		case 1:
			m.generation, err = l.uint(0, MaxGeneration)
		case 2:
			m.next, err = l.uint(0, 1<<64-1)
		case 3:
			m.tail.LSN, err = l.uint(0, 1<<64-1)
		case 4:
			m.tail.CRC, err = l.hex32(0)
		case 5:
			m.tail.Inode, err = l.uint(0, 1<<64-1)
		}
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// Sidecars is what the sidecar files of a data directory said before anything
// was changed.
type Sidecars struct {
	fs  vfs.FS
	dir string
	n   int

	// streams has one entry for each of the n+1 streams, nil where there is no
	// .gen file.
	streams []*Stream
	// marks holds the clean-close markers, nil where there is no valid one;
	// unmarked says why the first missing one is not there.
	marks    []*closeMark
	unmarked string
}

// ReadSidecars reads the sidecars of a directory of n shards and changes
// nothing. A missing file is no error. A .gen file that is damaged is: without
// it nobody can tell which cursors are good. A marker that is damaged marks
// nothing.
func ReadSidecars(fsys vfs.FS, dir string, n int) (*Sidecars, error) {
	s := &Sidecars{fs: fsys, dir: dir, n: n, streams: make([]*Stream, n+1), marks: make([]*closeMark, n+1)}
	for i := range s.streams {
		name := generationFile(dir, i, n)
		data, err := readFactFile(fsys, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			if s.streams[i], err = parseStream(name, data, i, n); err != nil {
				return nil, fmt.Errorf("%w (start with --recover truncate or skip to give the feed a new history)", err)
			}
		}
		if err := s.readMark(i); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// NoSidecars stands for the sidecars of a directory whose feed gets a new
// history, whatever its files say. OpenContract replaces them; the caller gives
// it a reason in Recovered.NewHistory.
func NoSidecars(fsys vfs.FS, dir string, n int) *Sidecars {
	return &Sidecars{
		fs: fsys, dir: dir, n: n,
		streams: make([]*Stream, n+1), marks: make([]*closeMark, n+1), unmarked: "the sidecars are set aside",
	}
}

func (s *Sidecars) readMark(stream int) error {
	name := closeFile(s.dir, stream, s.n)
	data, err := readFactFile(s.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		s.noMark(name + " is missing")
		return nil
	}
	var bad *FileError
	var mark closeMark
	if err == nil {
		mark, err = parseClose(name, data, stream, s.n)
	}
	if errors.As(err, &bad) {
		s.noMark(err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	s.marks[stream] = &mark
	return nil
}

func (s *Sidecars) noMark(why string) {
	if s.unmarked == "" {
		s.unmarked = why
	}
}

// Start is where a generation begins: at the op with LSN FirstLSN.
type Start struct {
	Draw     uint64
	FirstLSN uint64
}

// Starts lists the generations that the sidecars know, in order. Recovery counts
// the frames of each, and not every one has a line in the log: what a crash
// ended is known here only.
func (s *Sidecars) Starts() []Start {
	var starts []Start
	for i, st := range s.streams {
		if st == nil {
			continue
		}
		for _, p := range st.Lineage {
			starts = addStart(starts, Start{p.Generation - uint64(i), p.FirstLSN})
		}
		starts = addStart(starts, Start{st.Generation - uint64(i), st.FirstLSN})
	}
	return starts
}

// addStart inserts a generation in the order of its draw unless it is there.
func addStart(starts []Start, s Start) []Start {
	at := len(starts)
	for at > 0 && starts[at-1].Draw >= s.Draw {
		at--
		if starts[at].Draw == s.Draw {
			return starts
		}
	}
	starts = append(starts, Start{})
	copy(starts[at+1:], starts[at:])
	starts[at] = s
	return starts
}

// LastDraw returns the highest draw that the sidecars know, 0 if none.
func (s *Sidecars) LastDraw() uint64 {
	if starts := s.Starts(); len(starts) > 0 {
		return starts[len(starts)-1].Draw
	}
	return 0
}

// removeMarks removes every marker and leftover temporary file and makes that
// durable.
func (s *Sidecars) removeMarks() error {
	infos, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, info := range infos {
		if !strings.HasPrefix(info.Name, "feed-") || info.IsDir {
			continue
		}
		if strings.HasSuffix(info.Name, ".meta") || strings.HasSuffix(info.Name, tempSuffix) {
			if err := s.fs.Remove(filepath.Join(s.dir, info.Name)); err != nil {
				return err
			}
		}
	}
	// Also when nothing was removed: the removal of an earlier start may not be
	// durable yet.
	return s.fs.SyncDir(s.dir)
}

// KnownDurableLSN returns the highest LSN of which the sidecars say that it was
// fsynced: the tail of a clean close, or the end of a generation. A log that
// ends before it has lost what was durable.
func (s *Sidecars) KnownDurableLSN() uint64 {
	var known uint64
	for _, m := range s.marks {
		if m != nil {
			known = max(known, m.tail.LSN)
		}
	}
	for _, st := range s.streams {
		if st == nil {
			continue
		}
		for _, p := range st.Lineage {
			known = max(known, p.EndLSN)
		}
	}
	return known
}
