package aof

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// RecoverMode says what to do about damage: what had been durable and is not
// there any more. A torn tail is no damage: it is cut, but for RecoverWhole.
type RecoverMode int

const (
	// RecoverRefuse ends Recover with a *DamageError.
	RecoverRefuse RecoverMode = iota
	// RecoverTruncate ends the log where the damage begins.
	RecoverTruncate
	// RecoverSkip leaves out what is damaged and goes on behind it.
	RecoverSkip
	// RecoverWhole ends Recover with a *DamageError as RecoverRefuse does, and with
	// a *TornError where the tail would have to be cut.
	RecoverWhole
)

// refuses reports whether damage ends the recovery.
func (m RecoverMode) refuses() bool { return m == RecoverRefuse || m == RecoverWhole }

// TornError says that the log ends in something that a crash or a full disk cut
// short, and that RecoverWhole does not cut it off. The file is as it was.
type TornError struct {
	File   string
	Offset int64 // of the first byte that would go
	Bytes  int64 // how many would
	Reason string
}

func (e *TornError) Error() string {
	return fmt.Sprintf("%s is torn at offset %d, %d bytes before its end: %s", e.File, e.Offset, e.Bytes, e.Reason)
}

// Sink takes what Recover reads, in the order of the log. An error ends Recover
// and is returned. Slices are valid until the method returns.
type Sink interface {
	// Position comes for each stream at the beginning of a file.
	Position(stream int, generation, next uint64) error
	// Generation says that the generation changed to draw after the op lsn.
	Generation(draw, lsn uint64) error
	// BasePayload is part of the base: whole commands. The state of whoever
	// interprets them, such as the database, carries on from one call to the next.
	BasePayload(payload []byte) error
	// Block is a block that checks and holds at least one op.
	Block(b BlockHeader, payload []byte) error
	// Foreign is whole commands that another server wrote, MULTI and EXEC among
	// them; a transaction can span several calls. State carries on.
	Foreign(payload []byte) error
}

// Cut is a piece of the log that recovery left out. All of it is in quarantine.
type Cut struct {
	File       string
	Offset     int64
	Bytes      int64
	Reason     string
	Quarantine string // the file that has it now
}

// Report says what Recover found.
type Report struct {
	BaseLSN    uint64 // cut of the base, 0 without one
	BaseBytes  int64
	BaseOps    uint64
	Segments   int // files read behind the base
	LogBytes   int64
	Blocks     uint64 // that hold ops
	Ops        uint64
	LastLSN    uint64
	LastUnixMs int64 // of the last block, 0 if there is none

	// Tail is the end of the log as recovered, for comparison with the one that
	// Close returned.
	Tail Tail
	// Foreign: another server wrote to the log. The history has changed, and the
	// log needs a rewrite.
	Foreign bool
	// Torn is the tail that a crash left; nil if there is none.
	Torn *Cut
	// Damaged lists what RecoverTruncate or RecoverSkip left out. The log needs a
	// rewrite if there is any.
	Damaged []Cut
	// Notes says, for people, what else was put in order.
	Notes []string
}

// Recover reads the log of opt.Dir into sink and returns it ready to append.
// It cuts a torn tail, and whatever it returned by then, the log on disk is
// fsynced. Nothing else may use the directory.
func Recover(opt Options, mode RecoverMode, sink Sink) (*Log, *Report, error) {
	if err := opt.check(); err != nil {
		return nil, nil, err
	}
	l := newLog(opt)
	r := &recovery{log: l, opt: &l.opt, mode: mode, sink: sink, report: &Report{}, numbered: true}
	if opt.NoFile {
		l.running.Go(l.runMemory)
	} else {
		if err := r.run(); err != nil {
			if l.file != nil {
				err = errors.Join(err, l.file.Close())
			}
			return nil, r.report, err
		}
		l.running.Go(l.run)
	}
	return l, r.report, nil
}

type recovery struct {
	log    *Log
	opt    *Options
	mode   RecoverMode
	sink   Sink
	report *Report

	manifest       manifest
	found          bool           // a manifest
	rewritten      bool           // the manifest must be replaced
	unlisted       map[int64]bool // segments that it is not to list any more
	spare          []spareSegment
	highestFeedLSN uint64 // with which a file in feed/ begins

	// numbered: the LSN that comes next is known. It is not after a base or files
	// of another server.
	numbered bool
	last     uint64
	lastMs   int64
	history  uint64 // the log is unbroken from here on
	segments []*segment
	ended    bool // RecoverTruncate has ended the log
	gone     bool // because the file was not there
	lostBase bool // the base that is listed was not there

	// The file that the log goes on in; nil if it must be a new one.
	tail *segment
}

