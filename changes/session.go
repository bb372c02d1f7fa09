package changes

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"kevy/resp"
)

// session is what happens on one connection. One goroutine reads it, and each
// stream has one that handles what came; another asks how far the streams go.
type session struct {
	c       *Consumer
	conn    *connection
	streams map[string]*stream
	order   []*stream
	ahead   *budget

	ctx  context.Context
	fail context.CancelCauseFunc

	// asked are the commands whose answers have not come, oldest first; guarded by
	// conn.mu, in the order in which they were written.
	asked []question

	polls    bool // SINCE is used, else SUBSCRIBE
	progress bool // a message of the feed came; of the reading goroutine
}

// question is a command that was sent.
type question struct {
	what   string // SUBSCRIBE, CREDIT, TAIL or HOLD
	stream string
}

// maxForeign is how many answers in a row may be of another generation than was
// asked for.
const maxForeign = 100

// maxAsked bounds the commands without an answer. The server answers in order,
// so more of them mean that it does not.
const maxAsked = 1 << 17

func newSession(c *Consumer, conn *connection, streams []*stream, polls bool) *session {
	s := &session{c: c, conn: conn, order: streams, polls: polls, streams: make(map[string]*stream), ahead: newBudget(c.opt.MaxAheadBytes)}
	for _, st := range streams {
		s.streams[st.name] = st
	}
	return s
}

// run reads, beside a goroutine for each stream that handles. What was read is
// handled before run returns, unless ctx ended.
func (s *session) run(ctx context.Context) (progress bool, err error) {
	s.ctx, s.fail = context.WithCancelCause(ctx)
	defer s.fail(nil)
	stop := context.AfterFunc(s.ctx, func() { s.conn.nc.Close() })
	defer stop()
	defer s.conn.nc.Close()
	var workers sync.WaitGroup
	for _, st := range s.order {
		st.begin(s)
		workers.Go(func() {
			if err := st.work(ctx); err != nil {
				s.fail(err)
			}
		})
	}
	if s.polls {
		err = s.pollLoop()
	} else {
		err = s.pushLoop()
	}
	s.fail(err)
	for _, st := range s.order {
		close(st.queue)
	}
	workers.Wait()
	return s.progress, context.Cause(s.ctx) // which the connection ended of
}

// deliver puts a message into the queue of its stream, and waits for room.
func (s *session) deliver(st *stream, m *Message) error {
	if m.Kind == KindChanges && len(m.Commits) == 0 && m.At.Generation == st.read.Generation {
		// How far the server has looked: where the handler is behind, a later
		// message says it too.
		select {
		case st.queue <- m:
		default:
		}
		return nil
	}
	if m.Kind == KindChanges || m.Kind == KindSubscribed {
		st.read = m.At
	}
	if !s.ahead.take(s.ctx, m.wireBytes) {
		return context.Cause(s.ctx)
	}
	select {
	case st.queue <- m:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// ask writes a command and notes that its answer is to come.
func (s *session) ask(q question, args ...string) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if len(s.asked) >= maxAsked {
		return protocolError("%d commands without an answer", maxAsked)
	}
	s.asked = append(s.asked, q)
	return s.conn.write(args...)
}

// answered returns the oldest command without an answer, which now has one.
func (s *session) answered() (question, bool) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if len(s.asked) == 0 {
		return question{}, false
	}
	q := s.asked[0]
	s.asked = s.asked[1:]
	return q, true
}

// confirmed takes a confirmation as the answer to its command.
func (s *session) confirmed(what string, m *Message) error {
	if q, ok := s.answered(); !ok || q.what != what || q.stream != m.Stream {
		return protocolError("a confirmation of %s %s that answers %v", what, m.Stream, q)
	}
	return nil
}

// pushLoop subscribes and reads until the connection ends.
func (s *session) pushLoop() error {
	for _, st := range s.order {
		if err := s.subscribe(st, st.target()); err != nil {
			return err
		}
	}
	var asking sync.WaitGroup
	asking.Go(s.askTails)
	err := s.pushes()
	s.fail(err)
	asking.Wait()
	return err
}

