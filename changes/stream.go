package changes

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"kevy/resp"
)

const (
	// maxPast is how many ended generations are remembered, so that what comes of
	// them again is known for old.
	maxPast = 64
	// maxGaps is how often in a row a stream may skip frames from the same cursor
	// until that is an error.
	maxGaps = 3
)

// stream is one stream of a Consumer. Where nothing else is said its fields are
// of the goroutine that handles it, and of its link while there is no session.
type stream struct {
	c    *Consumer
	name string

	at        Cursor   // behind what was handled
	placed    bool     // at is a position
	past      []uint64 // generations that at has left
	elsewhere bool     // the subscription began in another generation: until it comes to that of at, nothing counts
	snapshot  snapshotState
	gaps      int // in a row, from at
	behind    backoff

	dirty   bool // at is not what the store has
	unsaved int  // commits since the last save
	saving  *time.Timer

	session *session
	queue   chan *Message // of the session
	again   chan target   // of the session: begin again, for pollLoop
	handled int           // messages since the last credit
	read    Cursor        // of the last message that was read; of the goroutine that reads

	mu     sync.Mutex
	status StreamStatus // guarded by mu
	heldAt Cursor       // where the hold was moved to on this connection; guarded by mu
}

// snapshotState is how far a snapshot is.
type snapshotState struct {
	wanted  bool // the stream begins, or goes on, with a snapshot
	token   string
	started bool   // the handler was told of token
	resumes bool   // the subscription asked for token
	n       uint64 // of the last part, from 1
}

func newStream(c *Consumer, name string) *stream {
	return &stream{
		c: c, name: name, status: StreamStatus{Stream: name, State: Stopped},
		behind: backoff{least: c.opt.MinBackoff, most: c.opt.MaxBackoff},
	}
}

// place puts the stream at a cursor.
func (s *stream) place(at Cursor) {
	if s.placed && at.Generation != s.at.Generation {
		if len(s.past) == maxPast {
			s.past = slices.Delete(s.past, 0, 1)
		}
		s.past = append(s.past, s.at.Generation)
	}
	s.at, s.placed = at, true
	s.say(func(st *StreamStatus) { st.Cursor = at })
}

// hold returns the command that moves the hold to the saved cursor; nil if there
// is nothing to move.
func (s *stream) hold() []string {
	name := s.c.opt.Hold
	if name == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.status.Saved
	if at.IsZero() || at == s.heldAt {
		return nil
	}
	s.heldAt = at
	args := []string{"CHANGES", "HOLD", "SET", name, s.name, strconv.FormatUint(at.Generation, 10), strconv.FormatUint(at.Offset, 10)}
	if s.c.opt.HoldEpoch > 0 {
		args = append(args, "EPOCH", strconv.FormatUint(s.c.opt.HoldEpoch, 10))
	}
	return args
}

func (s *stream) sawTail(at Cursor) {
	s.say(func(st *StreamStatus) { st.Tail, st.TailTime = at, time.Now() })
}

// target is where a subscription begins.
type target struct {
	kind  startKind
	at    Cursor // of startAt
	token string // of startSnapshot: resume it behind n; "" for a new one
	n     uint64
}

func (t target) args() []string {
	switch t.kind {
	case startTail:
		return []string{"TAIL"}
	case startOldest:
		return []string{"OLDEST"}
	case startSnapshot:
		if t.token == "" {
			return []string{"SNAPSHOT"}
		}
		return []string{"SNAPSHOT", t.token, strconv.FormatUint(t.n, 10)}
	}
	return []string{strconv.FormatUint(t.at.Generation, 10), strconv.FormatUint(t.at.Offset, 10)}
}

// target returns where the stream goes on.
func (s *stream) target() target {
	switch {
	case s.snapshot.wanted:
		s.snapshot.resumes = s.snapshot.started
		if s.snapshot.resumes {
			return target{kind: startSnapshot, token: s.snapshot.token, n: s.snapshot.n}
		}
		return target{kind: startSnapshot}
	case s.placed:
		return target{kind: startAt, at: s.at}
	}
	return target{kind: s.c.opt.Start.kind}
}

