package aof

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"kevy/internal/vfs"
)

// output is the end of the log on disk.
type output struct {
	segment *segment // nil as long as there is no file to append to
	bytes   int64    // of the file, up to the end of its last block
	// torn: a failed write may have left bytes behind the last block.
	torn bool
	// ended: the last block in the file is empty.
	ended bool
	tail  Tail

	batch []pending
	line  []byte // scratch

	next       *nextFile // being made, or ready
	nextSeq    int64
	nextFailed time.Time
	blocks     uint64 // written, ever
}

// Tail identifies the end of the log on disk.
type Tail struct {
	LSN   uint64 // of the last op
	CRC   uint32 // of the last block; 0 if there is none
	Inode uint64 // of the file that holds it
	File  string // its path
}

// WaitWritten returns once the log up to lsn has reached the kernel, and writes
// it if nobody else does. The error says that it has not: it wraps ErrStalled
// (and the cause) if it may be written later, ErrFailed if it never will.
func (l *Log) WaitWritten(lsn uint64) error {
	if l.written.Load() >= lsn {
		return nil
	}
	if err := l.obstacle(); err != nil {
		return err
	}
	letOthersJoin()
	return l.waitWritten(lsn)
}

func (l *Log) waitWritten(lsn uint64) error {
	lsn = min(lsn, l.last.Load())
	for l.written.Load() < lsn {
		if err := l.obstacle(); err != nil {
			return err
		}
		if !l.writer.tryTake() {
			l.writer.await(&l.written, lsn)
			continue
		}
		err := l.obstacle() // things may have changed before the turn came
		if err == nil {
			err = l.writePending()
		}
		l.writer.giveBack()
		if err != nil {
			return err
		}
	}
	return nil
}

// WaitDurable returns once the log up to lsn was fsynced, and fsyncs it if
// nobody else does, whatever the policy. Errors are those of WaitWritten;
// ErrNoFile without files.
func (l *Log) WaitDurable(lsn uint64) error {
	if l.durable.Load() >= lsn {
		return nil
	}
	if l.opt.NoFile {
		return ErrNoFile
	}
	if err := l.WaitWritten(lsn); err != nil {
		return err
	}
	lsn = min(lsn, l.last.Load())
	for l.durable.Load() < lsn {
		if err := l.failure(); err != nil {
			return err
		}
		if !l.syncer.tryTake() {
			l.syncer.await(&l.durable, lsn)
			continue
		}
		err := l.syncFile()
		l.syncer.giveBack()
		if err != nil {
			return err
		}
	}
	return nil
}

// Sync writes and fsyncs all that was appended.
func (l *Log) Sync() error {
	if l.opt.NoFile {
		return ErrNoFile
	}
	return l.WaitDurable(l.last.Load())
}

// Admit is called by writers before they take any lock. It waits while more
// than MaxUnwrittenBytes are unwritten, by helping to write them. An error says
// that the log cannot advance, and why; it wraps ErrStalled or ErrFailed.
func (l *Log) Admit() error {
	if err := l.obstacle(); err != nil {
		return err
	}
	if l.stalled.Load() != nil {
		// The attempt is due: the disk may have room again.
		if err := l.writeAll(); err != nil {
			return err
		}
	}
	for l.unwrittenBytes.Load() > l.opt.MaxUnwrittenBytes {
		if err := l.waitWritten(l.written.Load() + 1); err != nil {
			return err
		}
	}
	return nil
}

// writeAll writes what was appended, annotations and new files included.
func (l *Log) writeAll() error {
	l.writer.take()
	defer l.writer.giveBack()
	if err := l.obstacle(); err != nil {
		return err
	}
	return l.writePending()
}

// writePending writes what has been appended up to now. The caller has the
// writer's turn.
func (l *Log) writePending() error {
	o := &l.out
	for until := l.last.Load(); ; {
		if err := l.failed.Load(); err != nil {
			return *err
		}
		l.startNextFile()
		l.mu.Lock()
		l.mem.open = false
		o.batch = l.mem.unwritten(o.batch[:0])
		l.mu.Unlock()
		if len(o.batch) == 0 {
			return nil
		}
		start := time.Now()
		n, files, err := l.writeBatch(o.batch)
		l.took("aof-write", start)
		l.mu.Lock()
		l.mem.wrote(n)
		l.files -= files
		l.mem.trim(l.opt.MemoryBytes, false)
		l.mu.Unlock()
		full := len(o.batch) >= maxBatchBlocks
		clear(o.batch)
		if err != nil {
			return l.stall(err)
		}
		if l.stalled.Swap(nil) != nil {
			l.opt.Logger.Info("the log can be written again")
		}
		if !full || l.written.Load() >= until {
			return nil
		}
		l.writer.notify()
	}
}

