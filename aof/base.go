package aof

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"kevy/internal/vfs"
)

// loadBase reads the base, if there is one.
func (r *recovery) loadBase() (err error) {
	if r.manifest.base == nil {
		return nil
	}
	name := r.log.dir.logPath(r.manifest.base.name)
	file, err := r.log.dir.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if r.mode != RecoverSkip {
			return r.baseError(name, 0, "the manifest lists it, and it is not there")
		}
		r.lostBase = true
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
	f := &logFile{name: name, w: window{f: file, size: size}}
	r.report.BaseBytes = size
	head, err := f.w.peek(0, maxLineBytes)
	if err != nil {
		return err
	}
	if size == 0 {
		return nil // as Redis makes one when it starts with nothing
	}
	if bytes.HasPrefix(head, []byte(rdbMagic)) {
		return fmt.Errorf("%s: %w", name, ErrRDB)
	}
	if head[0] == '*' || bytes.HasPrefix(head, []byte(redisTimeLine)) {
		return r.foreignBase(f)
	}
	return r.ownBase(f)
}

// foreignBase reads a base that a Redis wrote without a preamble.
func (r *recovery) foreignBase(f *logFile) error {
	r.report.Foreign = true
	r.numbered = false
	reg, err := foreignRegion(&f.w, 0)
	if err != nil {
		return err
	}
	if err := eachForeign(&f.w, 0, reg.end, r.sink.Foreign); err != nil {
		return err
	}
	if reg.end == f.w.size {
		return nil
	}
	f.at = reg.end
	return r.baseDamage(f, f.w.size, "the commands of the base do not reach to its end")
}

// ownBase reads a base of ours. Each block is checked before it is handed on.
func (r *recovery) ownBase(f *logFile) error {
	line, n, ok, err := readFileLine(&f.w)
	if err != nil {
		return err
	}
	if !ok || line.first != 1 {
		r.numbered = false
		return r.baseDamage(f, f.w.size, "the base does not begin as one of kevy or of Redis does")
	}
	if line.format != formatVersion {
		return &FormatError{File: f.name, Format: line.format}
	}
	chain, skipped := line.random, false
	for f.at = n; f.at < f.w.size; {
		end, ok, err := r.baseEnd(f, chain, skipped)
		if err != nil || ok {
			r.report.BaseLSN = end.cut
			r.last = end.cut
			return err
		}
		it, err := readItem(&f.w, f.at, line.random, r.report.BaseOps)
		if err != nil {
			return err
		}
		if it.kind != itemBlock {
			if it.kind != itemFault {
				it.reason = "a base holds blocks only"
			}
			skipped = true
			if err := r.skipInBase(f, line.random, it.reason); err != nil {
				return err
			}
			continue
		}
		payload, err := it.whole()
		if err != nil {
			return err
		}
		if err := r.sink.BasePayload(payload); err != nil {
			return placed(err, f.name, f.at)
		}
		chain = chainChecksum(chain, it.header.CRC)
		r.report.BaseOps = it.header.LastLSN()
		f.at = it.end
	}
	// The cut is not known: the segment that comes next tells.
	r.numbered = false
	if skipped {
		return nil
	}
	return r.baseDamage(f, f.w.size, "the base has no end")
}

// baseEnd reads the end line, if it stands at f.at and checks.
func (r *recovery) baseEnd(f *logFile, chain uint32, skipped bool) (l endLine, ok bool, err error) {
	head, err := f.w.peek(f.at, maxLineBytes)
	if err != nil || skipped || !bytes.HasPrefix(head, []byte(endPrefix)) {
		return l, false, err
	}
	l, n, ok := parseEndLine(head, chain)
	return l, ok && l.ops == r.report.BaseOps && f.at+int64(n) == f.w.size, nil
}

// skipInBase goes on at the next block that checks, if the mode is to skip.
func (r *recovery) skipInBase(f *logFile, random uint32, reason string) error {
	to := f.w.size
	search, err := newBlockSearch(&f.w, random, f.at)
	if err != nil {
		return err
	}
	after := r.report.BaseOps
	h, at, found, err := search.next(func(h *BlockHeader) bool { return h.FirstLSN > after })
	if err != nil {
		return err
	}
	if found {
		to = at
		r.report.BaseOps = h.FirstLSN - 1
	}
	return r.baseDamage(f, to, reason)
}

// baseDamage leaves out the bytes of a base up to an offset, if the mode is to
// skip.
func (r *recovery) baseDamage(f *logFile, to int64, reason string) error {
	if r.mode != RecoverSkip {
		return r.baseError(f.name, f.at, reason)
	}
	cut, err := r.quarantine(f, to, reason)
	if err != nil {
		return err
	}
	r.report.Damaged = append(r.report.Damaged, *cut)
	f.at = to
	return nil
}

