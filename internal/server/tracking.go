package server

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"kevy/internal/command/connection"
	"kevy/internal/pubsub"
	"kevy/shard"
)

// Connections in CLIENT TRACKING are told which keys have changed, so that they can keep
// values on their side. A connection's reads are entered into a table under the locks of
// their shards, and a commit looks its keys up there under the same locks: whoever read
// before is told, and who reads later sees what is new. What it is told waits in its queue as messages of
// channels do. It must come behind the reply with the value, which the queue is held back
// for, or the client would keep what it was just told to forget. Of its own changes it is
// told by its own goroutine, right behind the reply of the command. With BCAST no reads
// are entered: all keys with a prefix are told.

// tracking is who is told of changes.
type tracking struct {
	srv   *Server
	table *trackedKeys

	mu sync.RWMutex // behind the locks of shards; nothing that waits is called under it
	// trackers are all connections in CLIENT TRACKING; guarded by mu.
	trackers map[*tracker]struct{}
	// prefixes are those of BCAST with who has them; guarded by mu.
	prefixes map[string]map[*tracker]struct{}
	// lengths are how many of prefixes have each length; guarded by mu.
	lengths [connection.MaxPrefixBytes + 1]int
	longest int // no prefix is longer; guarded by mu

	counted int64     // bytes of the table that count against maxmemory; for the housekeeping
	tellers sync.Pool // of *teller
}

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

func newTracking(s *Server) *tracking {
	return &tracking{
		srv: s, table: newTrackedKeys(s.cfg.TrackingTableMaxKeys.Load),
		trackers: make(map[*tracker]struct{}), prefixes: make(map[string]map[*tracker]struct{}),
	}
}

// clients returns how many connections track keys.
func (t *tracking) clients() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.trackers)
}

// prefixCount returns how many prefixes somebody has.
func (t *tracking) prefixCount() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.prefixes)
}

// countMemory counts the table against maxmemory.
func (t *tracking) countMemory() {
	now := t.table.bytes.Load()
	t.srv.store.Outside().Add(now - t.counted)
	t.counted = now
}

// begin makes a tracker one of those who are told, with further prefixes.
func (t *tracking) begin(w *tracker, prefixes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trackers[w] = struct{}{}
	for _, p := range prefixes {
		if t.prefixes[p] == nil {
			t.prefixes[p] = make(map[*tracker]struct{})
			t.lengths[len(p)]++
			t.longest = max(t.longest, len(p))
		}
		t.prefixes[p][w] = struct{}{}
	}
	t.srv.store.Set().SetTracked(true)
}

// end makes it none of them any more. With the last one all keys are forgotten: what
// changes then is noted nowhere.
func (t *tracking) end(w *tracker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.trackers, w)
	for _, p := range w.prefixes {
		delete(t.prefixes[p], w)
		if len(t.prefixes[p]) == 0 {
			delete(t.prefixes, p)
			t.lengths[len(p)]--
		}
	}
	if len(t.trackers) == 0 {
		t.longest = 0
		t.srv.store.Set().SetTracked(false)
		t.table.clear()
	}
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

// enterChanged enters the reads of keys that have changed behind them into the table,
// where the changes find them.
func (w *tracker) enterChanged(changes []shard.Change) {
	if len(w.reads) == 0 {
		return
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
			w.c.srv.tracking.table.add(r.key, w)
			return true
		}
		return cleared >= r.changes
	})
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

// tell tells everybody of changes, which a connection has made, or, if by is nil,
// nobody. Who is told sees what is in the log up to lsn. The shards are locked.
func (t *tracking) tell(by *client, changes []shard.Change, lsn uint64) {
	e := t.teller(lsn)
	if by != nil && by.tracker != nil {
		e.own = by.tracker
		e.own.enterChanged(changes)
		e.own.told = true
	}
	t.mu.RLock()
	for i := range changes {
		if changes[i].Key == nil {
			t.table.clear()
			l := letter{}
			for w := range t.trackers {
				e.send(w, w.terms.Load(), &l, true)
			}
			continue
		}
		e.key[0] = changes[i].Key
		l := letter{keys: e.key[:]}
		in := t.table.take(changes[i].Key)
		in.each(func(w *tracker) {
			// As in Redis what the store does within its own command is not told, either.
			if how := w.terms.Load(); how.readKeys() {
				e.send(w, how, &l, true)
			}
		})
	}
	if len(t.prefixes) > 0 {
		t.tellPrefixes(e, changes)
	}
	t.mu.RUnlock()
	e.done(t)
}

