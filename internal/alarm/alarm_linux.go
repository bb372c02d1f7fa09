package alarm

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timer is one of the kernel's. Who reads it waits where connections are waited
// for, so that the runtime looks at these meanwhile.
type timer struct {
	file *os.File
	conn syscall.RawConn // of file
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	t := &timer{file: os.NewFile(uintptr(fd), "timer")}
	if t.conn, err = t.file.SyscallConn(); err != nil {
		_ = t.file.Close()
		return nil, err
	}
	return t, nil
}

// set makes the timer expire once.
func (t *timer) set(after time.Duration) error {
	var failed error
	err := t.conn.Control(func(fd uintptr) {
		failed = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(after.Nanoseconds())}, nil)
	})
	if err == nil {
		err = failed
	}
	return err
}

// wait returns once the timer has expired, or was closed.
func (t *timer) wait() error {
	var expirations [8]byte
	_, err := t.file.Read(expirations[:])
	return err
}

// Alarm calls a function after a short time.
type Alarm struct {
	timer *timer
	done  chan struct{}

	late *time.Timer // instead, where there is no timer
	fn   func()
}

// New returns an alarm that calls fn. Stop must end it.
func New(fn func()) *Alarm {
	a := &Alarm{fn: fn}
	t, err := newTimer()
	if err != nil {
		return a
	}
	a.timer, a.done = t, make(chan struct{})
	go func() {
		defer close(a.done)
		for t.wait() == nil {
			fn()
		}
	}()
	return a
}

// Set makes the alarm go off once. It must not be set.
func (a *Alarm) Set(after time.Duration) {
	if a.timer == nil {
		a.late = time.AfterFunc(after, a.fn)
		return
	}
	_ = a.timer.set(max(after, 1)) // fails only once it is stopped
}

// Stop ends the alarm. fn is not called any more once it has returned.
func (a *Alarm) Stop() {
	if a.timer != nil {
		_ = a.timer.file.Close()
		<-a.done
	} else if a.late != nil {
		a.late.Stop()
	}
}

// Sleeper lets one goroutine sleep for short times.
type Sleeper struct{ timer *timer }

// NewSleeper returns a sleeper. Close must end it.
func NewSleeper() *Sleeper {
	t, err := newTimer()
	if err != nil {
		return &Sleeper{} // no file is to be had
	}
	return &Sleeper{t}
}

// Sleep pauses the goroutine for d at least.
func (s *Sleeper) Sleep(d time.Duration) {
	if s.timer != nil && d > 0 && s.timer.set(d) == nil && s.timer.wait() == nil {
		return
	}
	time.Sleep(d)
}

// Close ends the use of the sleeper.
func (s *Sleeper) Close() {
	if s.timer != nil {
		_ = s.timer.file.Close() // nothing was written to it
	}
}
