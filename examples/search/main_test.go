package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"kevy/tests/inprocess"
	"kevy/tests/wire"
)

// TestSearch asks the index while documents come, change and go, over a restart
// of the server.
func TestSearch(t *testing.T) {
	s := inprocess.Start(t)
	conn := s.Conn()
	for i := range 500 {
		inprocess.Do(t, conn, fmt.Sprintf("HSET doc:%d title number%d body common", i, i%10))
	}
	inprocess.Do(t, conn, "SET other common")
	x := newIndex()
	c, err := x.consumer(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-x.ready
	if n := len(x.search("COMMON")); n != 500 {
		t.Errorf("%d documents in the snapshot", n)
	}
	if n := len(x.search("common, number3!")); n != 50 {
		t.Errorf("%d documents with two words", n)
	}
	do := func(args ...string) {
		t.Helper()
		if r, err := conn.Do(args...); err != nil || r.Kind == wire.Error {
			t.Fatal(r, err)
		}
	}
	check := func(query string, want ...string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
			got := x.search(query)
			if slices.Equal(got, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%q finds %q, want %q", query, got, want)
			}
		}
	}
	do("HSET", "doc:x", "title", "A red apple", "body", "It is sweet.")
	check("red sweet", "doc:x")
	do("HSET", "doc:x", "title", "A green apple")
	check("green sweet", "doc:x")
	check("red")
	do("HDEL", "doc:x", "body")
	check("sweet")
	do("RENAME", "doc:x", "doc:y")
	check("apple", "doc:y")
	do("PEXPIRE", "doc:y", "1")
	check("apple")
	s.Restart()
	conn = s.Conn()
	do("HSET", "doc:z", "title", "apple")
	check("apple", "doc:z")
	do("FLUSHALL")
	check("common")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if len(x.docs) != 0 || len(x.words) != 0 {
		t.Errorf("%d documents and %d words are left", len(x.docs), len(x.words))
	}
}
