package changes

import "fmt"

// ResyncError says that the server cannot serve a cursor: events behind it are
// missing, and going on would skip them. Take the state anew (SNAPSHOT or a
// scan) and go on from there.
type ResyncError struct {
	Stream string
	// Tail is where a fresh reader starts; Oldest is the oldest cursor that is
	// still served, in whichever generation it lies.
	Tail, Oldest Cursor
	// Reason is "evicted" (older than the history that is kept), "generation" (of
	// no history of this store), "lost" (beyond what a crash left), "swapdb", or
	// what a later server adds.
	Reason string
}

func (e *ResyncError) Error() string {
	return fmt.Sprintf("changes: stream %s cannot go on from its cursor (%s): take the state anew; its tail is %v, the oldest cursor served %v",
		e.Stream, e.Reason, e.Tail, e.Oldest)
}