// tellPrefixes tells those with BCAST, under mu: as in Redis one message a prefix, of
// the keys in order.
func (t *tracking) tellPrefixes(e *teller, changes []shard.Change) {
	if len(changes) == 1 {
		t.tellPrefixesOf(e, &changes[0])
		return
	}
	byPrefix := make(map[string]map[string]bool) // to the keys, and whether others than the store changed them last
	for i := range changes {
		key := changes[i].Key
		if key == nil {
			continue
		}
		t.eachPrefix(key, func(n int, _ map[*tracker]struct{}) {
			keys := byPrefix[string(key[:n])]
			if keys == nil {
				keys = make(map[string]bool)
				byPrefix[string(key[:n])] = keys
			}
			keys[string(key)] = !changes[i].ByStore
		})
	}
	for _, prefix := range sortedKeys(byPrefix) {
		var all, others letter
		for _, key := range sortedKeys(byPrefix[prefix]) {
			all.keys = append(all.keys, []byte(key))
			if !byPrefix[prefix][key] {
				others.keys = append(others.keys, []byte(key))
			}
		}
		for w := range t.prefixes[prefix] {
			l, how := &all, w.terms.Load()
			if w == e.own && how != nil && how.noOwn {
				if l = &others; len(l.keys) == 0 {
					continue
				}
			}
			e.send(w, how, l, false)
		}
	}
}

// tellPrefixesOf is tellPrefixes of one change, as most commits have.
func (t *tracking) tellPrefixesOf(e *teller, change *shard.Change) {
	if change.Key == nil {
		return // everybody was told
	}
	e.key[0] = change.Key
	l := letter{keys: e.key[:]}
	t.eachPrefix(change.Key, func(_ int, trackers map[*tracker]struct{}) {
		for w := range trackers {
			how := w.terms.Load()
			if w != e.own || how == nil || !how.noOwn || change.ByStore {
				e.send(w, how, &l, false)
			}
		}
	})
}

// eachPrefix calls fn with the lengths of a key's prefixes that somebody has, and with
// who has them, under mu.
func (t *tracking) eachPrefix(key []byte, fn func(n int, trackers map[*tracker]struct{})) {
	for n := range min(len(key), t.longest) + 1 {
		if t.lengths[n] == 0 {
			continue
		}
		if trackers := t.prefixes[string(key[:n])]; trackers != nil {
			fn(n, trackers)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

const (
	// trimmedKeys is how many keys a reader removes beyond those that it has entered: it
	// holds the locks of its shards.
	trimmedKeys = 100
	// trimmedInTurn is how many the housekeeping removes in a turn, which holds none.
	trimmedInTurn = 10_000
)

// trim forgets keys until the table is within its bounds, or until as many keys and as
// many bytes are gone as it is given, and tells those who may have them. Readers keep a
// full table within its bounds, as each makes the room that it takes; after the bound was
// lowered they and the housekeeping bring it there by and by.
func (t *tracking) trim(keys, bytes int) {
	if !t.table.over() {
		return
	}
	e := t.teller(0)
	for (keys > 0 || bytes > 0) && t.table.over() {
		key, in, ok := t.table.takeAny(rand.Uint64())
		if !ok {
			break
		}
		keys--
		bytes -= trackedKeyBytes + in.len()*trackedItemBytes + len(key)
		e.key[0] = key
		l := letter{keys: e.key[:]}
		in.each(func(w *tracker) {
			if how := w.terms.Load(); how.readKeys() {
				e.send(w, how, &l, true)
			}
		})
	}
	e.done(t)
}

// teller sends what one commit has made invalid.
type teller struct {
	by  pubsub.Publisher
	own *tracker // of who made the changes, nil: it has none
	lsn uint64
	key [1][]byte
}

// letter is what several are sent: keys, or, if there are none, that all keys may have
// changed.
type letter struct {
	keys [][]byte
	// plain and asMessage are the two forms, nil while nobody needed them.
	plain, asMessage *pubsub.Message
}

func (t *tracking) teller(lsn uint64) *teller {
	e, _ := t.tellers.Get().(*teller)
	if e == nil {
		e = new(teller)
	}
	e.lsn = lsn
	return e
}

// done wakes those who have got something.
func (e *teller) done(t *tracking) {
	e.by.Wake()
	t.srv.events.noteSlow(&e.by)
	e.own, e.key[0] = nil, nil
	t.tellers.Put(e)
}

// send sends a letter to who a tracker has named in its terms, which may be nil by now. If
// atOnce, what it has caused itself stands right behind the reply of its command, else
// behind all that are gathered.
func (e *teller) send(w *tracker, how *terms, l *letter, atOnce bool) {
	self := w.self.Load()
	if self == nil || how == nil {
		return // it ends right now
	}
	own := w == e.own
	if own && atOnce && how.noOwn && l.keys != nil {
		return
	}
	var m *pubsub.Message
	to := how.to
	if to != self && to.gone.Load() {
		how.redirectBroken.Store(true)
		m, to = pubsub.NewBrokenRedirection(how.redirect), self
	} else {
		m = l.message(how.redirect != 0 && to.channels.Any(), e.lsn)
	}
	switch {
	case own && to == self && atOnce:
		w.pending = append(w.pending, m)
	case own && to == self:
		w.hold()
		fallthrough
	default:
		e.by.Queue(to.channels, m)
	}
}

func (l *letter) message(asMessage bool, lsn uint64) *pubsub.Message {
	form := &l.plain
	if asMessage {
		form = &l.asMessage
	}
	if *form == nil {
		*form = pubsub.NewInvalidation(l.keys, lsn, asMessage)
	}
	return *form
}
