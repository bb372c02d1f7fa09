package server

import (
	"fmt"
	"os"
	"syscall"
)

// dormitory waits for input on behalf of all clients that rest, which then need no
// goroutine of their own. Its epoll instance lies in the runtime's, so that waiting
// for it takes no thread.
type dormitory struct {
	file *os.File // the epoll instance; nil: everybody waits for themselves
	raw  syscall.RawConn
	done chan struct{} // closed at the end of watch
}

// wokenAtOnce is how many clients are woken at a time.
const wokenAtOnce = 256

// open makes the dormitory and begins to watch it.
func (d *dormitory) open(s *Server) error {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // else os.File would block a thread
		_ = syscall.Close(fd)
		return fmt.Errorf("epoll: %w", err)
	}
	d.file = os.NewFile(uintptr(fd), "epoll")
	if d.raw, err = d.file.SyscallConn(); err != nil {
		_ = d.file.Close()
		d.file = nil
		return fmt.Errorf("epoll: %w", err)
	}
	d.done = make(chan struct{})
	go d.watch(s)
	return nil
}

// close ends it, once all clients have ended.
func (d *dormitory) close() {
	if d.file != nil {
		_ = d.file.Close()
		<-d.done
	}
}

// add makes the client be woken once it can read; false if it must wait by itself.
func (d *dormitory) add(c *client) bool {
	const op = syscall.EPOLL_CTL_ADD
	return d.file != nil && d.control(c, op, &syscall.EpollEvent{
		Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT, Fd: int32(c.id), Pad: int32(c.id >> 32),
	})
}

// remove forgets a client that was woken: what comes next is none of the
// dormitory's business.
func (d *dormitory) remove(c *client) {
	if d.file != nil {
		d.control(c, syscall.EPOLL_CTL_DEL, nil)
	}
}

func (d *dormitory) control(c *client, op int, event *syscall.EpollEvent) bool {
	var err error
	outer := d.raw.Control(func(epoll uintptr) {
		inner := c.raw.Control(func(fd uintptr) { err = syscall.EpollCtl(int(epoll), op, int(fd), event) })
		if err == nil {
			err = inner
		}
	})
	return err == nil && outer == nil
}

// watch wakes those who can read, until close.
func (d *dormitory) watch(s *Server) {
	defer close(d.done)
	ready := make([]syscall.EpollEvent, wokenAtOnce)
	awake := make([]*client, 0, wokenAtOnce)
	for {
		n := 0
		err := d.raw.Read(func(epoll uintptr) bool {
			n, _ = syscall.EpollWait(int(epoll), ready, 0) // fails for bad arguments only
			return n > 0
		})
		if err != nil {
			return
		}
		s.mu.Lock()
		for i := range ready[:n] {
			if c := s.clients[uint64(uint32(ready[i].Pad))<<32|uint64(uint32(ready[i].Fd))]; c != nil {
				awake = append(awake, c)
			}
		}
		s.mu.Unlock()
		for i, c := range awake {
			c.wake()
			awake[i] = nil
		}
		awake = awake[:0]
	}
}
