package exec

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"kevy/internal/command"
	"kevy/internal/metrics"
)

const (
	// maxErrorKinds bounds how many error codes are counted under their own
	// names.
	maxErrorKinds = 128
	// otherErrors is the name under which all further codes are counted.
	otherErrors = "ERRORSTATS_OVERFLOW"
)

// Stats counts what went through an Executor. Sessions count their commands
// for themselves and merge their counts at each Settle.
type Stats struct {
	commands     []commandCounters // by command.Spec.Number
	hits, misses atomic.Int64
	panics       atomic.Int64
	blocked      atomic.Int64
	timed        atomic.Int64 // of those blocked

	mu     sync.RWMutex
	errors map[string]*atomic.Int64 // by code; the map is guarded by mu
}

// commandCounters fill a cache line, so that sessions that run different
// commands do not wait for each other.
type commandCounters struct {
	calls, nanoseconds, rejected, failed atomic.Int64
	latency                              atomic.Pointer[metrics.Histogram] // nil until it was needed
	_                                    [24]byte
}

// CommandStats are the counts of one command.
type CommandStats struct {
	Calls int64
	// Microseconds is the time of its calls. Of a batch of pipelined commands those
	// that are quick are measured together, without the wait for the log, and the
	// time is divided equally.
	Microseconds int64
	// Rejected calls were refused before they ran, failed ones answered with an
	// error.
	Rejected, Failed int64
}

// ErrorStats says how many errors of one code were answered.
type ErrorStats struct {
	Code  string
	Count int64
}

func newStats(table *command.Table) *Stats {
	return &Stats{commands: make([]commandCounters, table.Len()), errors: make(map[string]*atomic.Int64)}
}

// Commands returns how many commands ran, those inside EXEC and EXEC itself
// included.
func (st *Stats) Commands() int64 {
	n := int64(0)
	for i := range st.commands {
		n += st.commands[i].calls.Load()
	}
	return n
}

// Command returns the counts of one command.
func (st *Stats) Command(spec *command.Spec) CommandStats {
	c := &st.commands[spec.Number()]
	return CommandStats{
		Calls: c.calls.Load(), Microseconds: c.nanoseconds.Load() / int64(time.Microsecond),
		Rejected: c.rejected.Load(), Failed: c.failed.Load(),
	}
}

// KeyspaceHits returns how often a command that reads found its key.
func (st *Stats) KeyspaceHits() int64 { return st.hits.Load() }

// KeyspaceMisses returns how often a command that reads did not find its key.
func (st *Stats) KeyspaceMisses() int64 { return st.misses.Load() }

// Blocked returns how many commands wait at the moment, and how many of them
// with a timeout.
func (st *Stats) Blocked() (all, timed int64) { return st.blocked.Load(), st.timed.Load() }

func (st *Stats) countBlocked(p *parked, by int64) {
	st.blocked.Add(by)
	if p.wait.TimeoutMs > 0 {
		st.timed.Add(by)
	}
}

// Panics returns how many handlers panicked.
func (st *Stats) Panics() int64 { return st.panics.Load() }

// Errors returns the error replies by code, in the order of the codes, and
// their number.
func (st *Stats) Errors() (byCode []ErrorStats, total int64) {
	st.mu.RLock()
	for code, n := range st.errors {
		if count := n.Load(); count > 0 {
			byCode = append(byCode, ErrorStats{code, count})
			total += count
		}
	}
	st.mu.RUnlock()
	sort.Slice(byCode, func(i, j int) bool { return byCode[i].Code < byCode[j].Code })
	return byCode, total
}

// CountError counts an error reply.
func (st *Stats) CountError(code []byte) {
	st.mu.RLock()
	n := st.errors[string(code)]
	st.mu.RUnlock()
	if n == nil {
		n = st.newError(string(code))
	}
	n.Add(1)
}