// took tells who wants to know how long something took.
func (l *Log) took(event string, start time.Time) {
	if l.opt.Took != nil {
		l.opt.Took(event, time.Since(start))
	}
}

// stall notes a failed attempt to write, and returns what waiters are told.
func (l *Log) stall(cause error) error {
	if isFailure(cause) {
		return cause
	}
	err := fmt.Errorf("%w: %w", ErrStalled, cause)
	if l.stalled.Swap(&stall{err: err, at: time.Now()}) == nil {
		l.opt.Logger.Error("the log cannot be written: writes are refused until it can", "err", cause)
	}
	return err
}

// writeBatch writes blocks one after the other and returns how many, and how
// many of them began a file. What was written is published at once.
func (l *Log) writeBatch(batch []pending) (n, files int, err error) {
	o := &l.out
	for i := range batch {
		p := &batch[i]
		if p.extra != nil && p.extra.newFile {
			if err := l.rotate(p); err != nil {
				return i, files, err
			}
			files++
			continue
		}
		h := l.header(p)
		if err := l.writeBlock(p, &h); err != nil {
			return i, files, err
		}
		l.unwrittenBytes.Add(-int64(l.accounted(p)))
		// A commit and the line behind it count as written together.
		if i+1 == len(batch) || !batch[i+1].annotates() {
			l.written.Store(h.LastLSN())
		}
		o.blocks++
	}
	return len(batch), files, nil
}

// accounted is what unwrittenBytes counted for a block.
func (l *Log) accounted(p *pending) int {
	n := len(p.payload(p.chunk))
	if p.extra != nil && len(p.extra.lines) > 0 {
		n += len(p.extra.lines) - len("\r\n")
	}
	return n
}

// header makes up the line of a block, without its checksum.
func (l *Log) header(p *pending) BlockHeader {
	return BlockHeader{
		FirstLSN:     p.first,
		Ops:          int(p.ops),
		DurableLSN:   min(l.durable.Load(), p.first-1),
		UnixMs:       p.unixMs,
		PayloadBytes: len(p.payload(p.chunk)),
	}
}

// writeBlock seals a block and writes it to the current file. After an error
// the file ends, or is made to end before the next write, with the last whole
// block.
func (l *Log) writeBlock(p *pending, h *BlockHeader) error {
	o := &l.out
	if err := l.cutBack(); err != nil {
		return err
	}
	line, payload := l.seal(p, h, o.segment.random)
	n := 0
	err := writeAll(l.file, line)
	if err == nil {
		n = len(line)
		if len(payload) > 0 {
			err = writeAll(l.file, payload)
			n += len(payload)
		}
	}
	if err != nil {
		o.torn = true
		_ = l.cutBack() // tried again before the next write
		return fmt.Errorf("write %s: %w", o.segment.name, err)
	}
	at := o.bytes
	o.bytes += int64(n)
	o.ended = h.Ops == 0
	o.tail.LSN, o.tail.CRC = h.LastLSN(), h.CRC
	l.dir.wrote(o.segment, h, at, o.bytes)
	l.stated.Store(h.DurableLSN)
	return nil
}

func writeAll(f vfs.File, b []byte) error {
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = fmt.Errorf("only %d of %d bytes were written", n, len(b))
	}
	return err
}

// seal computes the checksum of a block and puts its line in front of the
// payload. What is to be written is line, then payload; for a usual block line
// is all of it.
func (l *Log) seal(p *pending, h *BlockHeader, random uint32) (line, payload []byte) {
	o := &l.out
	o.line = o.line[:0]
	if p.extra != nil {
		eachLine(p.extra.lines, func(text []byte) {
			o.line = appendLine(o.line, random, h.FirstLSN-1, text)
		})
	}
	start := len(o.line)
	o.line = appendBlockLine(o.line, h)
	payload = p.payload(p.chunk)
	h.CRC = blockChecksum(random, o.line[start:], payload)
	o.line = appendChecksum(o.line, h.CRC)
	at := int(p.start) - len(o.line)
	if p.extra != nil || at < 0 {
		return o.line, payload
	}
	// Nobody else touches the room before a block.
	copy(p.chunk.buf[at:], o.line)
	return p.chunk.buf[at:p.end], nil
}

