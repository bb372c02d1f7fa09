package feed

import (
	"errors"
	"fmt"

	"kevy/resp"
)

// Cursor is a position in a stream: the frame at Offset is the next one.
type Cursor struct {
	Generation uint64
	Offset     uint64
}

// before reports whether a cursor of the same stream lies before another one:
// generations are drawn in rising order.
func (c Cursor) before(other Cursor) bool {
	return c.Generation < other.Generation || c.Generation == other.Generation && c.Offset < other.Offset
}

// The reasons of a ResyncError, as they stand on the wire.
const (
	// ReasonEvicted: the log no longer reaches back to the cursor.
	ReasonEvicted = "evicted"
	// ReasonGeneration: the generation is not one of this stream's history.
	ReasonGeneration = "generation"
	// ReasonLost: the cursor lies beyond what a crash left of its generation.
	ReasonLost = "lost"
	// ReasonSwapDB: the reader's database was exchanged with another one.
	ReasonSwapDB = "swapdb"
)

// ResyncError says that a cursor cannot be served: the reader must take the
// state and a cursor anew.
type ResyncError struct {
	Tail   Cursor // where a fresh reader starts
	Oldest Cursor // the oldest cursor still served
	Reason string
	// Strict marks the error of the strict contract, which names the tail only.
	Strict bool
}

func (e *ResyncError) Error() string {
	if e.Strict {
		return fmt.Sprintf("FEEDRESYNC %d %d", e.Tail.Generation, e.Tail.Offset)
	}
	return fmt.Sprintf("FEEDRESYNC %d %d %d %d %s", e.Tail.Generation, e.Tail.Offset, e.Oldest.Generation, e.Oldest.Offset, e.Reason)
}

// NotFoundError says that an offset is not written yet.
type NotFoundError struct{ Tail Cursor }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("FEEDNOTFOUND %d %d", e.Tail.Generation, e.Tail.Offset)
}

var (
	// ErrAhead says that a cursor lies beyond the tail of the current generation.
	ErrAhead = errors.New("feed cursor ahead of stream")
	// ErrNeedsLog answers a DURABLE reader of a store that fsyncs nothing.
	ErrNeedsLog = errors.New("DURABLE needs a log")
	// ErrDisabled answers every reader where the feed is switched off.
	ErrDisabled = errors.New("feed is disabled")
	// ErrClosed answers a reader that waits while the store is closed.
	ErrClosed = errors.New("the store is closing")
)

// NoStreamError says that there is no stream of that name.
type NoStreamError struct{ Name string }

func (e *NoStreamError) Error() string { return fmt.Sprintf("no such stream '%s'", e.Name) }

// ReplyError returns the error that a client sees for err.
func ReplyError(err error) *resp.Error {
	var reply *resp.Error
	var resync *ResyncError
	var notFound *NotFoundError
	var stale *HoldStaleError
	var broken *HoldBrokenError
	switch {
	case errors.As(err, &reply):
		return reply
	case errors.As(err, &resync):
		return &resp.Error{Code: "FEEDRESYNC", Text: resync.Error()[len("FEEDRESYNC "):]}
	case errors.As(err, &notFound):
		return &resp.Error{Code: "FEEDNOTFOUND", Text: notFound.Error()[len("FEEDNOTFOUND "):]}
	case errors.As(err, &stale):
		return &resp.Error{Code: "HOLDSTALE", Text: stale.Error()[len("HOLDSTALE "):]}
	case errors.As(err, &broken):
		return &resp.Error{Code: "HOLDBROKEN", Text: broken.Error()[len("HOLDBROKEN "):]}
	}
	return &resp.Error{Code: "ERR", Text: err.Error()}
}
