package integration

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// setsFor counts the SETs of a value that two clients, one at a time each, get done in a time.
func setsFor(t *testing.T, s *process.Server, d time.Duration, value string) int64 {
	t.Helper()
	var done atomic.Int64
	var running sync.WaitGroup
	end := time.Now().Add(d)
	for i := range 2 {
		c := s.Conn(t)
		running.Go(func() {
			for time.Now().Before(end) {
				if r, err := c.Do("SET", "key"+strconv.Itoa(i), value); err != nil || r.Kind != wire.Simple {
					t.Errorf("SET: %v, %v", r, err)
					return
				}
				done.Add(1)
			}
		})
	}
	running.Wait()
	return done.Load()
}

// TestWritersBesideSubscribers: subscribers whose filters take far longer than the writes do fall behind,
// and do not slow the writers to their own pace.
func TestWritersBesideSubscribers(t *testing.T) {
	subscribers, span := 200, 2*time.Second
	if n, err := strconv.Atoi(os.Getenv("KEVY_SUBSCRIBERS")); err == nil {
		subscribers, span = n, 5*time.Second
	}
	value := strings.Repeat("abcdefghij", 1<<10)
	for name, where := range map[string][]string{
		"expressions over values": {"TAIL", "VALUE", "REGEX", "(a|b)+[^k]*j{3}z"},
		"history":                 {"OLDEST", "VALUE", "REGEX", "(a|b)+[^k]*j{3}z"},
	} {
		t.Run(name, func(t *testing.T) {
			b := subject(t, "has no feed")
			s := process.Start(t, b, process.Config{Args: []string{"--auto-aof-rewrite-percentage", "0"}})
			alone := setsFor(t, s, span, value)
			var draining sync.WaitGroup
			var conns []*wire.Conn
			for range subscribers {
				c := s.Conn(t)
				if r, err := c.Do("HELLO", "3"); err != nil || r.IsError("") {
					t.Fatalf("HELLO: %v, %v", r, err)
				}
				if r, err := c.Do(slices.Concat([]string{"CHANGES", "SUBSCRIBE", "ALL"}, where)...); err != nil || r.IsError("") {
					t.Fatalf("CHANGES SUBSCRIBE: %v, %v", r, err)
				}
				conns = append(conns, c)
				draining.Go(func() {
					for b := make([]byte, 64<<10); ; {
						if _, err := c.Conn.Read(b); err != nil {
							return
						}
					}
				})
			}
			beside := setsFor(t, s, span, value)
			t.Logf("%d SETs alone, %d beside %d subscribers, in %v", alone, beside, subscribers, span)
			if beside < alone/20 {
				t.Errorf("%d SETs beside %d subscribers, %d without", beside, subscribers, alone)
			}
			began := time.Now()
			s.Stop(t)
			t.Logf("closed in %v", time.Since(began).Round(time.Millisecond))
			for _, c := range conns {
				c.Close()
			}
			draining.Wait()
		})
	}
}
