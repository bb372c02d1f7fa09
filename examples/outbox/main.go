// Command outbox tells another service of every order that changes, without an
// outbox table and without a second write: the commit is the event.
//
//	redis-cli hset order:1 state paid
//	go run ./examples/outbox -addr 127.0.0.1:6379 -to http://127.0.0.1:8080/events -cursors outbox.cursors
//
// Each commit that touches keys order:… is one POST, in order. Its Event-ID is
// the stream, generation and offset of the commit: the same each time, so the
// receiver, which gets an event again after a crash between the POST and the
// saving of the cursor, knows it by that and drops it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kevy/changes"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "host:port of the server")
	to := flag.String("to", "", "URL that events are sent to")
	cursors := flag.String("cursors", "outbox.cursors", "file that keeps the place")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := deliver(ctx, *addr, *to, *cursors, time.Second, slog.Default()); err != nil {
		log.Fatal(err)
	}
}

// deliver runs until ctx ends. pause is how long to wait before an event that was
// not taken is sent again.
func deliver(ctx context.Context, addr, to, cursors string, pause time.Duration, logger *slog.Logger) error {
	if u, err := url.Parse(to); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("-to takes the URL that events are sent to, http://… or https://…, not %q", to)
	}
	store, err := changes.OpenFileStore(cursors)
	if err != nil {
		return err
	}
	c, err := changes.New(changes.Options{
		Addr:    addr,
		Start:   changes.Oldest,
		Durable: true, // tell nobody of what a crash of the server can take back
		Filter:  changes.Filter{Prefixes: []string{"order:"}},
		Store:   store,
		// Events must not be lost while this program is away.
		Hold:   "outbox",
		Logger: logger,
	}, &sender{to: to, pause: pause, logger: logger})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// sender posts commits.
type sender struct {
	to     string
	pause  time.Duration // before a failed POST is tried again
	logger *slog.Logger
}

// event is what is posted.
type event struct {
	Time    time.Time `json:"time"`
	Changes []change  `json:"changes"`
}

// change is one op on one key.
type change struct {
	Key string   `json:"key"`
	Op  []string `json:"op"`
}

// Commit posts until the receiver has taken the event: nothing may overtake it.
func (s *sender) Commit(ctx context.Context, c *changes.Commit) error {
	e := event{Time: c.Frames[0].Time}
	for i := range c.Frames {
		f := &c.Frames[i]
		op := make([]string, len(f.Args))
		for j, a := range f.Args {
			op[j] = string(a)
		}
		e.Changes = append(e.Changes, change{Key: string(f.Key()), Op: op})
	}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%s:%d:%d", c.Stream, c.Generation, c.First)
	for {
		err := s.post(ctx, id, body)
		if err == nil {
			return nil
		}
		s.logger.Warn("the event was not taken; trying again", "event", id, "error", err)
		select {
		case <-time.After(s.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *sender) post(ctx context.Context, id string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Event-ID", id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answers %s", resp.Status)
	}
	return nil
}
