// Package nats is where a pipe of changes goes to NATS JetStream. Every message
// is published on the condition that the one before it is the last of the
// stream, and has its cursor as its id: so order is kept, nothing is stored twice
// however long ago it was first tried, and after any failure the stream's last message
// says how far the pipe got.
package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kevy/changes"
)

// The headers of a message, in text.
const (
	HeaderPipe     = "Kevy-Pipe"     // the pipe's name
	HeaderStream   = "Kevy-Stream"   // of the store, that the frame was read from
	HeaderCursor   = "Kevy-Cursor"   // generation:offset of the frame; of a snapshot's end, where to go on
	HeaderFirst    = "Kevy-First"    // offset of the first frame of its commit
	HeaderLast     = "Kevy-Last"     // offset of the last one
	HeaderLSN      = "Kevy-Lsn"      // number of the op in the server's log
	HeaderTime     = "Kevy-Time"     // of the commit, in Unix milliseconds
	HeaderDB       = "Kevy-Db"       // number of the database
	HeaderCause    = "Kevy-Cause"    // user, expired or evicted
	HeaderSnapshot = "Kevy-Snapshot" // of what a snapshot made: start, state or end
	HeaderToken    = "Kevy-Token"    // the snapshot's name
)

const (
	// window is how many messages are on their way at a time.
	window = 1024
	// windowBytes is how many bytes of data they have, beyond that of one.
	windowBytes = 8 << 20

	// bucket holds the cursors that moved without messages.
	bucket    = "kevy-pipe"
	idleEvery = 2 * time.Second

	connectTimeout = 5 * time.Second
	requestTimeout = 5 * time.Second
	ackTimeout     = 10 * time.Second
	maxBackoff     = 5 * time.Second // between two attempts
)

// Sink writes to one stream of JetStream. It is used by one goroutine.
type Sink struct {
	o       Options
	subject subject

	conn       *natsgo.Conn     // nil until the next attempt
	lost       chan struct{}    // closed once conn is
	inbox      string           // the beginning of the subjects of answers
	answers    chan *natsgo.Msg // to what was published
	js         jetstream.JetStream
	stream     jetstream.Stream
	kv         jetstream.KeyValue // nil if there is no permission
	maxPayload int

	lastSeq uint64            // of the stream
	lastID  map[string]string // of the last message in it of each stream of the store

	skip  map[string]changes.Cursor // frames of these streams up to here are in the stream
	idle  map[string]idleCursor
	moved time.Time
	every time.Duration // idleEvery
	// consumed says that consumers take messages out of the stream, so that its
	// last one cannot be relied on.
	consumed bool

	snapshots map[string]string // the tokens of those that have begun, by stream
}

// idleCursor is a cursor as the bucket keeps it: it counts while the message
// with the id Of is the last one of the stream.
type idleCursor struct {
	Generation uint64 `json:"generation"`
	Offset     uint64 `json:"offset"`
	Of         string `json:"of"`
}

// message is what goes out.
type message struct {
	id      string
	stream  string         // of the store
	at      changes.Cursor // of a frame, else zero
	subject string
	header  natsgo.Header
	data    []byte
}

// New checks the options. It does not connect.
func New(o Options) (*Sink, error) {
	s, err := o.complete()
	if err != nil {
		return nil, err
	}
	return &Sink{o: o, subject: s, lastID: map[string]string{}, skip: map[string]changes.Cursor{}, idle: map[string]idleCursor{}, snapshots: map[string]string{}, every: idleEvery}, nil
}

