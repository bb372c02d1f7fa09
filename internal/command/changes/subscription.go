package changes

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"kevy/feed"
	"kevy/resp"
)

const (
	// pushBytes is how much of messages is gathered before it is sent although
	// there are more.
	pushBytes = 64 << 10
	// idleBytes is the largest buffer that is kept while there is nothing to send.
	idleBytes = 16 << 10
)

// subscription is a stream that is pushed to a connection. Its goroutine pulls by
// cursor as fast as the peer reads: there is no queue.
type subscription struct {
	family   *family
	subs     *Subscriptions
	stream   int
	name     string // of the stream
	meta     bool
	filtered bool
	company  *company // nil: it has none
	// heartbeat is how long there may be no message; always says that one is due
	// although the cursor has not moved.
	heartbeat time.Duration
	always    bool
	window    window
	req       feed.Request // what to follow, from where
	// opening is what comes before the frames, nil for most.
	opening opening
	// reader is set once the frames begin, for INFO.
	reader atomic.Pointer[feed.Follower]

	ctx     context.Context
	cancel  context.CancelFunc
	started bool // for the connection's goroutine
	done    chan struct{}

	// For the subscription's own goroutine:
	follower *feed.Follower
	batch    feed.Batch
	out      messages    // what is gathered
	turn     bool        // this goroutine may send
	keepsUp  bool        // the last read found no more
	told     feed.Cursor // of the last message
	sent     time.Time   // when that was
	timer    *time.Timer
}

// opening is what a subscription sends before its frames.
type opening interface {
	// run sends messages, with subscription.deliver, and returns the cursor from
	// which the frames follow. Its error ends the subscription, as one of reading
	// does. It must return soon after s.ctx has ended.
	run(s *subscription) (feed.Cursor, error)
	// over returns a channel that is closed when the opening cannot go on, and err
	// why: a peer that gives no credit is told all the same.
	over() <-chan struct{}
	err() error
	// close gives up what it holds. It is called once, when the frames behind it have
	// been read to the end or the subscription ends, whether run was called or not.
	close()
}

// errGone ends a subscription whose connection has ended.
var errGone = errors.New("the connection has ended")

