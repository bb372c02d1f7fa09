package server

import (
	"slices"
	"sync/atomic"

	"kevy/internal/command/connection"
	"kevy/internal/pubsub"
	"kevy/shard"
)

// prefixBytes is about what a prefix occupies beside its bytes, which are kept twice.
const prefixBytes = 144

// tracker is one connection's tracking, from its first CLIENT TRACKING on. The table
// refers to it, even when the connection has ended.
type tracker struct {
	terms atomic.Pointer[terms]    // nil: it does not track
	self  atomic.Pointer[receiver] // nil once the connection has ended

	// The rest is for the connection's goroutine, or who serves its command while that
	// waits.
	c       *client
	asked   bool // by CLIENT CACHING
	held    bool // the queue is held back for a reply
	told    bool // its command has told others of something
	reads   []trackedRead
	pending []*pubsub.Message // to be sent behind the reply of the command that runs
	// prefixes are in order; prefixBytes is what they occupy.
	prefixes    []string
	prefixBytes int
}

// terms are what CLIENT TRACKING has asked for last: who is told of something sees all of
// one call. All but broken is constant.
type terms struct {
	to             *receiver   // who gets what is told
	redirect       uint64      // a connection's id; 0: none
	prefixes       bool        // BCAST
	ifAsked        bool        // OPTIN
	unlessAsked    bool        // OPTOUT
	noOwn          bool        // NOLOOP
	redirectBroken atomic.Bool // an invalidation could not be sent
}

// readKeys reports whether the keys that were read are told.
func (s *terms) readKeys() bool { return s != nil && !s.prefixes }

// trackedRead is a key that a command has read when so many changes were noted.
type trackedRead struct {
	key     []byte
	changes int
}

// Track implements connection.Conn.
func (c *client) Track(o connection.TrackingOptions) {
	w := c.tracker
	if w == nil {
		w = &tracker{c: c}
		w.self.Store(c.receive())
		c.mu.Lock()
		c.tracker = w
		c.mu.Unlock()
	}
	// What it is told comes behind the reply.
	c.Subscriber()
	w.hold()
	to := c.receiver.Load()
	if o.Redirect != 0 && o.Redirect != c.id {
		to = c.srv.listen(o.Redirect)
	}
	w.terms.Store(&terms{to: to, redirect: o.Redirect, prefixes: o.BCast, ifAsked: o.OptIn, unlessAsked: o.OptOut, noOwn: o.NoLoop})
	w.prefixes = slices.Concat(w.prefixes, o.Prefixes)
	slices.Sort(w.prefixes)
	for _, p := range o.Prefixes {
		w.prefixBytes += 2*len(p) + prefixBytes
	}
	c.srv.tracking.begin(w, o.Prefixes)
	c.es.TellReads(w)
}

// listen makes a connection take what another one is told, and returns its receiver.
// Of one that has ended nobody takes anything.
func (s *Server) listen(id uint64) *receiver {
	s.mu.Lock()
	c := s.clients[id]
	s.mu.Unlock()
	if c == nil {
		r := new(receiver)
		r.gone.Store(true)
		return r
	}
	r := c.receive()
	c.startSender(r, func() { c.awaitSharing(r) })
	return r
}

// Untrack implements connection.Conn.
func (c *client) Untrack() {
	w := c.tracker
	if w == nil || w.terms.Load() == nil {
		return
	}
	w.terms.Store(nil)
	c.srv.tracking.end(w)
	c.es.TellReads(nil)
	w.prefixes, w.prefixBytes, w.asked = nil, 0, false
	w.forgetReads()
}

// endTracking ends what Track began, and what others have begun with this connection:
// it ends.
func (c *client) endTracking() {
	if r := c.receiver.Load(); r != nil {
		r.gone.Store(true)
	}
	w := c.tracker
	if w == nil {
		return
	}
	c.Untrack()
	w.self.Store(nil)
	w.reads, w.pending, w.c = nil, nil, nil
	c.mu.Lock()
	c.tracker = nil
	c.mu.Unlock()
}

// Tracking implements connection.Conn.
func (c *client) Tracking() (info connection.TrackingInfo) {
	w := c.tracker
	if w == nil {
		return info
	}
	how := w.terms.Load()
	if how == nil {
		return info
	}
	info.On, info.Asked, info.Broken = true, w.asked, how.redirectBroken.Load()
	info.BCast, info.OptIn, info.OptOut, info.NoLoop = how.prefixes, how.ifAsked, how.unlessAsked, how.noOwn
	info.Redirect, info.Prefixes = how.redirect, w.prefixes
	return info
}