// logFile is a file being read.
type logFile struct {
	name    string
	seq     int64 // of a segment
	w       window
	at      int64 // behind what checks
	segment *segment
	started bool // its header checks
	follows bool // another file goes on behind it
	pure    bool // all of it is ours, and whole
	lines   [][]byte
	// linesAt is the offset of the first of lines.
	linesAt int64
	crc     uint32
	stated  uint64
}

func (r *recovery) run() error {
	d := &r.log.dir
	if err := d.fs.MkdirAll(d.logDir()); err != nil {
		return err
	}
	if err := d.fs.MkdirAll(d.feedDir()); err != nil {
		return err
	}
	var err error
	if r.manifest, r.found, err = readManifest(d.fs, d.logDir()); err != nil {
		return err
	}
	if !r.found {
		if err := r.refuseSingleFile(); err != nil {
			return err
		}
	}
	// What follows removes what this manifest does not need. It must not turn into
	// the one before after that.
	if err := d.fs.SyncDir(d.logDir()); err != nil {
		return err
	}
	if err := r.list(); err != nil {
		return err
	}
	if err := r.loadBase(); err != nil {
		return err
	}
	if err := r.readListed(); err != nil {
		return err
	}
	if err := r.adopt(); err != nil {
		return err
	}
	r.dropUnlisted()
	if err := r.checkEnd(); err != nil {
		return err
	}
	if err := r.openTail(); err != nil {
		return err
	}
	if r.rewritten || len(r.manifest.history) > 0 {
		if err := d.install(r.manifest); err != nil {
			return err
		}
	}
	d.manifest = r.manifest
	d.foreign = r.noSegments()
	if err := r.tidy(); err != nil {
		return err
	}
	feed, err := r.findFeed()
	if err != nil {
		return err
	}
	r.finish(feed)
	return nil
}

func (r *recovery) note(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	r.report.Notes = append(r.report.Notes, text)
	r.opt.Logger.Info("log recovery: " + text)
}

// readListed reads the segments that the manifest lists.
func (r *recovery) readListed() error {
	listed := r.manifest.segments
	for i, e := range listed {
		follows := i < len(listed)-1 || len(r.followers()) > 0
		if err := r.readFile(r.log.dir.logPath(e.name), e.seq, follows); err != nil {
			return err
		}
		if r.ended && r.gone {
			return r.setAside(i)
		}
		if r.ended {
			return r.setAside(i + 1)
		}
	}
	return nil
}

// unlist takes a segment without content off the manifest, once all are read.
func (r *recovery) unlist(seq int64) {
	if r.unlisted == nil {
		r.unlisted = map[int64]bool{}
	}
	r.unlisted[seq] = true
}

func (r *recovery) dropUnlisted() {
	if len(r.unlisted) == 0 {
		return
	}
	r.rewritten = true
	r.manifest.segments = slices.DeleteFunc(slices.Clone(r.manifest.segments), func(e manifestEntry) bool { return r.unlisted[e.seq] })
}

// setAside moves the listed segments from number n on to quarantine: the log
// was ended before them.
func (r *recovery) setAside(n int) error {
	dropped := r.manifest.segments[n:]
	r.manifest.segments = r.manifest.segments[:n:n]
	r.rewritten = true
	for _, e := range dropped {
		name := r.log.dir.logPath(e.name)
		info, err := r.log.dir.fs.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		to, err := r.quarantineName(name, 0)
		if err != nil {
			return err
		}
		// The copy goes first: until the manifest is replaced the file is listed.
		if err := r.copyTo(to, name, 0, info.Size); err != nil {
			return err
		}
		r.report.Damaged = append(r.report.Damaged, Cut{File: name, Bytes: info.Size, Reason: "the log was ended before it", Quarantine: to})
	}
	return nil
}

