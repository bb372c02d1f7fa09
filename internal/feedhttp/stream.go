package feedhttp

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"kevy/feed"
	"kevy/internal/changejson"
	"kevy/internal/command/changes"
	"kevy/internal/op"
)

const (
	// path is the only one there is.
	path = "/changes"
	// readBytes is how much of the log one read takes, so that memory does not grow
	// with what was asked for. A commit is read whole.
	readBytes = 256 << 10
	// gatherBytes is how much is gathered before it is sent.
	gatherBytes = 32 << 10
	// keptLineBytes is the largest buffer that is kept for the next line.
	keptLineBytes = 1 << 20
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.opt.LocalOnly() && !namesThisMachine(r.Host):
		answerError(w, http.StatusForbidden, bad("protected-mode serves requests to an address or localhost, not to %.100q", valid(r.Host)))
		return
	case r.URL.Path != path:
		answerError(w, http.StatusNotFound, bad("there is nothing but %s", path))
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		answerError(w, http.StatusMethodNotAllowed, bad("the method is GET"))
		return
	case r.ContentLength != 0:
		// net/http waits for a body before it goes on, however long.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		w.Header().Set("Connection", "close")
		answerError(w, http.StatusBadRequest, bad("a request has no body"))
		return
	}
	reader, ok := s.login(w, r)
	if !ok {
		return
	}
	q, err := s.parse(r)
	if err != nil {
		answerError(w, statusOf(err), err)
		return
	}
	ctx, done, ok := while(r.Context(), w, reader, q)
	if !ok {
		return
	}
	defer done()
	a := newAnswer(s, w, r, q)
	if q.follow {
		err = a.follow(ctx)
	} else {
		err = a.once(ctx)
	}
	if err != nil {
		// What was sent ends in the middle. Only a connection that breaks says so.
		panic(http.ErrAbortHandler)
	}
}

func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return "?"
}

// answer is the answer to one request.
type answer struct {
	s     *Server
	q     *query
	w     http.ResponseWriter
	rc    *http.ResponseController
	out   *bufio.Writer
	name  string // of the stream
	begun bool   // the status is out
	addr  string // of the client

	req   feed.Request
	batch feed.Batch
	args  [][]byte
	line  []byte
	// For an answer that follows:
	snapshot *feed.SnapshotReader // nil without one
	follower *feed.Follower
	id       uint64                        // set before it is listed
	reader   atomic.Pointer[feed.Follower] // is follower, once there is one
	sent     time.Time                     // when it was flushed last
	// told is the cursor that the client can tell from what it was sent; none yet if
	// it is zero, since start may have chosen it.
	told feed.Cursor
}

func newAnswer(s *Server, w http.ResponseWriter, r *http.Request, q *query) *answer {
	a := &answer{s: s, q: q, w: w, rc: http.NewResponseController(w), name: s.opt.Source.StreamName(q.stream), addr: r.RemoteAddr}
	a.out = bufio.NewWriterSize(w, gatherBytes)
	a.req = q.options.Request(q.stream, q.at)
	return a
}

// once answers with what SINCE does, and the cursor behind it. An error means
// that the connection must break.
func (a *answer) once(ctx context.Context) error {
	defer a.batch.Release()
	frames, bytes := a.req.Count, a.req.Bytes
	if frames == 0 {
		frames = feed.DefaultCount
	}
	if bytes == 0 {
		bytes = feed.DefaultBytes
	}
	a.req.Block = a.q.block
	for frames > 0 && bytes > 0 {
		a.req.Count, a.req.Bytes = frames, min(bytes, readBytes)
		if err := a.s.opt.Source.Since(ctx, &a.req, &a.batch); err != nil {
			if a.begun {
				break // the next request gets it: what was sent so far stands
			}
			return a.fail(err)
		}
		if err := a.send(); err != nil {
			return err
		}
		a.req.Block = 0
		a.req.Cursor = feed.Cursor{Generation: a.batch.Generation, Offset: a.batch.Next}
		if a.batch.Bytes() == 0 {
			break // nothing, or a large commit, which comes alone
		}
		frames -= a.batch.Len()
		bytes -= a.batch.Bytes()
	}
	a.position(a.req.Cursor, a.batch.CompleteLSN)
	return a.flush()
}

// follow sends frames as they are committed, until the client goes, the server
// closes or the stream cannot go on. An error means that the connection must
// break.
func (a *answer) follow(ctx context.Context) error {
	a.id = a.s.opt.NextID()
	a.s.opt.Subscribers.Add(a)
	defer a.s.opt.Subscribers.Remove(a)
	if a.q.snapshot != nil {
		more, err := a.state(ctx)
		if err != nil || !more {
			return err
		}
		defer a.snapshot.Close()
	}
	f, err := a.s.opt.Source.Follow(a.req)
	if err != nil {
		return a.fail(err)
	}
	if a.snapshot != nil {
		a.snapshot.Close() // the log is the follower's affair from here on
	}
	a.follower = f
	a.reader.Store(f)
	defer f.Close()
	defer a.batch.Release()
	for {
		if err := f.Next(ctx, &a.batch); err != nil {
			return a.fail(err)
		}
		full := f.Full(&a.batch)
		if err := a.send(); err != nil {
			return err
		}
		if at, complete := f.Position(); a.batch.Len() == 0 && at.Generation != a.told.Generation {
			a.position(at, complete)
		}
		if full && ctx.Err() == nil {
			if err := a.beat(); err != nil {
				return err
			}
			continue
		}
		if err := a.flush(); err != nil {
			return err
		}
		f.Done()
		if more, err := a.rest(ctx); err != nil || !more {
			return err
		}
	}
}

