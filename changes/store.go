package changes

import (
	"context"
	"maps"
	"sync"
)

// CursorStore keeps a consumer's cursors. Calls for different streams may come
// at the same time.
type CursorStore interface {
	// Load returns the cursor of a stream; ok is false if none was saved.
	Load(ctx context.Context, stream string) (at Cursor, ok bool, err error)
	// Save keeps the cursor of a stream in place of the last one. When it returns
	// nil, a consumer that starts again is given this cursor or a later one.
	Save(ctx context.Context, stream string, at Cursor) error
}

// MemoryStore keeps cursors for as long as the program runs. The zero value is
// empty and ready. A cursor that is saved before a consumer starts is where it
// starts.
type MemoryStore struct {
	mu      sync.Mutex
	cursors map[string]Cursor // guarded by mu
}

// Load implements CursorStore. It never fails.
func (s *MemoryStore) Load(_ context.Context, stream string) (Cursor, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.cursors[stream]
	return at, ok, nil
}

// Save implements CursorStore. It never fails.
func (s *MemoryStore) Save(_ context.Context, stream string, at Cursor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursors == nil {
		s.cursors = make(map[string]Cursor)
	}
	s.cursors[stream] = at
	return nil
}

// Cursors returns a copy of all that is kept, by stream.
func (s *MemoryStore) Cursors() map[string]Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.cursors)
}

// KeptByTarget is the CursorStore of a handler that stores Commit.Next itself,
// in the transaction in which it stores what it made of the commit: nothing is
// then lost and nothing done twice, whoever crashes. load returns what the
// target has; Save does nothing. Let the handler be a ProgressHandler too.
func KeptByTarget(load func(ctx context.Context, stream string) (Cursor, bool, error)) CursorStore {
	return targetStore(load)
}

type targetStore func(ctx context.Context, stream string) (Cursor, bool, error)

func (load targetStore) Load(ctx context.Context, stream string) (Cursor, bool, error) {
	return load(ctx, stream)
}

func (targetStore) Save(context.Context, string, Cursor) error { return nil }