// adopt goes on with segments that are not listed and begin exactly where the
// log ends: their manifest did not become durable.
func (r *recovery) adopt() error {
	if r.ended || !r.numbered {
		return nil
	}
	for {
		followers := r.followers()
		if len(followers) == 0 {
			return nil
		}
		next := followers[0]
		if next.line.first != r.last+1 {
			if next.line.first > r.last+1 && r.mode.refuses() {
				return &DamageError{File: next.name, Reason: r.gap(next.line.first)}
			}
			return nil
		}
		r.note("%s is not listed and goes on where the log ends: it is adopted", next.name)
		r.manifest.segments = append(r.manifest.segments, manifestEntry{filepath.Base(next.name), next.seq})
		r.rewritten = true
		if err := r.readFile(next.name, next.seq, len(r.followers()) > 0); err != nil || r.ended {
			return err
		}
	}
}

// readFile reads a segment to its end, or to where recovery stops.
func (r *recovery) readFile(name string, seq int64, follows bool) (err error) {
	file, err := r.log.dir.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return r.missing(name)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return err
	}
	r.report.Segments++
	if size == 0 && !r.manifest.marked {
		r.note("%s is empty, as Redis makes it: the log goes on without it", name)
		r.unlist(seq)
		return nil
	}
	r.tail = nil
	f := &logFile{name: name, seq: seq, follows: follows, w: window{f: file, size: size}}
	if size == 0 {
		// Its header was fsynced before kevy listed it.
		return r.fault(f, "the file is empty")
	}
	if err := r.readHeader(f); err != nil {
		return err
	}
	for f.at < f.w.size {
		if err := r.readNext(f); err != nil {
			return err
		}
	}
	if f.segment != nil && !f.started && f.w.size > 0 {
		if err := r.fault(f, "the header has no end"); err != nil {
			return err
		}
	}
	r.report.LogBytes += f.w.size
	if f.segment == nil || !f.started {
		return nil
	}
	f.segment.last, f.segment.bytes = r.last, f.w.size
	if f.pure || r.last >= f.segment.first {
		r.segments = append(r.segments, f.segment)
	} // else a base is not to take it for the log behind its cut
	inode, err := file.Inode()
	if err != nil {
		return err
	}
	r.report.Tail = Tail{LSN: r.last, CRC: f.crc, Inode: inode, File: name}
	r.log.stated.Store(f.stated)
	if f.pure {
		r.tail = f.segment
	}
	return nil
}

func (r *recovery) missing(name string) error {
	damage := &DamageError{File: name, Reason: "the manifest lists it, and it is not there"}
	if r.mode.refuses() {
		return damage
	}
	r.report.Damaged = append(r.report.Damaged, Cut{File: name, Reason: damage.Reason})
	if r.mode == RecoverTruncate {
		r.ended, r.gone = true, true
		return nil
	}
	r.history = r.last + 1
	r.numbered = false
	return nil
}

// readHeader finds out what a file is, and makes it a segment if it is one of
// ours. The header ends with the first block, which readNext reads.
func (r *recovery) readHeader(f *logFile) error {
	head, err := f.w.peek(0, maxLineBytes)
	if err != nil {
		return err
	}
	switch {
	case bytes.HasPrefix(head, []byte(rdbMagic)):
		return fmt.Errorf("%s: %w", f.name, ErrRDB)
	case head[0] == '*' || bytes.HasPrefix(head, []byte(redisTimeLine)):
		// All of it is another server's. LSNs go on where they were.
		f.started = true
		return nil
	}
	line, n, ok, err := readFileLine(&f.w)
	switch {
	case err != nil:
		return err
	case !ok:
		return r.fault(f, "the file does not begin as a log of kevy or of Redis does")
	case line.format != formatVersion:
		return &FormatError{File: f.name, Format: line.format}
	case r.numbered && line.first > r.last+1 && r.mode == RecoverSkip:
		r.report.Damaged = append(r.report.Damaged, Cut{File: f.name, Reason: r.gap(line.first)})
		r.numbered = false
	case r.numbered && line.first != r.last+1, line.first <= r.last:
		return r.damage(f, r.gap(line.first))
	}
	if !r.numbered {
		r.history = line.first
	}
	r.numbered = true
	r.last = line.first - 1
	f.segment = &segment{name: f.name, seq: f.seq, first: line.first, random: line.random}
	f.pure = true
	f.linesAt = 0
	f.at = n
	return nil
}

func (r *recovery) gap(first uint64) string {
	return fmt.Sprintf("the file begins with LSN %d, and the log before it ends with %d", first, r.last)
}

