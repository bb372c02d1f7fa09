package changes

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"kevy/feed"
)

// Outlet is the way out of a connection, which replies and messages share: one
// sends at a time.
type Outlet interface {
	// ID and Addr say which connection it is.
	ID() uint64
	Addr() string
	// Turn waits until nobody else sends. The caller may then send until it calls
	// EndTurn, in the protocol version proto. The error is ctx.Err().
	Turn(ctx context.Context) (proto int, err error)
	EndTurn()
	// Push sends bytes for who has the turn, and waits for as long as the peer takes
	// none. False says that the connection has ended.
	Push(b []byte) bool
	// Pause returns what is closed after a moment, in which more commits gather.
	Pause() <-chan struct{}
	// Fail ends the connection: a message that was begun cannot be completed.
	Fail(err error)
}

// Subscriptions are those of one connection. Its goroutine calls the methods,
// except Any and Count, which are for all. There is at most one for each stream.
type Subscriptions struct {
	out   Outlet
	after []func() // to be done once the replies so far are sent
	count atomic.Int32

	running sync.WaitGroup // one for each goroutine

	mu   sync.Mutex
	list []*subscription // guarded by mu: one that ends by itself leaves it
}

// NewSubscriptions returns the subscriptions of a connection: none.
func NewSubscriptions(out Outlet) *Subscriptions { return &Subscriptions{out: out} }

// Any reports whether there are subscriptions. Any goroutine may ask.
func (l *Subscriptions) Any() bool { return l.count.Load() > 0 }

// Count returns how many there are. Any goroutine may ask.
func (l *Subscriptions) Count() int { return int(l.count.Load()) }

// Sent says that the replies so far have been sent: what they confirm begins.
func (l *Subscriptions) Sent() {
	for i, fn := range l.after {
		fn()
		l.after[i] = nil
	}
	l.after = l.after[:0]
}

// Close ends all subscriptions and waits for their ends. No message is sent
// afterwards; one that is on its way is completed unless the connection ends.
func (l *Subscriptions) Close() {
	for _, stream := range l.streams() {
		l.stop(stream)
	}
	l.running.Wait()
	l.after = nil
}

func (l *Subscriptions) afterReply(fn func()) { l.after = append(l.after, fn) }

func (l *Subscriptions) find(stream int) *subscription {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.list {
		if s.stream == stream {
			return s
		}
	}
	return nil
}

// Every reports whether ok holds for the filter of each subscription. Any goroutine
// may ask.
func (l *Subscriptions) Every(ok func(f *feed.Filter) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(l.list, func(s *subscription) bool { return !ok(s.req.Filter) })
}

// streams returns the streams subscribed to, in the order of subscribing.
func (l *Subscriptions) streams() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]int, len(l.list))
	for i, s := range l.list {
		all[i] = s.stream
	}
	return all
}

// add makes s a subscription, which begins once the reply is sent.
func (l *Subscriptions) add(s *subscription) {
	l.mu.Lock()
	l.list = append(l.list, s)
	l.mu.Unlock()
	l.count.Add(1)
	s.family.subscribers.Add(s)
	l.afterReply(s.begin)
}

// remove takes s off the list; false if it was not on it.
func (l *Subscriptions) remove(s *subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.list, s)
	if i < 0 {
		return false
	}
	l.list = slices.Delete(l.list, i, i+1)
	l.count.Add(-1)
	return true
}

// stop ends the subscription to a stream, if there is one, and waits for its
// end.
func (l *Subscriptions) stop(stream int) {
	if s := l.find(stream); s != nil {
		l.remove(s)
		s.stop()
	}
}
