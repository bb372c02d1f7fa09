// Package pubsub brings messages to those who have subscribed to their channel: a
// Hub knows who has, and each Subscriber has a bounded queue of messages, which all
// who get one share. Nobody here waits for anybody: a connection takes from its
// queue what it can send, and one that takes too little is cut off.
package pubsub

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"kevy/internal/glob"
)

// Kind is what a subscription names.
type Kind uint8

// The kinds of subscriptions.
const (
	Channels Kind = iota
	Patterns      // of channels
	Shard         // channels of SSUBSCRIBE, which only SPUBLISH reaches
	kinds
)

// Hub is who has subscribed to what. It is safe for use by many goroutines.
type Hub struct {
	mu sync.RWMutex
	// topics are those that somebody has subscribed to; guarded by mu.
	topics [kinds]map[string]*topic
	// patterns are those of topics, in the order of their first subscriber, in which
	// they are matched; guarded by mu.
	patterns []*topic
	next     uint64 // numbers subscriptions; guarded by mu
}

// topic is a channel or a pattern with its subscribers, of which there is at least
// one. It is guarded by Hub.mu.
type topic struct {
	kind        Kind
	name        string
	subscribers []*subscription
}

// subscription is one of a Subscriber, guarded by Hub.mu.
type subscription struct {
	subscriber *Subscriber
	topic      *topic
	place      int    // in topic.subscribers
	number     uint64 // in the order of subscribing
}

// NewHub returns a Hub without subscribers.
func NewHub() *Hub {
	h := &Hub{}
	for k := range h.topics {
		h.topics[k] = make(map[string]*topic)
	}
	return h
}

// Subscribe subscribes s, which nobody has closed, to a name, which it copies; it
// reports whether it had not.
func (h *Hub) Subscribe(s *Subscriber, kind Kind, name []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := s.subscriptions[kind][string(name)]; ok {
		return false
	}
	t := h.topics[kind][string(name)]
	if t == nil {
		t = &topic{kind: kind, name: string(name)}
		h.topics[kind][t.name] = t
		if kind == Patterns {
			h.patterns = append(h.patterns, t)
		}
	}
	h.next++
	sub := &subscription{subscriber: s, topic: t, place: len(t.subscribers), number: h.next}
	t.subscribers = append(t.subscribers, sub)
	if s.subscriptions[kind] == nil {
		s.subscriptions[kind] = make(map[string]*subscription)
	}
	s.subscriptions[kind][t.name] = sub
	s.nameBytes.Add(int64(len(t.name)) + subscriptionBytes)
	s.counts[kind].Add(1)
	return true
}

// Unsubscribe ends a subscription and reports whether there was one. Once it
// returns nothing more of it is queued.
func (h *Hub) Unsubscribe(s *Subscriber, kind Kind, name []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub, ok := s.subscriptions[kind][string(name)]
	if ok {
		h.remove(sub)
	}
	return ok
}

// Leave ends all subscriptions of s.
func (h *Hub) Leave(s *Subscriber) {
	if !s.Any() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range s.subscriptions {
		for _, sub := range all {
			h.remove(sub)
		}
	}
}

// remove ends a subscription, under mu.
func (h *Hub) remove(sub *subscription) {
	s, t := sub.subscriber, sub.topic
	delete(s.subscriptions[t.kind], t.name)
	s.nameBytes.Add(-int64(len(t.name)) - subscriptionBytes)
	s.counts[t.kind].Add(-1)
	last := len(t.subscribers) - 1
	t.subscribers[sub.place] = t.subscribers[last]
	t.subscribers[sub.place].place = sub.place
	t.subscribers[last] = nil
	t.subscribers = t.subscribers[:last]
	if last > 0 {
		return
	}
	delete(h.topics[t.kind], t.name)
	if t.kind == Patterns {
		i := slices.Index(h.patterns, t)
		h.patterns = slices.Delete(h.patterns, i, i+1)
	}
}

// Names returns what s has subscribed to, in the order of subscribing.
func (h *Hub) Names(s *Subscriber, kind Kind) []string {
	h.mu.RLock()
	all := make([]*subscription, 0, len(s.subscriptions[kind]))
	for _, sub := range s.subscriptions[kind] {
		all = append(all, sub)
	}
	h.mu.RUnlock()
	slices.SortFunc(all, func(a, b *subscription) int { return cmp.Compare(a.number, b.number) })
	names := make([]string, len(all))
	for i, sub := range all {
		names[i] = sub.topic.name
	}
	return names
}

// Topics returns the names of a kind that have subscribers and match a pattern, or
// all if there is none.
func (h *Hub) Topics(kind Kind, pattern []byte, all bool) []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var names []string
	for name := range h.topics[kind] {
		if all || glob.Match(pattern, name) {
			names = append(names, name)
		}
	}
	return names
}

// Count returns how many names of a kind have subscribers.
func (h *Hub) Count(kind Kind) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.topics[kind])
}

// Empty reports whether nobody has subscribed to a channel or a pattern.
func (h *Hub) Empty() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.topics[Channels])+len(h.topics[Patterns]) == 0
}