// readNext reads what stands at f.at and moves it on.
func (r *recovery) readNext(f *logFile) error {
	if f.segment == nil {
		return r.foreign(f, f.at)
	}
	it, err := readItem(&f.w, f.at, f.segment.random, r.last)
	if err != nil {
		return err
	}
	if it.kind == itemForeign && !f.started {
		it = fault("the header has no end")
	}
	switch it.kind {
	case itemBlock:
		return r.block(f, it)
	case itemLine:
		if f.started && len(f.lines) == 0 {
			f.linesAt = f.at
		}
		f.lines = append(f.lines, bytes.Clone(it.text))
		f.at = it.end
		if f.at == f.w.size {
			return r.fault(f, "the file ends with an annotation")
		}
		return nil
	case itemForeign:
		return r.foreign(f, f.at)
	}
	return r.fault(f, it.reason)
}

// block hands on a block and the lines before it.
func (r *recovery) block(f *logFile, it item) error {
	for _, text := range f.lines {
		if err := r.line(f, text); err != nil {
			return err
		}
	}
	h := it.header
	if !f.started {
		f.segment.unixMs = h.UnixMs
		f.segment.mark(mark{lsn: h.FirstLSN, at: 0, unixMs: h.UnixMs})
	} else if len(f.lines) > 0 {
		f.segment.mark(mark{lsn: h.FirstLSN, at: f.linesAt, unixMs: h.UnixMs})
	} else {
		f.segment.mark(mark{lsn: h.FirstLSN, at: f.at, unixMs: h.UnixMs})
	}
	f.lines = f.lines[:0]
	f.started = true
	if h.Ops > 0 {
		payload, err := it.whole()
		if err != nil {
			return err
		}
		if err := r.sink.Block(h, payload); err != nil {
			return placed(err, f.name, f.at)
		}
		r.report.Blocks++
		r.report.Ops += uint64(h.Ops)
	}
	f.at = it.end
	f.crc, f.stated = h.CRC, h.DurableLSN
	r.last = h.LastLSN()
	r.lastMs = max(r.lastMs, h.UnixMs)
	return nil
}

// line hands on an annotation that checks.
func (r *recovery) line(f *logFile, text []byte) error {
	switch {
	case bytes.HasPrefix(text, []byte(positionPrefix)):
		p, ok := parsePosition(text)
		if !ok {
			return &DamageError{File: f.name, Offset: f.linesAt, Reason: fmt.Sprintf("%q has a right checksum and is malformed", text)}
		}
		if !f.started {
			f.segment.positions = append(f.segment.positions, p)
		}
		return r.sink.Position(p.Stream, p.Generation, p.Next)
	case bytes.HasPrefix(text, []byte(drawPrefix)):
		draw, ok := parseDraw(text)
		if !ok {
			return &DamageError{File: f.name, Offset: f.linesAt, Reason: fmt.Sprintf("%q has a right checksum and is malformed", text)}
		}
		return r.sink.Generation(draw, r.last)
	}
	return nil
}

// foreign reads what another server wrote from offset at on.
func (r *recovery) foreign(f *logFile, at int64) error {
	reg, err := foreignRegion(&f.w, at)
	if err != nil {
		return err
	}
	if reg.commands == 0 && reg.left == malformed && f.segment != nil && at == f.at {
		// Nothing says that these are commands at all.
		return r.fault(f, "neither a block nor a command begins here")
	}
	f.pure = f.pure && reg.commands == 0
	if reg.commands > 0 {
		r.report.Foreign = true
		r.numbered = r.numbered && (f.segment != nil || r.last > 0)
	}
	if err := eachForeign(&f.w, at, reg.end, r.sink.Foreign); err != nil {
		return err
	}
	f.at = reg.end
	switch {
	case reg.left == whole && reg.stop < f.w.size && f.segment == nil:
		return r.damage(f, "a line of kevy stands in a file that kevy did not begin")
	case reg.left == whole:
		f.at = reg.stop
		return nil
	case reg.left == incomplete && !f.follows:
		return r.cut(f, reg.reason, false)
	}
	return r.damage(f, reg.reason)
}

