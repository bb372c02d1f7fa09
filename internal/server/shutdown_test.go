package server

import (
	"net"
	"testing"
	"time"
)

// TestShutdownRefuses: who has seen SHUTDOWN end his connection cannot connect again,
// even where it takes the server a while to stop listening.
func TestShutdownRefuses(t *testing.T) {
	in := start(t)
	c := in.conn()
	in.ports.mu.Lock()
	time.AfterFunc(50*time.Millisecond, in.ports.mu.Unlock)
	if r, err := c.Do("SHUTDOWN", "NOSAVE"); err == nil {
		t.Fatalf("SHUTDOWN answers %v", r)
	}
	if again, err := net.Dial("tcp", in.addr); err == nil {
		again.Close()
		t.Fatal("a server that has ended lets somebody in")
	}
}
