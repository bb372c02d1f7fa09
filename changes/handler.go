package changes

import "context"

// Handler takes commits.
type Handler interface {
	// Commit takes one commit whole. The cursor moves past it only when Commit
	// returns nil; an error stops Consumer.Run, which returns it. Calls for one
	// stream come one after the other and in order; those of several streams come
	// at the same time. ctx ends when the consumer is to stop.
	Commit(ctx context.Context, c *Commit) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, c *Commit) error

// Commit calls f.
func (f HandlerFunc) Commit(ctx context.Context, c *Commit) error { return f(ctx, c) }

// BatchHandler is a Handler that takes at once what came at once, so that a
// target whose transactions are dear needs one for many commits. A Consumer then
// calls Commits and never Commit.
type BatchHandler interface {
	Handler
	// Commits takes commits that follow each other in one stream, at least one: all
	// of them, or an error. The cursor behind all of them is the last one's Next.
	// They belong to the handler.
	Commits(ctx context.Context, commits []Commit) error
}

// SnapshotHandler is a Handler that can begin from the state of the store. For
// each snapshot of a stream it gets one SnapshotStart, parts, and one
// SnapshotEnd; the commits that follow go on from exactly that state.
type SnapshotHandler interface {
	Handler
	// SnapshotStart says that a state of the stream comes in full: what the
	// handler has of it is void. It comes again, with another token, when a
	// snapshot was cut off and could not be resumed.
	SnapshotStart(ctx context.Context, stream, token string) error
	// SnapshotPart takes the next part. Each comes once.
	SnapshotPart(ctx context.Context, p *SnapshotPart) error
	// SnapshotEnd says that the state is complete, as of the cursor at.
	SnapshotEnd(ctx context.Context, stream string, at Cursor) error
}

// ProgressHandler is a Handler that wants to know when a stream's cursor moved
// although no commit passed the filters. One that keeps cursors itself, in its
// target's transactions, stores this one too: else the cursor of a rare filter
// stays behind and falls out of the history.
type ProgressHandler interface {
	Handler
	// Progress says that there is nothing for the handler before at.
	Progress(ctx context.Context, stream string, at Cursor) error
}