// fault decides about a place that does not check: f.at, or the annotations
// before it.
func (r *recovery) fault(f *logFile, reason string) error {
	if len(f.lines) > 0 {
		f.at = f.linesAt
		f.lines = f.lines[:0]
	}
	next := r.last + 1
	switch {
	case !f.started:
		f.at = 0
		return r.damage(f, reason+" (a file's header is fsynced before the file is used)")
	case f.follows:
		return r.damage(f, reason+" (a file is fsynced before the next one is used)")
	case r.opt.KnownDurableLSN >= next:
		return r.damage(f, fmt.Sprintf("%s (the log was known to be durable up to LSN %d)", reason, r.opt.KnownDurableLSN))
	}
	search, err := newBlockSearch(&f.w, f.segment.random, f.at)
	if err != nil {
		return err
	}
	proof, at, found, err := search.next(func(h *BlockHeader) bool {
		return h.FirstLSN >= next && h.DurableLSN >= next
	})
	if err != nil {
		return err
	}
	if found {
		return r.damage(f, fmt.Sprintf("%s (a block at offset %d says that LSN %d was durable)", reason, at, proof.DurableLSN))
	}
	taken, ok, err := takenOver(&f.w, f.at)
	if err != nil {
		return err
	}
	if ok {
		r.note("%s: kevy was ended while it wrote the block at offset %d; another server took it over", f.name, f.at)
		return r.takeOver(f, taken)
	}
	return r.cut(f, reason, false)
}

// takeOver reads what Redis made of a torn block and wrote behind it.
func (r *recovery) takeOver(f *logFile, t takeover) error {
	r.report.Foreign = true
	f.pure = false
	if err := eachForeign(&f.w, t.start, t.multi, r.sink.Foreign); err != nil {
		return err
	}
	return r.foreign(f, t.resume)
}

// damage does what the mode says about what was durable and does not check.
func (r *recovery) damage(f *logFile, reason string) error {
	switch r.mode {
	case RecoverTruncate:
		r.ended = true
		return r.cut(f, reason, true)
	case RecoverSkip:
		return r.skip(f, reason)
	}
	return &DamageError{File: f.name, Offset: f.at, Reason: reason}
}

// skip leaves out what does not check and goes on at the next block that does,
// in this file or the next.
func (r *recovery) skip(f *logFile, reason string) error {
	to := f.w.size
	next := r.last + 1
	if f.segment != nil {
		search, err := newBlockSearch(&f.w, f.segment.random, f.at)
		if err != nil {
			return err
		}
		h, at, found, err := search.next(func(h *BlockHeader) bool { return h.FirstLSN >= next })
		if err != nil {
			return err
		}
		if found {
			to, next = at, h.FirstLSN
		}
	}
	cut, err := r.quarantine(f, to, reason)
	if err != nil {
		return err
	}
	r.report.Damaged = append(r.report.Damaged, *cut)
	f.at = to
	f.pure = false
	r.last = next - 1
	r.history = next
	r.numbered = to < f.w.size
	return nil
}

