package pipe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kevy/changes"
	"kevy/internal/vfs"
)

// fileSink writes records to a file, fsynced batch by batch, which is put aside
// when it has grown or aged.
//
// Lines of JSON keep their cursor: a batch ends with a line for each stream that
// says its position, the last of them with a checksum over the batch, in hex:
//
//	{"stream":"ALL","event":"position","generation":7,"offset":8,"complete":43,"crc32c":"0a1b2c3d"}
//
// over all bytes behind the last such line and up to its own comma before
// "crc32c". What follows the last batch that checks is no part of the file, and
// is cut off when it is opened again; so frames are there exactly once, over any
// crash. A batch that does not check with a good one behind it is damage, for
// each was fsynced before the next was begun.
//
// Files of other forms have a cursor file beside them, and the last batch may be
// there twice.
type fileSink struct {
	fsys       vfs.FS
	path       string
	format     Format
	keeps      bool // the cursors stand in the file
	rotateSize int64
	rotateAge  time.Duration // 0: never
	keepFiles  int           // of those put aside; 0: all
	snapshot   bool
	anew       bool
	log        *slog.Logger
	now        func() time.Time

	lock  io.Closer
	file  vfs.File
	size  int64
	sum   uint32    // of what is written of a batch that has not ended
	since time.Time // when the file was begun
	buf   []byte
	token string
	at    map[string]position // of each stream that has one
	// loading are streams whose snapshot has begun and not ended. The file is not
	// put aside meanwhile, so that it says so as long as it is true.
	loading map[string]bool
	stain   error // a write that failed: what the file holds is not known
}

type position struct {
	cursor   changes.Cursor
	complete uint64
}

const (
	defaultRotateSize = 1 << 30
	// asideTime names files that were put aside, so that they sort by age.
	asideTime = "20060102T150405.000Z"
	// maxFileLine bounds a line that is read back; a longer one cannot be told
	// from damage.
	maxFileLine = 1 << 30
)

func openFile(t *Target) (Sink, error) {
	s := &fileSink{
		fsys: t.FS, path: t.URL.Path, snapshot: t.Snapshot || t.Anew, anew: t.Anew, log: t.Log, now: time.Now, at: map[string]position{}, loading: map[string]bool{},
	}
	if t.URL.Host != "" && t.URL.Host != "localhost" {
		s.path = filepath.Join(t.URL.Host, t.URL.Path) // file://name, meant as a relative path
	}
	if t.URL.Opaque != "" {
		s.path = t.URL.Opaque // file:name
	}
	if s.path == "" || strings.HasSuffix(s.path, "/") {
		return nil, errors.New("the URL names no file: write file:///path/changes.jsonl")
	}
	name := t.Format
	if name == "" {
		name = FormatJSON
	}
	s.keeps = name == FormatJSON
	var err error
	if s.format, err = NewFormat(name, t.Name, t.Version); err != nil {
		return nil, err
	}
	if s.rotateSize, err = ParseSize(t.Option("rotate-size", strconv.Itoa(defaultRotateSize))); err != nil {
		return nil, fmt.Errorf("the option rotate-size: %w", err)
	}
	if age := t.Option("rotate-age", "0s"); age != "0" {
		if s.rotateAge, err = time.ParseDuration(age); err != nil || s.rotateAge < 0 {
			return nil, fmt.Errorf("the option rotate-age takes a time such as 24h, not %q", age)
		}
	}
	if s.keepFiles, err = strconv.Atoi(t.Option("keep", "0")); err != nil || s.keepFiles < 0 {
		return nil, errors.New("the option keep takes the number of files that stay, 0 for all")
	}
	return s, nil
}

