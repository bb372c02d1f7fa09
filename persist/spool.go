package persist

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"

	"kevy/internal/vfs"
)

const (
	spoolSuffix     = ".spool"
	spoolFormat     = 1
	spoolHeadPrefix = "#kevy-spool "
	spoolPartPrefix = "#kevy-part "

	// SpoolReserveBytes is how much room a spool leaves on the disk. The log is on
	// the same one, and it is the log that must go on.
	SpoolReserveBytes = 64 << 20
	// spoolWriteBytes is about how much is written at once.
	spoolWriteBytes = 256 << 10
	// spoolSyncBytes is how much is written between two fsyncs. Nobody needs a spool
	// to be durable: they keep the kernel from gathering so much of it that an fsync
	// of the log would have to wait for all that.
	spoolSyncBytes = 32 << 20
	// spoolMarkParts is how many parts lie between two places that are remembered:
	// what a reader skips at most to find its own.
	spoolMarkParts = 64
	// maxPartLineBytes holds the line of a part whatever its numbers are.
	maxPartLineBytes = len(spoolPartPrefix) + 5*(20+1) + 8 + 2
	// maxSpoolPartBytes is beyond what any op can be.
	maxSpoolPartBytes = 1 << 40
)

// ErrSpoolFull is wrapped by the error of a spool that would take more room than
// it may.
var ErrSpoolFull = errors.New("the file of the snapshot has no more room")

// SpoolOptions say where spools lie.
type SpoolOptions struct {
	FS vfs.FS
	// Dir is the directory. RemoveSpools, on a start, removes what a crash has left
	// there.
	Dir string
	// Unnamed removes a file's name as soon as it is open, for a directory that
	// nobody tidies.
	Unnamed bool
	// MaxBytes bounds the file; 0 sets no limit.
	MaxBytes int64
}

// SpoolPart is a stretch of ops of one shard and one database.
type SpoolPart struct {
	// N counts the parts of the shard, or of all of them, from 1.
	N         uint64
	Shard, DB int
	Ops       int // in Payload
	// Payload is whole ops. A reader's is valid until its next call.
	Payload []byte
}

// Spool is a file with the ops that rebuild a store, which one goroutine fills
// while others read it, each at its own pace. It exists for as long as somebody
// reads it: no start finds it of use. docs/formats-sidecars.md has its format.
type Spool struct {
	opt    SpoolOptions
	name   string
	file   vfs.File
	random uint32

	// Of the goroutine that fills it:
	buf    []byte
	at     int64 // in the file, buf included
	synced int64
	parts  uint64
	fresh  []spoolSection // begun in buf
	marked []spoolMark    // likewise

	mu       sync.Mutex
	written  int64          // bytes that may be read; guarded by mu
	readable uint64         // parts in them; guarded by mu
	sections []spoolSection // by shard; guarded by mu
	marks    []spoolMark    // guarded by mu
	ended    bool           // nothing follows; guarded by mu
	err      error          // why reading ends early; guarded by mu
	closed   bool           // guarded by mu
	more     chan struct{}  // closed when something above has changed; guarded by mu
}

// spoolSection says where the parts of a shard begin.
type spoolSection struct {
	shard int
	mark  spoolMark
}

// spoolMark is the place of a part, counted from 1 over all shards.
type spoolMark struct {
	part uint64
	at   int64
}

// CreateSpool makes an empty spool with a name of its own among those in the
// directory.
func CreateSpool(opt SpoolOptions, name string) (*Spool, error) {
	s := &Spool{opt: opt, name: filepath.Join(opt.Dir, name+spoolSuffix), more: make(chan struct{})}
	if err := opt.FS.MkdirAll(opt.Dir); err != nil {
		return nil, fmt.Errorf("create the directory of a snapshot's file: %w", err)
	}
	if err := s.room(0); err != nil {
		return nil, err
	}
	file, err := opt.FS.Create(s.name)
	if err != nil {
		return nil, fmt.Errorf("create the file of a snapshot: %w", err)
	}
	s.file = file
	if opt.Unnamed {
		if err := opt.FS.Remove(s.name); err != nil {
			_ = file.Close() // nothing was written through it
			return nil, fmt.Errorf("create the file of a snapshot: %w", err)
		}
	}
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails: it ends the process instead
	s.random = binary.LittleEndian.Uint32(seed[:])
	s.buf = fmt.Appendf(s.buf, "%s%d %08x\r\n", spoolHeadPrefix, spoolFormat, s.random)
	s.at = int64(len(s.buf))
	return s, nil
}

