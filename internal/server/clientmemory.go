package server

import (
	"cmp"
	"slices"
)

// What clients occupy counts against maxmemory, and against maxmemory-clients, which
// disconnects the largest. A client's own goroutine counts its buffers when it begins to
// wait, for input or for a peer that takes a large reply; what publishers queue for it
// is looked at by the housekeeping, so that publishing pays nothing for it.

// countMemory counts what the client occupies by now; for its own goroutine.
func (c *client) countMemory(bytes int) {
	if c.killed.Load() {
		return
	}
	n := int64(bytes)
	grown := n - c.counted.Swap(n)
	c.srv.clientBytes.Add(grown)
	c.srv.store.Outside().Add(grown)
	if limit := c.srv.clientsLimit.Load(); limit != 0 && grown > 0 && c.srv.clientBytes.Load() >= limit {
		c.srv.evictClients()
	}
}

// uncountMemory takes what the client occupies out of the count: it ends.
func (c *client) uncountMemory() {
	n := c.counted.Swap(0)
	c.srv.clientBytes.Add(-n)
	c.srv.store.Outside().Add(-n)
}

// countQueued counts the messages that wait for subscribers, and ends those whose
// messages have waited for too long.
func (s *Server) countQueued() {
	s.mu.Lock()
	total := int64(0)
	for c, r := range s.receivers {
		r.channels.Overdue()
		c.queued = r.channels.Waiting()
		total += c.queued
	}
	s.countMessages(total)
	s.mu.Unlock()
	s.evictClients()
}

// countMessages makes the count be total, under mu.
func (s *Server) countMessages(total int64) {
	grown := total - s.queuedBytes
	s.queuedBytes = total
	s.clientBytes.Add(grown)
	s.store.Outside().Add(grown)
}

// evictClients disconnects the largest clients until all together are below
// maxmemory-clients, or only those are left that CLIENT NO-EVICT spares.
func (s *Server) evictClients() {
	limit := s.clientsLimit.Load()
	if limit == 0 || s.clientBytes.Load() < limit {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var largest []*client
	for _, c := range s.clients {
		if !c.noEvict.Load() {
			largest = append(largest, c)
		}
	}
	size := func(c *client) int64 { return c.counted.Load() + c.queued }
	slices.SortFunc(largest, func(a, b *client) int { return cmp.Compare(size(b), size(a)) })
	for _, c := range largest {
		if s.clientBytes.Load() < limit {
			return
		}
		s.log.Info("evicting a client", "client", c.id, "addr", c.addr, "bytes", size(c))
		s.forget(c)
		c.kill()
		c.uncountMemory()
		s.countMessages(s.queuedBytes - c.queued)
		s.stats.evicted.Add(1)
	}
}