// ParseSize reads a number of bytes, with kb, mb or gb behind it (of 1,024).
func ParseSize(text string) (int64, error) {
	digits, shift := strings.ToLower(text), 0
	for i, unit := range []string{"kb", "mb", "gb"} {
		if rest, ok := strings.CutSuffix(digits, unit); ok {
			digits, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > 1<<62>>shift {
		return 0, fmt.Errorf("%q is no size: write a number of bytes, or 100mb", text)
	}
	return n << shift, nil
}

// Resume implements Sink.
func (s *fileSink) Resume(context.Context) (map[string]changes.Cursor, bool, error) {
	dir := filepath.Dir(s.path)
	if dir != "." {
		if err := s.fsys.MkdirAll(dir); err != nil {
			return nil, s.keeps, fmt.Errorf("the directory of the file: %w", err)
		}
	}
	lock, err := s.fsys.Lock(s.path + ".lock")
	if errors.Is(err, vfs.ErrLocked) {
		return nil, s.keeps, fmt.Errorf("another pipe writes to %s: end it, or choose another file", s.path)
	}
	if err != nil {
		return nil, s.keeps, err
	}
	s.lock = lock
	if err := s.open(); err != nil {
		return nil, s.keeps, err
	}
	if !s.keeps {
		return nil, false, nil
	}
	cursors := map[string]changes.Cursor{}
	for stream, p := range s.at {
		cursors[stream] = p.cursor
	}
	return cursors, true, nil
}

// open opens the file, cuts off what is no part of it, and finds its positions.
func (s *fileSink) open() error {
	file, err := s.fsys.OpenAppend(s.path)
	if err != nil {
		return err
	}
	s.file = file
	if err := s.fsys.SyncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	if s.size, err = file.Size(); err != nil {
		return err
	}
	s.since = s.now()
	if info, err := s.fsys.Stat(s.path); err == nil && info.Size > 0 {
		s.since = time.UnixMilli(info.ModMs)
	}
	if !s.keeps {
		return nil
	}
	found, err := readPositions(file)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	if found.end == 0 && found.foreign {
		return fmt.Errorf("%s is not a file of this pipe, whose lines say positions: choose another name", s.path)
	}
	if found.end < s.size {
		s.log.Warn("what follows the last whole batch in the file was not delivered and is cut off; it comes again", "file", s.path, "bytes", s.size-found.end)
		if err := errors.Join(file.Truncate(found.end), file.Sync()); err != nil {
			return err
		}
		s.size = found.end
	}
	if s.size == 0 {
		// The file before it was put aside, and this one has nothing yet.
		if found, err = s.positionsOfLastAside(); err != nil {
			return err
		}
		if len(found.at) > 0 {
			s.at = found.at
			if err := errors.Join(file.Close(), s.begin()); err != nil {
				return err
			}
		}
	}
	if stream := found.unfinished(); stream != "" && !s.snapshot {
		return fmt.Errorf("the snapshot of stream %s did not come to its end, so the file has a part of the state only: start with --snapshot", stream)
	}
	s.at = found.at
	if s.anew {
		s.at = map[string]position{}
	}
	return nil
}

func (s *fileSink) positionsOfLastAside() (positions, error) {
	names, err := s.aside()
	if err != nil || len(names) == 0 {
		return positions{at: map[string]position{}}, err
	}
	file, err := s.fsys.Open(names[len(names)-1])
	if err != nil {
		return positions{}, err
	}
	defer file.Close()
	return readPositions(file)
}

// aside returns the files that were put aside, oldest first.
func (s *fileSink) aside() ([]string, error) {
	dir := filepath.Dir(s.path)
	entries, err := s.fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if when, ok := strings.CutPrefix(e.Name, filepath.Base(s.path)+"."); ok && !e.IsDir {
			if _, err := time.Parse(asideTime, when); err == nil {
				names = append(names, filepath.Join(dir, e.Name))
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// positions are what a file says of itself.
type positions struct {
	at      map[string]position
	loading []string // streams whose snapshot has no end yet
	end     int64    // behind the last batch that checks
	foreign bool     // the first line is none of ours
}

func (p *positions) unfinished() string {
	if len(p.loading) == 0 {
		return ""
	}
	return p.loading[0]
}

// marker is a line that is no frame, as it is read back.
type marker struct {
	Stream, Event      string
	Generation, Offset uint64
	Complete           uint64
}

func (p *positions) take(m *marker) {
	p.loading = slices.DeleteFunc(p.loading, func(s string) bool { return s == m.Stream })
	if m.Event == "snapshot-start" {
		delete(p.at, m.Stream)
		p.loading = append(p.loading, m.Stream)
		return
	}
	p.at[m.Stream] = position{changes.Cursor{Generation: m.Generation, Offset: m.Offset}, m.Complete}
}

// errDamaged says that a file has a batch that does not check and good ones
// behind it.
var errDamaged = errors.New("a batch in the file does not check, and good ones follow it, so it was changed after it was written: put the file aside for inspection, and start with --anew")

var checksums = crc32.MakeTable(crc32.Castagnoli)

const (
	crcField = `,"crc32c":"`
	crcEnd   = "\"}\n"
)

// seal puts the checksum of a batch into its last line; before is that of what
// was written of it earlier.
func seal(batch []byte, before uint32) []byte {
	body := batch[:len(batch)-len("}\n")]
	sum := crc32.Update(before, checksums, body)
	return fmt.Appendf(body, crcField+"%08x"+crcEnd, sum)
}

// sealed returns the line without its checksum, and that; ok is false if it has
// none.
func sealed(line []byte) (body []byte, sum uint32, ok bool) {
	at := len(line) - len(crcField) - 8 - len(crcEnd)
	if at < 0 || !bytes.HasPrefix(line[at:], []byte(crcField)) || !bytes.HasSuffix(line, []byte(crcEnd)) {
		return nil, 0, false
	}
	n, err := strconv.ParseUint(string(line[at+len(crcField):len(line)-len(crcEnd)]), 16, 32)
	return line[:at], uint32(n), err == nil
}

// readPositions goes through a file of JSON lines, batch by batch.
func readPositions(r io.Reader) (positions, error) {
	found := positions{at: map[string]position{}}
	in := bufio.NewReaderSize(r, 256<<10)
	var read int64
	var sum uint32       // of the batch so far
	var markers []marker // of the batch so far
	bad := false         // a batch before did not check
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return found, nil // a line without its end is not whole
		}
		if err != nil {
			return found, err
		}
		if read == 0 {
			found.foreign = !bytes.HasPrefix(line, []byte(`{"stream":`)) && line[0] != 0
		}
		read += int64(len(line))
		body, want, last := sealed(line)
		if !last {
			body = line
		}
		sum = crc32.Update(sum, checksums, body)
		// Frames are most of the file, and have no such field near their beginning
		// but by the will of whoever names keys: then it is no field of their object.
		if bytes.Contains(line[:min(len(line), 300)], []byte(`"event":`)) {
			var m marker
			if json.Unmarshal(line, &m) == nil && m.Event != "" && m.Event != "snapshot" {
				markers = append(markers, m)
			}
		}
		if !last {
			continue
		}
		switch {
		case sum != want:
			bad = true
		case bad:
			return found, errDamaged
		default:
			for i := range markers {
				found.take(&markers[i])
			}
			found.end = read
		}
		sum, markers = 0, markers[:0]
	}
}

// readLine reads a line of any length up to maxFileLine, its end included.
func readLine(in *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if err == nil && long == nil {
			return part, nil
		}
		long = append(long, part...)
		if err == nil {
			return long, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(long) > maxFileLine {
			return nil, fmt.Errorf("a line of more than %d bytes", int64(maxFileLine))
		}
	}
}

// Write implements Sink.
func (s *fileSink) Write(_ context.Context, commits []*changes.Commit) error {
	s.buf = s.buf[:0]
	done := map[string]bool{}
	for _, c := range commits {
		if done[c.Stream] {
			continue
		}
		done[c.Stream] = true
		var p position
		for _, other := range commits {
			if other.Stream == c.Stream {
				s.buf = s.format.AppendCommit(s.buf, other)
				p = position{other.Next, other.CompleteLSN}
			}
		}
		s.position(c.Stream, p)
	}
	if err := s.flushSealed(); err != nil {
		return err
	}
	return s.rotate()
}

func (s *fileSink) position(stream string, p position) {
	s.at[stream] = p
	s.buf = s.format.AppendPosition(s.buf, stream, p.cursor, p.complete)
}

// flushSealed is flush of a batch, which ends here.
func (s *fileSink) flushSealed() error {
	if s.keeps && len(s.buf) > 0 {
		s.buf = seal(s.buf, s.sum)
		s.sum = 0
	}
	return s.flush()
}

// flush writes and syncs what has been gathered. After a failure nobody knows
// what the file holds; opening it anew finds out.
func (s *fileSink) flush() error {
	if s.stain != nil {
		return s.stain
	}
	if len(s.buf) == 0 {
		return nil
	}
	_, err := s.file.Write(s.buf)
	if err == nil {
		err = s.file.SyncData()
	}
	if err != nil {
		s.stain = fmt.Errorf("the file cannot be written: %w; make room or choose another disk, and start the pipe again: nothing is lost", err)
		return s.stain
	}
	s.size += int64(len(s.buf))
	return nil
}

// rotate puts the file aside if it is large or old, and begins a new one with
// the positions.
func (s *fileSink) rotate() error {
	old := s.rotateAge > 0 && s.now().Sub(s.since) >= s.rotateAge
	if s.size < s.rotateSize && !old || len(s.loading) > 0 {
		return nil
	}
	if err := s.putAside(); err != nil {
		s.stain = fmt.Errorf("the file cannot be put aside: %w", err)
		return s.stain
	}
	return s.removeOld()
}

func (s *fileSink) putAside() error {
	if err := s.file.Close(); err != nil {
		return err
	}
	name, err := s.asideName()
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.path)
	if err := errors.Join(s.fsys.Rename(s.path, name), s.fsys.SyncDir(dir)); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	s.log.Info("the file was put aside", "file", name)
	return nil
}

// begin makes the file, with the positions of all streams from its first moment
// on: one that had some of them would be taken for the whole.
func (s *fileSink) begin() error {
	s.buf = s.buf[:0]
	for _, stream := range slices.Sorted(maps.Keys(s.at)) {
		s.buf = s.format.AppendPosition(s.buf, stream, s.at[stream].cursor, s.at[stream].complete)
	}
	if s.keeps && len(s.buf) > 0 {
		s.buf = seal(s.buf, 0)
	}
	err := vfs.WriteFileAtomic(s.fsys, s.path, s.buf)
	if err == nil {
		s.file, err = s.fsys.OpenAppend(s.path)
	}
	s.size, s.since = int64(len(s.buf)), s.now()
	return err
}

// asideName returns a name that is later than every other.
func (s *fileSink) asideName() (string, error) {
	names, err := s.aside()
	if err != nil {
		return "", err
	}
	at := s.now().UTC()
	if len(names) > 0 {
		last, err := time.Parse(asideTime, strings.TrimPrefix(filepath.Base(names[len(names)-1]), filepath.Base(s.path)+"."))
		if err == nil && !at.Truncate(time.Millisecond).After(last) {
			at = last.Add(time.Millisecond)
		}
	}
	return s.path + "." + at.Format(asideTime), nil
}

func (s *fileSink) removeOld() error {
	if s.keepFiles == 0 {
		return nil
	}
	names, err := s.aside()
	if err != nil {
		return err
	}
	for len(names) > s.keepFiles {
		if err := s.fsys.Remove(names[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("a file that was put aside cannot be removed: %w", err)
		}
		names = names[1:]
	}
	return nil
}

// SnapshotStart implements SnapshotSink.
func (s *fileSink) SnapshotStart(_ context.Context, stream, token string) error {
	// A snapshot that was cut off leaves lines without an end: they belong to this
	// batch, and are void with it.
	s.token = token
	s.loading[stream] = true
	delete(s.at, stream)
	s.buf = s.format.AppendSnapshotStart(s.buf[:0], stream, token)
	return s.flushSealed()
}

// SnapshotPart implements SnapshotSink. Parts are of one batch with the end.
func (s *fileSink) SnapshotPart(_ context.Context, p *changes.SnapshotPart) error {
	s.buf = s.buf[:0]
	for i := range p.Ops {
		s.buf = s.format.AppendSnapshotOp(s.buf, p, i)
	}
	if s.keeps {
		s.sum = crc32.Update(s.sum, checksums, s.buf)
	}
	return s.flush()
}

// SnapshotEnd implements SnapshotSink.
func (s *fileSink) SnapshotEnd(_ context.Context, stream string, at changes.Cursor) error {
	s.at[stream] = position{cursor: at}
	delete(s.loading, stream)
	s.buf = s.format.AppendSnapshotEnd(s.buf[:0], stream, s.token, at)
	if err := s.flushSealed(); err != nil {
		return err
	}
	return s.rotate()
}

// Close implements Sink.
func (s *fileSink) Close(context.Context) error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}
