package server

import (
	"runtime/debug"
	"time"
)

// cronEvery is how often the figures per second are taken; the other duties
// come each cronSlow.
const (
	cronEvery = 100 * time.Millisecond
	cronSlow  = time.Second
)

// startCron starts the housekeeping and returns what stops it.
func (s *Server) startCron() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(cronEvery)
		defer tick.Stop()
		var idle idleMemory
		var beds bedtime
		procs := newProcessors()
		defer procs.restore()
		slow := s.uptime()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			if s.cronPaused.Load() {
				continue
			}
			now, commands := s.uptime(), s.exec.Stats().Commands()
			s.stats.sample(now, commands)
			s.events.endSlow()
			procs.look(now)
			s.countQueued()
			s.tracking.trim(trimmedInTurn, 0)
			s.tracking.countMemory()
			beds.send(now)
			if now-slow < cronSlow {
				continue
			}
			slow = now
			s.stats.sawMemory(s.usedMemory())
			s.endIdle(now)
			idle.giveBack(commands, s.stats.connections.Load()-int64(s.ConnectedClients()), beds.sent)
			beds.look(s, now)
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// endIdle ends the connections that have been idle for longer than timeout
// allows. One that a command keeps waiting is not idle, nor is a subscriber.
func (s *Server) endIdle(now time.Duration) {
	timeout := time.Duration(s.cfg.TimeoutSeconds.Load()) * time.Second
	if timeout == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if since, ok := c.idle(); ok && now-since > timeout && !c.subscribed() {
			s.log.Debug("closing an idle client", "client", c.id, "addr", c.addr)
			c.kill()
		}
	}
}

const (
	// quietSeconds is how long the server must have had little to do before
	// memory is given back to the system.
	quietSeconds = 3
	// quietCommands is what counts as little, per second.
	quietCommands = 1000
	// giveBackBytes is how much there must be to give back to make it worth a
	// collection.
	giveBackBytes = 32 << 20
	// closedBytes is about what a connection leaves behind that has ended, or rests.
	closedBytes = 8 << 10
	// quietRests is how many clients may be sent to rest in a second that counts as
	// quiet.
	quietRests = 100
)

// idleMemory gives memory back to the system when the server falls idle: the
// collector by itself keeps for two minutes what a burst of writes or of
// connections left behind, and does not know that it could go.
type idleMemory struct {
	commands int64
	rested   int64
	quiet    int
	// when memory was given back last
	resident int64
	closed   int64
}

// giveBack is called once a second with the number of commands, of ended
// connections and of those that were sent to rest so far.
func (m *idleMemory) giveBack(commands, closed, rested int64) {
	busy := commands-m.commands > quietCommands || rested-m.rested > quietRests
	m.commands, m.rested = commands, rested
	closed += rested
	if busy {
		m.quiet = 0
		return
	}
	if m.quiet++; m.quiet < quietSeconds {
		return
	}
	now := readMemory().resident
	m.resident, m.closed = min(m.resident, now), min(m.closed, closed) // CONFIG RESETSTAT begins anew
	if now-m.resident+(closed-m.closed)*closedBytes < giveBackBytes {
		return
	}
	debug.FreeOSMemory()
	m.quiet = 0
	m.resident, m.closed = readMemory().resident, closed
}

// FreeMemory implements admin.Server.
func (s *Server) FreeMemory() { debug.FreeOSMemory() }