func (s *session) pushes() error {
	for {
		m, err := s.conn.in.Next()
		if err != nil {
			return err
		}
		if err := s.dispatch(m); err != nil {
			return err
		}
	}
}

func (s *session) dispatch(m *Message) error {
	switch m.Kind {
	case KindReply:
		return s.replied(m)
	case KindPush:
		return nil // invalidations and the like are for others
	case KindCredited:
		return s.confirmed("CREDIT", m)
	case KindUnsubscribed:
		return protocolError("stream %q was unsubscribed by nobody", m.Stream)
	case KindSubscribed:
		if err := s.confirmed("SUBSCRIBE", m); err != nil {
			return err
		}
	}
	st := s.streams[m.Stream]
	if st == nil {
		return protocolError("a message of stream %q, which was not asked for", m.Stream)
	}
	if m.Kind != KindSubscribed && m.Kind != KindEnd {
		s.progress = true
	}
	return s.deliver(st, m)
}

// replied takes an ordinary reply as the answer to the oldest command.
func (s *session) replied(m *Message) error {
	q, ok := s.answered()
	if !ok {
		return protocolError("a reply to nothing: %.100v", m.Reply)
	}
	refused, _ := m.Reply.Err().(*resp.Error)
	st := s.streams[q.stream]
	switch {
	case q.what == "TAIL":
		if refused == nil {
			at, err := replyCursor(m.Reply)
			if err != nil {
				return err
			}
			st.sawTail(at)
		}
		return nil // without a tail the lag is not known, no more
	case q.what == "HOLD":
		return s.held(st, refused)
	case refused == nil:
		return protocolError("%.100v in reply to %s", m.Reply, q.what)
	case q.what == "CREDIT":
		return nil // of a subscription that has ended meanwhile
	case unknownCommand(refused):
		return errNoSubscribe
	}
	return s.deliver(st, &Message{Kind: KindEnd, Stream: q.stream, Err: refused})
}

// askTails asks now and then how far the streams go, until the session ends.
func (s *session) askTails() {
	for {
		for _, st := range s.order {
			if err := s.ask(question{what: "TAIL", stream: st.name}, "CHANGES", "TAIL", st.name); err != nil {
				s.fail(err)
				return
			}
			if args := st.hold(); args != nil {
				if err := s.ask(question{what: "HOLD", stream: st.name}, args...); err != nil {
					s.fail(err)
					return
				}
			}
		}
		if !sleep(s.ctx, s.c.opt.Heartbeat) {
			return
		}
	}
}

// held looks at what the server says to a hold that was moved.
func (s *session) held(st *stream, refused *resp.Error) error {
	switch {
	case refused == nil:
		return nil
	case refused.Code == "HOLDBROKEN":
		// It is beyond what the server keeps for holds: who loses the race with
		// retention gets a resync.
		s.c.opt.Logger.Warn("the hold is broken", "hold", s.c.opt.Hold, "stream", st.name, "error", refused)
		return nil
	case refused.Code == "FEEDRESYNC" || refused.Code == "FEEDBEHIND":
		return nil // the subscription says so too
	}
	return refusal(refused)
}

// subscribe sends SUBSCRIBE.
func (s *session) subscribe(st *stream, to target) error {
	args := append([]string{"CHANGES", "SUBSCRIBE", st.name}, to.args()...)
	args = s.c.opt.appendArgs(args)
	args = append(args, "WINDOW", strconv.Itoa(s.c.opt.Window), "HEARTBEAT", strconv.FormatInt(s.c.opt.Heartbeat.Milliseconds(), 10))
	return s.ask(question{what: "SUBSCRIBE", stream: st.name}, args...)
}

// appendArgs appends the options that SUBSCRIBE and SINCE have in common.
func (o *Options) appendArgs(args []string) []string {
	args = append(args, "COUNT", strconv.Itoa(o.Count), "BYTES", strconv.Itoa(o.Bytes), "META")
	if o.Durable {
		args = append(args, "DURABLE")
	}
	return o.Filter.appendArgs(args)
}

