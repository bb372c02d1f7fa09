package server

import (
	"sort"
	"time"

	"kevy/internal/command"
	"kevy/internal/command/connection"
)

// clientBytes is about what a connection occupies besides its buffers.
const clientBytes = 2 << 10

// clientState is what CLIENT LIST shows of a client's own state, as of when it
// last began to wait for input.
type clientState struct {
	db, multi, proto      int
	flags                 connection.ClientFlags
	latest                *command.Spec
	queryBytes, queryFree int
	multiBytes, replySize int
	totalBytes            int
}

// look returns the state as of now; for the client's own goroutine.
func (c *client) look() clientState {
	st := clientState{
		db: c.es.DB(), multi: c.es.QueuedCommands(), proto: c.w.Proto(), latest: c.es.LastCommand(),
		multiBytes: c.es.QueuedBytes(), replySize: cap(c.w.Bytes()),
	}
	buffer := 0
	if c.r != nil {
		buffer, st.queryBytes = c.r.MemBytes(), c.r.Unparsed()
	}
	st.queryFree = max(0, buffer-st.queryBytes)
	st.totalBytes = buffer + st.replySize + st.multiBytes + c.es.WatchedBytes() + clientBytes + len(c.name) + len(c.libName) + len(c.libVer)
	if r := c.receiver.Load(); r != nil {
		st.totalBytes += int(r.channels.SubscriptionBytes())
	}
	if c.tracker != nil {
		st.totalBytes += c.tracker.prefixBytes
	}
	if st.multi >= 0 {
		st.flags |= connection.InMulti
	}
	if c.closing {
		st.flags |= connection.Closing
	}
	return st
}

// publish lets others see the client's state. It mostly is what it was.
func (c *client) publish() {
	if st := c.look(); st != c.state {
		c.mu.Lock()
		c.state = st
		c.mu.Unlock()
		c.countMemory(st.totalBytes)
	}
}

// describe shows a connection to others.
func (c *client) describe() connection.Client {
	now, idle := c.srv.uptime(), time.Duration(0)
	if since, ok := c.idle(); ok {
		idle = now - since
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.state
	cl := connection.Client{
		ID: c.id, Addr: c.addr, LAddr: c.laddr, FD: c.fd, Name: c.name, LibName: c.libName, LibVersion: c.libVer,
		AgeSec: int64((now - c.joined) / time.Second), IdleSec: int64(idle / time.Second),
		DB: st.db, Multi: st.multi, Flags: st.flags, QueryBytes: st.queryBytes, QueryFree: st.queryFree,
		MultiBytes: st.multiBytes, ReplySize: st.replySize, Unsent: int(c.unsent.Load()), TotalBytes: st.totalBytes, Proto: st.proto,
	}
	if r := c.receiver.Load(); r != nil {
		channels, patterns, shard := r.channels.Counts()
		cl.Channels, cl.Patterns, cl.ShardChannels = int(channels), int(patterns), int(shard)
		cl.Unsent += int(r.channels.Waiting())
	}
	cl.Redirect = -1
	if c.tracker != nil {
		c.tracker.describe(&cl)
	}
	if c.unix {
		cl.Flags |= connection.UnixSocket
	}
	if c.subscribed() {
		cl.Flags |= connection.Subscribed
	}
	if m := c.monitor.Load(); m != nil {
		cl.Flags |= connection.Monitor
		cl.Unsent += int(m.waiting.Load())
	}
	if c.blocked.Load() || c.es.Parked() {
		cl.Flags |= connection.Blocked
	}
	if c.es.WatchTouched() {
		cl.Flags |= connection.WatchTouched
	}
	if u := c.es.User(); u != nil {
		cl.User = u.Name()
	}
	if c.noEvict.Load() {
		cl.Flags |= connection.NoEvict
	}
	if c.noTouch.Load() {
		cl.Flags |= connection.NoTouch
	}
	if st.latest != nil {
		cl.LastCommand = st.latest.FullName()
	}
	return cl
}

// Describe implements connection.Conn.
func (c *client) Describe() connection.Client {
	c.publish()
	cl := c.describe()
	// The buffer still holds the command that asks.
	cl.QueryFree = max(0, cl.QueryFree+cl.QueryBytes-c.batchBytes)
	cl.QueryBytes = c.batchBytes
	cl.ArgBytes, cl.Gathered = c.es.ArgBytes(), c.w.Len()
	// As in Redis the arguments count while their command runs: a client that waits is
	// smaller than it shows itself.
	cl.TotalBytes += cl.ArgBytes
	return cl
}

// Clients implements connection.Server.
func (s *Server) Clients() []connection.Client {
	s.mu.Lock()
	out := make([]connection.Client, 0, len(s.clients))
	for _, c := range s.clients {
		out = append(out, c.describe())
	}
	s.mu.Unlock()
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// Kill implements connection.Server. The connection is off the list at once,
// even if it takes a moment to end.
func (s *Server) Kill(id uint64) bool {
	s.mu.Lock()
	c := s.clients[id]
	if c != nil {
		s.forget(c)
	}
	s.mu.Unlock()
	if c == nil {
		return false
	}
	c.kill()
	return true
}

// forget takes a client off the lists, under mu.
func (s *Server) forget(c *client) {
	delete(s.clients, c.id)
	delete(s.receivers, c)
}

// Unblock implements connection.Server.
func (s *Server) Unblock(id uint64, withError bool) bool {
	s.mu.Lock()
	c := s.clients[id]
	s.mu.Unlock()
	return c != nil && (c.es.Unblock(withError) || c.unblockFeed(withError))
}

// ConnectedClients returns the number of connections.
func (s *Server) ConnectedClients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// Select implements connection.Conn.
func (c *client) Select(db int) { c.es.Select(db) }

// DBs implements connection.Conn.
func (c *client) DBs() int { return c.srv.store.Set().DBs() }

// InMulti implements the Session of the families changes and admin.
func (c *client) InMulti() bool { return c.es.InMulti() }

// MergeStats implements admin.Session.
func (c *client) MergeStats() { c.es.MergeStats() }

// Reset implements connection.Conn. As in Redis the client library stays known.
func (c *client) Reset() {
	if r := c.receiver.Load(); r != nil {
		r.subs.Close()
		c.srv.hub.Leave(r.channels)
	}
	c.endMonitor()
	c.Untrack()
	c.quiet = nil
	c.SetNoTouch(false)
	c.es.Reset()
	c.es.Begin(c.srv.users)
	c.holdToLimits()
	c.SetName("")
}

// SetName implements connection.Conn.
func (c *client) SetName(name string) {
	c.mu.Lock()
	c.name = name
	c.mu.Unlock()
}

// Name implements connection.Conn.
func (c *client) Name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// SetNoEvict implements connection.Conn.
func (c *client) SetNoEvict(on bool) { c.noEvict.Store(on) }

// SetNoTouch implements connection.Conn.
func (c *client) SetNoTouch(on bool) {
	c.noTouch.Store(on)
	c.es.NoTouch(on)
}

// SetLib implements connection.Conn.
func (c *client) SetLib(attribute connection.LibAttribute, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if attribute == connection.LibName {
		c.libName = value
	} else {
		c.libVer = value
	}
}
