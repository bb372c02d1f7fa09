package feed

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"kevy/internal/op"
	"kevy/persist"
)

// SnapshotReader reads a snapshot at its own pace. One goroutine at a time may
// use it; Close must end it.
type SnapshotReader struct {
	source   *Source
	snapshot *snapshot
	stream   int
	parts    *persist.SpoolReader
	n        uint64 // of the last part read
	all      bool   // was read
	durable  bool   // the cut was seen to be fsynced
	closed   bool

	ops      op.Scanner
	key      []byte // of the op before
	passes   bool   // it does
	gathered []byte // ops that pass
}

// SnapshotPart is a message of a snapshot: ops of one database. Those of a key
// follow each other, and may go on in the next part.
type SnapshotPart struct {
	// N is the number of the message: it rises, by one where the filter lets all
	// pass.
	N   uint64
	DB  int
	Ops int
	// Raw is the ops, each a RESP array of bulk strings. It is valid until the next
	// call.
	Raw []byte
}

// SnapshotRequest says what to read of a snapshot.
type SnapshotRequest struct {
	// Filter is the keys wanted, nil all; filters of values do not count.
	Filter *Filter
	// Durable waits until the cut is fsynced.
	Durable bool
	// Progress is how long to read on without an op that passes: then a part
	// without ops says how far the reader is. 0 sets no limit.
	Progress time.Duration
}

// snapshotMessageBytes is about how much is gathered for a message of what a filter
// lets pass.
const snapshotMessageBytes = 32 << 10

// Token returns what ResumeSnapshot takes.
func (r *SnapshotReader) Token() string { return r.snapshot.id + "-" + r.source.StreamName(r.stream) }

// Cursor returns where the stream goes on behind the cut.
func (r *SnapshotReader) Cursor() Cursor { return r.snapshot.cursors[r.stream] }

// LSN returns the last op before the cut.
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
		r.source.snapshots.leave(r.snapshot, r.all)
	}
}

// Next reads the next message into p; ok is false behind the last. It waits for
// what is not written yet. The errors are that of ctx, ErrNeedsLog, and why the
// snapshot has ended.
func (r *SnapshotReader) Next(ctx context.Context, req *SnapshotRequest, p *SnapshotPart) (ok bool, err error) {
	if req.Durable && !r.durable {
		if err := r.waitDurable(ctx); err != nil {
			return false, err
		}
	}
	patience := ctx
	if req.Progress > 0 {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, req.Progress)
		defer cancel()
	}
	*p = SnapshotPart{N: r.n}
	r.gathered = r.gathered[:0]
	for {
		part, err := r.parts.Peek(patience)
		switch {
		case err != nil && err == patience.Err() && ctx.Err() == nil:
			return true, nil // the part says how far it is
		case err != nil:
			return false, err
		case part == nil:
			r.all = p.Ops == 0
			return p.Ops > 0, nil
		case p.Ops > 0 && part.DB != p.DB:
			return true, nil
		}
		if err := r.pass(req.Filter, part, p); err != nil {
			return false, err
		}
		r.parts.Take()
		r.n = part.N
		p.N = r.n
		if p.Ops > 0 {
			if len(p.Raw) >= snapshotMessageBytes || len(r.gathered) == 0 {
				return true, nil
			}
			// What there is goes out before it waits for more.
			patience = expired
		} else if patience.Err() != nil && ctx.Err() == nil {
			return true, nil
		}
	}
}

// expired is a context for who does not wait.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// pass adds to p the ops of a part that the filter lets pass. All of them are not
// copied.
func (r *SnapshotReader) pass(f *Filter, part *persist.SpoolPart, p *SnapshotPart) error {
	if f != nil && !f.AllDBs && part.DB != f.DB {
		return nil
	}
	if f == nil || !f.selectsKeys() {
		p.DB, p.Ops, p.Raw = part.DB, part.Ops, part.Payload
		return nil
	}
	r.ops.Reset(part.Payload, part.DB)
	r.key = nil
	for {
		fr, err := r.ops.Next()
		if err != nil {
			return fmt.Errorf("read the file of the snapshot: %w", err)
		}
		if fr == nil {
			return nil
		}
		if key := fr.Key(); r.key == nil || !bytes.Equal(key, r.key) {
			r.key, r.passes = key, f.PassesKey(fr.DB, key)
		}
		if r.passes {
			r.gathered = append(r.gathered, fr.Raw...)
			p.DB, p.Raw = part.DB, r.gathered
			p.Ops++
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
