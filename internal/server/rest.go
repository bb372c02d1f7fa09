package server

import (
	"syscall"
	"time"
	"unsafe"

	"kevy/resp"
)

// A connection on which nothing comes for a while rests: what commands need goes, and
// its goroutine ends, whose stack weighs more than all else. The dormitory waits for
// its input, or where that cannot a goroutine that has run no command and so has a
// small stack. It costs the connection nothing while it is in use: the housekeeping
// wakes it from its read, by a deadline that has passed.

const (
	// restAfter is how long a client must have been idle.
	restAfter = 2 * time.Second
	// maxTired is how many are found in each cronSlow, and restsAtOnce how many are
	// sent to rest in each cronEvery, so that those who are in use do not wait for a
	// crowd.
	maxTired    = 5000
	restsAtOnce = 500
)

// The states of client.idleSince.
const (
	// busy: commands run.
	busy = -1
	// From resting on downwards the client rests, or is about to, idle since
	// resting - idleSince.
	resting = -2
)

// idle returns since when a client has waited for input, on the server's clock;
// false if it does not.
func (c *client) idle() (since time.Duration, ok bool) {
	switch v := c.idleSince.Load(); {
	case v >= 0:
		return time.Duration(v), true
	case v == busy:
		return 0, false
	default:
		return time.Duration(resting - v), true
	}
}

// bedtime sends clients to rest that have been idle for long; the housekeeping
// alone uses it.
type bedtime struct {
	tired []*client
	sent  int64 // so far
}

// look finds those whose time has come.
func (b *bedtime) look(s *Server, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if len(b.tired) == maxTired {
			return
		}
		if since := c.idleSince.Load(); since >= 0 && now-time.Duration(since) >= restAfter {
			b.tired = append(b.tired, c)
		}
	}
}

// send sends some of them to rest, unless they are in use again.
func (b *bedtime) send(now time.Duration) {
	n := min(len(b.tired), restsAtOnce)
	for i, c := range b.tired[:n] {
		if c.sendToRest(now) {
			b.sent++
		}
		b.tired[i] = nil
	}
	if b.tired = b.tired[n:]; len(b.tired) == 0 {
		b.tired = nil
	}
}

// sendToRest wakes a client that has been idle for long from its read.
func (c *client) sendToRest(now time.Duration) bool {
	since := c.idleSince.Load()
	if since < 0 || now-time.Duration(since) < restAfter || c.raw == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A client that is not in its read any more must not see the deadline: then this
	// fails, or stopsResting waits for mu.
	if !c.idleSince.CompareAndSwap(since, resting-since) {
		return false
	}
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	return true
}

// stopsResting makes reads wait again, after sendToRest.
func (c *client) stopsResting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetReadDeadline(time.Time{})
}

// lieDown gives back what an idle client does not need. Its goroutine ends.
func (c *client) lieDown(since int64) {
	if c.r.Release() {
		c.r = nil
	}
	c.w.Release()
	c.publish()
	c.es.Rest()
	c.rests = true
	c.idleSince.Store(since)
}

// sleep makes the client wait for input in the dormitory. The goroutine must not
// touch the client any more: another one may have it.
func (c *client) sleep() {
	c.asleep.Store(true)
	if !c.srv.dormitory.add(c) {
		c.wake()
	}
}

// wake gives a client that sleeps a goroutine again. Any goroutine may call it.
func (c *client) wake() {
	if c.asleep.CompareAndSwap(true, false) {
		go c.rest()
	}
}

// rest waits for input, or the end of the connection, which mostly is there, and
// goes on with serve. What is called here must fit the stack that a goroutine begins
// with.
func (c *client) rest() {
	_ = c.raw.Read(readable)
	c.srv.dormitory.remove(c)
	c.rests = false
	c.es.Wake()
	if c.r == nil {
		c.r = resp.NewReader(&c.input, *c.limits)
	}
	c.serve()
}

// readable reports whether a read would not wait.
func readable(fd uintptr) bool {
	var b [1]byte
	_, _, errno := syscall.Syscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return errno != syscall.EAGAIN && errno != syscall.EINTR
}
