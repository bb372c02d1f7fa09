package changes

import (
	"slices"
	"sync"

	"kevy/feed"
	"kevy/resp"
)

// maxListed is how many subscribers CHANGES INFO lists: those that are furthest
// behind.
const maxListed = 64

// subscribers are all subscriptions of a server.
type subscribers struct {
	mu  sync.Mutex
	all map[*subscription]struct{} // guarded by mu
}

func (l *subscribers) add(s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[*subscription]struct{})
	}
	l.all[s] = struct{}{}
}

func (l *subscribers) remove(s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, s)
}

// of returns the subscriptions to a stream.
func (l *subscribers) of(stream int) (list []*subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.all {
		if s.stream == stream {
			list = append(list, s)
		}
	}
	return list
}

// subscriberInfo is a subscription as INFO lists it.
type subscriberInfo struct {
	*subscription
	at     feed.Cursor // zero before the frames
	frames uint64
}

// describeSubscribers adds those of a stream to the map that INFO replies with.
func (f *family) describeSubscribers(w *resp.Writer, stream int) {
	subs := f.subscribers.of(stream)
	list := make([]subscriberInfo, len(subs))
	for i, s := range subs {
		list[i].subscription = s
		if reader := s.reader.Load(); reader != nil {
			list[i].at = reader.Cursor()
			list[i].frames = f.source.LagFrames(stream, list[i].at)
		}
	}
	slices.SortFunc(list, func(a, b subscriberInfo) int {
		switch {
		case a.frames != b.frames && a.frames > b.frames:
			return -1
		case a.frames != b.frames:
			return 1
		}
		return int(int64(a.subs.out.ID()) - int64(b.subs.out.ID()))
	})
	w.BulkString("subscriber-count")
	w.Int(int64(len(list)))
	w.BulkString("subscribers")
	list = list[:min(len(list), maxListed)]
	w.Array(len(list))
	for i := range list {
		f.describeSubscriber(w, &list[i])
	}
}

func (f *family) describeSubscriber(w *resp.Writer, s *subscriberInfo) {
	lag, err := f.source.Lag(s.stream, s.at)
	flag := func(name string, on bool) {
		w.BulkString(name)
		if on {
			w.Int(1)
		} else {
			w.Int(0)
		}
	}
	w.Map(9)
	w.BulkString("id")
	w.Int(int64(s.subs.out.ID()))
	w.BulkString("addr")
	w.BulkString(s.subs.out.Addr())
	w.BulkString("at")
	if s.at == (feed.Cursor{}) {
		w.Null()
	} else {
		writeCursor(w, s.at)
	}
	flag("durable", s.req.Durable)
	flag("filtered", s.filtered)
	w.BulkString("credit")
	if s.window.limited {
		w.Int(s.window.left.Load())
	} else {
		w.Null()
	}
	w.BulkString("lag-frames")
	w.Int(int64(lag.Frames))
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
