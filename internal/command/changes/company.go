package changes

import (
	"sync"

	"kevy/feed"
	"kevy/resp"
)

// company is the subscriptions that are sent the same messages: to one stream,
// without filters, with the same options. Whoever is first at the tail reads and
// encodes for all; who falls behind reads for itself.
type company struct {
	key    companyKey
	source *feed.Source
	filter feed.Filter // says no more than the database

	mu       sync.Mutex
	members  int            // guarded by companies.mu
	follower *feed.Follower // stands behind what was read last; nil at first; guarded by mu
	batch    feed.Batch     // guarded by mu
	recent   [recentMessages]sharedMessage
	next     int // the oldest of recent; both guarded by mu
}

// recentMessages is how many messages are kept for those who come a little later.
const recentMessages = 4

// companyKey is what messages depend on.
type companyKey struct {
	stream, db, count, bytes int
	allDBs, meta             bool
}

// sharedMessage is what follows the cursor from.
type sharedMessage struct {
	from, at    feed.Cursor
	completeLSN uint64
	frames      int
	full        bool     // there was more to be read at once
	messages    messages // one, or none if no frame passed
}

// companies are those of a server.
type companies struct {
	mu  sync.Mutex
	all map[companyKey]*company // those with members; guarded by mu
}

// join returns the company of a subscription, nil if its messages are its own.
func (l *companies) join(s *subscription) *company {
	if s.filtered || s.req.Durable {
		return nil
	}
	key := companyKey{
		stream: s.stream, db: s.req.Filter.DB, allDBs: s.req.Filter.AllDBs, count: s.req.Count, bytes: s.req.Bytes, meta: s.meta,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.all[key]
	if c == nil {
		c = &company{key: key, source: s.family.source, filter: feed.Filter{DB: key.db, AllDBs: key.allDBs}}
		for i := range c.recent {
			c.recent[i].messages = messages{name: s.name, meta: s.meta, w: resp.NewWriter(3)}
		}
		if l.all == nil {
			l.all = make(map[companyKey]*company)
		}
		l.all[key] = c
	}
	c.members++
	return c
}

func (l *companies) leave(c *company) {
	l.mu.Lock()
	c.members--
	alone := c.members < 2
	if c.members == 0 {
		delete(l.all, c.key)
	}
	l.mu.Unlock()
	if alone {
		c.mu.Lock()
		c.rest()
		c.mu.Unlock()
	}
}

// shared reports whether more than one would get what is read.
func (l *companies) shared(c *company) bool {
	if c == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.members > 1
}

// read adds the message that follows the cursor to what s sends, and moves its
// follower. It reports false if s has to read by itself.
func (c *company) read(s *subscription) (full, ok bool) {
	at, _ := s.follower.Position()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(at)
	if m == nil {
		if m = c.readOn(s, at); m == nil {
			return false, false
		}
	}
	if m.messages.w.Len() > 0 {
		if m.frames > 0 {
			s.window.use()
		}
		s.out.starts = append(s.out.starts, s.out.w.Len())
		s.out.w.Raw(m.messages.w.Bytes())
		s.told = m.at
	}
	s.follower.Skip(m.at, m.completeLSN)
	return m.full, true
}

func (c *company) find(from feed.Cursor) *sharedMessage {
	for i := range c.recent {
		if m := &c.recent[i]; m.at != (feed.Cursor{}) && m.from == from {
			return m
		}
	}
	return nil
}

// readOn reads what follows a cursor, unless that lies behind what was read, for s
// first.
func (c *company) readOn(s *subscription, at feed.Cursor) *sharedMessage {
	if c.follower != nil {
		if here, _ := c.follower.Position(); here != at {
			if here.Generation == at.Generation && here.Offset > at.Offset {
				return nil
			}
			c.rest()
		}
	}
	if c.follower == nil {
		req := feed.Request{Stream: c.key.stream, Cursor: at, Filter: &c.filter, Count: c.key.count, Bytes: c.key.bytes}
		f, err := c.source.Follow(req)
		if err != nil {
			return nil // whoever reads by itself gets the same
		}
		c.follower = f
	}
	err := c.follower.Next(s.ctx, &c.batch)
	to, complete := c.follower.Position()
	if err != nil || c.batch.Large() || to == at {
		c.rest()
		return nil
	}
	m := &c.recent[c.next]
	c.next = (c.next + 1) % len(c.recent)
	m.from, m.at, m.completeLSN, m.frames, m.full = at, to, complete, c.batch.Len(), c.follower.Full(&c.batch)
	m.messages.reset()
	if m.frames > 0 || to.Generation != at.Generation {
		m.messages.batch(to, complete, &c.batch)
	}
	c.batch.Release()
	c.follower.Done()
	return m
}

// rest gives up the place in the log. The caller holds mu.
func (c *company) rest() {
	c.batch.Release()
	if c.follower != nil {
		c.follower.Close()
		c.follower = nil
	}
}