func (st *Stats) newError(code string) *atomic.Int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.errors) >= maxErrorKinds && st.errors[code] == nil {
		code = otherErrors
	}
	n := st.errors[code]
	if n == nil {
		n = new(atomic.Int64)
		st.errors[code] = n
	}
	return n
}

// Reset sets every count but that of panics to zero.
func (st *Stats) Reset() {
	for i := range st.commands {
		c := &st.commands[i]
		c.calls.Store(0)
		c.nanoseconds.Store(0)
		c.rejected.Store(0)
		c.failed.Store(0)
		c.latency.Store(nil)
	}
	st.hits.Store(0)
	st.misses.Store(0)
	st.mu.Lock()
	clear(st.errors)
	st.mu.Unlock()
}

// maxCodeBytes is how far into an error its code is looked for.
const maxCodeBytes = 32

// errorCode returns the code of an error reply, the line that begins with '-'.
func errorCode(reply []byte) []byte {
	reply = reply[1:]
	for i, c := range reply[:min(len(reply), maxCodeBytes)] {
		if c == ' ' {
			return reply[:i]
		}
	}
	return []byte("ERR")
}

// processStart is what sinceStart counts from.
var processStart = time.Now()

// sinceStart reads the monotonic clock, which costs half of what time.Now does.
func sinceStart() time.Duration { return time.Since(processStart) }

// tally counts one command within a batch.
type tally struct {
	spec          *command.Spec
	calls, failed int64
}

// maxTallies is how many different commands a session counts before it merges
// in the middle of a batch.
const maxTallies = 8

// tallies are a session's counts since they were last merged.
type tallies struct {
	began time.Duration // when the batch did, 0: none is measured
	list  [maxTallies]tally
	n     int
	calls int64

	hits, misses int64

	waits  time.Duration // when the command that runs began to wait, 0: it does not
	waited time.Duration // for how long it has
	last   time.Duration // what the one took that was measured alone last
}

// begin starts the measurement unless it runs.
func (t *tallies) begin() {
	if t.began == 0 {
		t.began = sinceStart()
	}
}

// count notes a call of a command; full reports that the next one may need a
// merge first.
func (t *tallies) count(spec *command.Spec, failed bool) (full bool) {
	i := 0
	for i < t.n && t.list[i].spec != spec {
		i++
	}
	c := &t.list[i]
	if i == t.n {
		*c = tally{spec: spec}
		t.n++
	}
	c.calls++
	if failed {
		c.failed++
	}
	t.calls++
	return t.n == maxTallies
}

// merge adds the counts to st, divides the time since begin among the calls,
// and stops the measurement.
func (t *tallies) merge(x *Executor) {
	if t.calls > 0 {
		t.divide(x, sinceStart())
	}
	t.began = 0
	st := x.stats
	if t.hits > 0 {
		st.hits.Add(t.hits)
		t.hits = 0
	}
	if t.misses > 0 {
		st.misses.Add(t.misses)
		t.misses = 0
	}
}

// split is merge for the calls so far, where one follows that is measured alone;
// what comes is measured from now on.
func (t *tallies) split(x *Executor, now time.Duration) {
	if t.calls > 0 {
		t.divide(x, now)
	}
	t.began = now
}

// divide divides the time from begin to now among the calls.
func (t *tallies) divide(x *Executor, now time.Duration) {
	share, histograms := int64(0), x.observing.Load().Histograms
	if t.began != 0 {
		share = int64(now-t.began) / t.calls
	}
	for i := range t.list[:t.n] {
		c := &t.list[i]
		total := &x.stats.commands[c.spec.Number()]
		total.calls.Add(c.calls)
		total.nanoseconds.Add(share * c.calls)
		if c.failed > 0 {
			total.failed.Add(c.failed)
		}
		if histograms {
			x.stats.record(c.spec, time.Duration(share), c.calls)
		}
	}
	t.n, t.calls = 0, 0
}