// cutBack removes what a failed write left behind the last whole block.
func (l *Log) cutBack() error {
	o := &l.out
	if !o.torn {
		return nil
	}
	if err := l.file.Truncate(o.bytes); err != nil {
		return fmt.Errorf("cut %s back to its last block: %w", o.segment.name, err)
	}
	o.torn = false
	return nil
}

// nextFile is a file that is made before it is needed. Its name is durable, its
// content is empty, and no manifest lists it.
type nextFile struct {
	seq  int64
	name string
	file vfs.File
	err  error
	done chan struct{} // closed once file or err is there

	// segment is set once the header is durable. From then on a manifest that lists
	// the file may be on disk, so the header must stay.
	segment *segment
	tail    Tail
}

// newNextFile names the next file.
func (l *Log) newNextFile() *nextFile {
	l.out.nextSeq++
	n := &nextFile{seq: l.out.nextSeq, done: make(chan struct{})}
	n.name = l.dir.logPath(segmentName(n.seq))
	l.out.next = n
	return n
}

func (n *nextFile) create(d *directory) {
	defer close(n.done)
	f, err := d.fs.Create(n.name)
	if err == nil {
		if err = d.fs.SyncDir(d.logDir()); err != nil {
			_ = f.Close() // it is empty
			_ = d.fs.Remove(n.name)
			f = nil
		}
	}
	n.file, n.err = f, err
}

// startNextFile prepares the change to a new file when the current one is
// nearly full, and makes it when it is. The caller has the writer's turn.
func (l *Log) startNextFile() {
	o := &l.out
	size := l.opt.SegmentBytes
	if o.segment == nil || o.bytes < size-size/8 {
		return
	}
	if o.next == nil {
		if time.Since(o.nextFailed) > nextFileRetry {
			l.prepareFile()
		}
		return
	}
	// A file that is slow to be made is waited for only when this one is twice as
	// large as it should be. One that cannot be made is no reason to stop writing
	// to this one.
	if o.bytes < 2*size {
		select {
		case <-o.next.done:
		default:
			return
		}
	}
	<-o.next.done
	if err := o.next.err; err != nil {
		l.opt.Logger.Warn("the next segment of the log cannot be made", "file", o.next.name, "err", err)
		o.next, o.nextFailed = nil, time.Now()
		return
	}
	if o.bytes < size {
		return
	}
	l.mu.Lock()
	if l.files == 0 {
		l.cut()
	}
	l.mu.Unlock()
}

// nextFileRetry is the time between two attempts to make a file that could not
// be made.
const nextFileRetry = time.Second

// prepareFile makes the next file beside the writing.
func (l *Log) prepareFile() {
	next := l.newNextFile()
	l.running.Go(func() {
		next.create(&l.dir)
		// What the change of files has to fsync is little, then.
		if next.err == nil && l.Policy() != PolicyAlways {
			_ = l.syncInTurn() // a failure ends the log by itself
		}
	})
}

// rotate ends the current file, if there is one, and begins the next with block
// p. The order of its steps is that of docs/formats.md; after an error it can be
// called again.
func (l *Log) rotate(p *pending) error {
	o := &l.out
	if o.segment != nil {
		if err := l.endFile(p); err != nil {
			return err
		}
	}
	if o.next == nil {
		l.newNextFile().create(&l.dir)
	}
	next := o.next
	<-next.done
	if next.err != nil {
		o.next = nil
		return fmt.Errorf("make %s: %w", next.name, next.err)
	}
	if next.segment == nil {
		if err := l.writeHeader(next, p); err != nil {
			return err
		}
	}
	if err := l.dir.list(next.segment); err != nil {
		return err
	}
	l.syncer.take()
	old := l.file
	l.file = next.file
	l.syncer.giveBack()
	if old != nil {
		// It was fsynced after its last write.
		if err := old.Close(); err != nil {
			l.opt.Logger.Warn("a segment of the log cannot be closed", "err", err)
		}
	}
	s := next.segment
	o.segment, o.next = s, nil
	o.bytes, o.torn, o.ended = s.bytes, false, true
	o.tail = next.tail
	return nil
}