func (r *recovery) baseError(name string, at int64, reason string) error {
	if r.mode == RecoverTruncate {
		reason += " (a part of a base is no state of the store, so it cannot be truncated, only skipped)"
	}
	return &DamageError{File: name, Offset: at, Reason: reason}
}

// BaseWriter writes the base of a rewrite. One goroutine may use it; exactly one
// of Commit and Abort ends it.
type BaseWriter struct {
	log    *Log
	cut    uint64
	seq    int64
	name   string // of the temporary file
	file   vfs.File
	random uint32
	chain  uint32
	ops    uint64 // in blocks that are written
	nowMs  int64

	payload []byte // of the block being gathered
	pending int    // ops in payload
	line    []byte
	bytes   int64
	synced  int64
	err     error // the first one
}

// baseSyncBytes is how much of a base is written between two fsyncs, so that the
// last one does not have all of it to write.
const baseSyncBytes = 32 << 20

// ErrBaseRunning is returned by BeginBase while a base is being written.
var ErrBaseRunning = errors.New("a rewrite of the log is already running")

// BeginBase starts a base as of cutLSN, which Cut returned. Only one can be
// written at a time.
func (l *Log) BeginBase(cutLSN uint64) (*BaseWriter, error) {
	if l.opt.NoFile {
		return nil, ErrNoFile
	}
	if err := l.failure(); err != nil {
		return nil, err
	}
	if !l.rewriting.CompareAndSwap(false, true) {
		return nil, ErrBaseRunning
	}
	d := &l.dir
	d.manifestMu.Lock()
	d.baseSeq++
	seq := d.baseSeq
	d.manifestMu.Unlock()
	w := &BaseWriter{log: l, cut: cutLSN, seq: seq, random: newRandom(), nowMs: l.opt.NowMs()}
	w.chain = w.random
	w.name = d.logPath(tempPrefix + baseName(seq))
	var err error
	if w.file, err = d.fs.Create(w.name); err != nil {
		l.rewriting.Store(false)
		return nil, err
	}
	w.write(appendFileLine(nil, 1, w.random))
	return w, w.abortOn(w.err)
}

// Write adds whole commands, which are ops ops. payload is not kept. An error
// ends the rewrite; Abort is still to be called.
func (w *BaseWriter) Write(payload []byte, ops int) error {
	if w.err != nil || ops == 0 {
		return w.err
	}
	limit := w.log.opt.BlockBytes
	if len(w.payload)+len(payload) > limit {
		w.flush()
	}
	if len(payload) > limit {
		w.block(payload, ops)
		return w.err
	}
	w.payload = append(w.payload, payload...)
	w.pending += ops
	return w.err
}

func (w *BaseWriter) flush() {
	if w.pending > 0 {
		w.block(w.payload, w.pending)
		w.payload, w.pending = w.payload[:0], 0
	}
}

func (w *BaseWriter) block(payload []byte, ops int) {
	h := BlockHeader{FirstLSN: w.ops + 1, Ops: ops, UnixMs: w.nowMs, PayloadBytes: len(payload)}
	w.line = appendBlockLine(w.line[:0], &h)
	h.CRC = blockChecksum(w.random, w.line, payload)
	w.line = appendChecksum(w.line, h.CRC)
	w.write(w.line)
	w.write(payload)
	w.chain = chainChecksum(w.chain, h.CRC)
	w.ops += uint64(ops)
	if w.err == nil && w.bytes-w.synced >= baseSyncBytes {
		w.synced = w.bytes
		w.fail(w.file.SyncData())
	}
}

func (w *BaseWriter) write(b []byte) {
	if w.err != nil {
		return
	}
	w.bytes += int64(len(b))
	w.fail(writeAll(w.file, b))
}

func (w *BaseWriter) fail(err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("write the base %s: %w", w.name, err)
	}
}

// abortOn gives up the base if err is not nil, and returns err.
func (w *BaseWriter) abortOn(err error) error {
	if err != nil {
		w.Abort()
	}
	return err
}

// Abort gives up the base. The log is as it was before.
func (w *BaseWriter) Abort() {
	if w.file == nil {
		return
	}
	err := errors.Join(w.file.Close(), w.log.dir.fs.Remove(w.name))
	w.end()
	if err != nil {
		// The next open removes it.
		w.log.opt.Logger.Warn("an unfinished base cannot be removed", "file", w.name, "err", err)
	}
}

func (w *BaseWriter) end() {
	w.file = nil
	w.log.rewriting.Store(false)
}

