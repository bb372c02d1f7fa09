package pubsub

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limit bounds what may wait for a subscriber, in bytes of messages; 0 is no
// bound. Beyond SoftBytes it may be for SoftFor without a break.
type Limit struct {
	HardBytes, SoftBytes int64
	SoftFor              time.Duration
}

// Subscriber is a connection that can take messages, and those that wait for it.
// Its Hub's methods, Hold, Release and what is said to be the owner's are for the
// connection's goroutine.
type Subscriber struct {
	limit func() Limit
	end   func(waiting int64)

	subscriptions [kinds]map[string]*subscription // guarded by Hub.mu
	counts        counts

	wake    chan struct{} // has room for one: there is something to take
	waiting atomic.Int64  // bytes queued, or taken and not yet sent
	// nameBytes is what the subscriptions occupy.
	nameBytes atomic.Int64

	mu     sync.Mutex
	queue  []*Message // guarded by mu
	closed bool       // nothing is queued any more; guarded by mu
	// held says that what stands in queue from free on must not be taken yet; both are
	// guarded by mu.
	held bool
	free int
	// woken says that wake was signalled since the last Take; waker is who is about to
	// do it, nil if nobody is. Both are guarded by mu.
	woken bool
	waker *Publisher
	soft  time.Time // since when it is over SoftBytes, zero: it is not; guarded by mu
}

// NewSubscriber returns one without subscriptions. limit is asked whenever a
// message is queued; end is called once, by whichever publisher passes it, with the
// bytes that wait. It must not wait for anything.
func NewSubscriber(limit func() Limit, end func(waiting int64)) *Subscriber {
	return &Subscriber{limit: limit, end: end, wake: make(chan struct{}, 1)}
}

// Counts returns the numbers of subscriptions. Any goroutine may ask.
func (s *Subscriber) Counts() (channels, patterns, shard int64) {
	return s.counts[Channels].Load(), s.counts[Patterns].Load(), s.counts[Shard].Load()
}

// Any reports whether there are subscriptions. Any goroutine may ask.
func (s *Subscriber) Any() bool {
	channels, patterns, shard := s.Counts()
	return channels+patterns+shard > 0
}

// Waiting returns how many bytes wait to be sent. Any goroutine may ask.
func (s *Subscriber) Waiting() int64 { return s.waiting.Load() }

// subscriptionBytes is about what a subscription occupies beside its name.
const subscriptionBytes = 128

// SubscriptionBytes estimates what the subscriptions occupy. Any goroutine may ask.
func (s *Subscriber) SubscriptionBytes() int64 { return s.nameBytes.Load() }

// Woken returns what is signalled when there is something to take.
func (s *Subscriber) Woken() <-chan struct{} { return s.wake }

// What add has done.
type added int

const (
	queued       added = iota // or dropped: there is nothing to be done
	queuedAsleep              // the caller has to wake it
	overLimit                 // the caller has to cut it off
)

// add queues a message for p.
func (s *Subscriber) add(m *Message, p *Publisher) added {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return queued
	}
	waiting := s.waiting.Add(int64(m.Len()))
	if s.over(waiting) {
		s.close()
		return overLimit
	}
	s.queue = append(s.queue, m)
	if s.woken || s.waker == p {
		return queued
	}
	s.waker = p
	return queuedAsleep
}

// over reports whether too much waits, under mu.
func (s *Subscriber) over(waiting int64) bool {
	l := s.limit()
	if l.HardBytes > 0 && waiting > l.HardBytes {
		return true
	}
	if l.SoftBytes <= 0 || waiting <= l.SoftBytes {
		s.soft = time.Time{}
		return false
	}
	now := time.Now()
	if s.soft.IsZero() {
		s.soft = now
	}
	return now.Sub(s.soft) > l.SoftFor
}

// Overdue cuts the subscriber off if it has been over the soft limit for too long: for
// who looks at it while nobody publishes.
func (s *Subscriber) Overdue() {
	if s.waiting.Load() == 0 {
		return
	}
	s.mu.Lock()
	over := !s.closed && s.over(s.waiting.Load())
	if over {
		s.close()
	}
	s.mu.Unlock()
	if over {
		s.End()
	}
}

// close drops what is queued, under mu.
func (s *Subscriber) close() {
	s.closed = true
	s.queue = nil
}

// End ends the connection of one whose queue has passed its limit, as TakeSlow returns
// them.
func (s *Subscriber) End() { s.end(s.waiting.Load()) }

// Close makes the subscriber take nothing any more.
func (s *Subscriber) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
}

func (s *Subscriber) wakeUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal()
}

func (s *Subscriber) signal() {
	s.waker = nil
	if s.woken || len(s.queue) == 0 || s.held && s.free == 0 {
		return
	}
	s.woken = true
	s.wake <- struct{}{}
}

// Hold keeps back what is queued from now on, until Release: it has to come behind
// a reply that is not yet sent, which says that its channel is subscribed to.
func (s *Subscriber) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		s.held, s.free = true, len(s.queue)
	}
}

// Release ends what Hold began.
func (s *Subscriber) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		s.held = false
		s.signal()
	}
}

// Take returns the messages that may be sent now, after those in dst, which has
// none. Say Sent for each.
func (s *Subscriber) Take(dst []*Message) []*Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.woken {
		s.woken = false
		select {
		case <-s.wake:
		default:
		}
	}
	n := len(s.queue)
	if s.held {
		n = s.free
		s.free = 0
	}
	dst = append(dst, s.queue[:n]...)
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	if cap(s.queue) > keptMessages && rest == 0 {
		s.queue = nil
	}
	return dst
}

// keptMessages is how long a queue may be that is kept while it is empty.
const keptMessages = 256

// TakeHeld returns the messages that are held back, for the owner to put them before
// a reply that ends a subscription: it will send them with its replies.
func (s *Subscriber) TakeHeld() []*Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held || s.free == len(s.queue) {
		return nil
	}
	out := slices.Clone(s.queue[s.free:])
	clear(s.queue[s.free:])
	s.queue = s.queue[:s.free]
	for _, m := range out {
		s.waiting.Add(-int64(m.Len()))
	}
	return out
}

// DropHeld drops those of a subscription from what is held back: where it begins
// and ends in one reply there is no place for them.
func (s *Subscriber) DropHeld(kind Kind, name []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		return
	}
	kept := slices.DeleteFunc(s.queue[s.free:], func(m *Message) bool {
		drop := m.kind == kind && m.name == string(name)
		if drop {
			s.waiting.Add(-int64(m.Len()))
		}
		return drop
	})
	s.queue = s.queue[:s.free+len(kept)]
}

// Sent says that bytes of messages have been sent. What waits is then no longer
// over the soft limit, if it is not.
func (s *Subscriber) Sent(bytes int) {
	waiting := s.waiting.Add(-int64(bytes))
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.soft.IsZero() && waiting <= s.limit().SoftBytes {
		s.soft = time.Time{}
	}
}
