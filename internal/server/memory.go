package server

import (
	"runtime/debug"
	"runtime/metrics"
)

const (
	// quietSeconds is how long the server must have had little to do before
	// memory is given back to the system.
	quietSeconds = 3
	// quietCommands is what counts as little, per second.
	quietCommands = 100
	// giveBackBytes is how much must be reclaimable to make it worth a
	// collection.
	giveBackBytes = 32 << 20
)

// idleMemory gives memory back to the system when the server falls idle: the
// collector by itself keeps for two minutes what a burst of writes left behind.
type idleMemory struct {
	commands int64
	quiet    int
	gave     bool
}

// giveBack is called once a second with the number of commands so far.
func (m *idleMemory) giveBack(commands int64) {
	busy := commands-m.commands > quietCommands
	m.commands = commands
	if busy {
		m.quiet, m.gave = 0, false
		return
	}
	m.quiet++
	if m.gave || m.quiet < quietSeconds {
		return
	}
	m.gave = true
	if reclaimableBytes() > giveBackBytes {
		debug.FreeOSMemory()
	}
}

// reclaimableBytes is what the process holds beyond the objects that were live
// at the last collection.
func reclaimableBytes() int64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64())
}
