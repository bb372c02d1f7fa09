package feed

import (
	"bytes"
	"context"
	"fmt"
	"sort"
	"time"

	"kevy/internal/alarm"
	"kevy/internal/op"
	"kevy/persist"
)

// SnapshotReader reads a snapshot at its own pace. One goroutine at a time may
// use it; Close must end it.
type SnapshotReader struct {
	source   *Source
	snapshot *snapshot
	stream   int
	filter   *Filter
	print    string // of the filter
	parts    *persist.SpoolReader
	rest     *alarm.Rest // while parts are read
	all      bool        // was read
	durable  bool        // the cut was seen to be fsynced
	closed   bool

	n        uint64 // of the last message
	behind   uint64 // messages up to this one are passed over
	taken    uint64 // parts read
	gathered []byte // ops of the message in hand
	ops, db  int    // of it

	scanner op.Scanner
	key     []byte // of the op before
	passes  bool   // it does
}

// SnapshotMessage is what a reader of a snapshot is given at a time: ops of one
// database. Those of a key follow each other, and may go on in the next message.
type SnapshotMessage struct {
	// N counts the messages from 1. Without ops, N is that of the one before.
	N   uint64
	DB  int
	Ops int
	// Raw is the ops, each a RESP array of bulk strings. It is valid until the next
	// call.
	Raw []byte
}

// SnapshotRequest says how to read on in a snapshot.
type SnapshotRequest struct {
	// Durable waits until the cut is fsynced.
	Durable bool
	// Progress is how long to wait and read on for a message: then one without ops
	// comes. 0 sets no limit.
	Progress time.Duration
}

const (
	// snapshotMessageBytes ends a message that is gathered from what passes a key
	// filter; otherwise it is a part of the spool.
	snapshotMessageBytes = 32 << 10
	// So many messages or parts of the spool lie between two borders that are
	// remembered: what a reader passes over at most that is resumed.
	borderMessages = 64
	borderParts    = 1024
	// maxBorders is for how many different streams and filters a snapshot remembers
	// borders; readers with others are resumed from the beginning of the file.
	maxBorders = 256
)

// Token returns what ResumeSnapshot takes.
func (r *SnapshotReader) Token() string {
	return r.snapshot.id + "-" + r.source.StreamName(r.stream) + "-" + r.print
}

// Wait returns once the cut is taken. The errors are that of ctx, and why the
// snapshot has ended.
func (r *SnapshotReader) Wait(ctx context.Context) error {
	if r.parts != nil {
		return nil
	}
	sn := r.snapshot
	select {
	case <-sn.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	if sn.spool == nil {
		return r.source.snapshots.failure(sn)
	}
	r.parts = sn.spool.NewReader(r.shard(), 0)
	return nil
}

// Over returns a channel that is closed when the snapshot ends before its time; Err
// then says why, and Next too.
func (r *SnapshotReader) Over() <-chan struct{} { return r.snapshot.over }

// Err returns why the snapshot has ended before its time, nil if it has not.
func (r *SnapshotReader) Err() error { return r.source.snapshots.failure(r.snapshot) }

// Cursor returns where the stream goes on behind the cut, which Wait or Next has
// waited for.
func (r *SnapshotReader) Cursor() Cursor { return r.snapshot.cursors[r.stream] }

// LSN returns the last op before the cut, which Wait or Next has waited for.
func (r *SnapshotReader) LSN() uint64 { return r.snapshot.lsn }

// shard returns which parts of the spool are the stream's.
func (r *SnapshotReader) shard() int {
	if r.stream == r.source.shards {
		return persist.AllShards
	}
	return r.stream
}

// Close ends the reading. The log is kept from the cut on until then, so a reader
// is closed once it has caught up with the stream behind the cut. For a minute
// more the snapshot can be resumed.
func (r *SnapshotReader) Close() {
	if !r.closed {
		r.closed = true
		r.endRest()
		r.source.snapshots.leave(r.snapshot, r.all)
	}
}

func (r *SnapshotReader) endRest() {
	if r.rest != nil {
		r.rest.Close()
		r.rest = nil
	}
}

// Next reads the next message into m; ok is false behind the last. It waits for
// the cut, and for what is not written yet. The errors are that of ctx,
// ErrNeedsLog, and why the snapshot has ended.
func (r *SnapshotReader) Next(ctx context.Context, req *SnapshotRequest, m *SnapshotMessage) (ok bool, err error) {
	patience := ctx
	if req.Progress > 0 {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, req.Progress)
		defer cancel()
	}
	*m = SnapshotMessage{N: max(r.n, r.behind)}
	for ok, err = r.next(patience, req.Durable, m); ok && m.N <= r.behind; {
		ok, err = r.next(patience, req.Durable, m)
	}
	if err == nil && !ok && r.n < r.behind {
		return false, &SnapshotMessageError{r.behind}
	}
	if err != nil && err == patience.Err() && ctx.Err() == nil {
		return true, nil // what is gathered stays for the next call
	}
	return ok, err
}