// Resume connects, creates the stream if it is missing, and says how far it
// got. It waits for servers that are away until ctx ends.
func (s *Sink) Resume(ctx context.Context) (map[string]changes.Cursor, bool, error) {
	at := map[string]changes.Cursor{}
	err := s.insist(ctx, func() error {
		if err := s.connect(ctx); err != nil {
			return err
		}
		return s.settled(ctx, func() error {
			clear(at)
			clear(s.skip)
			clear(s.lastID)
			for _, stream := range s.o.Streams {
				if err := s.resume(ctx, stream, at); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, false, err
	}
	return at, true, nil
}

// resume finds the cursor of one stream.
func (s *Sink) resume(ctx context.Context, stream string, at map[string]changes.Cursor) error {
	last, err := s.last(ctx, stream)
	if err != nil {
		return err
	}
	var kept *idleCursor
	if s.kv != nil {
		if kept, err = s.kept(ctx, stream); err != nil {
			return err
		}
	}
	if last == nil {
		// Messages may be gone by age or because consumers took them; the bucket
		// then says where the pipe was, or a little before.
		if kept != nil {
			at[stream] = changes.Cursor{Generation: kept.Generation, Offset: kept.Offset}
		}
		return nil
	}
	if name := last.Header.Get(HeaderPipe); name != "" && name != s.o.ID {
		return permanentf("stream %s was written by the pipe %q, and this is %q: take that name, or another stream", s.o.Stream, name, s.o.ID)
	}
	s.lastID[stream] = last.Header.Get(natsgo.MsgIdHdr)
	if last.Header.Get(HeaderSnapshot) != "" && last.Header.Get(HeaderSnapshot) != "end" {
		if !s.o.Snapshot {
			return permanentf("a snapshot into stream %s was begun and not ended: start with --snapshot, or take another stream", s.o.Stream)
		}
		return nil
	}
	c, err := changes.ParseCursor(last.Header.Get(HeaderCursor))
	if err != nil {
		return permanentf("the last message of stream %s has no %s: somebody else writes to %s", s.o.Stream, HeaderCursor, s.subject.filter(stream))
	}
	switch {
	case kept != nil && kept.Of == last.Header.Get(natsgo.MsgIdHdr):
		c = changes.Cursor{Generation: kept.Generation, Offset: kept.Offset}
	case last.Header.Get(HeaderSnapshot) == "":
		s.skip[stream] = c
		end, err1 := strconv.ParseUint(last.Header.Get(HeaderLast), 10, 64)
		first, err2 := strconv.ParseUint(last.Header.Get(HeaderFirst), 10, 64)
		if err1 != nil || err2 != nil {
			return permanentf("the last message of stream %s has no %s and %s", s.o.Stream, HeaderFirst, HeaderLast)
		}
		if c.Offset == end {
			c.Offset++
		} else {
			c.Offset = first // in the middle of a commit: what is there is skipped
		}
	}
	at[stream] = c
	return nil
}

// last returns the last message of a stream of the store, nil if there is none.
func (s *Sink) last(ctx context.Context, stream string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m, err := s.stream.GetLastMsgForSubject(ctx, s.subject.filter(stream))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, err
}

func (s *Sink) kvKey(stream string) string {
	return kvToken(s.o.Stream) + "." + kvToken(s.o.ID) + "." + stream
}

// kvToken is a name as part of a key of a bucket, which may have fewer
// characters than a subject.
func kvToken(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	return b.String()
}

func (s *Sink) kept(ctx context.Context, stream string) (*idleCursor, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	e, err := s.kv.Get(ctx, s.kvKey(stream))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c idleCursor
	if err := json.Unmarshal(e.Value(), &c); err != nil {
		return nil, permanentf("the cursor in the bucket %s, %s, is not one: %w", bucket, s.kvKey(stream), err)
	}
	return &c, nil
}

// Write publishes the frames of commits, and returns when JetStream has them. A commit
// without frames moves the cursor in the bucket, if only every few seconds.
func (s *Sink) Write(ctx context.Context, commits []*changes.Commit) error {
	var batch []message
	bytes := 0
	flush := func() error {
		err := s.publish(ctx, batch)
		batch, bytes = batch[:0], 0
		return err
	}
	for _, c := range commits {
		for i := range c.Frames {
			f := &c.Frames[i]
			if at, ok := s.skip[c.Stream]; ok && at.Generation == c.Generation && f.Offset <= at.Offset {
				continue
			}
			m := s.frame(c, i)
			batch = append(batch, m)
			if bytes += len(m.data); len(batch) == window || bytes >= windowBytes {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	for _, c := range commits {
		s.idle[c.Stream] = idleCursor{Generation: c.Next.Generation, Offset: c.Next.Offset}
	}
	if s.consumed || time.Since(s.moved) >= s.every {
		return s.keep(ctx)
	}
	return nil
}

// keep writes the cursors to the bucket.
func (s *Sink) keep(ctx context.Context) error {
	if len(s.idle) == 0 {
		return nil
	}
	s.moved = time.Now()
	return s.insist(ctx, func() error {
		if err := s.connect(ctx); err != nil {
			return err
		}
		if s.kv == nil {
			return nil
		}
		for stream, c := range s.idle {
			last, err := s.last(ctx, stream)
			if err != nil {
				return err
			}
			if last != nil {
				if c.Of = last.Header.Get(natsgo.MsgIdHdr); c.Of != s.lastID[stream] {
					continue // somebody else's, who is ahead: the message says more
				}
			}
			value, err := json.Marshal(c)
			if err != nil {
				return err
			}
			rctx, cancel := context.WithTimeout(ctx, requestTimeout)
			_, err = s.kv.Put(rctx, s.kvKey(stream), value)
			cancel()
			if err != nil {
				return err
			}
			delete(s.idle, stream)
		}
		return nil
	})
}

// frame makes the message of frame i of a commit.
func (s *Sink) frame(c *changes.Commit, i int) message {
	f := &c.Frames[i]
	cursor := changes.Cursor{Generation: c.Generation, Offset: f.Offset}
	at := cursor.String()
	cause := f.Cause
	if cause == "" {
		cause = changes.User
	}
	return message{
		id:      c.Stream + " " + at,
		stream:  c.Stream,
		at:      cursor,
		subject: s.subject.of(c.Stream, f.DB, f),
		data:    s.o.Form.AppendFrame(nil, c, i),
		header: natsgo.Header{
			HeaderStream: {c.Stream},
			HeaderCursor: {at},
			HeaderFirst:  {strconv.FormatUint(c.First, 10)},
			HeaderLast:   {strconv.FormatUint(c.Last, 10)},
			HeaderLSN:    {strconv.FormatUint(f.LSN, 10)},
			HeaderTime:   {strconv.FormatInt(f.Time.UnixMilli(), 10)},
			HeaderDB:     {strconv.Itoa(f.DB)},
			HeaderCause:  {string(cause)},
		},
	}
}

// SnapshotStart says that the state of a stream follows: a consumer forgets what
// it holds.
func (s *Sink) SnapshotStart(ctx context.Context, stream, token string) error {
	s.snapshots[stream] = token
	delete(s.idle, stream)
	delete(s.skip, stream)
	return s.publish(ctx, []message{s.enclosing("start", stream, token, changes.Cursor{}, s.o.Form.AppendSnapshotStart(nil, stream, token))})
}

// SnapshotPart publishes the ops of a part.
func (s *Sink) SnapshotPart(ctx context.Context, p *changes.SnapshotPart) error {
	if s.snapshots[p.Stream] == "" {
		return fmt.Errorf("nats: a part of a snapshot of stream %s, of which none has begun", p.Stream)
	}
	batch := make([]message, 0, min(len(p.Ops), window))
	bytes := 0
	for i, args := range p.Ops {
		f := changes.Frame{Args: args, DB: p.DB}
		m := message{
			id:      fmt.Sprintf("%s snapshot %s %d.%d", p.Stream, s.snapshots[p.Stream], p.N, i),
			stream:  p.Stream,
			subject: s.subject.of(p.Stream, p.DB, &f),
			data:    s.o.Form.AppendSnapshotOp(nil, p, i),
			header: natsgo.Header{
				HeaderStream: {p.Stream}, HeaderDB: {strconv.Itoa(p.DB)}, HeaderSnapshot: {"state"}, HeaderToken: {s.snapshots[p.Stream]},
			},
		}
		batch = append(batch, m)
		if bytes += len(m.data); len(batch) == window || bytes >= windowBytes {
			if err := s.publish(ctx, batch); err != nil {
				return err
			}
			batch, bytes = batch[:0], 0
		}
	}
	return s.publish(ctx, batch)
}

// SnapshotEnd says that the state is whole, and where the changes of it go on.
func (s *Sink) SnapshotEnd(ctx context.Context, stream string, at changes.Cursor) error {
	token := s.snapshots[stream]
	if token == "" {
		return fmt.Errorf("nats: the end of a snapshot of stream %s, of which none has begun", stream)
	}
	delete(s.snapshots, stream)
	return s.publish(ctx, []message{s.enclosing("end", stream, token, at, s.o.Form.AppendSnapshotEnd(nil, stream, token, at))})
}

func (s *Sink) enclosing(what, stream, token string, at changes.Cursor, data []byte) message {
	m := message{
		id:      fmt.Sprintf("%s snapshot %s %s", stream, token, what),
		stream:  stream,
		subject: s.subject.of(stream, 0, &changes.Frame{}),
		data:    data,
		header:  natsgo.Header{HeaderStream: {stream}, HeaderSnapshot: {what}, HeaderToken: {token}},
	}
	if !at.IsZero() {
		m.header.Set(HeaderCursor, at.String())
	}
	return m
}

// Close writes the cursors that moved since they were written last, and ends the
// connection.
func (s *Sink) Close(ctx context.Context) error {
	var err error
	if s.conn != nil {
		err = s.keep(ctx)
	}
	s.drop()
	return err
}