// rest waits until it is worth to look again, and beats meanwhile. It returns
// false once there is nothing more to come.
func (a *answer) rest(ctx context.Context) (more bool, err error) {
	if !a.follower.AtEnd() {
		select {
		case <-a.s.opt.Pause():
			return true, nil
		case <-ctx.Done():
			return false, nil
		}
	}
	for {
		more, err := a.follower.Wait(ctx, a.sent.Add(a.q.heartbeat))
		if err != nil {
			return false, a.fail(err)
		}
		if more {
			return true, nil
		}
		if err := a.beat(); err != nil {
			return false, err
		}
	}
}

// beat sends a sign of life if one is due: where the reader stands, if it does
// not know that.
func (a *answer) beat() error {
	if time.Since(a.sent) < a.q.heartbeat {
		return nil
	}
	at, complete := a.follower.Position()
	if at != a.told || !a.q.events {
		a.position(at, complete)
	} else {
		_, _ = a.out.WriteString(": heartbeat\n\n")
	}
	return a.flush()
}

// Describe implements changes.Subscriber.
func (a *answer) Describe() changes.Description {
	d := changes.Description{Stream: a.q.stream, ID: a.id, Addr: a.addr, Durable: a.req.Durable, Filtered: a.q.options.Filter.Selects()}
	if f := a.reader.Load(); f != nil {
		d.At = f.Cursor()
	}
	return d
}

// begin sends the status.
func (a *answer) begin() {
	if a.begun {
		return
	}
	a.begun = true
	h := a.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold back what follows
	h.Set("X-Content-Type-Options", "nosniff")
	if a.q.events {
		h.Set("Content-Type", "text/event-stream")
	} else {
		h.Set("Content-Type", "application/x-ndjson")
	}
	a.w.WriteHeader(http.StatusOK)
}

// fail tells that the stream cannot be read, or not on. It returns an error if
// that cannot be told any more.
func (a *answer) fail(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return nil // the client has gone, or the server closes
	case !a.begun:
		answerError(a.w, statusOf(err), err)
		return nil
	case errors.Is(err, feed.ErrClosed):
		return nil
	}
	if statusOf(err) == http.StatusInternalServerError {
		a.s.opt.Logger.Error("a reader over HTTP cannot be served on", "stream", a.name, "error", err)
	}
	a.line = changejson.AppendString(append(a.line[:0], `{"stream":`...), a.name)
	a.line = append(appendError(append(a.line, `,"event":"end",`...), err), '}')
	a.event("end")
	return a.flush()
}

// send writes the frames of the batch: a line each, or an event for each commit
// whose data are these lines and whose id is the cursor behind it.
func (a *answer) send() error {
	a.begin()
	b := &a.batch
	f := changejson.Frame{Stream: a.name, Generation: b.Generation}
	open := false // an event
	end := func() {
		if open {
			a.endEvent(feed.Cursor{Generation: b.Generation, Offset: f.Last + 1})
		}
	}
	err := b.Each(func(fr *feed.Frame) error {
		_, args, err := op.ReadCommand(fr.Raw, a.args[:0])
		if err != nil {
			return err
		}
		a.args = args
		if open && fr.First != f.First {
			end()
			open = false
		}
		f.Offset, f.First, f.Last, f.LSN, f.Ms, f.DB = fr.Offset, fr.First, fr.Last, fr.LSN, fr.UnixMs, fr.DB
		f.Cause, f.Args = fr.Cause.String(), args
		if a.q.events {
			open = true
			_, _ = a.out.WriteString("data: ")
		}
		a.line = append(changejson.AppendFrame(a.line[:0], &f), '\n')
		_, err = a.out.Write(a.line)
		if cap(a.line) > keptLineBytes {
			a.line = nil
		}
		return err
	})
	if err != nil {
		return err
	}
	end()
	if b.Len() > 0 {
		a.told = feed.Cursor{Generation: b.Generation, Offset: f.Last + 1}
	}
	return nil
}

// position tells a cursor.
func (a *answer) position(at feed.Cursor, completeLSN uint64) {
	a.line = changejson.AppendPosition(a.line[:0], a.name, at.Generation, at.Offset, completeLSN)
	a.told = at
	a.kind("position")
	a.data()
	if a.q.events {
		a.endEvent(at)
	}
}

// endEvent ends an event with its id: whoever got it goes on at the cursor.
func (a *answer) endEvent(at feed.Cursor) {
	line := strconv.AppendUint(append(a.line[:0], "id: "...), at.Generation, 10)
	line = strconv.AppendUint(append(line, ':'), at.Offset, 10)
	a.line = append(line, "\n\n"...)
	_, _ = a.out.Write(a.line)
}

// event writes the line that stands in a.line, as an event of a kind without an
// id.
func (a *answer) event(kind string) {
	a.kind(kind)
	a.data()
	if a.q.events {
		_ = a.out.WriteByte('\n')
	}
}

// kind begins an event that is no commit.
func (a *answer) kind(kind string) {
	if a.q.events {
		_, _ = a.out.WriteString("event: " + kind + "\n")
	}
}

// data writes the line that stands in a.line.
func (a *answer) data() {
	if a.q.events {
		_, _ = a.out.WriteString("data: ")
	}
	a.line = append(a.line, '\n')
	_, _ = a.out.Write(a.line)
	if cap(a.line) > keptLineBytes {
		a.line = nil
	}
}

// flush sends what has been gathered.
func (a *answer) flush() error {
	if err := a.out.Flush(); err != nil {
		return err
	}
	a.sent = time.Now()
	return a.rc.Flush()
}
