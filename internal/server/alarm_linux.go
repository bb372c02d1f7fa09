package server

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// alarm calls a function after a short time. The runtime's timers are a
// millisecond late where the process has nothing else to do; the kernel's are not.
type alarm struct {
	file *os.File
	conn syscall.RawConn // of file
	done chan struct{}

	late *time.Timer // instead, where there is no file
	fn   func()
}

// newAlarm returns an alarm that calls fn.
func newAlarm(fn func()) *alarm {
	a := &alarm{fn: fn}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return a
	}
	file := os.NewFile(uintptr(fd), "timer")
	if a.conn, err = file.SyscallConn(); err != nil {
		_ = file.Close()
		return a
	}
	a.file, a.done = file, make(chan struct{})
	go func() {
		defer close(a.done)
		var expirations [8]byte
		for {
			if _, err := a.file.Read(expirations[:]); err != nil {
				return // stop closed it
			}
			fn()
		}
	}()
	return a
}

// set makes the alarm go off once. It must not be set.
func (a *alarm) set(after time.Duration) {
	if a.file == nil {
		a.late = time.AfterFunc(after, a.fn)
		return
	}
	_ = a.conn.Control(func(fd uintptr) {
		_ = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(after.Nanoseconds())}, nil)
	})
}

func (a *alarm) stop() {
	if a.file != nil {
		_ = a.file.Close()
		<-a.done
	} else if a.late != nil {
		a.late.Stop()
	}
}
