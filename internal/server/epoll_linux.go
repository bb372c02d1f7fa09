package server

import (
	"fmt"
	"os"
	"syscall"
)

// epoll is an epoll instance that lies in the runtime's, so that waiting for it takes
// no thread. Events carry a client's id.
type epoll struct {
	file *os.File // nil: there is none
	raw  syscall.RawConn
	fd   int // file's
}

func (e *epoll) open() error {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // else os.File would block a thread
		_ = syscall.Close(fd)
		return fmt.Errorf("epoll: %w", err)
	}
	file := os.NewFile(uintptr(fd), "epoll")
	if e.raw, err = file.SyscallConn(); err != nil {
		_ = file.Close()
		return fmt.Errorf("epoll: %w", err)
	}
	e.file, e.fd = file, fd
	return nil
}

func (e *epoll) close() { _ = e.file.Close() }

// add waits for events of a client's connection; it reports whether it does.
func (e *epoll) add(c *client, events uint32) bool {
	return e.control(c, syscall.EPOLL_CTL_ADD, &syscall.EpollEvent{Events: events, Fd: int32(c.id), Pad: int32(c.id >> 32)})
}

// remove forgets a client.
func (e *epoll) remove(c *client) { e.control(c, syscall.EPOLL_CTL_DEL, nil) }

func (e *epoll) control(c *client, op int, event *syscall.EpollEvent) bool {
	var err error
	outer := e.raw.Control(func(epoll uintptr) {
		inner := c.raw.Control(func(fd uintptr) { err = syscall.EpollCtl(int(epoll), op, int(fd), event) })
		if err == nil {
			err = inner
		}
	})
	return err == nil && outer == nil
}

// wait waits for events; it reports false after close.
func (e *epoll) wait(ready []syscall.EpollEvent) (n int, ok bool) {
	err := e.raw.Read(func(epoll uintptr) bool {
		n, _ = syscall.EpollWait(int(epoll), ready, 0) // fails for bad arguments only
		return n > 0
	})
	return n, err == nil
}

// appendReady appends the clients of events, those that are still there, to dst.
func (s *Server) appendReady(dst []*client, ready []syscall.EpollEvent) []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ready {
		if c := s.clients[uint64(uint32(ready[i].Pad))<<32|uint64(uint32(ready[i].Fd))]; c != nil {
			dst = append(dst, c)
		}
	}
	return dst
}