// RemoveSpools removes the spools that a crash has left in a directory, which
// need not be there.
func RemoveSpools(fsys vfs.FS, dir string) (removed []string, err error) {
	infos, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.IsDir || !strings.HasSuffix(info.Name, spoolSuffix) {
			continue
		}
		name := filepath.Join(dir, info.Name)
		if err := fsys.Remove(name); err != nil {
			return removed, fmt.Errorf("remove the file that a snapshot left: %w", err)
		}
		removed = append(removed, name)
	}
	return removed, nil
}

// Add appends a part: whole ops of one shard and database, which are copied or
// written before it returns. Shards come in ascending order. Readers see it after
// some more of them, or after End.
func (s *Spool) Add(shard, db, ops int, payload []byte) error {
	s.parts++
	here := spoolMark{part: s.parts, at: s.at}
	if n := len(s.fresh); n > 0 && s.fresh[n-1].shard != shard || n == 0 && s.lastShard() != shard {
		s.fresh = append(s.fresh, spoolSection{shard, here})
	}
	if s.parts%spoolMarkParts == 0 {
		s.marked = append(s.marked, here)
	}
	start := len(s.buf)
	s.buf = append(s.buf, spoolPartPrefix...)
	for _, n := range [...]uint64{s.parts, uint64(shard), uint64(db), uint64(ops), uint64(len(payload))} {
		s.buf = strconv.AppendUint(s.buf, n, 10)
		s.buf = append(s.buf, ' ')
	}
	crc := crc32.Update(crc32.Update(s.random, castagnoli, s.buf[start:]), castagnoli, payload)
	s.buf = fmt.Appendf(s.buf, "%08x\r\n", crc)
	s.at += int64(len(s.buf) - start + len(payload))
	if len(payload) >= spoolWriteBytes {
		// A large value is not copied.
		if err := s.write(s.buf); err != nil {
			return err
		}
		s.buf = s.buf[:0]
		if err := s.write(payload); err != nil {
			return err
		}
		return s.publish()
	}
	s.buf = append(s.buf, payload...)
	if len(s.buf) >= spoolWriteBytes {
		return s.flush()
	}
	return nil
}

// lastShard returns the shard of the section that readers saw last, -1 before
// the first.
func (s *Spool) lastShard() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.sections); n > 0 {
		return s.sections[n-1].shard
	}
	return -1
}

func (s *Spool) flush() error {
	if err := s.write(s.buf); err != nil {
		return err
	}
	s.buf = s.buf[:0]
	return s.publish()
}

// write appends to the file.
func (s *Spool) write(b []byte) error {
	if err := s.room(int64(len(b))); err != nil {
		return err
	}
	n, err := s.file.Write(b)
	if err == nil && n < len(b) {
		err = fmt.Errorf("only %d of %d bytes were written", n, len(b))
	}
	if err == nil && s.at-s.synced >= spoolSyncBytes {
		s.synced = s.at
		err = s.file.SyncData()
	}
	if err == nil {
		return nil
	}
	if failure := s.failure(); failure != nil {
		return failure
	}
	return fmt.Errorf("write the file of the snapshot: %w", err)
}

// room reports whether so many bytes may be written.
func (s *Spool) room(bytes int64) error {
	if s.opt.MaxBytes > 0 && s.at > s.opt.MaxBytes {
		return fmt.Errorf("%w: it may take %d bytes", ErrSpoolFull, s.opt.MaxBytes)
	}
	free, err := s.opt.FS.Free(s.opt.Dir)
	if err != nil {
		return fmt.Errorf("write the file of the snapshot: %w", err)
	}
	if free-bytes < SpoolReserveBytes {
		return fmt.Errorf("%w: %d bytes are free in %s, of which the log needs %d", ErrSpoolFull, free, s.opt.Dir, SpoolReserveBytes)
	}
	return nil
}

// publish shows readers all that was written.
func (s *Spool) publish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written, s.readable = s.at, s.parts
	s.sections = append(s.sections, s.fresh...)
	s.marks = append(s.marks, s.marked...)
	s.fresh, s.marked = s.fresh[:0], s.marked[:0]
	s.changed()
	return s.err
}

// changed wakes the readers. The caller holds mu.
func (s *Spool) changed() {
	close(s.more)
	s.more = make(chan struct{})
}

// End says that all parts were added.
func (s *Spool) End() error {
	if err := s.flush(); err != nil {
		return err
	}
	s.buf = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed()
	return s.err
}

