package feedhttp

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"kevy/feed"
	"kevy/internal/changejson"
	"kevy/internal/op"
)

// snapshotStart is a snapshot to begin with, or to go on with behind a message.
type snapshotStart struct {
	token string // empty for a new one
	after uint64
}

// snapshotID is what the ids of a snapshot's events begin with; the number of the
// message and the token follow. Those of others begin with a number.
const snapshotID = "snapshot:"

// snapshotOfID returns what the id of a snapshot's event goes on with; nil if it
// is one of another event.
func snapshotOfID(id string) (*snapshotStart, error) {
	rest, found := strings.CutPrefix(id, snapshotID)
	if !found {
		return nil, nil
	}
	n, token, found := strings.Cut(rest, ":")
	if !found {
		return nil, bad("Last-Event-ID is no id of a snapshot: %.100q", id)
	}
	after, err := parseNumber("Last-Event-ID", n)
	return &snapshotStart{token: token, after: after}, err
}

func (a *answer) openSnapshot() (*feed.SnapshotReader, error) {
	source, start := a.s.opt.Source, a.q.snapshot
	if a.req.Durable && source.NeverDurable() {
		return nil, feed.ErrNeedsLog
	}
	if start.token == "" {
		return source.Snapshot(a.q.stream, a.req.Filter)
	}
	r, err := source.ResumeSnapshot(a.q.stream, a.req.Filter, []byte(start.token), start.after)
	if err != nil && !errors.Is(err, feed.ErrNoSnapshot) {
		return nil, bad("%s", err) // the token, the number or the filters do not go together
	}
	return r, err
}

// state sends the state as of one cut. more says that frames follow from
// req.Cursor; the snapshot is then to be closed once they are held. An error
// means that the connection must break.
func (a *answer) state(ctx context.Context) (more bool, err error) {
	r, err := a.openSnapshot()
	if err != nil {
		return false, a.fail(err)
	}
	defer func() {
		if !more {
			r.Close()
		}
	}()
	a.begin()
	token := r.Token()
	a.line = changejson.AppendSnapshotStart(a.line[:0], a.name, token)
	a.snapshotEvent("snapshot-start", a.q.snapshot.after, token)
	req := feed.SnapshotRequest{Durable: a.req.Durable, Progress: a.q.heartbeat}
	var m feed.SnapshotMessage
	for {
		if err := a.flush(); err != nil {
			return false, err
		}
		ok, err := r.Next(ctx, &req, &m)
		switch {
		case err != nil:
			return false, a.fail(err)
		case !ok:
			at := r.Cursor()
			a.line = changejson.AppendSnapshotEnd(a.line[:0], a.name, token, at.Generation, at.Offset)
			a.kind("snapshot-end")
			a.data()
			if a.q.events {
				a.endEvent(at)
			}
			a.req.Cursor, a.told, a.snapshot = at, at, r
			return true, a.flush()
		case m.Ops == 0:
			a.stillHere()
		default:
			if err := a.message(token, &m); err != nil {
				return false, err
			}
		}
	}
}

// message sends one of a snapshot: a line for each op, or an event with these
// lines.
func (a *answer) message(token string, m *feed.SnapshotMessage) error {
	a.kind("snapshot")
	for rest := m.Raw; len(rest) > 0; {
		n, args, err := op.ReadCommand(rest, a.args[:0])
		if err != nil {
			return err
		}
		a.args, rest = args, rest[n:]
		a.line = changejson.AppendSnapshotOp(a.line[:0], a.name, token, m.N, m.DB, args)
		a.data()
	}
	a.snapshotEnd(m.N, token)
	return nil
}

// snapshotEvent writes the event of the line in a.line.
func (a *answer) snapshotEvent(kind string, n uint64, token string) {
	a.kind(kind)
	a.data()
	a.snapshotEnd(n, token)
}

// snapshotEnd ends an event, with the id from which the snapshot can be resumed.
func (a *answer) snapshotEnd(n uint64, token string) {
	if a.q.events {
		line := strconv.AppendUint(append(a.line[:0], "id: "+snapshotID...), n, 10)
		a.line = append(append(append(line, ':'), token...), "\n\n"...)
		_, _ = a.out.Write(a.line)
	}
}

// stillHere is a sign of life in a snapshot.
func (a *answer) stillHere() {
	if a.q.events {
		_, _ = a.out.WriteString(": heartbeat\n\n")
		return
	}
	a.line = changejson.AppendHeartbeat(a.line[:0], a.name)
	a.data()
}
