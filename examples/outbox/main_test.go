package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/inprocess"
)

// receiver takes events and drops those that it knows by their id. It refuses
// some, and takes some and says that it has not.
type receiver struct {
	mu    sync.Mutex
	rnd   *rand.Rand
	seen  map[string]bool
	keys  []string
	again int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fault := r.rnd.IntN(20)
	if fault == 0 {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	var e event
	if err := json.NewDecoder(req.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := req.Header.Get("Event-ID")
	if r.seen[id] {
		r.again++
	} else {
		r.seen[id] = true
		for _, c := range e.Changes {
			r.keys = append(r.keys, c.Key)
		}
	}
	if fault == 1 {
		http.Error(w, "taken, but who knows", http.StatusInternalServerError)
	}
}

// TestOutbox holds that each event arrives, in order, and that those that come
// again are known by their id, while the sender and the server are restarted.
func TestOutbox(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("KEVY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	s := inprocess.Start(t)
	r := &receiver{rnd: rand.New(rand.NewPCG(seed, 0)), seen: map[string]bool{}}
	target := httptest.NewServer(r)
	defer target.Close()
	file := filepath.Join(t.TempDir(), "cursors")
	start := func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- deliver(ctx, s.Addr(), target.URL, file, 5*time.Millisecond, slog.New(slog.DiscardHandler))
		}()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("deliver: %v", err)
			}
		}
	}
	stop := start()
	conn := s.Conn()
	var want []string
	for i := range 60 {
		inprocess.Do(t, conn, fmt.Sprintf("HSET order:%d state paid", i))
		want = append(want, fmt.Sprint("order:", i))
		inprocess.Do(t, conn, "INCR unrelated")
		switch i {
		case 20, 40:
			stop()
			stop = start()
		case 30:
			s.Restart()
			conn = s.Conn()
		}
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		done := len(r.keys) >= len(want)
		r.mu.Unlock()
		if done || time.Now().After(deadline) {
			break
		}
	}
	stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.keys, want) {
		t.Errorf("%d events arrived, %d times one again:\n%q", len(r.keys), r.again, r.keys)
	}
}

// Without a receiver nothing begins: events would wait for ever.
func TestNoReceiver(t *testing.T) {
	for _, to := range []string{"", "localhost:8080/events", "ftp://x/"} {
		file := filepath.Join(t.TempDir(), "cursors")
		if err := deliver(t.Context(), "127.0.0.1:1", to, file, time.Millisecond, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "-to takes the URL") {
			t.Errorf("%q: %v", to, err)
		}
	}
}