// writeHeader writes what the next file begins with and fsyncs it. The file may
// hold what a failed attempt left.
func (l *Log) writeHeader(next *nextFile, p *pending) error {
	s := &segment{name: next.name, seq: next.seq, first: p.first, last: p.first - 1, random: newRandom(), unixMs: p.unixMs}
	h := l.header(p)
	head, positions := l.fileHeader(s, p, &h)
	if err := next.file.Truncate(0); err != nil {
		return fmt.Errorf("empty %s: %w", next.name, err)
	}
	if err := writeAll(next.file, head); err != nil {
		return fmt.Errorf("write %s: %w", next.name, err)
	}
	if err := next.file.Sync(); err != nil {
		l.dir.noteFailedSync(next.name, err)
		return l.fail("fsync "+next.name, err)
	}
	inode, err := next.file.Inode()
	if err != nil {
		return err
	}
	s.positions = positions
	s.bytes = int64(len(head))
	s.mark(mark{lsn: s.first, unixMs: s.unixMs})
	next.tail = Tail{LSN: p.first - 1, CRC: h.CRC, Inode: inode, File: s.name}
	next.segment = s
	return nil
}

// fileHeader encodes what a file begins with, and returns the positions in it.
func (l *Log) fileHeader(s *segment, p *pending, h *BlockHeader) (head []byte, positions []Position) {
	head = appendFileLine(nil, s.first, s.random)
	eachLine(p.extra.lines, func(text []byte) {
		head = appendLine(head, s.random, s.first-1, text)
	})
	start := len(head)
	head = appendBlockLine(head, h)
	h.CRC = blockChecksum(s.random, head[start:], nil)
	return appendChecksum(head, h.CRC), positionsOf(p.extra.lines)
}

// positionsOf returns the position lines among lines, which have no checksums.
func positionsOf(lines []byte) (positions []Position) {
	eachLine(lines, func(text []byte) {
		if !bytes.HasPrefix(text, []byte(positionPrefix)) {
			return
		}
		if p, ok := parsePosition(text); ok {
			positions = append(positions, p)
		}
	})
	return positions
}

// endFile closes the current file with an empty block and fsyncs it. next is
// the block that follows.
func (l *Log) endFile(next *pending) error {
	o := &l.out
	if !o.ended {
		end := pending{block: block{first: next.first, unixMs: next.unixMs}, chunk: &noChunk}
		h := l.header(&end)
		if err := l.writeBlock(&end, &h); err != nil {
			return err
		}
	}
	if err := l.cutBack(); err != nil {
		return err
	}
	l.syncer.take()
	defer l.syncer.giveBack()
	return l.syncFile()
}

// newRandom draws what seeds the checksums of a file.
func newRandom() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return binary.LittleEndian.Uint32(b[:])
}

// noChunk is the chunk of blocks that are not in memory.
var noChunk chunk

// list adds a segment to the manifest and to the segments in use. Nobody who
// holds manifestMu finds it in one and not in the other.
func (d *directory) list(s *segment) error {
	d.manifestMu.Lock()
	defer d.manifestMu.Unlock()
	m := d.manifest.clone()
	m.segments = append(m.segments, manifestEntry{segmentName(s.seq), s.seq})
	if err := d.install(m); err != nil {
		return err
	}
	d.segMu.Lock()
	defer d.segMu.Unlock()
	d.segments = append(d.segments, s)
	return nil
}

// install replaces the manifest. The caller holds manifestMu.
func (d *directory) install(m manifest) error {
	if err := vfs.WriteFileAtomic(d.fs, d.logPath(manifestName), m.encode()); err != nil {
		return fmt.Errorf("replace the manifest of the log: %w", err)
	}
	d.manifest = m
	for _, name := range d.orphans {
		if m.base == nil || m.base.name != name {
			_ = d.fs.Remove(d.logPath(name)) // or else the next open does
		}
	}
	d.orphans = nil
	return nil
}

// syncStats describes the fsyncs, for Status.
type syncStats struct {
	mu     sync.Mutex
	count  uint64        // guarded by mu
	last   time.Duration // guarded by mu
	lastAt time.Time     // guarded by mu
}

// syncFile fsyncs the current file. The caller has the syncer's turn.
func (l *Log) syncFile() error {
	written := l.written.Load()
	if l.file == nil {
		return nil
	}
	if err := l.failed.Load(); err != nil {
		return *err
	}
	start := time.Now()
	if err := l.file.SyncData(); err != nil {
		err = l.fail("fsync "+l.file.Name(), err)
		l.dir.noteFailedSync(l.file.Name(), err)
		return err
	}
	if l.Policy() == PolicyAlways {
		l.took("aof-fsync-always", start)
	}
	l.syncs.mu.Lock()
	l.syncs.count++
	l.syncs.last = time.Since(start)
	l.syncs.lastAt = start
	l.syncs.mu.Unlock()
	l.durable.Store(max(written, l.durable.Load()))
	return nil
}
