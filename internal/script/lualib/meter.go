package lualib

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"

	lua "github.com/yuin/gopher-lua"

	"kevy/resp"
)

const (
	// TickInstructions is after how many instructions of Lua the host is asked
	// whether the script may go on. A power of two: the remainder is a mask.
	TickInstructions = 4096
	// lookInstructions is after how many the clock is read, to see whether it is
	// time to look at the memory: one instruction can take much.
	lookInstructions = 64
	// lookAfter is how long a script may go on before its memory is looked at and the
	// host is asked.
	lookAfter = 2 * time.Millisecond
	// lookBytes is how much a function may take before that.
	lookBytes = 16 << 20
	// tickSteps is after how many steps of functions the host is asked: one
	// instruction of Lua can be work for hours.
	tickSteps = 1 << 15
	// bytesPerStep is how many bytes are copied, or compared, in a step.
	bytesPerStep = 16
	// MaxMemoryBytes is how much a script may hold, beside what the process had
	// when it began.
	MaxMemoryBytes = 1 << 30
)

const memoryText = "not enough memory"

var errMemory = &resp.Error{Code: "ERR", Text: memoryText}

// meter is the context that gopher-lua looks at before each instruction of a
// thread. Its Done counts them and is a channel that blocks for ever, nil, until
// the script has to end: reading from nil costs next to nothing, unlike from the
// channel of a context of the standard library, and no goroutine is needed to
// close it.
//
// Once a script has to end every further instruction raises the error anew: a
// pcall around it does not go on.
type meter struct {
	n uint32
	s *State
	l *lua.LState
	// parent is the thread that waits for this one, nil in the main thread.
	parent *lua.LState
	co     *coroutine // that this thread is, if any
	hooked bool
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done implements context.Context.
func (m *meter) Done() <-chan struct{} {
	m.n++
	if m.n&(lookInstructions-1) == 0 {
		m.s.look(m.n)
	}
	if !m.hooked {
		// Resume has set another.
		m.hooked, m.l.Panic = true, throw
	}
	return m.s.done
}

// Err implements context.Context.
func (m *meter) Err() error { return m.s.ending }

// Deadline implements context.Context.
func (*meter) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (*meter) Value(any) any { return nil }

var _ context.Context = (*meter)(nil)

// of returns the state that a thread is of.
func of(l *lua.LState) *State { return l.Context().(*meter).s }

// watch is what a state knows of the time and the memory of what runs.
type watch struct {
	began     time.Time
	looked    time.Duration // when the memory was looked at
	untold    int           // bytes taken since
	steps     int           // of functions since the host was asked
	heapBytes uint64        // of the process when the script's memory was first looked at
	seenBytes uint64        // beyond which the garbage is collected next
	maxBytes  uint64
}

// start begins to count for a script.
func (s *State) start(h Host) {
	s.host, s.ending, s.done = h, nil, nil
	s.watch = watch{began: time.Now(), maxBytes: s.watch.maxBytes}
}

// look is called by every 64th instruction of a thread.
func (s *State) look(n uint32) {
	if n&(TickInstructions-1) == 0 {
		s.tick()
	}
	if since := time.Since(s.watch.began); since-s.watch.looked > lookAfter {
		// Few instructions can take long, where they hash or compare long strings.
		s.tick()
		s.weigh(since)
	}
}

// tick asks the host. It reports the error that ends the script, if any.
func (s *State) tick() error {
	if s.ending == nil && s.host != nil {
		if err := s.host.Tick(); err != nil {
			s.ending, s.done = err, closedChannel
		}
	}
	return s.ending
}

// work notes that a function does so many steps more, each some nanoseconds, and
// ends the script if the host says so.
func (s *State) work(l *lua.LState, steps int) {
	s.watch.steps += steps
	if s.watch.steps < tickSteps {
		return
	}
	s.watch.steps = 0
	if s.tick() != nil {
		raise(l, s.endError())
	}
}

// take notes that a function is about to take memory and to fill it, and fails if
// there is not that much.
func (s *State) take(l *lua.LState, bytes int) {
	if !s.room(bytes) {
		raise(l, lua.LString(memoryText))
	}
	s.work(l, bytes/bytesPerStep)
}

// room notes that memory is about to be taken. It reports whether there is that
// much.
func (s *State) room(bytes int) bool {
	s.watch.untold += bytes
	if s.watch.untold < lookBytes {
		return true
	}
	if uint64(bytes) > s.watch.maxBytes || !s.fits(uint64(bytes)) {
		return false
	}
	s.watch.untold = 0
	return true
}

// weigh ends the script if it holds too much.
func (s *State) weigh(since time.Duration) {
	s.watch.looked = since
	if s.ending == nil && !s.fits(0) {
		s.ending, s.done = errMemory, closedChannel
	}
}

// fits reports whether a script may hold so many bytes more. What it has dropped
// counts until the garbage is collected, so that is done first where it matters.
func (s *State) fits(more uint64) bool {
	w := &s.watch
	now := heapBytes()
	if w.heapBytes == 0 || now < w.heapBytes {
		w.heapBytes = now
	}
	held := now - w.heapBytes + more
	if held <= w.maxBytes || held <= w.seenBytes {
		return true
	}
	runtime.GC()
	held = heapBytes() + more
	held -= min(held, w.heapBytes)
	if held > w.maxBytes {
		return false
	}
	w.seenBytes = held + w.maxBytes/2
	return true
}

// heapBytes is what the process has on its heap.
func heapBytes() uint64 {
	sample := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample[:])
	return sample[0].Value.Uint64()
}
