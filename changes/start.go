package changes

import "context"

// Start says where a stream begins for which no cursor is stored. A stored
// cursor always wins over it.
type Start struct {
	kind startKind
	at   Cursor
}

type startKind uint8

const (
	startTail startKind = iota
	startOldest
	startSnapshot
	startAt
)

// Where a stream may begin. Tail is the zero value.
var (
	// Tail begins behind the last commit: what comes from now on.
	Tail = Start{}
	// Oldest begins with the oldest history that the server still has.
	Oldest = Start{kind: startOldest}
	// Snapshot begins with the state of the store, and goes on live from exactly
	// there. The handler must be a SnapshotHandler.
	Snapshot = Start{kind: startSnapshot}
)

// At begins at a cursor. It is good for one stream only; to place several, save
// their cursors in the store before.
func At(c Cursor) Start { return Start{kind: startAt, at: c} }

// OnResync says what becomes of a stream whose cursor the server cannot serve
// any more (see [ResyncError]). Events are missing from there on, so what was
// built of the stream has to be built anew.
type OnResync struct {
	kind    resyncKind
	rebuild func(context.Context, *ResyncError) (Cursor, error)
}

type resyncKind uint8

const (
	resyncStop resyncKind = iota
	resyncSnapshot
	resyncRebuild
)

// What to do when a cursor cannot be served. ResyncStop is the zero value.
var (
	// ResyncStop ends Consumer.Run with the *ResyncError.
	ResyncStop = OnResync{}
	// ResyncSnapshot takes a snapshot and goes on live from there. The handler
	// must be a SnapshotHandler.
	ResyncSnapshot = OnResync{kind: resyncSnapshot}
)

// ResyncRebuild calls the application, which builds anew what it has made of
// the stream and returns the cursor to go on from. A sound way: read the keys
// that it wants from the server after the call has begun, then return e.Tail.
// Frames behind e.Tail may be older than what was read, so take each, up to the
// tail at which the reading ended, as "read this key again". An error stops
// Consumer.Run, which returns it. No commit of the stream is handled meanwhile.
func ResyncRebuild(rebuild func(ctx context.Context, e *ResyncError) (Cursor, error)) OnResync {
	return OnResync{kind: resyncRebuild, rebuild: rebuild}
}
