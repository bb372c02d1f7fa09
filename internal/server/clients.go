package server

import (
	"sort"
	"time"

	"kevy/internal/command/connection"
)

// Clients returns every connection, by id.
func (s *Server) Clients() []connection.Client {
	s.mu.Lock()
	out := make([]connection.Client, 0, len(s.clients))
	now := time.Now()
	for _, c := range s.clients {
		out = append(out, c.describe(now))
	}
	s.mu.Unlock()
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// Kill ends a connection and reports whether there was one.
func (s *Server) Kill(id uint64) bool {
	s.mu.Lock()
	c := s.clients[id]
	s.mu.Unlock()
	if c == nil {
		return false
	}
	c.kill()
	return true
}

// ConnectedClients returns the number of connections.
func (s *Server) ConnectedClients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// describe shows a connection as of when it last waited for input.
func (c *client) describe(now time.Time) connection.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return connection.Client{
		ID: c.id, Addr: c.addr, LAddr: c.laddr, FD: c.fd, Name: c.name, LibName: c.libName, LibVersion: c.libVer,
		AgeSec: int64(now.Sub(c.created) / time.Second), IdleSec: max(0, (now.UnixMilli()-c.lastCommandMs.Load())/1000),
		DB: c.info.db, Multi: c.info.multi, Watch: c.info.watch, QueryBytes: c.info.queryBuffered,
		ReplyBytes: c.info.replyBytes, LastCommand: c.info.lastCommand, Proto: c.info.proto,
		MultiBytes: c.info.multiBytes, TotalBytes: c.info.memBytes, RedirectedTo: -1,
	}
}

// Describe shows the connection as of now; for its own goroutine.
func (c *client) Describe() connection.Client {
	c.lastCommandMs.Store(time.Now().UnixMilli())
	c.publishInfo()
	return c.describe(time.Now())
}

// Select implements connection.Conn.
func (c *client) Select(db int) { c.es.Select(db) }

// DBs implements connection.Conn.
func (c *client) DBs() int { return c.srv.store.Set().DBs() }

// InMulti implements connection.Conn.
func (c *client) InMulti() bool { return c.es.InMulti() }

// Reset implements connection.Conn.
func (c *client) Reset() {
	c.es.Reset()
	c.SetName("")
}
