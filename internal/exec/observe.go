package exec

import (
	"time"

	"kevy/internal/command"
	"kevy/internal/metrics"
)

// Observation says what is observed of single commands, and who is told. It is constant
// once it was given to Observe.
type Observation struct {
	// Histograms says that durations are counted by command, for Stats.Latency.
	Histograms bool
	// SlowFrom is from which duration on Slow is called; below 0: never.
	SlowFrom time.Duration
	Slow     func(s *Session, spec *command.Spec, args [][]byte, took time.Duration)
	// EventFrom is from which duration on Event is called; 0: never.
	EventFrom time.Duration
	Event     func(spec *command.Spec, took time.Duration)
	// KeepOverdue says that keys whose time is over stay, unless a command that writes
	// comes to them.
	KeepOverdue bool
	// Ran, if set, is told of each command that ran, those of a transaction behind
	// MULTI and before EXEC, under the locks of its shards: in an order in which they
	// could have run one by one. Session.Context says what it is part of; more, that
	// others of the same transaction follow, which nothing may come between. It must
	// not wait for anything.
	Ran func(s *Session, args [][]byte, more bool)
}

// exactBelow: where a shorter duration matters, every command is measured. Else those
// that are quick by their nature are measured together.
const exactBelow = time.Millisecond

// exact reports whether every command is measured.
func (o *Observation) exact() bool {
	return o.SlowFrom >= 0 && o.SlowFrom < exactBelow || o.EventFrom > 0
}

// observing is an Observation with what is derived from it.
type observing struct {
	Observation
	everyCommand bool
}

// Observe changes what is observed, from the next command on.
func (x *Executor) Observe(o Observation) {
	x.observing.Store(&observing{Observation: o, everyCommand: o.exact()})
}

const (
	// maxQuickArgs and maxQuickBytes bound the arguments of a command that is quick.
	maxQuickArgs  = 16
	maxQuickBytes = 4 << 10
)

// quickCommands returns, by command.Spec.Number, which commands are done within
// microseconds as long as their arguments are short: those with the flag Fast that do
// not wait or lock everything, and SET.
func quickCommands(table *command.Table) []bool {
	quick := make([]bool, table.Len())
	mark := func(s *command.Spec) {
		quick[s.Number()] = s.Flags&(command.Fast|command.Blocking|command.AllShards) == command.Fast || s.FullName() == "set"
	}
	for _, s := range table.All() {
		mark(s)
		for _, sub := range s.Sub {
			mark(sub)
		}
	}
	return quick
}

// alone reports whether a command is to be measured by itself.
func (x *Executor) alone(o *observing, spec *command.Spec, args [][]byte) bool {
	if o.everyCommand || !x.quick[spec.Number()] || len(args) > maxQuickArgs {
		return true
	}
	n := 0
	for _, a := range args[1:] {
		n += len(a)
	}
	return n > maxQuickBytes
}

// took notes how long a command took that was measured alone; of one that waits, once
// its wait is over.
func (x *Executor) took(o *observing, s *Session, spec *command.Spec, args [][]byte, d time.Duration) {
	if o.Histograms {
		x.stats.record(spec, d, 1)
	}
	if d >= o.SlowFrom && o.SlowFrom >= 0 && spec.Flags&command.SkipSlowlog == 0 {
		o.Slow(s, spec, args, d)
	}
	if o.EventFrom > 0 && d >= o.EventFrom {
		o.Event(spec, d)
	}
}

// Show tells who observes of a command that is not shown when it has run, but earlier,
// by itself: what it calls comes behind it, or what it ran before it.
func (s *Session) Show(args [][]byte) { s.show(args, s.multi.running) }

func (s *Session) show(args [][]byte, more bool) {
	if o := s.x.observing.Load(); o.Ran != nil {
		o.Ran(s, args, more)
	}
}

// ran tells who observes that a command ran.
func (o *observing) ran(s *Session, spec *command.Spec, args [][]byte) {
	if spec.Flags&(command.SkipMonitor|command.Admin) == 0 && spec.Name != "exec" {
		o.Ran(s, spec.Redacted(args), s.multi.running)
	}
}

// Latency returns how long the calls of a command took, nil if none was counted.
func (st *Stats) Latency(spec *command.Spec) *metrics.Histogram {
	return st.commands[spec.Number()].latency.Load()
}

func (st *Stats) record(spec *command.Spec, d time.Duration, n int64) {
	slot := &st.commands[spec.Number()].latency
	h := slot.Load()
	if h == nil {
		h = new(metrics.Histogram)
		if !slot.CompareAndSwap(nil, h) {
			h = slot.Load()
		}
	}
	h.Record(d, n)
}
