package server

import "syscall"

// dormitory waits for input on behalf of all clients that rest, which then need no
// goroutine of their own.
type dormitory struct {
	epoll epoll         // without a file everybody waits for themselves
	done  chan struct{} // closed at the end of watch
}

// wokenAtOnce is how many clients are woken at a time.
const wokenAtOnce = 256

// open makes the dormitory and begins to watch it.
func (d *dormitory) open(s *Server) error {
	if err := d.epoll.open(); err != nil {
		return err
	}
	d.done = make(chan struct{})
	go d.watch(s)
	return nil
}

// close ends it, once all clients have ended.
func (d *dormitory) close() {
	if d.epoll.file != nil {
		d.epoll.close()
		<-d.done
	}
}

// add makes the client be woken once it can read; false if it must wait by itself.
func (d *dormitory) add(c *client) bool {
	return d.epoll.file != nil && d.epoll.add(c, syscall.EPOLLIN|syscall.EPOLLRDHUP|syscall.EPOLLONESHOT)
}

// remove forgets a client that was woken: what comes next is none of the
// dormitory's business.
func (d *dormitory) remove(c *client) {
	if d.epoll.file != nil {
		d.epoll.remove(c)
	}
}

// watch wakes those who can read, until close.
func (d *dormitory) watch(s *Server) {
	defer close(d.done)
	ready := make([]syscall.EpollEvent, wokenAtOnce)
	var awake []*client
	for {
		n, ok := d.epoll.wait(ready)
		if !ok {
			return
		}
		awake = s.appendReady(awake[:0], ready[:n])
		for _, c := range awake {
			c.wake()
		}
		clear(awake)
	}
}