// AskCaching implements connection.Conn.
func (c *client) AskCaching() { c.tracker.asked = true }

// HasClient implements connection.Server.
func (s *Server) HasClient(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[id] != nil
}

// describe shows the tracking in CLIENT LIST.
func (w *tracker) describe(cl *connection.Client) {
	how := w.terms.Load()
	if how == nil {
		return
	}
	cl.Redirect = int64(how.redirect)
	cl.Flags |= connection.Tracking
	if how.redirectBroken.Load() {
		cl.Flags |= connection.BrokenRedirect
	}
	if how.prefixes {
		cl.Flags |= connection.TrackingPrefixes
	}
}

// ended reports whether the connection has ended.
func (w *tracker) ended() bool { return w.self.Load() == nil }

// hold keeps back what it is told until the replies so far are sent, and that to come.
func (w *tracker) hold() {
	if !w.held {
		w.held = true
		w.self.Load().channels.Hold()
	}
}

// holdForReply is hold, if it is told by the connection that the reply with a value goes
// to.
func (w *tracker) holdForReply() {
	if w.terms.Load().to == w.self.Load() {
		w.hold()
	}
}

// letInvalidationsGo ends hold where there is no reply to be sent.
func (c *client) letInvalidationsGo() {
	if c.tracker != nil && c.tracker.held {
		c.tracker.held = false
		c.receiver.Load().channels.Release()
	}
}

// Read implements exec.Reader.
func (w *tracker) Read(key []byte, changes int) {
	how := w.terms.Load()
	if how.prefixes {
		w.holdForReply()
		return
	}
	if how.ifAsked && !w.asked || how.unlessAsked && w.asked {
		return
	}
	w.reads = append(w.reads, trackedRead{key, changes})
}

// maxKeptReads is how many a tracker keeps memory for.
const maxKeptReads = 64

// Committed implements exec.Reader.
func (w *tracker) Committed() {
	if len(w.reads) == 0 {
		return
	}
	w.holdForReply()
	t := w.c.srv.tracking
	keys, bytes := len(w.reads), 0
	for i := range w.reads {
		t.table.add(w.reads[i].key, w)
		bytes += trackedKeyBytes + trackedItemBytes + len(w.reads[i].key)
	}
	w.forgetReads()
	t.trim(keys+trimmedKeys, bytes)
}

func (w *tracker) forgetReads() {
	clear(w.reads)
	if w.reads = w.reads[:0]; cap(w.reads) > maxKeptReads {
		w.reads = nil
	}
}

// takeChanged returns the reads of keys that have changed behind them, in order: each is
// to be entered before the first change behind it. Those that a flush made void are
// forgotten.
func (w *tracker) takeChanged(changes []shard.Change) (before []trackedRead) {
	if len(w.reads) == 0 {
		return nil
	}
	last, cleared := make(map[string]int, len(changes)), -1
	for i := range changes {
		if changes[i].Key == nil {
			cleared = i
		} else {
			last[string(changes[i].Key)] = i
		}
	}
	w.reads = slices.DeleteFunc(w.reads, func(r trackedRead) bool {
		if i, changed := last[string(r.key)]; changed && i >= r.changes {
			before = append(before, r)
			return true
		}
		return cleared >= r.changes
	})
	return before
}

// tellOwn writes what the connection's own command has made invalid, behind its reply.
func (c *client) tellOwn() {
	w := c.tracker
	if w.told {
		w.told = false
		if c.srv.clientsLimit.Load() != 0 {
			c.srv.countQueued() // it may be the only one who makes this grow
		}
	}
	for i, m := range w.pending {
		c.es.Saw(m.LSN())
		c.w.Raw(m.AppendTo(nil, c.w.Proto()))
		w.pending[i] = nil
	}
	w.pending = w.pending[:0]
	if c.quiet != nil {
		c.quiet.from = c.w.Len()
	}
	if w.asked && c.es.QueuedCommands() < 0 {
		if last := c.es.LastCommand(); last == nil || last.Parent() == nil || last.Parent().Name != "client" {
			w.asked = false
		}
	}
}
