package server

import "golang.org/x/sys/unix"

// halfClosed reports whether the peer has closed its side, even if bytes of it
// wait to be read.
func (c *client) halfClosed() bool {
	closed := false
	_ = c.raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		closed = err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return closed
}