// begin makes ready for a session.
func (s *stream) begin(session *session) {
	s.session = session
	s.queue = make(chan *Message, s.c.opt.Window)
	s.again = make(chan target)
	s.handled = 0
	s.read = s.at
	s.elsewhere = false
	s.mu.Lock()
	s.heldAt = Cursor{}
	s.mu.Unlock()
}

// work handles what is read until there is no more. An error ends the session.
func (s *stream) work(ctx context.Context) error {
	s.saving = time.NewTimer(time.Hour)
	defer s.saving.Stop()
	if s.dirty {
		s.saving.Reset(0) // of the session before
	}
	for {
		select {
		case m, ok := <-s.queue:
			if !ok {
				return nil
			}
			err := s.handle(ctx, m)
			s.session.ahead.give(m.wireBytes)
			if err != nil {
				return err
			}
		case <-s.saving.C:
			if err := s.save(ctx); err != nil {
				return s.c.fatal(ctx, err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// handle takes one message. An error ends the session.
func (s *stream) handle(ctx context.Context, m *Message) error {
	var err error
	switch m.Kind {
	case KindSubscribed:
		return s.subscribed(ctx, m.At)
	case KindEnd:
		return s.ended(ctx, m.Err)
	case KindChanges:
		if err := s.changes(ctx, m); err != nil || len(m.Commits) == 0 {
			return err // nothing that counts against the window
		}
	case KindSnapshotStart:
		err = s.snapshotStart(ctx, m.Token)
	case KindSnapshotPart:
		err = s.snapshotPart(ctx, m)
	case KindSnapshotEnd:
		err = s.snapshotEnd(ctx, m.At)
	}
	if err != nil {
		return err
	}
	s.handled++
	if n := s.handled; n > s.c.opt.Window/2 {
		s.handled = 0
		return s.session.credit(s, n)
	}
	return nil
}

func (s *stream) subscribed(ctx context.Context, at Cursor) error {
	if s.snapshot.wanted {
		s.say(func(st *StreamStatus) { st.State = TakingSnapshot })
		return nil
	}
	s.say(func(st *StreamStatus) { st.State = Reading })
	if s.placed {
		// What comes from before s.at is left out.
		s.elsewhere = at.Generation != s.at.Generation
		if !s.elsewhere && at.Offset > s.at.Offset {
			return s.gap(ctx, at)
		}
		return nil
	}
	// Here the stream begins, also for a consumer that is started again before
	// anything came.
	if err := s.moved(ctx, at); err != nil {
		return err
	}
	if err := s.save(ctx); err != nil {
		return s.c.fatal(ctx, err)
	}
	return nil
}

// changes hands the commits of a message to the handler.
func (s *stream) changes(ctx context.Context, m *Message) error {
	if !s.placed || s.snapshot.wanted {
		return protocolError("commits of stream %s before its beginning", s.name)
	}
	commits, moves, err := s.fresh(ctx, m)
	if err != nil {
		return err
	}
	for len(commits) > 0 {
		n := 1
		if s.c.batches != nil {
			n = len(commits)
		}
		if err := s.take(ctx, commits[:n:n]); err != nil {
			return err
		}
		commits = commits[n:]
	}
	if m.At.Generation == s.at.Generation && m.At.Offset > s.at.Offset || moves {
		return s.moved(ctx, m.At)
	}
	return nil
}

// take hands commits to the handler: one, or all of a message.
func (s *stream) take(ctx context.Context, commits []Commit) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The commits are the handler's from now on.
	last, n, frames := &commits[len(commits)-1], len(commits), 0
	next, at := last.Next, last.Frames[len(last.Frames)-1].Time
	for i := range commits {
		frames += len(commits[i].Frames)
	}
	var err error
	if s.c.batches != nil {
		err = s.c.batches.Commits(ctx, commits)
	} else {
		err = s.c.handler.Commit(ctx, &commits[0])
	}
	if err != nil {
		return s.c.fatal(ctx, err)
	}
	s.place(next)
	s.say(func(st *StreamStatus) {
		st.State = Reading
		st.Commits += uint64(n)
		st.Frames += uint64(frames)
		st.Lag = max(0, time.Since(at))
	})
	s.gaps = 0
	s.behind.reset()
	s.unsaved += n
	return s.changed(ctx)
}

// fresh returns those commits of a message that lie behind the cursor, and
// whether the message moves it to another generation. A server that delivers
// from an older cursor, or something between it and us that repeats, is nothing
// that a handler should see.
func (s *stream) fresh(ctx context.Context, m *Message) (commits []Commit, moves bool, err error) {
	commits = m.Commits
	if m.At.Generation != s.at.Generation {
		switch {
		case s.elsewhere, slices.Contains(s.past, m.At.Generation):
			s.duplicates(len(commits))
			return nil, false, nil
		case len(commits) > 0 || m.At.Offset != 0:
			// The next generation is announced by a message that begins it.
			return nil, false, s.gap(ctx, m.At)
		}
		return nil, true, nil
	}
	s.elsewhere = false
	for len(commits) > 0 && commits[0].Last < s.at.Offset {
		commits = commits[1:]
	}
	if len(commits) > 0 && commits[0].First < s.at.Offset {
		// The cursor lies inside a commit: somebody has put it there.
		first := &commits[0]
		for len(first.Frames) > 0 && first.Frames[0].Offset < s.at.Offset {
			first.Frames = first.Frames[1:]
		}
		if len(first.Frames) == 0 {
			commits = commits[1:]
		}
	}
	s.duplicates(len(m.Commits) - len(commits))
	if !s.c.opt.Filter.passesAll() {
		return commits, false, nil
	}
	next := s.at
	for i := range commits {
		for j := range commits[i].Frames {
			if o := commits[i].Frames[j].Offset; o != next.Offset {
				return nil, false, s.gap(ctx, Cursor{next.Generation, o})
			}
			next.Offset++
		}
	}
	if m.At.Offset > next.Offset {
		return nil, false, s.gap(ctx, m.At)
	}
	return commits, false, nil
}

func (s *stream) duplicates(n int) {
	if n > 0 {
		s.say(func(st *StreamStatus) { st.Duplicates += uint64(n) })
	}
}

// gap is told that the stream goes on at another place than it should.
func (s *stream) gap(ctx context.Context, at Cursor) error {
	s.gaps++
	err := protocolError("stream %s is at %v and goes on at %v", s.name, s.at, at)
	if s.gaps >= maxGaps {
		return s.c.fatal(ctx, fmt.Errorf("%w, %d times", err, s.gaps))
	}
	return err
}

// moved puts the cursor where nothing is left to handle before it.
func (s *stream) moved(ctx context.Context, at Cursor) error {
	if p := s.c.progress; p != nil {
		if err := p.Progress(ctx, s.name, at); err != nil {
			return s.c.fatal(ctx, err)
		}
	}
	s.place(at)
	s.gaps = 0
	s.say(func(st *StreamStatus) { st.State = Reading })
	return s.changed(ctx)
}

// changed saves the cursor if the policy says so.
func (s *stream) changed(ctx context.Context) error {
	policy := s.c.opt.Save
	if policy.due(s.unsaved) {
		s.dirty = true
		if err := s.save(ctx); err != nil {
			return s.c.fatal(ctx, err)
		}
		return nil
	}
	if !s.dirty && policy.Every > 0 {
		s.saving.Reset(policy.Every)
	}
	s.dirty = true
	return nil
}

// save saves the cursor if the store has another one.
func (s *stream) save(ctx context.Context) error {
	if !s.dirty {
		return nil
	}
	if err := s.c.opt.Store.Save(ctx, s.name, s.at); err != nil {
		return fmt.Errorf("changes: saving the cursor %v of stream %s: %w", s.at, s.name, err)
	}
	s.dirty, s.unsaved = false, 0
	at := s.at
	s.say(func(st *StreamStatus) { st.Saved = at })
	return nil
}

func (s *stream) snapshotStart(ctx context.Context, token string) error {
	if !s.snapshot.wanted {
		return protocolError("a snapshot of stream %s that was not asked for", s.name)
	}
	if s.snapshot.resumes && s.snapshot.token == token {
		s.snapshot.resumes = false // it goes on
		return nil
	}
	if err := s.c.snapshots.SnapshotStart(ctx, s.name, token); err != nil {
		return s.c.fatal(ctx, err)
	}
	s.snapshot = snapshotState{wanted: true, started: true, token: token}
	return nil
}

func (s *stream) snapshotPart(ctx context.Context, m *Message) error {
	snap := &s.snapshot
	switch {
	case !snap.wanted || !snap.started:
		return protocolError("a part of a snapshot of stream %s before its start", s.name)
	case len(m.Ops) == 0, m.N <= snap.n:
		return nil // a heartbeat, or a repetition
	case m.N != snap.n+1:
		return protocolError("the part %d of a snapshot of stream %s, after %d", m.N, s.name, snap.n)
	}
	p := &SnapshotPart{Stream: s.name, Token: snap.token, N: m.N, DB: m.DB, Ops: m.Ops}
	if err := s.c.snapshots.SnapshotPart(ctx, p); err != nil {
		return s.c.fatal(ctx, err)
	}
	snap.n = m.N
	return nil
}

func (s *stream) snapshotEnd(ctx context.Context, at Cursor) error {
	if !s.snapshot.wanted || !s.snapshot.started {
		return protocolError("the end of a snapshot of stream %s before its start", s.name)
	}
	if err := s.c.snapshots.SnapshotEnd(ctx, s.name, at); err != nil {
		return s.c.fatal(ctx, err)
	}
	s.snapshot = snapshotState{}
	s.past, s.placed = nil, false
	s.place(at)
	s.say(func(st *StreamStatus) { st.State = Reading })
	s.dirty = true
	if err := s.save(ctx); err != nil {
		return s.c.fatal(ctx, err)
	}
	return nil
}

// ended is told that the subscription could not begin, or cannot go on.
func (s *stream) ended(ctx context.Context, e *resp.Error) error {
	resync := resyncError(s.name, e)
	switch {
	case resync != nil:
		return s.resync(ctx, resync)
	case e.Code == "FEEDBEHIND":
		s.say(func(st *StreamStatus) { st.State = Waiting })
		if !sleep(ctx, s.behind.delay()) {
			return context.Cause(ctx)
		}
		return s.session.restart(s, s.target())
	}
	err := refusal(e)
	switch {
	case !isRefused(err):
		return err
	case s.snapshot.resumes:
		s.c.opt.Logger.Warn("the snapshot cannot be resumed; beginning again", "stream", s.name, "error", e)
		s.snapshot = snapshotState{wanted: true}
		return s.session.restart(s, s.target())
	}
	return s.c.fatal(ctx, fmt.Errorf("changes: stream %s: %w", s.name, err))
}

// resync does what is to be done about a cursor that cannot be served.
func (s *stream) resync(ctx context.Context, e *ResyncError) error {
	s.say(func(st *StreamStatus) { st.Resyncs++ })
	s.c.opt.Logger.Warn("the cursor cannot be served", "stream", s.name, "cursor", s.at, "reason", e.Reason, "tail", e.Tail, "oldest", e.Oldest)
	on := s.c.opt.OnResync
	if on.kind == resyncStop {
		return s.c.fatal(ctx, e)
	}
	// The first time at once; behind that wait, for the server may answer the same
	// again.
	if s.behind.next == 0 {
		s.behind.next = s.behind.least
	} else if !sleep(ctx, s.behind.delay()) {
		return context.Cause(ctx)
	}
	if on.kind == resyncSnapshot {
		s.snapshot = snapshotState{wanted: true}
		s.say(func(st *StreamStatus) { st.State = TakingSnapshot })
		return s.session.restart(s, s.target())
	}
	s.say(func(st *StreamStatus) { st.State = Rebuilding })
	at, err := on.rebuild(ctx, e)
	if err != nil {
		return s.c.fatal(ctx, err)
	}
	s.snapshot = snapshotState{}
	s.past, s.placed = nil, false
	if err := s.moved(ctx, at); err != nil {
		return err
	}
	s.dirty = true
	if err := s.save(ctx); err != nil {
		return s.c.fatal(ctx, err)
	}
	return s.session.restart(s, s.target())
}