// Commit makes the base and the segments behind its cut the log, durably, and
// moves the segments before it to feed/ or removes them. After an error the log
// is as it was before, or as it would have been; a restart finds one of them.
func (w *BaseWriter) Commit() error {
	if w.file == nil {
		return errors.New("aof: the base was ended before")
	}
	l, d := w.log, &w.log.dir
	w.flush()
	w.write(appendEndLine(nil, endLine{cut: w.cut, ops: w.ops}, w.chain))
	if w.err == nil {
		w.fail(w.file.Sync())
	}
	if err := w.abortOn(w.err); err != nil {
		return err
	}
	if err := w.abortOn(l.waitSegmentAfter(w.cut)); err != nil {
		return err
	}
	name := d.logPath(baseName(w.seq))
	if err := w.abortOn(d.fs.Rename(w.name, name)); err != nil {
		return err
	}
	// Bases are installed one after the other, so this one runs until it is.
	defer w.end()
	err := errors.Join(w.file.Close(), d.fs.SyncDir(d.logDir()))
	var old manifest
	if err == nil {
		old, err = w.install()
	}
	if err != nil {
		d.giveUp(l, baseName(w.seq))
		return err
	}
	d.retireBelow(l, w.cut, old)
	return nil
}

// install lists the base in place of what is before its cut, and returns what
// the manifest listed.
func (w *BaseWriter) install() (old manifest, err error) {
	d := &w.log.dir
	d.manifestMu.Lock()
	defer d.manifestMu.Unlock()
	old = d.manifest
	m := manifest{base: &manifestEntry{baseName(w.seq), w.seq}}
	below := d.seqsBelow(w.cut)
	for _, e := range old.segments {
		if !below[e.seq] && !d.foreign[e.seq] {
			m.segments = append(m.segments, e)
		}
	}
	if err := d.install(m); err != nil {
		return old, err
	}
	d.segMu.Lock()
	d.base = baseInfo{cut: w.cut, bytes: w.bytes, ops: w.ops}
	d.segMu.Unlock()
	return old, nil
}

// giveUp removes a base that could not be installed, so that failed rewrites do
// not fill the disk. Where the manifest may list it all the same, install does so
// once it lists another one.
func (d *directory) giveUp(l *Log, name string) {
	d.manifestMu.Lock()
	defer d.manifestMu.Unlock()
	m, _, err := readManifest(d.fs, d.logDir())
	if err != nil || m.base != nil && m.base.name == name {
		d.orphans = append(d.orphans, name)
		return
	}
	if err := d.fs.Remove(d.logPath(name)); err != nil {
		l.opt.Logger.Warn("a base that was given up cannot be removed", "file", name, "err", err)
	}
}

// seqsBelow returns the sequence numbers of the segments before a cut.
func (d *directory) seqsBelow(cut uint64) map[int64]bool {
	d.segMu.Lock()
	defer d.segMu.Unlock()
	seqs := map[int64]bool{}
	for _, s := range d.segments {
		if s.seq != 0 && s.first <= cut {
			seqs[s.seq] = true
		}
	}
	return seqs
}

// waitSegmentAfter returns once the segment that begins behind a cut is on disk
// and listed.
func (l *Log) waitSegmentAfter(cut uint64) error {
	for {
		l.dir.segMu.Lock()
		n := len(l.dir.segments)
		there := n > 0 && l.dir.segments[n-1].first > cut
		l.dir.segMu.Unlock()
		if there {
			return nil
		}
		if err := l.writeAll(); err != nil {
			return err
		}
	}
}

// retireBelow puts away what the manifest listed before a base as of cut was
// installed. What fails is done by the next open.
func (d *directory) retireBelow(l *Log, cut uint64, old manifest) {
	warn := func(name string, err error) {
		if err != nil {
			l.opt.Logger.Warn("a file that the rewritten log does not need cannot be put away", "file", name, "err", err)
		}
	}
	d.segMu.Lock()
	var below []*segment
	for _, s := range d.segments {
		if s.seq != 0 && s.first <= cut {
			below = append(below, s)
		}
	}
	d.segMu.Unlock()
	for _, s := range below {
		name := s.name
		warn(name, d.retire(s))
	}
	if old.base != nil {
		warn(old.base.name, d.fs.Remove(d.logPath(old.base.name)))
	}
	d.manifestMu.Lock()
	foreign := d.foreign
	d.foreign = nil
	d.manifestMu.Unlock()
	for _, e := range old.segments {
		if foreign[e.seq] {
			warn(e.name, d.fs.Remove(d.logPath(e.name)))
		}
	}
	warn(feedDirName, d.fs.SyncDir(d.feedDir()))
	warn(logDirName, d.fs.SyncDir(d.logDir()))
}
