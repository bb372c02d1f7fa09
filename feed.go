package kevy

import (
	"context"
	"errors"
	"fmt"

	"kevy/feed"
	"kevy/internal/op"
)

// Cursor is a position in the store's change feed: the change at Offset is the
// next one. Generations are compared for equality only.
type Cursor struct {
	Generation uint64
	Offset     uint64
}

// Change is one change to one key, as a real Redis command whose random,
// relative and conditional parts are resolved (see docs/ops.md).
type Change struct {
	Offset uint64
	// Args is the command, its name first. FLUSHDB, FLUSHALL and SWAPDB have no
	// key; in all others Args[1] is the key, but in XGROUP, where the subcommand
	// comes first, Args[2]. The caller owns the slices.
	Args [][]byte
	// DB is the database, always 0 for what Do and Update write.
	DB int
	// LSN is the change's number in the log and UnixMs the time of its commit, in
	// Unix milliseconds.
	LSN    uint64
	UnixMs int64
	// First and Last are the offsets of the commit that it belongs to.
	First, Last uint64
	// Cause is "user", "expired" or "evicted".
	Cause string
}

// ChangeBatch is what one read of the feed returns.
type ChangeBatch struct {
	Changes []Change
	// Next is the cursor to go on with. A reader has caught up when there are no
	// changes and Next is the cursor that it came with.
	Next Cursor
}

var (
	// ErrFuture says that a cursor lies beyond the end of the feed.
	ErrFuture   = errors.New("kevy: the cursor lies beyond the end of the feed")
	errNeedsLog = errors.New("kevy: a store in memory has nothing durable to wait for")
	// ErrFeedDisabled says that the store was opened WithoutFeed.
	ErrFeedDisabled = errors.New("kevy: the feed is disabled")
)

// ResyncError says that a cursor cannot be served: take the state and a cursor
// anew. Reason is "evicted" (older than what is kept), "generation" (of no
// history of this store), "lost" (beyond what a crash left) or "swapdb".
type ResyncError struct {
	Generation uint64 // the current one
	Tail       Cursor // where a fresh reader starts
	Oldest     Cursor // the oldest cursor still served
	Reason     string
}

func (e *ResyncError) Error() string {
	return fmt.Sprintf("kevy: the cursor cannot be served (%s); the feed is at generation %d, offset %d", e.Reason, e.Tail.Generation, e.Tail.Offset)
}

// maxChanges bounds limit of ChangesSince.
const maxChanges = feed.MaxCount

// FeedShards returns the number of streams that an embedding program reads: 1,
// the whole store in commit order.
func (db *DB) FeedShards() int { return 1 }

// ChangesTail returns the cursor at which a fresh reader starts.
func (db *DB) ChangesTail() (Cursor, error) {
	if err := db.enterFeed(); err != nil {
		return Cursor{}, err
	}
	defer db.leave()
	src := db.store.Feed()
	return Cursor(src.Tail(src.All())), nil
}

// ChangesOldest returns the oldest cursor that is still served.
func (db *DB) ChangesOldest() (Cursor, error) {
	if err := db.enterFeed(); err != nil {
		return Cursor{}, err
	}
	defer db.leave()
	src := db.store.Feed()
	at, err := src.Oldest(src.All())
	if err != nil {
		return Cursor{}, feedError(err)
	}
	return Cursor(at), nil
}

// ChangesSince returns up to limit changes (clamped to 1…65536, rounded up to
// the end of a commit) that follow a cursor in database 0, those of keys that
// begin with one of the prefixes if there are any. It does not wait. The errors
// are *ResyncError, ErrFuture and ErrFeedDisabled.
func (db *DB) ChangesSince(from Cursor, limit int, prefixes ...string) (ChangeBatch, error) {
	if err := db.enterFeed(); err != nil {
		return ChangeBatch{}, err
	}
	defer db.leave()
	var filter feed.Filter
	for _, p := range prefixes {
		if err := filter.AddPrefix([]byte(p)); err != nil {
			return ChangeBatch{}, fmt.Errorf("kevy: %w", err)
		}
	}
	src := db.store.Feed()
	req := feed.Request{Stream: src.All(), Cursor: feed.Cursor(from), Filter: &filter, Count: min(max(limit, 1), maxChanges), Bytes: feed.MaxBytes}
	var b feed.Batch
	defer b.Release()
	if err := src.Since(context.Background(), &req, &b); err != nil {
		return ChangeBatch{}, feedError(err)
	}
	out := ChangeBatch{Next: Cursor{Generation: b.Generation, Offset: b.Next}, Changes: make([]Change, 0, b.Len())}
	err := b.Each(func(f *feed.Frame) error {
		c, err := changeOf(f)
		out.Changes = append(out.Changes, c)
		return err
	})
	return out, err
}

// changeOf copies a frame.
func changeOf(f *feed.Frame) (Change, error) {
	_, args, err := op.ReadCommand(append([]byte(nil), f.Raw...), nil)
	return Change{
		Offset: f.Offset, Args: args, DB: f.DB, LSN: f.LSN, UnixMs: f.UnixMs, First: f.First, Last: f.Last, Cause: f.Cause.String(),
	}, err
}

// PrefixInfo counts the keys of a prefix.
type PrefixInfo struct {
	Keys    int
	Expires int // those that have an expiry
}

// InfoPrefix counts the keys of database 0 that begin with prefix. It looks at
// every key.
func (db *DB) InfoPrefix(prefix string) (PrefixInfo, error) {
	if err := db.enter(); err != nil {
		return PrefixInfo{}, err
	}
	defer db.leave()
	keys, expires := db.store.PrefixStats([]byte(prefix))
	return PrefixInfo{Keys: keys, Expires: expires}, nil
}

func (db *DB) enterFeed() error {
	if err := db.enter(); err != nil {
		return err
	}
	if db.store.FeedDisabled() {
		db.leave()
		return ErrFeedDisabled
	}
	return nil
}

// cursorAfter returns the cursor behind the op lsn.
func (db *DB) cursorAfter(lsn uint64) (Cursor, error) {
	src := db.store.Feed()
	cursors, err := src.CursorsAfter(lsn, []int{src.All()})
	if err != nil {
		return Cursor{}, feedError(err)
	}
	return Cursor(cursors[0]), nil
}

func feedError(err error) error {
	var resync *feed.ResyncError
	switch {
	case errors.As(err, &resync):
		return &ResyncError{
			Generation: resync.Tail.Generation, Tail: Cursor(resync.Tail), Oldest: Cursor(resync.Oldest), Reason: resync.Reason,
		}
	case errors.Is(err, feed.ErrAhead):
		return ErrFuture
	case errors.Is(err, feed.ErrClosed):
		return ErrClosed
	case errors.Is(err, feed.ErrNeedsLog):
		return errNeedsLog
	}
	return err
}