// Subscribers returns how many have subscribed to a name.
func (h *Hub) Subscribers(kind Kind, name []byte) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if t := h.topics[kind][string(name)]; t != nil {
		return len(t.subscribers)
	}
	return 0
}

// Publish takes a message for the subscribers of a channel, of kind Channels or
// Shard, and returns how many there are: one who has it from the channel and from
// patterns counts for each. The message shows what is in the log up to lsn. It is on
// its way once Deliver was called. The publisher's own Subscriber gets nothing
// queued: own is called with each message that is for it. If deliver is false that
// is all that happens, besides counting. The bytes are the caller's again
// afterwards.
func (h *Hub) Publish(p *Publisher, kind Kind, channel, payload []byte, lsn uint64, deliver bool, own func(m *Message)) (receivers int) {
	h.mu.RLock()
	p.matched = p.matched[:0]
	if t := h.topics[kind][string(channel)]; t != nil {
		p.matched = append(p.matched, t)
	}
	if kind == Channels {
		for _, t := range h.patterns {
			if glob.Match(t.name, channel) {
				p.matched = append(p.matched, t)
			}
		}
	}
	for _, t := range p.matched {
		receivers += len(t.subscribers)
		if own != nil && p.Self != nil && p.Self.subscriptions[t.kind][t.name] != nil {
			own(newMessage(t, channel, payload, lsn))
		}
	}
	h.mu.RUnlock()
	if deliver {
		p.gather(channel, payload, lsn)
	}
	clear(p.matched)
	if p.bytes >= gatheredBytes {
		h.Hand(p)
	}
	return receivers
}

// Deliver hands what p has published to the subscribers, wakes those who sleep and
// ends those who read too slowly.
func (h *Hub) Deliver(p *Publisher) {
	h.Hand(p)
	p.cutOff()
}

// Hand is Deliver for one who holds locks: those who read too slowly get nothing
// more, and are ended by Deliver, or by who takes them with TakeSlow.
func (h *Hub) Hand(p *Publisher) {
	if len(p.runs) == 0 {
		return
	}
	h.mu.RLock()
	for i := range p.runs {
		p.hand(&p.runs[i])
	}
	h.mu.RUnlock()
	clear(p.runs)
	p.runs, p.bytes = p.runs[:0], 0
	p.Wake()
}

const (
	// runBytes is how long a run may be that a message is still added to.
	runBytes = 8 << 10
	// gatheredBytes is how much a publisher gathers before it is delivered although
	// there is more.
	gatheredBytes = 64 << 10
)

// Publisher is one who publishes, a connection; one goroutine uses it.
type Publisher struct {
	// Self, if not nil, is the publisher's own Subscriber.
	Self *Subscriber

	runs    []run // what is to be delivered, in order
	bytes   int   // of runs
	matched []*topic
	asleep  []*Subscriber // who has got something and must be woken
	over    []*Subscriber // whose queue is over its limit
}

// run is messages to one topic and nothing else, one behind the other: its
// subscribers get them as one. Many pipeline what they publish.
type run struct {
	topic   *topic
	message *Message
}

// gather adds a message to what is to be delivered to the topics matched.
func (p *Publisher) gather(channel, payload []byte, lsn uint64) {
	for _, t := range p.matched {
		if last := len(p.runs) - 1; len(p.matched) == 1 && last >= 0 && p.runs[last].topic == t && p.runs[last].message.Len() < runBytes {
			m := p.runs[last].message
			before := m.Len()
			m.add(t, channel, payload, lsn)
			p.bytes += m.Len() - before
			continue
		}
		m := newMessage(t, channel, payload, lsn)
		p.runs = append(p.runs, run{t, m})
		p.bytes += m.Len()
	}
}

// hand queues a run for the subscribers that its topic has, under Hub.mu.
func (p *Publisher) hand(r *run) {
	for _, sub := range r.topic.subscribers {
		if sub.subscriber != p.Self {
			p.Queue(sub.subscriber, r.message)
		}
	}
}

// cutOff ends those who read too slowly, outside of all locks.
func (p *Publisher) cutOff() {
	for i, s := range p.over {
		s.End()
		p.over[i] = nil
	}
	p.over = p.over[:0]
}

// TakeSlow appends those to dst who read too slowly and have to be ended, which p
// forgets.
func (p *Publisher) TakeSlow(dst []*Subscriber) []*Subscriber {
	dst = append(dst, p.over...)
	clear(p.over)
	p.over = p.over[:0]
	return dst
}

// Queue queues a message for a subscriber, which sleeps on until Wake.
func (p *Publisher) Queue(s *Subscriber, m *Message) {
	switch s.add(m, p) {
	case queuedAsleep:
		p.asleep = append(p.asleep, s)
	case overLimit:
		p.over = append(p.over, s)
	}
}

// Wake wakes those who have got something by Queue. Who has read too slowly is to be
// ended: see TakeSlow.
func (p *Publisher) Wake() {
	for i, s := range p.asleep {
		s.wakeUp()
		p.asleep[i] = nil
	}
	p.asleep = p.asleep[:0]
}

// counts is a number for each kind.
type counts [kinds]atomic.Int64
