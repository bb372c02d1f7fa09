package server

import (
	"bytes"
	"sync"
	"time"

	"kevy/internal/command/changes"
	"kevy/internal/config"
	"kevy/internal/pubsub"
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
		if r := c.receiver.Load(); r != nil {
			c.pub.by.Self = r.channels
		}
	}
	if c.es.InMulti() {
		// A script's arguments are gone with its next command.
		c.pub.later = append(c.pub.later, publication{kind, bytes.Clone(channel), bytes.Clone(payload), c.es.EventsNoted()})
		return c.srv.hub.Publish(&c.pub.by, kind, channel, payload, c.es.Seen(), false, own)
	}
	c.deliverLater()
	return c.srv.hub.Publish(&c.pub.by, kind, channel, payload, c.es.Seen(), true, own)
}

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
// feed. Its sender is the goroutine that sends those of channels, from the first
// subscription on. The fields but for the last two are for the connection's
// goroutine.
type receiver struct {
	subs     *changes.Subscriptions
	channels *pubsub.Subscriber
	// turn has a token while somebody sends who shares the connection.
	turn chan struct{}

	quit    chan struct{} // nil: the sender was not started
	running sync.WaitGroup

	// For who has the turn:
	taken []*pubsub.Message
	out   []byte
}

// sending reports whether others may send on the connection: it has or had
// subscriptions of channels, or is in MONITOR. For its own goroutine.
func (c *client) sending(r *receiver) bool { return r.quit != nil || c.monitor.Load() != nil }

// receive returns the receiver, for the connection's goroutine.
func (c *client) receive() *receiver {
	r := c.receiver.Load()
	if r == nil {
		r = &receiver{
			subs: changes.NewSubscriptions(c), channels: pubsub.NewSubscriber(c.srv.messageLimit, c.cutOff), turn: make(chan struct{}, 1),
		}
		if c.pub != nil {
			c.pub.by.Self = r.channels
		}
		c.receiver.Store(r)
		c.srv.mu.Lock()
		if c.srv.clients[c.id] == c { // else it was killed
			c.srv.receivers[c] = r
		}
		c.srv.mu.Unlock()
	}
	return r
}

// Subscriber implements the Session of the family pubsub.
func (c *client) Subscriber() *pubsub.Subscriber {
	r := c.receive()
	if r.quit == nil {
		r.quit = make(chan struct{})
		r.running.Go(func() { c.sendWhenWoken(r) })
	}
	return r.channels
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
	return len(r.out) == 0 || send(r.out)
}

// endMessages ends what the connection has to do with channels, which is closed.
func (c *client) endMessages(r *receiver) {
	c.srv.hub.Leave(r.channels)
	r.channels.Close()
	if r.quit != nil {
		close(r.quit)
	}
	r.running.Wait()
}
