package kevy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"kevy/feed"
)

// Filter says which changes a subscription wants: those in the database whose
// key passes one of the key filters, if there are any, and one of whose values
// passes one of the value filters, if there are any. The zero value is every
// change in database 0. docs/feed.md has the limits, the values of each op, and
// what passes in any case: FLUSHALL always, FLUSHDB where its database is wanted,
// and what has no value, such as DEL, every value filter.
type Filter struct {
	Prefixes []string   // keys that begin with one of them
	Matches  []string   // keys that match one of them, as with KEYS
	Regexes  []KeyRegex // keys in which one of them is found

	ValueExact    []string // values that are one of them
	ValuePrefixes []string // values that begin with one of them
	ValueRegexes  []string // values in which one of these regular expressions is found

	// ByteMode makes regular expressions match bytes rather than UTF-8 text.
	ByteMode bool

	// DB is the database; AllDBs takes all of them.
	DB     int
	AllDBs bool
}

// KeyRegex is a regular expression that is searched in what follows Prefix in a
// key. Prefix may be empty.
type KeyRegex struct{ Prefix, Pattern string }

// compile returns the filter for the feed.
func (f *Filter) compile(dbs int) (*feed.Filter, error) {
	if f.DB < 0 || f.DB >= dbs {
		return nil, fmt.Errorf("kevy: invalid filter: there are databases 0 to %d, and no %d", dbs-1, f.DB)
	}
	out := &feed.Filter{DB: f.DB, AllDBs: f.AllDBs}
	var first error
	all := func(texts []string, add func([]byte) error) {
		for _, t := range texts {
			if err := add([]byte(t)); err != nil && first == nil {
				first = fmt.Errorf("kevy: %w", err)
			}
		}
	}
	all(f.Prefixes, out.AddPrefix)
	all(f.Matches, out.AddMatch)
	for _, r := range f.Regexes {
		all([]string{r.Pattern}, func(p []byte) error { return out.AddRegex([]byte(r.Prefix), p, f.ByteMode) })
	}
	all(f.ValueExact, out.AddValueExact)
	all(f.ValuePrefixes, out.AddValuePrefix)
	all(f.ValueRegexes, func(p []byte) error { return out.AddValueRegex(p, f.ByteMode) })
	return out, first
}

// Commit is what one write, one Update or one removal of an overdue key changed:
// all of it, or what of it passes the subscription's filter.
type Commit struct {
	Changes []Change
	// Next is the cursor behind the commit.
	Next Cursor
}

// A SubscribeOption changes how a Subscription reads.
type SubscribeOption func(*feed.Request)

// WithDurable holds back what is not fsynced yet. A subscriber then never sees
// what a power cut can take back, and no crash makes its cursor unservable. A
// store in memory refuses it.
func WithDurable() SubscribeOption { return func(r *feed.Request) { r.Durable = true } }

// WithReadAhead says how many changes are read at a time, rounded up to the end
// of a commit; 256 by default, at most 65536. They are in memory until Next has
// returned them.
func WithReadAhead(changes int) SubscribeOption {
	return func(r *feed.Request) { r.Count = min(max(changes, 1), maxChanges) }
}

// Subscription reads the feed on and on. It has no goroutine and holds nothing
// of the store between two calls, so there is nothing to close: it may be
// dropped. One goroutine at a time may use it.
type Subscription struct {
	db  *DB
	ctx context.Context
	req feed.Request

	ready []Commit // read and not returned
	at    Cursor   // behind what was returned, and what the filter left out behind it
}

// Subscribe returns a Subscription to the changes of the whole store that follow
// a cursor and pass the filter: those that are there already, and then those that
// come. It ends with ctx, and when the DB is closed.
//
// The errors are what is wrong with the filter, *ResyncError, ErrFuture,
// ErrFeedDisabled and ErrClosed.
func (db *DB) Subscribe(ctx context.Context, from Cursor, filter Filter, options ...SubscribeOption) (*Subscription, error) {
	if err := db.enterFeed(); err != nil {
		return nil, err
	}
	defer db.leave()
	compiled, err := filter.compile(db.store.Set().DBs())
	if err != nil {
		return nil, err
	}
	src := db.store.Feed()
	s := &Subscription{db: db, ctx: ctx, at: from, req: feed.Request{Stream: src.All(), Filter: compiled}}
	for _, o := range options {
		o(&s.req)
	}
	// A cursor that cannot be served is an error here, not once there is a change.
	if err := s.read(ctx, 0); err != nil {
		return nil, err
	}
	return s, nil
}

