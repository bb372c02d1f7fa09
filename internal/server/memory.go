package server

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"

	"kevy/internal/command/admin"
)

// memoryUse is what the process has of memory, in bytes.
type memoryUse struct {
	used     int64 // objects, garbage that is not collected yet included
	spans    int64 // what the objects lie in
	resident int64 // what the runtime has of the system
}

func readMemory() memoryUse {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	bytes := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return memoryUse{used: bytes(0), spans: bytes(0) + bytes(1), resident: bytes(2) - bytes(3)}
}

// Memory implements admin.Server. INFO's section has the same figures.
func (s *Server) Memory(tx admin.InfoTx) admin.Memory {
	s.countQueued()
	have, log := readMemory(), s.store.LogStatus()
	m := admin.Memory{
		Used: s.store.CountedBytes() + log.UnwrittenBytes, Startup: s.startBytes,
		Clients: s.clientBytes.Load(), Connections: s.ConnectedClients(), Log: log.UnwrittenBytes,
		Allocated: have.used, Active: have.spans, AllocatorResident: have.resident, Resident: residentBytes(),
	}
	m.Peak = s.stats.sawMemory(m.Used)
	if m.Resident == 0 {
		m.Resident = have.resident
	}
	scripts, bytes := s.scripts.CachedScripts()
	m.CachedScripts, m.Scripts, m.Libraries = scripts, int64(bytes), s.scripts.LibraryBytes()
	m.Overhead = m.Startup + m.Clients + m.Log
	for _, db := range tx.Stats() {
		m.Overhead += db.OverheadBytes
		m.DBs = append(m.DBs, admin.MemoryDB{Keys: db.Keys, TableBytes: db.OverheadBytes - db.DeadlineBytes, TTLBytes: db.DeadlineBytes})
	}
	m.Overhead = min(m.Overhead, m.Used)
	return m
}

// AllocatorStats implements admin.Server: what the runtime says of its allocator and its
// collector.
func (s *Server) AllocatorStats() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var b strings.Builder
	line := func(name string, n uint64) { fmt.Fprintf(&b, "%-28s %14d\n", name, n) }
	b.WriteString("The allocator of " + runtime.Version() + ", in bytes unless said otherwise\n\n")
	line("heap: objects", m.HeapAlloc)
	line("heap: spans in use", m.HeapInuse)
	line("heap: spans that are free", m.HeapIdle-m.HeapReleased)
	line("heap: given back", m.HeapReleased)
	line("heap: of the system", m.HeapSys)
	line("stacks", m.StackInuse)
	line("allocator's own", m.MSpanInuse+m.MCacheInuse)
	line("collector's own", m.GCSys)
	line("all of the system", m.Sys)
	line("objects (number)", m.HeapObjects)
	line("allocated so far (number)", m.Mallocs)
	line("allocated so far", m.TotalAlloc)
	line("next collection at", m.NextGC)
	line("collections (number)", uint64(m.NumGC))
	line("pauses (microseconds)", m.PauseTotalNs/uint64(time.Microsecond))
	b.WriteString("\nObjects in use by size: size, number, bytes\n")
	for _, class := range m.BySize {
		if n := class.Mallocs - class.Frees; n > 0 {
			fmt.Fprintf(&b, "%10d %12d %14d\n", class.Size, n, n*uint64(class.Size))
		}
	}
	return b.String()
}

// startBytes returns what the program has in use before there is a store: it counts
// against maxmemory, as in Redis.
var startBytes = sync.OnceValue(func() int64 {
	runtime.GC()
	return readMemory().used
})

// residentBytes returns what of the process is in memory, 0 if it cannot be
// told.
func residentBytes() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// totalSystemMemory returns the machine's memory in bytes, 0 if it cannot be
// told.
var totalSystemMemory = sync.OnceValue(func() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
})
