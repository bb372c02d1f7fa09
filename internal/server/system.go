package server

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// operatingSystem names the system as Redis does: name, release, machine.
func operatingSystem() string {
	name, release := kernel()
	return name + " " + release + " " + runtime.GOARCH
}

// totalSystemMemory returns the machine's memory in bytes, 0 if it cannot be
// told.
func totalSystemMemory() int64 {
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
}

func kernel() (name, release string) {
	data, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS, "unknown"
	}
	return "Linux", strings.TrimSpace(string(data))
}