// Next returns the next commit, and waits until there is one. Its bytes are the
// caller's. A commit is never split; one of gigabytes is in memory whole.
//
// The errors are those of ctx and of Subscribe's, ErrClosed, and *ResyncError if
// the feed no longer reaches back to the cursor, or a SWAPDB exchanged the
// filter's database. What was read before is returned first. After an error of
// ctx the subscription can be used on.
func (s *Subscription) Next(ctx context.Context) (Commit, error) {
	if err := s.ended(ctx); err != nil {
		return Commit{}, err
	}
	if err := s.fill(ctx); err != nil {
		return Commit{}, err
	}
	c := s.ready[0]
	s.ready[0] = Commit{}
	s.ready = s.ready[1:]
	s.at = c.Next
	if len(s.ready) == 0 {
		s.at = Cursor(s.req.Cursor)
	}
	return c, nil
}

// Commits returns an iterator over what Next returns. It yields an error once,
// as the last thing; when ctx, or Subscribe's, has ended, that is its error.
func (s *Subscription) Commits(ctx context.Context) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		for {
			c, err := s.Next(ctx)
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// Cursor returns the cursor to go on with after what Next has returned, also in
// another run of the program. It moves over changes that the filter leaves out
// too; so one that is kept from time to time does not grow old where nothing
// passes.
func (s *Subscription) Cursor() Cursor { return s.at }

// ended returns why the subscription, or this use of it, is over.
func (s *Subscription) ended(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case s.db.closing.Err() != nil:
		return ErrClosed
	}
	return nil
}

// fill makes sure that a commit is ready.
func (s *Subscription) fill(ctx context.Context) error {
	if len(s.ready) > 0 {
		return nil
	}
	if err := s.db.enterFeed(); err != nil {
		return err
	}
	defer s.db.leave()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	defer context.AfterFunc(s.db.closing, cancel)()
	for len(s.ready) == 0 {
		err := s.read(waiting, feed.MaxBlock)
		if over := s.ended(ctx); over != nil && len(s.ready) == 0 {
			return over
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads on once, and waits for a commit if block is not 0.
func (s *Subscription) read(ctx context.Context, block time.Duration) error {
	var b feed.Batch
	defer b.Release()
	s.req.Cursor, s.req.Block = feed.Cursor(s.at), block
	err := s.db.store.Feed().Since(ctx, &s.req, &b)
	if err != nil && (ctx.Err() == nil || b.Generation == 0) {
		return feedError(err)
	}
	// Where ctx ended the waiting, the cursor has moved all the same.
	ready, decodeErr := commitsOf(&b)
	if decodeErr != nil {
		return decodeErr
	}
	s.ready, s.req.Cursor = ready, feed.Cursor{Generation: b.Generation, Offset: b.Next}
	if len(ready) == 0 {
		s.at = Cursor(s.req.Cursor)
	}
	return err
}

// commitsOf copies a batch.
func commitsOf(b *feed.Batch) ([]Commit, error) {
	var commits []Commit
	first := uint64(0)
	err := b.Each(func(f *feed.Frame) error {
		c, err := changeOf(f)
		if err != nil {
			return err
		}
		if len(commits) == 0 || f.First != first {
			first = f.First
			commits = append(commits, Commit{Next: Cursor{Generation: b.Generation, Offset: f.Last + 1}})
		}
		last := &commits[len(commits)-1]
		last.Changes = append(last.Changes, c)
		return nil
	})
	return commits, err
}

// CommitAt returns the whole commit, of all databases, to which the change at a
// cursor belongs. The errors are *ResyncError, ErrFuture for a change that is not
// there yet, ErrFeedDisabled and ErrClosed.
func (db *DB) CommitAt(at Cursor) (Commit, error) {
	if err := db.enterFeed(); err != nil {
		return Commit{}, err
	}
	defer db.leave()
	src := db.store.Feed()
	var b feed.Batch
	defer b.Release()
	if _, _, err := src.Get(src.All(), feed.Cursor(at), &b); err != nil {
		var notFound *feed.NotFoundError
		if errors.As(err, &notFound) {
			return Commit{}, ErrFuture
		}
		return Commit{}, feedError(err)
	}
	commits, err := commitsOf(&b)
	if err != nil {
		return Commit{}, err
	}
	return commits[0], nil
}