// cut ends a file at f.at, once what is behind it is in quarantine.
func (r *recovery) cut(f *logFile, reason string, damaged bool) (err error) {
	if !damaged && r.mode == RecoverWhole {
		return &TornError{File: f.name, Offset: f.at, Bytes: f.w.size - f.at, Reason: reason}
	}
	cut, err := r.quarantine(f, f.w.size, reason)
	if err != nil {
		return err
	}
	if damaged {
		r.report.Damaged = append(r.report.Damaged, *cut)
	} else {
		r.report.Torn = cut
	}
	f.w.size = f.at
	if f.at == 0 {
		// A listed file that is empty would be damage at the next open. All of it is
		// in quarantine, so it goes once it is not listed any more.
		r.unlist(f.seq)
		return nil
	}
	w, err := r.log.dir.fs.OpenAppend(f.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	// This file is the last one now, which openTail fsyncs before anything else.
	return w.Truncate(f.at)
}

// quarantine copies a file's bytes from f.at to offset end, durably.
func (r *recovery) quarantine(f *logFile, end int64, reason string) (*Cut, error) {
	name, err := r.quarantineName(f.name, f.at)
	if err != nil {
		return nil, err
	}
	if err := r.copyTo(name, f.name, f.at, end); err != nil {
		return nil, fmt.Errorf("put what is cut off in quarantine: %w", err)
	}
	return &Cut{File: f.name, Offset: f.at, Bytes: end - f.at, Reason: reason, Quarantine: name}, nil
}

// quarantineName finds a free name for what is taken out of a file.
func (r *recovery) quarantineName(file string, at int64) (string, error) {
	d := &r.log.dir
	dir := filepath.Join(d.dir, quarantineDirName)
	if err := d.fs.MkdirAll(dir); err != nil {
		return "", err
	}
	for ms := r.opt.NowMs(); ; ms++ {
		name := filepath.Join(dir, fmt.Sprintf("%s.%d.%d", filepath.Base(file), at, ms))
		_, err := d.fs.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// copyTo durably copies part of a file to a new one.
func (r *recovery) copyTo(to, from string, at, end int64) (err error) {
	d := &r.log.dir
	in, err := d.fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := d.fs.Create(to)
	if err != nil {
		return err
	}
	w := window{f: in, size: end}
	for at < end && err == nil {
		var b []byte
		if b, err = w.peek(at, windowBytes); err == nil {
			_, err = out.Write(b)
			at += int64(len(b))
		}
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return d.fs.SyncDir(filepath.Dir(to))
}

// checkEnd compares the end of the log with what is known of it.
func (r *recovery) checkEnd() error {
	known := r.opt.KnownDurableLSN
	if !r.numbered {
		// Another server has rewritten the log, or its end is skipped: LSNs go on
		// behind all that is known to have been given out, and nothing before joins.
		r.last = max(r.last, known, r.highestFeedLSN)
		r.history = r.last + 1
		r.tail = nil
		return nil
	}
	if known <= r.last || !r.mode.refuses() {
		return nil
	}
	if len(r.segments) == 0 {
		return &DamageError{File: r.log.dir.logPath(manifestName), Reason: fmt.Sprintf("the log is gone; it was durable up to LSN %d", known)}
	}
	s := r.segments[len(r.segments)-1]
	return &DamageError{File: s.name, Offset: s.bytes, Reason: fmt.Sprintf("the log ends with LSN %d; it was durable up to LSN %d", r.last, known)}
}

// openTail opens the file that the log goes on in, and makes what was read
// durable: a process that was killed leaves it in the kernel's cache only.
func (r *recovery) openTail() error {
	d := &r.log.dir
	if r.tail == nil && len(r.manifest.segments) == 0 {
		return nil
	}
	name := d.logPath(r.manifest.segments[len(r.manifest.segments)-1].name)
	if err := r.refresh(name); err != nil {
		return err
	}
	open := d.fs.Open
	if r.tail != nil {
		open = d.fs.OpenAppend
	}
	f, err := open(name)
	if r.tail == nil && errors.Is(err, fs.ErrNotExist) {
		return nil // left out as damage
	}
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		d.noteFailedSync(name, err)
		return errors.Join(err, f.Close())
	}
	if r.tail == nil {
		return f.Close()
	}
	l := r.log
	l.file = f
	l.out.segment = r.tail
	l.out.bytes = r.tail.bytes
	l.out.tail = r.report.Tail
	return nil
}

// refresh replaces the last file by a copy if an fsync of it failed before. The
// kernel then takes what it did not write for written, so that only new pages
// can be made durable.
func (r *recovery) refresh(name string) error {
	d := &r.log.dir
	marker := d.logPath(failedSyncName)
	if _, err := d.fs.Stat(marker); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	info, err := d.fs.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		r.note("an fsync of the log failed before: %s is written anew", name)
		temp := d.logPath(tempPrefix + filepath.Base(name))
		if err := r.copyTo(temp, name, 0, info.Size); err != nil {
			return err
		}
		if err := d.fs.Rename(temp, name); err != nil {
			return err
		}
		if err := d.fs.SyncDir(d.logDir()); err != nil {
			return err
		}
		if info, err = d.fs.Stat(name); err != nil {
			return err
		}
		if r.report.Tail.File == name {
			r.report.Tail.Inode = info.Inode
		}
	}
	return d.fs.Remove(marker)
}

// noSegments returns the numbers of the listed files that are no segments.
func (r *recovery) noSegments() map[int64]bool {
	seqs := map[int64]bool{}
	for _, e := range r.manifest.segments {
		if !slices.ContainsFunc(r.segments, func(s *segment) bool { return s.seq == e.seq }) {
			seqs[e.seq] = true
		}
	}
	return seqs
}

// finish makes the log go on where recovery ended.
func (r *recovery) finish(feed []*segment) {
	l := r.log
	l.last.Store(r.last)
	l.written.Store(r.last)
	l.durable.Store(r.last)
	l.lastMs = r.lastMs
	l.needFile = l.file == nil
	l.dir.segments = append(feed, r.segments...)
	l.dir.history = r.history
	l.dir.base = baseInfo{cut: r.report.BaseLSN, bytes: r.report.BaseBytes, ops: r.report.BaseOps}
	r.report.LastLSN = r.last
	r.report.LastUnixMs = r.lastMs
}
