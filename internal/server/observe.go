package server

import (
	"sync"
	"sync/atomic"
	"time"

	"kevy/internal/command"
	"kevy/internal/exec"
	"kevy/internal/metrics"
)

// observed is what the server keeps of single commands.
type observed struct {
	slow     metrics.SlowLog
	events   metrics.Events
	monitors monitors
	// keepOverdue is exec.Observation.KeepOverdue.
	keepOverdue atomic.Bool

	mu sync.Mutex // one change of what is observed at a time
}

// observeCommands makes the executor observe what the settings and the connections in
// MONITOR ask for.
func (s *Server) observeCommands() error {
	s.observed.mu.Lock()
	defer s.observed.mu.Unlock()
	slower := s.cfg.SlowlogMicros.Load()
	if s.cfg.SlowlogMaxEntries.Load() == 0 {
		slower = -1
	}
	o := exec.Observation{
		Histograms: s.cfg.LatencyTracking.Load(),
		SlowFrom:   time.Duration(min(slower, maxMicros)) * time.Microsecond, Slow: s.sawSlow,
		EventFrom: time.Duration(min(s.cfg.LatencyMonitorMs.Load(), maxMicros/1000)) * time.Millisecond, Event: s.sawCommandEvent,
	}
	o.KeepOverdue = s.observed.keepOverdue.Load()
	if s.observed.monitors.any() {
		o.Ran = s.showCommand
	}
	s.exec.Observe(o)
	return nil
}

// maxMicros is the longest duration that is compared with.
const maxMicros = int64(1<<63-1) / int64(time.Microsecond)

// sawSlow keeps a command for SLOWLOG.
func (s *Server) sawSlow(es *exec.Session, spec *command.Spec, args [][]byte, took time.Duration) {
	entry := metrics.SlowCommand{UnixSeconds: time.Now().Unix(), Microseconds: took.Microseconds()}
	if c, ok := es.Self().(*client); ok {
		entry.Addr, entry.Name = c.addr, c.Name()
	}
	s.observed.slow.Add(entry, spec.Redacted(args), int(min(s.cfg.SlowlogMaxEntries.Load(), maxSlowEntries)))
}

// maxSlowEntries bounds what slowlog-max-len can ask for.
const maxSlowEntries = 1 << 20

func (s *Server) sawCommandEvent(spec *command.Spec, took time.Duration) {
	name := "command"
	if spec.Flags&command.Fast != 0 {
		name = "fast-command"
	}
	s.observed.events.Add(name, time.Now().Unix(), took.Milliseconds())
}

// sawEvent notes for LATENCY how long something took beside the commands, if that is
// long.
func (s *Server) sawEvent(name string, took time.Duration) {
	if from := s.cfg.LatencyMonitorMs.Load(); from > 0 && took.Milliseconds() >= from {
		s.observed.events.Add(name, time.Now().Unix(), took.Milliseconds())
	}
}

// SlowLog implements admin.Server.
func (s *Server) SlowLog() *metrics.SlowLog { return &s.observed.slow }

// Events implements admin.Server.
func (s *Server) Events() *metrics.Events { return &s.observed.events }

// Latency implements admin.Server.
func (s *Server) Latency(spec *command.Spec) *metrics.Histogram { return s.exec.Stats().Latency(spec) }
