package server

import (
	"math"
	"os"
	"runtime/debug"

	"kevy/internal/config"
	"kevy/internal/engine"
	"kevy/shard"
)

// maxMemory returns what the settings say about memory.
func maxMemory(cfg *config.Config) engine.MaxMemory {
	m := engine.MaxMemory{
		Bytes: cfg.MaxMemoryBytes.Load(), Samples: int(cfg.MaxMemorySamples.Load()), Tenacity: int(cfg.MaxMemoryTenacity.Load()), Evict: true,
	}
	switch cfg.MaxMemoryPolicy.Load() {
	case config.VolatileLRU:
		m.By, m.Volatile = shard.EvictByIdle, true
	case config.VolatileLFU:
		m.By, m.Volatile = shard.EvictByUses, true
	case config.VolatileRandom:
		m.By, m.Volatile = shard.EvictAtRandom, true
	case config.VolatileTTL:
		m.By, m.Volatile = shard.EvictByTTL, true
	case config.AllKeysLRU:
		m.By = shard.EvictByIdle
	case config.AllKeysLFU:
		m.By = shard.EvictByUses
	case config.AllKeysRandom:
		m.By = shard.EvictAtRandom
	default:
		m.Evict = false
	}
	return m
}

// boundMemory makes the settings about memory take effect.
func (s *Server) boundMemory() {
	m := maxMemory(s.cfg)
	s.store.SetMaxMemory(m)
	s.store.Set().LookAtUses(m.Bytes != 0 && m.Evict && (m.By == shard.EvictByIdle || m.By == shard.EvictByUses))
	s.clientsLimit.Store(s.cfg.ClientsLimit())
	s.boundHeap(m.Bytes)
	if counted := s.store.CountedBytes(); m.Bytes != 0 && counted > m.Bytes {
		s.log.Warn("maxmemory is smaller than what is used: keys will be evicted, or writes refused, as maxmemory-policy says",
			"maxmemory", m.Bytes, "used", counted)
	}
	s.evictClients()
}

const (
	// heapShare and heapExtraBytes are what the heap may have beyond maxmemory before
	// the collector is made to work harder: a quarter of it, for garbage, what the
	// allocator rounds up and what snapshots keep; and what does not grow with it.
	heapShare      = 4
	heapExtraBytes = 64 << 20
)

// boundHeap makes the collector work as hard as it takes to keep the process near a
// bound of memory; 0 leaves it as it is by itself. Who set GOMEMLIMIT has decided.
func (s *Server) boundHeap(maxBytes int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := int64(math.MaxInt64)
	if maxBytes != 0 {
		extra := maxBytes/heapShare + heapExtraBytes + s.cfg.FeedBacklogBytes.Load()
		if maxBytes < math.MaxInt64-extra {
			limit = maxBytes + extra
		}
	}
	debug.SetMemoryLimit(limit)
}
