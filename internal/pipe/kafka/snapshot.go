package kafka

import (
	"context"
	"fmt"
	"time"

	"kevy/changes"
)

// snapshot is one that has begun: its records go out in transactions of some MiB,
// so that consumers see it grow. While it lasts the stream has the cursor
// underWay, so that a pipe which is started again begins another snapshot rather than
// go on from a cursor before this one.
type snapshot struct {
	token string
	b     *batch
}

// underWay is in no history: generations count seconds in their high bits.
var underWay = mark{Generation: 1}

// SnapshotStart lets go of the cursor of a stream and says that its state
// follows: a consumer of a history forgets what it holds.
func (s *Sink) SnapshotStart(ctx context.Context, stream, token string) error {
	if err := s.router.admit(stream); err != nil {
		return err
	}
	b := newBatch()
	b.cursors[stream] = underWay
	delete(s.idle, stream)
	if s.o.Mode == Changelog {
		s.state.beginSnapshot(stream)
	} else {
		value := b.bytesOf(func(d []byte) []byte { return s.o.Form.AppendSnapshotStart(d, stream, token) })
		b.record(s.router, stream, nil, value, time.Now(), b.snapshotHeaders("start", stream, token, 0))
	}
	if err := s.commit(ctx, b); err != nil {
		return err
	}
	s.snapshots[stream] = &snapshot{token: token, b: newBatch()}
	return nil
}

// SnapshotPart keeps the records of a part, and writes what it has once that is
// worth a transaction.
func (s *Sink) SnapshotPart(ctx context.Context, p *changes.SnapshotPart) error {
	snap, err := s.snapshot(p.Stream)
	if err != nil {
		return err
	}
	now := time.Now()
	for i, args := range p.Ops {
		f := changes.Frame{Args: args, DB: p.DB}
		if s.o.Mode == Changelog {
			if err := s.state.apply(p.Stream, &f); err != nil {
				return err
			}
			continue
		}
		b := snap.b
		value := b.bytesOf(func(d []byte) []byte { return s.o.Form.AppendSnapshotOp(d, p, i) })
		b.record(s.router, p.Stream, f.Key(), value, now, b.snapshotHeaders("state", p.Stream, snap.token, p.DB))
	}
	if snap.b.bytes < maxTransactionBytes {
		return nil
	}
	b := snap.b
	snap.b = newBatch()
	return s.commit(ctx, b)
}

// SnapshotEnd writes what is left and, with it, the cursor that goes on from
// the snapshot.
func (s *Sink) SnapshotEnd(ctx context.Context, stream string, at changes.Cursor) error {
	snap, err := s.snapshot(stream)
	if err != nil {
		return err
	}
	b := snap.b
	if s.o.Mode == Changelog {
		if b, err = s.endChangelogSnapshot(ctx, stream, snap); err != nil {
			return err
		}
	} else {
		value := b.bytesOf(func(d []byte) []byte { return s.o.Form.AppendSnapshotEnd(d, stream, snap.token, at) })
		b.record(s.router, stream, nil, value, time.Now(), b.snapshotHeaders("end", stream, snap.token, 0))
	}
	b.cursors[stream] = mark{Generation: at.Generation, Offset: at.Offset}
	if err := s.commit(ctx, b); err != nil {
		return err
	}
	delete(s.snapshots, stream)
	return nil
}

func (s *Sink) snapshot(stream string) (*snapshot, error) {
	if snap := s.snapshots[stream]; snap != nil {
		return snap, nil
	}
	return nil, fmt.Errorf("kafka: a part of a snapshot of stream %s, of which none has begun", stream)
}
