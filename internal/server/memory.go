package server

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
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