func newSubscription(f *family, subs *Subscriptions, stream int) *subscription {
	s := &subscription{
		family: f, subs: subs, stream: stream, name: f.source.StreamName(stream), heartbeat: progressEvery,
		window: window{more: make(chan struct{}, 1)}, done: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// begin starts the goroutine, unless the subscription has been ended.
func (s *subscription) begin() {
	if s.ctx.Err() == nil {
		s.started = true
		s.subs.running.Add(1)
		go s.run()
	}
}

// stop ends the subscription and waits for its end; for the connection's
// goroutine.
func (s *subscription) stop() {
	s.cancel()
	if s.started {
		<-s.done
		return
	}
	s.close()
}

func (s *subscription) close() {
	s.closeOpening()
	if s.follower != nil {
		s.follower.Close()
	}
	if s.company != nil {
		s.family.companies.leave(s.company)
	}
	s.family.subscribers.Remove(s)
	s.cancel()
}

func (s *subscription) closeOpening() {
	if s.opening != nil {
		s.opening.close()
		s.opening = nil
	}
}

func (s *subscription) run() {
	defer s.subs.running.Done()
	defer close(s.done)
	defer s.close()
	defer func() {
		if p := recover(); p != nil {
			// A bug, which costs its connection and nobody else.
			s.subs.out.Fail(fmt.Errorf("a subscription panicked: %v\n%s", p, debug.Stack()))
			if s.turn {
				s.yield()
			}
		}
	}()
	s.out = messages{name: s.name, meta: s.meta, w: resp.NewWriter(3)}
	s.timer = time.NewTimer(0)
	defer s.timer.Stop()
	s.sent = time.Now()
	err := s.open()
	if err == nil {
		err = s.follow()
	}
	s.batch.Release()
	switch {
	case s.turn:
		// In the middle of a message.
		if !errors.Is(err, errGone) {
			s.subs.out.Fail(err)
		}
		s.yield()
	case errors.Is(err, errGone), errors.Is(err, feed.ErrClosed), s.ctx.Err() != nil:
	default:
		s.end(err)
	}
}

// end tells why the stream cannot go on. The connection counts as unsubscribed
// before the peer can know it.
func (s *subscription) end(err error) {
	s.out.reset()
	s.out.message(3, "changes-end")
	s.out.w.BulkString(feed.ReplyError(err).Error())
	if s.take() != nil {
		return
	}
	if s.subs.remove(s) {
		_ = s.part() // its loss is that of the connection
	}
	s.yield()
}

// open sends what comes before the frames, and finds their place.
func (s *subscription) open() error {
	if s.opening != nil {
		at, err := s.opening.run(s)
		if serr := s.send(); serr != nil {
			return serr
		}
		if err != nil {
			return err
		}
		s.req.Cursor = at
		if err := s.place(); err != nil {
			return err
		}
	}
	s.told, _ = s.follower.Position()
	return nil
}

// place makes the follower.
func (s *subscription) place() error {
	f, err := s.family.source.Follow(s.req)
	if err != nil {
		return err
	}
	s.follower = f
	s.reader.Store(f)
	return nil
}

// deliver sends a message of the opening, of so many parts with its kind and the
// stream; fill adds the others to w in RESP3, only of shapes that RESP2 has too.
// It waits for the window, which the message counts for. The error must be
// returned.
func (s *subscription) deliver(kind string, parts int, fill func(w *resp.Writer)) error {
	if err := s.credit(); err != nil {
		return err
	}
	s.window.use()
	s.out.message(parts, kind)
	fill(s.out.w)
	if s.out.w.Len() < pushBytes {
		return nil
	}
	return s.send()
}

// follow sends what the follower reads. It returns when it cannot go on.
func (s *subscription) follow() error {
	for {
		if err := s.credit(); err != nil {
			return err
		}
		full, err := s.read()
		if err != nil {
			if s.turn {
				return err // in the middle of a message
			}
			if serr := s.send(); serr != nil {
				return serr
			}
			return err
		}
		s.keepsUp = !full
		if s.out.w.Len() >= pushBytes || !full {
			if err := s.send(); err != nil {
				return err
			}
			s.follower.Done()
		}
		if full {
			if err := s.beat(); err != nil {
				return err
			}
			continue
		}
		if err := s.rest(); err != nil {
			return err
		}
	}
}

// read adds what comes next to what is gathered. full says that there is more to
// be read at once.
func (s *subscription) read() (full bool, err error) {
	if s.follower.CaughtUp() {
		return false, nil
	}
	if s.keepsUp && s.family.companies.shared(s.company) {
		if full, ok := s.company.read(s); ok {
			return full, nil
		}
	}
	if err := s.follower.Next(s.ctx, &s.batch); err != nil {
		return false, err
	}
	full = s.follower.Full(&s.batch)
	if at, _ := s.follower.Position(); s.batch.Len() > 0 || at.Generation != s.told.Generation {
		return full, s.frames()
	}
	return full, nil
}

// rest waits until it is worth to look again, and beats meanwhile.
func (s *subscription) rest() error {
	if !s.follower.AtEnd() {
		// At the tail of a busy store messages hold what came meanwhile instead of one
		// commit each.
		select {
		case <-s.subs.out.Pause():
			return nil
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	s.closeOpening()
	// It may be a long time, and there may be many who wait.
	s.batch.Shrink()
	s.out.shrink(idleBytes)
	for {
		more, err := s.follower.Wait(s.ctx, s.sent.Add(s.heartbeat))
		if err != nil || more {
			return err
		}
		if err := s.beat(); err != nil {
			return err
		}
	}
}

// wait returns true once there is something in c, false at the deadline.
func (s *subscription) wait(c <-chan struct{}, deadline time.Time) (bool, error) {
	s.timer.Reset(time.Until(deadline))
	select {
	case <-c:
		return true, nil
	case <-s.timer.C:
		return false, nil
	case <-s.ctx.Done():
		return false, s.ctx.Err()
	}
}

// credit waits until the window lets another message pass.
func (s *subscription) credit() error {
	for !s.window.open() && s.ctx.Err() == nil {
		if err := s.send(); err != nil {
			return err
		}
		if s.follower == nil {
			select {
			case <-s.window.more:
			case <-s.opening.over():
				return s.opening.err()
			case <-s.ctx.Done():
			}
			continue
		}
		s.follower.Done()
		if _, err := s.wait(s.window.more, s.sent.Add(s.heartbeat)); err != nil {
			return err
		}
		if err := s.beat(); err != nil {
			return err
		}
	}
	return s.ctx.Err()
}

// beat sends a heartbeat if one is due.
func (s *subscription) beat() error {
	now := time.Now()
	if now.Sub(s.sent) < s.heartbeat {
		return nil
	}
	at, complete := s.follower.Position()
	if !s.always && at == s.told {
		s.sent = now
		return nil
	}
	s.out.changes(at, 0)
	s.out.complete(complete)
	s.told = at
	return s.send()
}

// frames adds the message of the batch. A commit that is not in memory whole is
// sent as it is read, and nothing else then comes between its parts.
func (s *subscription) frames() error {
	at, complete := s.follower.Position()
	if s.batch.Len() > 0 {
		s.window.use()
	}
	s.told = at
	if !s.batch.Large() {
		s.out.batch(at, complete, &s.batch)
		return nil
	}
	if err := s.sendGathered(); err != nil {
		return err
	}
	s.out.changes(at, s.batch.Len())
	if err := s.batch.Each(s.frameOfLarge); err != nil {
		s.out.reset()
		return err
	}
	s.out.complete(complete)
	return s.send()
}

// frameOfLarge sends what has gathered, and the bytes of a large op from where
// they lie.
func (s *subscription) frameOfLarge(fr *feed.Frame) error {
	if len(fr.Raw) < pushBytes {
		s.out.frame(fr)
	} else {
		s.out.frameHeader(fr)
		if err := s.part(); err != nil {
			return err
		}
		if !s.subs.out.Push(fr.Raw) {
			return errGone
		}
		if s.meta {
			writeMeta(s.out.w, fr)
		}
	}
	if s.out.w.Len() < pushBytes {
		return nil
	}
	return s.part()
}

// send sends the gathered messages, if there are any, and lets go of what they
// were read from.
func (s *subscription) send() error {
	s.batch.Release()
	return s.sendGathered()
}

func (s *subscription) sendGathered() error {
	if s.out.w.Len() == 0 && !s.turn {
		return nil
	}
	if err := s.part(); err != nil {
		return err
	}
	s.yield()
	s.sent = time.Now()
	return nil
}

// take makes it this goroutine's turn to send.
func (s *subscription) take() error {
	if s.turn {
		return nil
	}
	proto, err := s.subs.out.Turn(s.ctx)
	if err != nil {
		return err
	}
	s.turn = true
	if proto < 3 {
		s.out.asRESP2()
	}
	return nil
}

func (s *subscription) yield() {
	s.turn = false
	s.subs.out.EndTurn()
}

// part sends what is gathered and keeps the turn.
func (s *subscription) part() error {
	if err := s.take(); err != nil {
		return err
	}
	ok := s.subs.out.Push(s.out.w.Bytes())
	s.out.reset()
	if !ok {
		return errGone
	}
	return nil
}
