package aof

import (
	"errors"
	"time"
)

// Close writes and fsyncs what was appended and ends the log. No commit may be
// appended any more, and no base be in progress. The error says that something
// that was appended is not durable; no clean close may be marked then. Readers
// go on reading until they are closed.
func (l *Log) Close() (Tail, error) {
	l.writer.take()
	if l.closed.Swap(true) {
		l.writer.giveBack()
		return Tail{}, ErrClosed
	}
	var err error
	if !l.opt.NoFile {
		err = l.writeEverything()
	}
	next := l.out.next
	l.out.next = nil
	close(l.stop)
	l.writer.giveBack()
	l.running.Wait()

	l.syncer.take()
	defer l.syncer.giveBack()
	if next != nil && next.err == nil {
		_ = next.file.Close() // what counts in it is durable
		if next.segment == nil {
			_ = l.dir.fs.Remove(next.name) // or else the next open does
		}
	}
	if l.file != nil {
		err = errors.Join(err, l.syncFile())
		err = errors.Join(err, l.file.Close())
		l.file = nil
	}
	if err != nil {
		return Tail{}, err
	}
	return l.out.tail, nil
}

// writeEverything writes until nothing is left. The caller has the writer's
// turn.
func (l *Log) writeEverything() error {
	for {
		if err := l.writePending(); err != nil {
			return err
		}
		l.mu.Lock()
		l.out.batch = l.mem.unwritten(l.out.batch[:0])
		left := len(l.out.batch)
		l.mu.Unlock()
		if left == 0 {
			return nil
		}
	}
}

// Status describes the log, for INFO.
type Status struct {
	Policy                 Policy
	Last, Written, Durable uint64 // LSNs
	OldestLSN              uint64 // that readers can read
	UnwrittenBytes         int64
	MemoryBytes            int64
	BaseBytes              int64
	BaseOps                uint64
	BaseLSN                uint64
	LogBytes               int64 // of the segments behind the base
	FeedBytes              int64 // of the segments below it
	Segments, FeedSegments int
	Rewriting              bool
	Fsyncs                 uint64
	LastFsync              time.Duration // how long it took
	LastFsyncAt            time.Time
	// Err is why the log cannot be written, nil if it can.
	Err error
}

// Status returns the state of the log.
func (l *Log) Status() Status {
	s := Status{
		Policy:         l.Policy(),
		Durable:        l.durable.Load(),
		Written:        l.written.Load(),
		Last:           l.last.Load(),
		OldestLSN:      l.OldestLSN(),
		UnwrittenBytes: l.unwrittenBytes.Load(),
		Rewriting:      l.rewriting.Load(),
		Err:            l.Err(),
	}
	l.mu.Lock()
	s.MemoryBytes = l.mem.bytes
	l.mu.Unlock()
	l.syncs.mu.Lock()
	s.Fsyncs, s.LastFsync, s.LastFsyncAt = l.syncs.count, l.syncs.last, l.syncs.lastAt
	l.syncs.mu.Unlock()
	d := &l.dir
	d.segMu.Lock()
	defer d.segMu.Unlock()
	s.BaseBytes, s.BaseOps, s.BaseLSN = d.base.bytes, d.base.ops, d.base.cut
	for _, seg := range d.segments {
		if seg.seq == 0 {
			s.FeedBytes += seg.bytes
			s.FeedSegments++
			continue
		}
		s.LogBytes += seg.bytes
		s.Segments++
	}
	return s
}