// Close ends all reading with err, and what still fills the spool, and removes
// the file. Only the first call counts. The error it returns says that the file
// is still there.
func (s *Spool) Close(err error) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed, s.err = true, err
	s.changed()
	s.mu.Unlock()
	// A read that is on its way fails with another error; the reader then looks at
	// err.
	closed := s.file.Close()
	if !s.opt.Unnamed {
		return errors.Join(closed, s.opt.FS.Remove(s.name))
	}
	return closed
}

// Bytes returns how much was written so far.
func (s *Spool) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// Ended reports whether the spool has all of its parts.
func (s *Spool) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// AllShards makes a reader read the parts of all shards.
const AllShards = -1

// SpoolReader reads the parts of one shard, or of all. One goroutine at a time
// may use it; it need not be closed.
type SpoolReader struct {
	spool *Spool
	shard int
	after uint64 // parts that are behind

	found bool   // the rest is known
	base  uint64 // number of the part before the first
	next  uint64 // number of the part at at, counted over all shards
	at    int64

	bufAt int64 // in the file
	buf   []byte
	part  SpoolPart
	ahead int64 // bytes of the part that Peek has read, 0 if there is none
	done  bool
}

// ErrNoPart says that a reader was to begin behind a part that there is not.
var ErrNoPart = errors.New("there are not so many parts")

// NewReader returns a reader of a shard's parts that begins behind the first
// after of them.
func (s *Spool) NewReader(shard int, after uint64) *SpoolReader {
	return &SpoolReader{spool: s, shard: shard, after: after}
}

// Next returns the next part, nil behind the last. It waits for one that is not
// written yet until ctx ends, and then returns ctx's error. The other errors are
// that of Close, ErrNoPart, and what reading returned.
func (r *SpoolReader) Next(ctx context.Context) (*SpoolPart, error) {
	p, err := r.Peek(ctx)
	if p != nil {
		r.Take()
	}
	return p, err
}