// credit tells the server that n messages were handled.
func (s *session) credit(st *stream, n int) error {
	if s.polls {
		return nil
	}
	return s.ask(question{what: "CREDIT", stream: st.name}, "CHANGES", "CREDIT", st.name, strconv.Itoa(n))
}

// restart begins the stream again, at target: it had ended on this connection.
func (s *session) restart(st *stream, to target) error {
	if !s.polls {
		return s.subscribe(st, to)
	}
	select {
	case st.again <- to:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// pollLoop reads the one stream of the session with SINCE until the connection
// ends.
func (s *session) pollLoop() error {
	st := s.order[0]
	to := st.target()
	for {
		refused, err := s.poll(st, to)
		if err != nil {
			return err
		}
		if err := s.deliver(st, &Message{Kind: KindEnd, Stream: st.name, Err: refused}); err != nil {
			return err
		}
		select {
		case to = <-st.again:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// poll reads from a target on until the server refuses, or the connection ends.
func (s *session) poll(st *stream, to target) (refused *resp.Error, err error) {
	at := to.at
	switch to.kind {
	case startSnapshot:
		return nil, &refusedError{err: resp.Errorf("ERR", "a snapshot needs CHANGES SUBSCRIBE, which the server lacks or Options.Poll forbids")}
	case startTail, startOldest:
		which := "TAIL"
		if to.kind == startOldest {
			which = "OLDEST"
		}
		if at, err = s.conn.cursor(which, st.name); err != nil {
			return refusedOr(err)
		}
		if err := s.deliver(st, &Message{Kind: KindSubscribed, Stream: st.name, At: at}); err != nil {
			return nil, err
		}
	}
	st.read = at
	block := strconv.FormatInt(s.c.opt.Heartbeat.Milliseconds(), 10)
	var asked time.Time
	foreign := 0
	for {
		if time.Since(asked) >= s.c.opt.Heartbeat {
			asked = time.Now()
			tail, err := s.conn.cursor("TAIL", st.name)
			if err == nil {
				st.sawTail(tail)
			} else if _, err := refusedOr(err); err != nil {
				return nil, err
			}
			if args := st.hold(); args != nil {
				reply, err := s.conn.do(args...)
				if err != nil {
					return nil, err
				}
				refused, _ := reply.Err().(*resp.Error)
				if err := s.held(st, refused); err != nil {
					return nil, err
				}
			}
		}
		args := append([]string{"CHANGES", "SINCE", st.name}, target{kind: startAt, at: at}.args()...)
		args = append(s.c.opt.appendArgs(args), "BLOCK", block)
		if err := s.conn.send(args...); err != nil {
			return nil, err
		}
		m, err := s.conn.in.NextSince(st.name)
		if err != nil {
			return nil, err
		}
		if m.Kind != KindChanges {
			refused, _ := m.Reply.Err().(*resp.Error)
			if refused == nil {
				return nil, protocolError("%.100v in reply to SINCE", m.Reply)
			}
			return refused, nil
		}
		s.progress = true
		switch {
		case m.At.Generation == at.Generation:
			at.Offset = max(at.Offset, m.At.Offset) // what repeats may answer an older cursor
		case len(m.Commits) == 0 && m.At.Offset == 0:
			at = m.At
		default:
			if foreign++; foreign > maxForeign {
				return nil, protocolError("stream %s was asked for from %v and is answered from %v", st.name, at, m.At)
			}
			continue // it answers another question: ask again
		}
		foreign = 0
		if err := s.deliver(st, m); err != nil {
			return nil, err
		}
	}
}

// refusedOr tells a refusal of the server from an error of the connection.
func refusedOr(err error) (*resp.Error, error) {
	var refused *resp.Error
	if errors.As(err, &refused) {
		return refused, nil
	}
	return nil, err
}
