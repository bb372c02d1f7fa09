package changes

import (
	"kevy/feed"
	"kevy/internal/command"
	"kevy/resp"
)

// streamedSnapshotBytes is the size from which the ops of a message are not
// copied: they are one value, or nearly so.
const streamedSnapshotBytes = 1 << 20

// snapshot is the opening of a subscription that begins with the state of its
// stream.
type snapshot struct {
	reader *feed.SnapshotReader
	told   uint64 // number of the last message
}

// snapshotStart is what SNAPSHOT was given.
type snapshotStart struct {
	token []byte // nil for a new one
	after uint64
}

// takeSnapshotStart reads what follows SNAPSHOT: a token, which is no option, and
// a number.
func takeSnapshotStart(a *command.Args) *snapshotStart {
	start := &snapshotStart{}
	if a.More() && feed.IsSnapshotToken(a.Peek()) {
		start.token = a.Bytes()
		start.after = uint64(a.AtLeast(0, errSnapshotMessage))
	}
	return start
}

var errSnapshotMessage = resp.Errorf("ERR", "the number of a snapshot's message is out of range, must not be negative")

// open makes the opening of what is asked for. Of a new snapshot the cut is still
// to be taken.
func (start *snapshotStart) open(source *feed.Source, req *feed.Request) (*snapshot, error) {
	if req.Durable && source.NeverDurable() {
		return nil, feed.ErrNeedsLog
	}
	if start.token == nil {
		r, err := source.Snapshot(req.Stream, req.Filter)
		return &snapshot{reader: r}, err
	}
	r, err := source.ResumeSnapshot(req.Stream, req.Filter, start.token, start.after)
	return &snapshot{reader: r, told: start.after}, err
}

// run implements opening.
func (o *snapshot) run(s *subscription) (feed.Cursor, error) {
	at, err := o.send(s)
	if err != nil {
		return at, err
	}
	return at, s.deliver("changes-snapshot-end", 4, func(w *resp.Writer) {
		w.Int(int64(at.Generation))
		w.Int(int64(at.Offset))
	})
}

// send sends all messages but the last.
func (o *snapshot) send(s *subscription) (at feed.Cursor, err error) {
	err = s.deliver("changes-snapshot-start", 3, func(w *resp.Writer) { w.BulkString(o.reader.Token()) })
	req := feed.SnapshotRequest{Durable: s.req.Durable, Progress: s.heartbeat}
	var m feed.SnapshotMessage
	for err == nil {
		// What there is goes out before it waits for more, be that messages or credit.
		if err = s.send(); err == nil {
			err = s.credit()
		}
		var ok bool
		if err == nil {
			ok, err = o.reader.Next(s.ctx, &req, &m)
		}
		switch {
		case err != nil:
		case !ok:
			return o.reader.Cursor(), nil
		case m.Ops == 0 && !s.always && m.N == o.told:
		default:
			o.told = m.N
			err = o.message(s, &m)
		}
	}
	return at, err
}

// message sends a message, or, as one without ops, how far the reader is.
func (o *snapshot) message(s *subscription, m *feed.SnapshotMessage) error {
	large := len(m.Raw) >= streamedSnapshotBytes
	err := s.deliver("changes-snapshot", 5, func(w *resp.Writer) {
		w.Int(int64(m.N))
		w.Int(int64(m.DB))
		w.Array(m.Ops)
		if !large {
			w.Raw(m.Raw)
		}
	})
	if err != nil || !large {
		return err
	}
	if err := s.part(); err != nil {
		return err
	}
	if !s.subs.out.Push(m.Raw) {
		return errGone
	}
	return s.send()
}

// over implements opening.
func (o *snapshot) over() <-chan struct{} { return o.reader.Over() }

// err implements opening.
func (o *snapshot) err() error { return o.reader.Err() }

// close implements opening.
func (o *snapshot) close() { o.reader.Close() }

// writeSnapshots writes those that are read or may be resumed, for INFO.
func writeSnapshots(w *resp.Writer, list []feed.SnapshotInfo) {
	w.Array(len(list))
	for i := range list {
		s := &list[i]
		w.Map(6)
		writeField(w, "cut-lsn", int64(s.LSN))
		writeField(w, "readers", int64(s.Readers))
		writeField(w, "file-bytes", s.Bytes)
		written := int64(0)
		if s.Written {
			written = 1
		}
		writeField(w, "written", written)
		writeField(w, "log-bytes", s.LogBytes)
		w.BulkString("age-seconds")
		w.Double(s.Age.Seconds())
	}
}