// Peek is Next, but the part comes again until Take was called.
func (r *SpoolReader) Peek(ctx context.Context) (*SpoolPart, error) {
	for r.ahead == 0 && !r.done {
		there, wait, err := r.look()
		if err == nil && there {
			err = r.read()
		}
		switch {
		case err != nil:
			return nil, err
		case there || r.done:
		default:
			select {
			case <-wait:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	if r.done {
		return nil, nil
	}
	return &r.part, nil
}

// Take puts the part that Peek returned, which stays valid, behind.
func (r *SpoolReader) Take() {
	r.at += r.ahead
	r.ahead = 0
	r.next++
}

// look finds out whether there is a part to read. Otherwise wait is closed when
// that may have changed, or done is set.
func (r *SpoolReader) look() (there bool, wait <-chan struct{}, err error) {
	s := r.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false, nil, s.err
	}
	if !r.found && !r.find() {
		if s.ended || s.pastShard(r.shard) {
			// The shard has no parts.
			r.done = true
			if r.after > 0 {
				return false, nil, ErrNoPart
			}
		}
		return false, s.more, nil
	}
	if end, known := s.end(r.shard); known && r.at >= end {
		r.done = true
		if r.next-1 < r.base+r.after {
			return false, nil, ErrNoPart
		}
		return false, nil, nil
	}
	return r.at < s.written, s.more, nil
}

// find sets the place of the reader, if its first part is there. The caller
// holds the spool's mu.
func (r *SpoolReader) find() bool {
	s := r.spool
	i := 0
	if r.shard != AllShards {
		i = sort.Search(len(s.sections), func(i int) bool { return s.sections[i].shard >= r.shard })
	}
	if i == len(s.sections) || r.shard != AllShards && s.sections[i].shard != r.shard {
		return false
	}
	first := s.sections[i].mark
	r.found, r.base, r.next, r.at = true, first.part-1, first.part, first.at
	r.after = min(r.after, math.MaxUint64-r.base-1)
	wanted := r.base + r.after + 1
	end, _ := s.end(r.shard)
	beyond := func(j int) bool { return s.marks[j].part > wanted || s.marks[j].at >= end }
	if j := sort.Search(len(s.marks), beyond); j > 0 && s.marks[j-1].part > r.next {
		r.next, r.at = s.marks[j-1].part, s.marks[j-1].at
	}
	return true
}

// Parts returns how many parts of a shard, or of all, can be read so far.
func (s *Spool) Parts(shard int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shard == AllShards {
		return s.readable
	}
	i := sort.Search(len(s.sections), func(i int) bool { return s.sections[i].shard >= shard })
	if i == len(s.sections) || s.sections[i].shard != shard {
		return 0
	}
	last := s.readable
	if i+1 < len(s.sections) {
		last = s.sections[i+1].mark.part - 1
	}
	return last + 1 - s.sections[i].mark.part
}

// pastShard reports whether a section behind the shard's has begun. The caller
// holds mu.
func (s *Spool) pastShard(shard int) bool {
	n := len(s.sections)
	return shard != AllShards && n > 0 && s.sections[n-1].shard > shard
}

// end returns where the parts of a shard end, if that is known. The caller holds
// mu.
func (s *Spool) end(shard int) (at int64, known bool) {
	if shard != AllShards {
		i := sort.Search(len(s.sections), func(i int) bool { return s.sections[i].shard > shard })
		if i < len(s.sections) {
			return s.sections[i].mark.at, true
		}
	}
	return s.written, s.ended
}

// read reads the part at at, and passes over it if it is to be behind.
func (r *SpoolReader) read() error {
	line, err := r.bytes(r.at, int64(maxPartLineBytes), false)
	if err != nil {
		return err
	}
	n, size, crc, ok := r.line(line)
	if !ok {
		return r.damaged()
	}
	if r.next <= r.base+r.after {
		// Its payload is nobody's affair.
		r.ahead = int64(n) + size
		r.Take()
		return nil
	}
	all, err := r.bytes(r.at, int64(n)+size, true)
	if err != nil {
		return err
	}
	text, payload := all[:n-10], all[n:]
	if crc32.Update(crc32.Update(r.spool.random, castagnoli, text), castagnoli, payload) != crc {
		return r.damaged()
	}
	r.part.N, r.part.Payload = r.next-r.base, payload
	r.ahead = int64(len(all))
	return nil
}

// line takes a part's line apart. n is its length, size that of the payload.
func (r *SpoolReader) line(line []byte) (n int, size int64, crc uint32, ok bool) {
	end := bytes.IndexByte(line, '\n')
	if end < 0 || !bytes.HasPrefix(line, []byte(spoolPartPrefix)) {
		return 0, 0, 0, false
	}
	words := strings.Split(strings.TrimSuffix(string(line[len(spoolPartPrefix):end]), "\r"), " ")
	if len(words) != 6 || len(words[5]) != 8 {
		return 0, 0, 0, false
	}
	var numbers [5]uint64
	for i := range numbers {
		v, err := strconv.ParseUint(words[i], 10, 63)
		if err != nil {
			return 0, 0, 0, false
		}
		numbers[i] = v
	}
	sum, err := strconv.ParseUint(words[5], 16, 32)
	r.part.Shard, r.part.DB, r.part.Ops = int(numbers[1]), int(numbers[2]), int(numbers[3])
	ok = err == nil && numbers[0] == r.next && numbers[4] < maxSpoolPartBytes && (r.shard == AllShards || r.part.Shard == r.shard)
	return end + 1, int64(numbers[4]), uint32(sum), ok
}

func (r *SpoolReader) damaged() error {
	if err := r.spool.failure(); err != nil {
		return err
	}
	return fmt.Errorf("read the file of the snapshot: part %d at offset %d is not what was written: the disk may be failing", r.next, r.at)
}

func (s *Spool) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

const (
	spoolReadBytes = 128 << 10
	// maxSpoolKeptBytes is the largest buffer that a reader keeps.
	maxSpoolKeptBytes = 1 << 20
)

// bytes returns n bytes of the file at an offset, valid until the next call;
// fewer, if that is allowed, at the end of what was written.
func (r *SpoolReader) bytes(at, n int64, all bool) ([]byte, error) {
	s := r.spool
	s.mu.Lock()
	written := s.written
	s.mu.Unlock()
	if n > written-at {
		if all {
			return nil, r.damaged()
		}
		n = written - at
	}
	if at >= r.bufAt && at+n <= r.bufAt+int64(len(r.buf)) {
		from := at - r.bufAt
		return r.buf[from : from+n : from+n], nil
	}
	want := int(min(max(n, spoolReadBytes), written-at))
	if cap(r.buf) < want || cap(r.buf) > maxSpoolKeptBytes && want <= maxSpoolKeptBytes {
		r.buf = make([]byte, max(want, spoolReadBytes))
	}
	r.buf, r.bufAt = r.buf[:want], at
	if got, err := s.file.ReadAt(r.buf, at); got < want {
		r.buf = r.buf[:0]
		if failure := s.failure(); failure != nil {
			return nil, failure
		}
		return nil, fmt.Errorf("read the file of the snapshot: %w", err)
	}
	return r.buf[:n:n], nil
}
