//go:build !linux

package server

import "time"

// alarm calls a function after a short time.
type alarm struct {
	timer *time.Timer
	fn    func()
}

// newAlarm returns an alarm that calls fn.
func newAlarm(fn func()) *alarm { return &alarm{fn: fn} }

// set makes the alarm go off once. It must not be set.
func (a *alarm) set(after time.Duration) { a.timer = time.AfterFunc(after, a.fn) }

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
