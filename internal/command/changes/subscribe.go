package changes

import (
	"time"

	"kevy/feed"
	"kevy/internal/command"
	"kevy/resp"
)

const (
	// minHeartbeat and maxHeartbeat bound HEARTBEAT, which is clamped to them.
	minHeartbeat = 10 * time.Millisecond
	maxHeartbeat = time.Minute
	// progressEvery is how often a subscriber without HEARTBEAT is told how far the
	// scan is, if it moved: a cursor that nothing matches must not grow old.
	progressEvery = 10 * time.Second
	// maxCredit bounds WINDOW and CREDIT, and what they add up to.
	maxCredit = 1 << 53
)

// subscriber is a session whose connection takes messages beside replies.
type subscriber interface{ Subscriptions() *Subscriptions }

var (
	errNoConnection = resp.Errorf("ERR", "CHANGES SUBSCRIBE needs a connection")
	errCredit       = resp.Errorf("ERR", "credit is out of range, must be positive")
	errWindow       = resp.Errorf("ERR", "window is out of range, must not be negative")
	errHeartbeat    = resp.Errorf("ERR", "heartbeat is out of range, must be positive")
)

// subscriptions returns those of the session's connection; an error was replied
// if ok is false.
func subscriptions(c *command.Ctx) (subs *Subscriptions, ok bool) {
	s, ok := c.Session.(subscriber)
	if !ok || c.Session.(Session).InMulti() {
		c.W.Error(errNoConnection)
		return nil, false
	}
	return s.Subscriptions(), true
}

func (f *family) subscribe(c *command.Ctx) {
	stream, ok := f.stream(c, c.Args[2])
	if !ok {
		return
	}
	subs, ok := subscriptions(c)
	if !ok {
		return
	}
	a := c.Scan(3)
	at, snap, cerr := f.start(&a, stream)
	s := newSubscription(f, subs, stream)
	o := newOptions(c)
	err := o.Parse(&a, func(option []byte) bool { return s.parseOption(option, &a) })
	if err == nil {
		err = cerr
	}
	if err == nil && o.Durable && command.EqualFold(c.Args[3], "TAIL") {
		at, err = f.durableTail(stream)
	}
	if err != nil {
		c.W.Error(err)
		return
	}
	if subs.find(stream) != nil {
		c.W.Error(resp.Errorf("ERR", "already subscribed to stream '%s'", s.name))
		return
	}
	if !mayRead(c, &o.Filter) {
		return
	}
	s.req, s.meta, s.filtered = o.Request(stream, at), o.Meta, o.Filter.Selects()
	if err := s.prepare(snap); err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	s.company = f.companies.join(s)
	subs.add(s)
	// Rights that change from now on find the subscription; those that changed since
	// they were asked did not.
	if err := readRefusal(c, &o.Filter); err != nil {
		c.Session.(Session).Abort(err)
		return
	}
	c.W.Push(4)
	c.W.BulkString("changes-subscribe")
	c.W.BulkString(s.name)
	c.W.Int(int64(at.Generation))
	c.W.Int(int64(at.Offset))
}

// prepare finds out whether the subscription can begin where it is to.
func (s *subscription) prepare(snap *snapshotStart) error {
	if snap == nil {
		return s.place()
	}
	opening, err := snap.open(s.family.source, &s.req)
	if err != nil {
		return err
	}
	s.opening = opening
	return nil
}

// start reads where a subscription begins: at a cursor, or with a snapshot, and
// then the cursor is where the stream stands now.
func (f *family) start(a *command.Args, stream int) (at feed.Cursor, snap *snapshotStart, _ *resp.Error) {
	switch first := a.Bytes(); {
	case command.EqualFold(first, "TAIL"):
		return f.source.Tail(stream), nil, nil
	case command.EqualFold(first, "SNAPSHOT"):
		return f.source.Tail(stream), takeSnapshotStart(a), nil
	case command.EqualFold(first, "OLDEST"):
		at, err := f.source.Oldest(stream)
		if err != nil {
			return at, nil, feed.ReplyError(err)
		}
		return at, nil, nil
	default:
		generation, ok := command.ParseInt(first)
		offset := a.Int()
		if a.Err() == nil && (!ok || generation < 0 || offset < 0) {
			a.Fail(command.ErrNotInt)
		}
		return feed.Cursor{Generation: uint64(generation), Offset: uint64(offset)}, nil, nil
	}
}

// durableTail is where TAIL is for a subscription with DURABLE.
func (f *family) durableTail(stream int) (feed.Cursor, *resp.Error) {
	if f.source.NeverDurable() {
		return feed.Cursor{}, feed.ReplyError(feed.ErrNeedsLog)
	}
	at, err := f.source.DurableTail(stream)
	if err != nil {
		return at, feed.ReplyError(err)
	}
	return at, nil
}

// parseOption reads the options that only SUBSCRIBE has.
func (s *subscription) parseOption(option []byte, a *command.Args) bool {
	switch {
	case command.EqualFold(option, "WINDOW"):
		s.window.limit(min(a.AtLeast(0, errWindow), maxCredit))
	case command.EqualFold(option, "HEARTBEAT"):
		ms := a.AtLeast(1, errHeartbeat)
		s.heartbeat = min(max(time.Duration(min(ms, maxHeartbeat.Milliseconds()))*time.Millisecond, minHeartbeat), maxHeartbeat)
		s.always = true
	default:
		return false
	}
	return true
}

func (f *family) credit(c *command.Ctx) {
	stream, ok := f.stream(c, c.Args[2])
	if !ok {
		return
	}
	subs, ok := subscriptions(c)
	if !ok {
		return
	}
	a := c.Scan(3)
	n := min(a.AtLeast(1, errCredit), maxCredit)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	name := f.source.StreamName(stream)
	s := subs.find(stream)
	switch {
	case s == nil:
		c.W.Error(resp.Errorf("ERR", "not subscribed to stream '%s'", name))
		return
	case !s.window.limited:
		c.W.Error(resp.Errorf("ERR", "the subscription to stream '%s' has no WINDOW", name))
		return
	}
	subs.afterReply(func() { s.window.add(n) })
	c.W.Push(3)
	c.W.BulkString("changes-credit")
	c.W.BulkString(name)
	c.W.Int(n)
}

func (f *family) unsubscribe(c *command.Ctx) {
	subs, ok := subscriptions(c)
	if !ok {
		return
	}
	switch len(c.Args) {
	case 2:
		all := subs.streams()
		for _, stream := range all {
			subs.stop(stream)
			confirmUnsubscribe(c.W, f.source.StreamName(stream))
		}
		if len(all) == 0 {
			// As UNSUBSCRIBE does.
			c.W.Push(2)
			c.W.BulkString("changes-unsubscribe")
			c.W.Null()
		}
	case 3:
		stream, ok := f.stream(c, c.Args[2])
		if !ok {
			return
		}
		subs.stop(stream)
		confirmUnsubscribe(c.W, f.source.StreamName(stream))
	default:
		c.W.Error(c.Spec.ArityError())
	}
}

func confirmUnsubscribe(w *resp.Writer, stream string) {
	w.Push(2)
	w.BulkString("changes-unsubscribe")
	w.BulkString(stream)
}
