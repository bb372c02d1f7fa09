package pipe

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"kevy/changes"
	"kevy/internal/client"
	"kevy/resp"
)

// holdEvery is how often a pipe's hold follows what is delivered.
const holdEvery = 5 * time.Second

// holder keeps a hold on the server at what the pipe has delivered, so that what
// comes next stays in the history also while the pipe is away. The hold of a
// Consumer would stand further on, at what the pipe has read. The holder does what
// it can: a hold that cannot be moved keeps more than is needed, no less.
type holder struct {
	name string
	dial client.Options

	mu        sync.Mutex
	delivered map[string]changes.Cursor // guarded by mu
	held      map[string]changes.Cursor // of run
}

func newHolder(name string, o *changes.Options) (*holder, error) {
	if o.Dial != nil {
		return nil, errors.New("a hold needs the address of the server")
	}
	return &holder{
		name: name, delivered: map[string]changes.Cursor{}, held: map[string]changes.Cursor{},
		dial: client.Options{Addr: o.Addr, Username: o.Username, Password: o.Password, TLS: o.TLS},
	}, nil
}

// moved says that a stream is delivered up to a cursor.
func (h *holder) moved(stream string, at changes.Cursor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delivered[stream] = at
}

// run moves the hold until ctx ends, and once more then.
func (h *holder) run(ctx context.Context, p *running) {
	ticker := time.NewTicker(holdEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		h.move(ctx, p)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdEvery)
	defer cancel()
	h.move(last, p)
}

func (h *holder) move(ctx context.Context, p *running) {
	next := map[string]changes.Cursor{}
	h.mu.Lock()
	for stream, at := range h.delivered {
		if h.held[stream] != at {
			next[stream] = at
		}
	}
	h.mu.Unlock()
	if len(next) == 0 {
		return
	}
	conn, err := client.Dial(ctx, h.dial)
	if err != nil {
		p.Log.Warn("the hold was not moved; trying again", "hold", h.name, "error", err)
		return
	}
	defer conn.Close()
	for stream, at := range next {
		_, err := conn.Call("CHANGES", "HOLD", "SET", h.name, stream, strconv.FormatUint(at.Generation, 10), strconv.FormatUint(at.Offset, 10))
		var answer *resp.Error
		if err != nil && !errors.As(err, &answer) {
			p.Log.Warn("the hold was not moved; trying again", "hold", h.name, "error", err)
			return
		}
		if err != nil {
			p.Log.Warn("the server does not move the hold", "hold", h.name, "stream", stream, "cursor", at.String(), "error", err)
		}
		h.held[stream] = at
	}
}
