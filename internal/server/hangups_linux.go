package server

import (
	"syscall"

	"kevy/internal/command"
)

// hangUps notices that peers close their side of connections whose commands wait, or
// have waited. Waiting clients need no goroutine for that, and whoever pushes can ask
// at once whether those who wait are still there: what the kernel knows is not
// known to a goroutine before that has run.
//
// An event is reported again until its client is removed, after it was told: of two who
// look at the same time neither goes on before the client knows.
type hangUps struct {
	srv   *Server
	epoll epoll         // without a file each client that waits watches by itself
	done  chan struct{} // closed at the end of watch
}

// noticedAtOnce is how many hang-ups are noticed at a time.
const noticedAtOnce = 16

func (h *hangUps) open(s *Server) error {
	h.srv = s
	if err := h.epoll.open(); err != nil {
		return err
	}
	h.done = make(chan struct{})
	go h.watch()
	return nil
}

// close ends it, once all clients have ended.
func (h *hangUps) close() {
	if h.epoll.file != nil {
		h.epoll.close()
		<-h.done
	}
}

// Follow implements exec.HangUps. The connection is watched until its end.
func (h *hangUps) Follow(session command.Session) {
	c := session.(*client)
	if !c.watched && c.raw != nil && h.epoll.file != nil {
		c.watched = h.epoll.add(c, syscall.EPOLLRDHUP)
	}
}

// Notice implements exec.HangUps.
func (h *hangUps) Notice() {
	if h.epoll.file == nil {
		return
	}
	var ready [noticedAtOnce]syscall.EpollEvent
	for {
		n, _ := syscall.EpollWait(h.epoll.fd, ready[:], 0) // fails for bad arguments only
		if n <= 0 || h.tell(ready[:n]) == 0 || n < len(ready) {
			return
		}
	}
}

// watch notices what nobody asked for, until close.
func (h *hangUps) watch() {
	defer close(h.done)
	var ready [noticedAtOnce]syscall.EpollEvent
	for {
		n, ok := h.epoll.wait(ready[:])
		if !ok {
			return
		}
		h.tell(ready[:n])
	}
}

// tell tells those whose peers have hung up, and returns how many they are.
func (h *hangUps) tell(ready []syscall.EpollEvent) int {
	gone := h.srv.appendReady(nil, ready)
	for _, c := range gone {
		c.hungUp()
		h.epoll.remove(c)
	}
	return len(gone)
}
