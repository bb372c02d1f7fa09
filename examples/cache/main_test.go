package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"kevy/tests/inprocess"
)

// TestCache reads through the cache while keys change and the server restarts:
// what is cached in the end is what the server has, and a change is seen.
func TestCache(t *testing.T) {
	s := inprocess.Start(t)
	c := newCache(s.Addr())
	defer c.client.Close()
	conn := s.Conn()
	inprocess.Do(t, conn, "SET a 1")
	if v, hit, err := c.get(t.Context(), "a"); v != "1" || hit || err != nil || c.len() != 0 {
		t.Fatalf("before the feed is followed: %q, %v, %v", v, hit, err)
	}
	consumer, err := c.consumer(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	eventually(t, "the feed is followed", c.following)
	get := func(key string) (string, bool) {
		v, hit, err := c.get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return v, hit
	}
	get("a")
	if v, hit := get("a"); v != "1" || !hit {
		t.Errorf("the second read: %q, %v", v, hit)
	}
	inprocess.Do(t, conn, "SET a 2")
	eventually(t, "the change removes it", func() bool { v, _ := get("a"); return v == "2" })
	eventually(t, "it is cached again", func() bool { _, hit := get("a"); return hit })
	inprocess.Do(t, conn, "FLUSHALL")
	eventually(t, "FLUSHALL removes everything", func() bool { return c.len() == 0 })

	// Reads and writes race for the same keys.
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					time.Sleep(100 * time.Microsecond)
					c.get(t.Context(), fmt.Sprint("k", rand.IntN(10))) // one that is missing is an error
				}
			}
		})
	}
	for i := range 2000 {
		inprocess.Do(t, conn, fmt.Sprint("SET k", i%10, " ", i))
	}
	close(stop)
	readers.Wait()
	eventually(t, "what is cached is what the server has", func() bool {
		for i := range 10 {
			key := fmt.Sprint("k", i)
			if v, _ := get(key); v != string(inprocess.Do(t, conn, "GET "+key).Text) {
				return false
			}
		}
		return true
	})
	s.Stop()
	eventually(t, "without the server it is not trusted", func() bool { return !c.following() })
	s.Restart()
	eventually(t, "the feed is followed again", c.following)
	inprocess.Do(t, s.Conn(), "SET k1 after")
	eventually(t, "a change after the restart", func() bool { v, _ := get("k1"); return v == "after" })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 seconds: %s", what)
		}
	}
}
