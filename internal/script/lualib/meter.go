package lualib

import (
	"context"
	"time"
)

// TickInstructions is after how many instructions of Lua the host is asked
// whether the script may go on. A power of two: the remainder is a mask.
const TickInstructions = 4096

// meter is the context that gopher-lua looks at before each instruction. Its
// Done counts them and is a channel that blocks for ever, nil, until the script
// has to end: reading from nil costs next to nothing, unlike from the channel of
// a context of the standard library, and no goroutine is needed to close it.
//
// Once a script has to end every further instruction raises the error anew: a
// pcall around it does not go on.
type meter struct {
	n    uint32
	host Host
	err  error
	done chan struct{} // closed once err is set
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// start begins to count for a script.
func (m *meter) start(h Host) { *m = meter{host: h} }

// Done implements context.Context.
func (m *meter) Done() <-chan struct{} {
	m.n++
	if m.n&(TickInstructions-1) == 0 {
		m.tick()
	}
	return m.done
}

// tick asks the host. It reports the error that ends the script, if any.
func (m *meter) tick() error {
	if m.err == nil && m.host != nil {
		m.end(m.host.Tick())
	}
	return m.err
}

// end ends the script at its next instruction unless err is nil.
func (m *meter) end(err error) {
	if err != nil && m.err == nil {
		m.err, m.done = err, closedChannel
	}
}

// Err implements context.Context.
func (m *meter) Err() error { return m.err }

// Deadline implements context.Context.
func (*meter) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (*meter) Value(any) any { return nil }

var _ context.Context = (*meter)(nil)