// next is Next without regard to Progress. What makes up a message depends on the
// file and the filter alone, so that a message keeps its number.
func (r *SnapshotReader) next(ctx context.Context, durable bool, m *SnapshotMessage) (ok bool, err error) {
	if err := r.Wait(ctx); err != nil {
		return false, err
	}
	if durable && !r.durable {
		if err := r.waitDurable(ctx); err != nil {
			return false, err
		}
	}
	if r.ops == 0 {
		r.gathered = r.gathered[:0] // they were of the message before
	}
	for ctx.Err() == nil {
		part, err := r.parts.Peek(ctx)
		switch {
		case err != nil:
			return false, err
		case part == nil && r.ops == 0:
			r.all = true
			r.endRest()
			return false, nil
		case part == nil, r.ops > 0 && part.DB != r.db:
			r.message(m, r.gathered)
			return true, nil
		}
		r.parts.Take()
		r.taken = part.N
		if r.rest == nil {
			r.rest = alarm.NewRest(nil)
		}
		r.rest.Look()
		switch {
		case !r.filter.passesDB(part.DB):
		case r.filter == nil || !r.filter.selectsKeys():
			r.db, r.ops = part.DB, part.Ops
			r.message(m, part.Payload)
			return true, nil
		default:
			if err := r.gather(part); err != nil {
				return false, err
			}
			if len(r.gathered) >= snapshotMessageBytes {
				r.message(m, r.gathered)
				return true, nil
			}
		}
	}
	return false, ctx.Err()
}

// message makes the message in hand m.
func (r *SnapshotReader) message(m *SnapshotMessage, raw []byte) {
	r.n++
	*m = SnapshotMessage{N: r.n, DB: r.db, Ops: r.ops, Raw: raw}
	r.ops = 0
	r.snapshot.noteMessage(r.kind(), border{r.n, r.taken})
}

// gather adds the ops of a part that pass to the message in hand.
func (r *SnapshotReader) gather(part *persist.SpoolPart) error {
	r.scanner.Reset(part.Payload, part.DB)
	r.key = nil
	for {
		fr, err := r.scanner.Next()
		if err != nil {
			return fmt.Errorf("read the file of the snapshot: %w", err)
		}
		if fr == nil {
			return nil
		}
		if !fr.Verb.Keyed() {
			// A library of functions, which stands in the parts of every shard.
			if r.stream == r.source.shards && part.Shard != 0 {
				continue
			}
			r.key, r.passes = nil, true
		} else if key := fr.Key(); r.key == nil || !bytes.Equal(key, r.key) {
			r.key, r.passes = key, r.filter.PassesKey(fr.DB, key)
		}
		if r.passes {
			r.gathered = append(r.gathered, fr.Raw...)
			r.db = part.DB
			r.ops++
		}
	}
}

// waitDurable returns once all that the snapshot shows is fsynced.
func (r *SnapshotReader) waitDurable(ctx context.Context) error {
	s := r.source
	if s.opt.NeverDurable {
		return ErrNeedsLog
	}
	for s.archive.Durable() < r.snapshot.lsn {
		if err := s.snapshots.failure(r.snapshot); err != nil {
			return err
		}
		// Nothing announces that the log was fsynced.
		if err := s.pause(ctx, durablePause); err != nil {
			return err
		}
	}
	r.durable = true
	return nil
}

// kind says which readers get the same messages.
func (r *SnapshotReader) kind() string { return r.source.StreamName(r.stream) + "-" + r.print }

// borders says where messages end that readers of one stream with one filter get.
type borders struct {
	n     uint64 // of the last message that one of them has got
	marks []border
}

// border says that message n ends behind so many parts.
type border struct{ n, parts uint64 }

// noteMessage notes where a message ends.
func (sn *snapshot) noteMessage(of string, at border) {
	sn.bordersMu.Lock()
	defer sn.bordersMu.Unlock()
	b := sn.borders[of]
	if b == nil {
		if len(sn.borders) >= maxBorders || at.n > 1 {
			return
		}
		if sn.borders == nil {
			sn.borders = map[string]*borders{}
		}
		b = &borders{marks: []border{{}}}
		sn.borders[of] = b
	}
	if at.n != b.n+1 {
		return // another one is ahead
	}
	b.n = at.n
	if last := b.marks[len(b.marks)-1]; at.n-last.n >= borderMessages || at.parts-last.parts >= borderParts {
		b.marks = append(b.marks, at)
	}
}

// borderBefore returns the last place remembered up to the end of message n; ok is
// false if nobody has got such a message.
func (sn *snapshot) borderBefore(of string, n uint64) (at border, ok bool) {
	sn.bordersMu.Lock()
	defer sn.bordersMu.Unlock()
	b := sn.borders[of]
	if b == nil {
		// None may have been sent, or there are too many filters to know.
		return border{}, n == 0 || len(sn.borders) >= maxBorders
	}
	i := sort.Search(len(b.marks), func(i int) bool { return b.marks[i].n > n })
	return b.marks[i-1], n <= b.n
}

// resume makes the reader go on behind message n.
func (r *SnapshotReader) resume(n uint64) error {
	at, ok := r.snapshot.borderBefore(r.kind(), n)
	if !ok {
		return &SnapshotMessageError{n}
	}
	r.parts = r.snapshot.spool.NewReader(r.shard(), at.parts)
	r.n, r.taken, r.behind = at.n, at.parts, n
	return nil
}
