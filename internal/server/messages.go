package server

import (
	"sync"
	"time"

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
}

// Publish implements the Session of the family pubsub.
func (c *client) Publish(kind pubsub.Kind, channel, payload []byte, own func(m *pubsub.Message)) int {
	if c.es.InMulti() {
		// The arguments are those of the queued command, which nobody changes.
		c.pub.later = append(c.pub.later, publication{kind, channel, payload})
		return c.srv.hub.Publish(&c.pub.by, kind, channel, payload, c.es.Seen(), false, own)
	}
	c.deliverLater()
	return c.srv.hub.Publish(&c.pub.by, kind, channel, payload, c.es.Seen(), true, own)
}

// Show implements the Session of the family pubsub.
func (c *client) Show(m *pubsub.Message) { c.es.Saw(m.LSN()) }

func (c *client) deliverLater() {
	for _, p := range c.pub.later {
		c.srv.hub.Publish(&c.pub.by, p.kind, p.channel, p.payload, c.es.Seen(), true, nil)
	}
	c.pub.later = nil
}

// deliver hands over what was published and is not yet on its way.
func (c *client) deliver() {
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

// sender is the goroutine that sends a connection's messages, from its first
// subscription on. The fields but for those of sendMessages are for the connection's
// goroutine.
type sender struct {
	quit    chan struct{} // nil: it was not started
	running sync.WaitGroup

	// For who has the turn:
	taken []*pubsub.Message
	out   []byte
}

// sending reports whether others may send on the connection: it has or had
// subscriptions, or is in MONITOR. For its own goroutine.
func (c *client) sending() bool { return c.sender.quit != nil || c.monitor.Load() != nil }

// Subscriber implements the Session of the family pubsub.
func (c *client) Subscriber() *pubsub.Subscriber {
	if c.sender.quit == nil {
		c.sender.quit = make(chan struct{})
		c.sender.running.Go(c.sendWhenWoken)
	}
	return c.channels
}

func (c *client) sendWhenWoken() {
	for {
		select {
		case <-c.channels.Woken():
		case <-c.sender.quit:
			return
		}
		select {
		case c.turn <- struct{}{}:
		case <-c.sender.quit:
			return
		}
		c.sendMessages()
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
func (c *client) sendMessages() bool {
	s := &c.sender
	s.taken = c.channels.Take(s.taken[:0])
	if len(s.taken) == 0 {
		return true
	}
	lsn := uint64(0)
	for _, m := range s.taken {
		lsn = max(lsn, m.LSN())
	}
	_ = c.srv.store.Wait(lsn)
	ok := c.sendTaken()
	clear(s.taken)
	if cap(s.taken) > keptSenderMessages {
		s.taken = nil
	}
	if cap(s.out) > keptSenderBytes {
		s.out = nil
	}
	return ok
}

func (c *client) sendTaken() bool {
	s := &c.sender
	s.out = s.out[:0]
	gathered := 0
	send := func(b []byte) bool {
		ok := c.push(b)
		c.channels.Sent(gathered)
		gathered = 0
		return ok
	}
	for _, m := range s.taken {
		if first, rest, ok := m.Parts(c.pushProto); ok && m.Len() >= largeMessageBytes {
			s.out = append(s.out, first)
			if !c.push(s.out) {
				return false
			}
			s.out = s.out[:0]
			gathered += m.Len()
			if !send(rest) {
				return false
			}
			continue
		}
		s.out = m.AppendTo(s.out, c.pushProto)
		gathered += m.Len()
		if len(s.out) >= flushBytes {
			if !send(s.out) {
				return false
			}
			s.out = s.out[:0]
		}
	}
	return len(s.out) == 0 || send(s.out)
}

// endMessages ends what the connection has to do with channels, which is closed.
func (c *client) endMessages() {
	c.srv.hub.Leave(c.channels)
	c.channels.Close()
	if c.sender.quit != nil {
		close(c.sender.quit)
	}
	c.sender.running.Wait()
	c.deliver()
}
