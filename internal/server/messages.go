package server

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"kevy/internal/command/changes"
	"kevy/internal/config"
	"kevy/internal/pubsub"
	"kevy/resp"
)

// Messages of channels go out beside replies. A publisher gathers them, and when its
// own batch is done puts them into the queue of each subscriber and wakes those; a
// subscriber's goroutine sends all that has gathered at once. Before replies are sent, the
// messages that were queued before them are.

// publishing is what a connection has published; its goroutine alone uses it.
type publishing struct {
	by pubsub.Publisher
	// later are those of a transaction: they are delivered once that is in the log.
	later []publication
}

type publication struct {
	kind             pubsub.Kind
	channel, payload []byte
	events           int // that the transaction had noted before
}

// Publish implements the Session of the family pubsub.
func (c *client) Publish(kind pubsub.Kind, channel, payload []byte, own func(m *pubsub.Message)) int {
	if c.pub == nil {
		c.pub = new(publishing)
	}
	if r := c.receiver.Load(); r != nil {
		c.pub.by.Self = r.channels
	}
	if c.es.InMulti() {
		// A script's arguments are gone with its next command.
		c.pub.later = append(c.pub.later, publication{kind, bytes.Clone(channel), bytes.Clone(payload), c.es.EventsNoted()})
		return c.srv.hub.Publish(&c.pub.by, kind, channel, payload, c.es.Seen(), false, own)
	}
	c.deliverLater()
	return c.srv.hub.Publish(&c.pub.by, kind, channel, payload, c.es.Seen(), true, own)
}

// Replies implements the Session of the family pubsub.
func (c *client) Replies() *resp.Writer { return c.es.Replies() }

// Show implements the Session of the family pubsub.
func (c *client) Show(m *pubsub.Message) { c.es.Saw(m.LSN()) }

// publishLater publishes by p what the transaction has published before its event i:
// the connection's own subscriber has had it.
func (c *client) publishLater(p *pubsub.Publisher, i int, lsn uint64) {
	for len(c.pub.later) > 0 && c.pub.later[0].events <= i {
		l := &c.pub.later[0]
		c.srv.hub.Hand(p)
		p.Self = c.pub.by.Self
		c.srv.hub.Publish(p, l.kind, l.channel, l.payload, lsn, true, nil)
		c.srv.hub.Hand(p)
		p.Self = nil
		c.pub.later = c.pub.later[1:]
	}
}

func (c *client) deliverLater() {
	for _, p := range c.pub.later {
		c.srv.hub.Publish(&c.pub.by, p.kind, p.channel, p.payload, c.es.Seen(), true, nil)
	}
	c.pub.later = nil
}

// deliver hands over what was published and is not yet on its way.
func (c *client) deliver() {
	if c.pub == nil {
		return
	}
	if c.pub.later != nil {
		c.deliverLater()
	}
	c.srv.hub.Deliver(&c.pub.by)
}

// messageLimit is what may wait for a subscriber: client-output-buffer-limit.
func (s *Server) messageLimit() pubsub.Limit {
	l := s.cfg.ClientOutputBuffer.Load(config.ClientPubSub)
	return pubsub.Limit{HardBytes: l.HardBytes, SoftBytes: l.SoftBytes, SoftFor: time.Duration(l.SoftSeconds) * time.Second}
}

// cutOff ends a subscriber that reads too slowly; a publisher calls it.
func (c *client) cutOff(waiting int64) {
	c.srv.log.Warn("closing a client whose unread messages passed client-output-buffer-limit", "client", c.id, "addr", c.addr, "bytes", waiting)
	c.kill()
}

// receiver is what a connection has that takes messages, of channels or of the
// feed, or invalidations. Its sender is the goroutine that sends all but those of the
// feed, from the first subscription on, or the first CLIENT TRACKING.
type receiver struct {
	subs     *changes.Subscriptions // for the connection's goroutine
	channels *pubsub.Subscriber
	// turn has a token while somebody sends who shares the connection.
	turn chan struct{}
	// gone says that the connection ends: those who redirect to it are told so.
	gone atomic.Bool

	quit    chan struct{}
	running sync.WaitGroup
	sends   atomic.Bool // the sender was started
	// shared says that the connection's goroutine has had the turn.
	shared atomic.Bool

	mu    sync.Mutex
	ended bool // no sender is started any more; guarded by mu

	// For who has the turn:
	taken []*pubsub.Message
	out   []byte
}

// sending reports whether others may send on the connection: it has or had
// subscriptions of channels, or is told of keys, or is in MONITOR. For its own
// goroutine.
func (c *client) sending(r *receiver) bool { return r.sends.Load() || c.monitor.Load() != nil }

