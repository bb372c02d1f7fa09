//go:build !linux

package alarm

import "time"

// Alarm calls a function after a short time.
type Alarm struct {
	timer *time.Timer
	fn    func()
}

// New returns an alarm that calls fn. Stop must end it.
func New(fn func()) *Alarm { return &Alarm{fn: fn} }

// Set makes the alarm go off once. It must not be set.
func (a *Alarm) Set(after time.Duration) { a.timer = time.AfterFunc(after, a.fn) }

// Stop ends the alarm.
func (a *Alarm) Stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// Sleeper lets one goroutine sleep for short times.
type Sleeper struct{}

// NewSleeper returns a sleeper. Close must end it.
func NewSleeper() *Sleeper { return &Sleeper{} }

// Sleep pauses the goroutine for d at least.
func (s *Sleeper) Sleep(d time.Duration) { time.Sleep(d) }

// Close ends the use of the sleeper.
func (s *Sleeper) Close() {}
