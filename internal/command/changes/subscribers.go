package changes

import (
	"cmp"
	"slices"
	"sync"

	"kevy/feed"
	"kevy/resp"
)

// maxListed is how many subscribers CHANGES INFO lists: those that are furthest
// behind.
const maxListed = 64

// Subscriber is a reader that follows a stream, for INFO. Any goroutine may ask.
type Subscriber interface{ Describe() Description }

// Description is a subscriber as INFO lists it.
type Description struct {
	Stream int
	ID     uint64 // of its connection
	Addr   string // of the peer
	// At is the cursor before which all was sent, zero before the frames.
	At                feed.Cursor
	Durable, Filtered bool
	// Credit is how many messages with frames may still be sent, if that is Limited.
	Limited bool
	Credit  int64
}

// Subscribers are all subscribers of a server. The zero value is ready.
type Subscribers struct {
	mu  sync.Mutex
	all map[Subscriber]struct{} // guarded by mu
}

// Add lists s until Remove.
func (l *Subscribers) Add(s Subscriber) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[Subscriber]struct{})
	}
	l.all[s] = struct{}{}
}

// Remove forgets s, if it is listed.
func (l *Subscribers) Remove(s Subscriber) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, s)
}

// of describes the subscribers of a stream.
func (l *Subscribers) of(stream int) (list []subscriberInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.all {
		if d := s.Describe(); d.Stream == stream {
			list = append(list, subscriberInfo{Description: d})
		}
	}
	return list
}

// Describe implements Subscriber.
func (s *subscription) Describe() Description {
	d := Description{Stream: s.stream, ID: s.subs.out.ID(), Addr: s.subs.out.Addr(), Durable: s.req.Durable, Filtered: s.filtered}
	if reader := s.reader.Load(); reader != nil {
		d.At = reader.Cursor()
	}
	if s.window.limited {
		d.Limited, d.Credit = true, s.window.left.Load()
	}
	return d
}

// subscriberInfo is a subscriber with how far it is behind.
type subscriberInfo struct {
	Description
	frames uint64
}

// writeSubscribers adds those of a stream to the map that INFO replies with.
func (f *family) writeSubscribers(w *resp.Writer, stream int) {
	list := f.subscribers.of(stream)
	for i := range list {
		if at := list[i].At; at != (feed.Cursor{}) {
			list[i].frames = f.source.LagFrames(stream, at)
		}
	}
	slices.SortFunc(list, func(a, b subscriberInfo) int {
		return cmp.Or(cmp.Compare(b.frames, a.frames), cmp.Compare(a.ID, b.ID))
	})
	writeField(w, "subscriber-count", int64(len(list)))
	w.BulkString("subscribers")
	list = list[:min(len(list), maxListed)]
	w.Array(len(list))
	for i := range list {
		f.writeSubscriber(w, &list[i])
	}
}

func (f *family) writeSubscriber(w *resp.Writer, s *subscriberInfo) {
	lag, err := f.source.Lag(s.Stream, s.At)
	flag := func(name string, on bool) {
		n := int64(0)
		if on {
			n = 1
		}
		writeField(w, name, n)
	}
	w.Map(9)
	writeField(w, "id", int64(s.ID))
	w.BulkString("addr")
	w.BulkString(s.Addr)
	w.BulkString("at")
	if s.At == (feed.Cursor{}) {
		w.Null()
	} else {
		writeCursor(w, s.At)
	}
	flag("durable", s.Durable)
	flag("filtered", s.Filtered)
	w.BulkString("credit")
	if s.Limited {
		w.Int(s.Credit)
	} else {
		w.Null()
	}
	writeField(w, "lag-frames", int64(lag.Frames))
	w.BulkString("lag-bytes")
	if err == nil {
		w.Int(lag.Bytes)
	} else {
		w.Null() // what comes next is no longer there
	}
	w.BulkString("lag-seconds")
	if err == nil {
		w.Double(float64(lag.Ms) / 1000)
	} else {
		w.Null()
	}
}