// receive returns the receiver. Any goroutine may ask.
func (c *client) receive() *receiver {
	if r := c.receiver.Load(); r != nil {
		return r
	}
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	r := c.receiver.Load()
	if r == nil {
		r = &receiver{
			subs: changes.NewSubscriptions(c), channels: pubsub.NewSubscriber(c.srv.messageLimit, c.cutOff), turn: make(chan struct{}, 1),
			quit: make(chan struct{}),
		}
		c.receiver.Store(r)
		if c.killed.Load() {
			r.gone.Store(true)
		}
		if c.left { // nobody would end a sender
			r.gone.Store(true)
			r.ended = true
		}
		if c.srv.clients[c.id] == c { // else it was killed
			c.srv.receivers[c] = r
		}
	}
	return r
}

// Subscriber implements the Session of the family pubsub.
func (c *client) Subscriber() *pubsub.Subscriber {
	r := c.receive()
	c.startSender(r, func() {})
	return r.channels
}

// startSender starts the sender, which first does what prepare does.
func (c *client) startSender(r *receiver, prepare func()) {
	if r.sends.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.sends.Load() {
		return
	}
	r.sends.Store(true)
	r.running.Go(func() {
		defer c.survive()
		prepare()
		c.sendWhenWoken(r)
	})
}

// survive ends the connection where its sender panics, which is a bug.
func (c *client) survive() {
	if p := recover(); p != nil {
		c.srv.log.Error("sending messages panicked", "client", c.id, "addr", c.addr, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		c.kill()
	}
}

// awaitSharing returns once the connection's goroutine takes turns: it did not while it
// had the connection for itself, and another one has started the sender. It does when it
// has begun to wait since, or has had a turn.
func (c *client) awaitSharing(r *receiver) {
	const most = 50 * time.Millisecond
	for pause := time.Millisecond; !r.shared.Load() && c.idleSince.Load() == busy && !c.waits.Load(); pause = min(2*pause, most) {
		select {
		case <-time.After(pause):
		case <-r.quit:
			return
		}
	}
}

func (c *client) sendWhenWoken(r *receiver) {
	for {
		select {
		case <-r.channels.Woken():
		case <-r.quit:
			return
		}
		select {
		case r.turn <- struct{}{}:
		case <-r.quit:
			return
		}
		c.sendMessages(r)
		c.EndTurn()
	}
}

const (
	// largeMessageBytes: from this length on a message is not copied before it is
	// sent.
	largeMessageBytes = 16 << 10
	// keptSenderBytes and keptSenderMessages are what a sender keeps while there is
	// nothing to send.
	keptSenderBytes    = 4 << 10
	keptSenderMessages = 64
)

// sendMessages sends what is queued, for who has the turn. It reports whether the
// connection can go on. The log comes first, as for replies; where it cannot
// advance, what the messages show stands, as reads do.
func (c *client) sendMessages(r *receiver) bool {
	r.taken = r.channels.Take(r.taken[:0])
	if len(r.taken) == 0 {
		return true
	}
	lsn := uint64(0)
	for _, m := range r.taken {
		lsn = max(lsn, m.LSN())
	}
	_ = c.srv.store.Wait(lsn)
	ok := c.sendTaken(r)
	clear(r.taken)
	if cap(r.taken) > keptSenderMessages {
		r.taken = nil
	}
	if cap(r.out) > keptSenderBytes {
		r.out = nil
	}
	return ok
}

func (c *client) sendTaken(r *receiver) bool {
	r.out = r.out[:0]
	gathered := 0
	send := func(b []byte) bool {
		ok := c.push(b)
		r.channels.Sent(gathered)
		gathered = 0
		return ok
	}
	for _, m := range r.taken {
		if first, rest, ok := m.Parts(c.pushProto); ok && m.Len() >= largeMessageBytes {
			r.out = append(r.out, first)
			if !c.push(r.out) {
				return false
			}
			r.out = r.out[:0]
			gathered += m.Len()
			if !send(rest) {
				return false
			}
			continue
		}
		r.out = m.AppendTo(r.out, c.pushProto)
		gathered += m.Len()
		if len(r.out) >= flushBytes {
			if !send(r.out) {
				return false
			}
			r.out = r.out[:0]
		}
	}
	if len(r.out) == 0 {
		r.channels.Sent(gathered) // what this protocol has no form for
		return true
	}
	return send(r.out)
}

// endMessages ends what the connection has to do with channels, which is closed.
func (c *client) endMessages(r *receiver) {
	c.srv.hub.Leave(r.channels)
	r.channels.Close()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	close(r.quit)
	r.running.Wait()
}
