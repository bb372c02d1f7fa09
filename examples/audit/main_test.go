package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kevy/tests/inprocess"
)

// TestAudit holds that every change is in the file once and in order, although
// the program is stopped and its file is cut at any byte of its end.
func TestAudit(t *testing.T) {
	s := inprocess.Start(t)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	conn := s.Conn()
	n := 0
	write := func() {
		for range 30 {
			inprocess.Do(t, conn, fmt.Sprint("SET k ", n))
			n++
		}
	}
	size := func() int {
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return bytes.Count(b, []byte("\n"))
	}
	write()
	for round := range 6 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- record(ctx, s.Addr(), path, slog.New(slog.DiscardHandler)) }()
		write()
		for deadline := time.Now().Add(20 * time.Second); size() < n && time.Now().Before(deadline); {
			time.Sleep(2 * time.Millisecond)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatalf("record: %v", err)
		}
		if round == 5 {
			break
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// As a crash leaves it: a part of what was written last is missing.
		if err := os.WriteFile(path, text[:len(text)-1-round*700], 0o600); err != nil {
			t.Fatal(err)
		}
		if round == 2 {
			s.Restart()
			conn = s.Conn()
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for in := json.NewDecoder(bytes.NewReader(text)); in.More(); got++ {
		var l line
		if err := in.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`["SET" "k" "%d"]`, got); l.Text != want || l.Cause != "user" || l.Time.IsZero() {
			t.Fatalf("line %d is %+v, want %s", got, l, want)
		}
	}
	if got != n {
		t.Errorf("%d lines, %d changes", got, n)
	}
	if err := os.WriteFile(path, append([]byte("{}\nnonsense\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(path); err == nil {
		t.Error("a file that is no record was opened")
	}
}
