// Package kevy is a Redis-compatible store inside a Go program: the keyspace,
// the log on disk and the ordered feed of changes that kevy-server has, without
// a network.
//
//	db, err := kevy.Open("data")
//	…
//	defer db.Close()
//	_, err = db.Do(ctx, "SET", "greeting", "hello")
//	reply, err := db.Do(ctx, "GET", "greeting")
//
// Every data command of the server runs through Do; Update makes several of
// them one commit. Subscribe follows what they change, from any cursor on:
//
//	sub, err := db.Subscribe(ctx, from, kevy.Filter{Prefixes: []string{"user:"}})
//	…
//	for commit, err := range sub.Commits(ctx) {
//		…
//	}
//
// A DB is safe for concurrent use.
package kevy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"kevy/aof"
	"kevy/internal/command"
	"kevy/internal/command/all"
	"kevy/internal/engine"
	"kevy/internal/exec"
	"kevy/resp"
	"kevy/shard"
)

// ErrClosed answers the use of a closed DB.
var ErrClosed = errors.New("kevy: the database is closed")

// DB is an open store.
type DB struct {
	store *engine.Engine
	exec  *exec.Executor
	pool  sync.Pool // of *session

	closing context.Context // ends when Close begins
	close   context.CancelFunc

	mu     sync.RWMutex // held for reading by whoever uses the store
	closed bool         // guarded by mu
}

// Open opens the store in dir, which it creates if there is none. An empty dir
// keeps everything in memory. A new store has one shard; one that a server
// created keeps its own number. The directory belongs to one process at a time.
//
// It reads the log from end to end, so it takes time in proportion to that. The
// error says what stands in the way, and changes nothing if it is about damage.
// Close must follow.
func Open(dir string, options ...Option) (*DB, error) {
	opt := engine.Options{
		Dir: dir, Shards: 1, DBs: databases, NoFile: dir == "", Fsync: aof.PolicyEverySec,
		FeedMemoryBytes: feedMemoryBytes, FeedDiskBytes: feedDiskBytes, FeedHoldBytes: feedHoldBytes,
		Rewrite: engine.RewriteRule{Percentage: 100, MinBytes: 64 << 20},
		Foreign: exec.RunForeign(all.Table()),
	}
	for _, o := range options {
		o(&opt)
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	store, err := engine.Open(opt)
	var damage *aof.DamageError
	if errors.As(err, &damage) {
		return nil, fmt.Errorf("%w (nothing was changed; WithRecover can leave it out)", err)
	}
	if err != nil {
		return nil, err
	}
	if opt.MaxMemory.By == shard.EvictByUses {
		store.Set().SetLFU(&shard.LFU{LogFactor: lfuLogFactor, DecayMinutes: lfuDecayMinutes})
	}
	db := &DB{store: store, exec: exec.New(all.Table(), store, opt.Logger, exec.Refusals{})}
	db.closing, db.close = context.WithCancel(context.Background())
	return db, nil
}

// Close ends the store: everything committed is on the disk, and the feed's
// cursors stay good. It waits for calls that are under way; those that wait for a
// key return ErrClosed, as do later ones, a second Close among them. Another error says that not everything
// could be made durable: what was acknowledged is as safe as the fsync policy
// had promised, and the next Open begins a new generation of the feed.
func (db *DB) Close() error {
	db.close()
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	db.closed = true
	return db.store.Close()
}

// enter holds the store open for one call; leave follows unless it fails.
func (db *DB) enter() error {
	db.mu.RLock()
	if db.closed {
		db.mu.RUnlock()
		return ErrClosed
	}
	return nil
}

func (db *DB) leave() { db.mu.RUnlock() }

// session is what one call runs commands in.
type session struct {
	db  *DB
	es  *exec.Session
	w   *resp.Writer
	ctx context.Context // of the call, while it runs
}

func (s *session) ID() uint64          { return 0 }
func (s *session) DB() int             { return s.es.DB() }
func (s *session) Exec() *exec.Session { return s.es }

var _ command.Session = (*session)(nil)

// Park makes a command that waits do so until the call's context ends or the DB
// is closed.
func (s *session) Park() (ctx context.Context, done func(), ok bool) {
	s.es.Waits()
	ctx, cancel := context.WithCancel(s.ctx)
	stop := context.AfterFunc(s.db.closing, cancel)
	return ctx, func() { stop(); cancel() }, true
}

func (db *DB) session() *session {
	if s, ok := db.pool.Get().(*session); ok {
		return s
	}
	s := &session{db: db, w: resp.NewWriter(3)}
	s.es = db.exec.NewSession(s, s.w)
	return s
}

func (db *DB) put(s *session) {
	s.w.Reset()
	db.pool.Put(s)
}

// Do runs one data command in database 0, as a client of the server would send
// it, and returns its reply in RESP3's shape. A reply that is an error is
// returned as *resp.Error; other errors say that the store could not do it. The
// arguments are copied, and the reply is the caller's. A write returns once it is
// as safe as the fsync policy promises.
//
// An error with the Code "MISCONF" says that the log cannot be written, as with a
// full disk: the write may be there after a restart or not. Reads go on. ctx is
// looked at before the command runs, and while it waits: a command like BLPOP
// that finds nothing waits until it is served, its own timeout passes, ctx ends
// (its error is returned then) or the DB is closed.
//
// Commands on the connection, such as SELECT, MULTI and SUBSCRIBE, are unknown
// here. Update takes the place of MULTI.
func (db *DB) Do(ctx context.Context, args ...string) (resp.Reply, error) {
	r, _, err := db.do(ctx, args, false)
	return r, err
}

// Write is Do that also returns the cursor behind what the command changed, for
// whoever waits until a reader of the feed has got there. A command that changes
// nothing has that of what it saw, or an earlier one. Without a feed it is the
// zero Cursor.
func (db *DB) Write(ctx context.Context, args ...string) (resp.Reply, Cursor, error) {
	return db.do(ctx, args, true)
}

func (db *DB) do(ctx context.Context, args []string, withCursor bool) (resp.Reply, Cursor, error) {
	if err := ctx.Err(); err != nil {
		return resp.Reply{}, Cursor{}, err
	}
	if err := checkArgs(args); err != nil {
		return resp.Reply{}, Cursor{}, err
	}
	if err := db.enter(); err != nil {
		return resp.Reply{}, Cursor{}, err
	}
	defer db.leave()
	s := db.session()
	defer db.put(s)
	s.ctx = ctx
	db.exec.Do(s.es, bytesOf(args))
	s.ctx = nil
	s.es.Settle()
	if s.w.Len() > 0 {
		r, err := readReply(s.w.Bytes())
		if err != nil || !withCursor || db.store.FeedDisabled() {
			return r, Cursor{}, err
		}
		at, err := db.cursorAfter(s.es.Seen())
		return r, at, err
	}
	// It waited in vain.
	if err := ctx.Err(); err != nil {
		return resp.Reply{}, Cursor{}, err
	}
	return resp.Reply{}, Cursor{}, ErrClosed
}

// checkArgs refuses what no client could send to a server.
func checkArgs(args []string) error {
	if len(args) == 0 {
		return errors.New("kevy: Do without a command")
	}
	for i, a := range args {
		if int64(len(a)) > command.StringLimit() {
			return fmt.Errorf("kevy: argument %d has %d bytes, the most is %d", i, len(a), command.StringLimit())
		}
	}
	return nil
}

func bytesOf(args []string) [][]byte {
	out := make([][]byte, len(args))
	for i, a := range args {
		out[i] = []byte(a)
	}
	return out
}

func readReply(b []byte) (resp.Reply, error) {
	r, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return resp.Reply{}, err
	}
	return r, r.Err()
}

// Tx is a transaction under way, for the goroutine that Update runs its function
// on. Once that has returned, Do answers an error.
type Tx struct {
	s  *session
	do func(args [][]byte) // nil once the transaction is over
}

var errTxOver = errors.New("kevy: the transaction is over")

// Do runs one data command in database 0; it sees what the transaction changed
// before. A reply that is an error is returned as *resp.Error, and ends nothing:
// what the transaction changed before stays unless its function returns an error.
// The arguments are copied, and the reply is the caller's.
func (tx *Tx) Do(args ...string) (resp.Reply, error) {
	if err := checkArgs(args); err != nil {
		return resp.Reply{}, err
	}
	if tx.do == nil {
		return resp.Reply{}, errTxOver
	}
	start := tx.s.w.Len()
	tx.do(bytesOf(args))
	r, err := readReply(tx.s.w.Bytes()[start:])
	tx.s.w.Truncate(start)
	return r, err
}

// Update runs fn and makes everything it changes one commit: in memory, on
// disk and in the feed, whole or not at all. If fn returns an error or panics,
// nothing has changed. Others wait meanwhile, so fn should not take long, and it
// must not use the DB itself: that would wait for ever. It returns the cursor
// behind the commit once that is as safe as the fsync policy promises.
//
// The errors are fn's own, ErrClosed, and a *resp.Error with the Code "MISCONF" if
// the log cannot be written: before fn was run, so that nothing has changed, or
// after it, as Do has it.
func (db *DB) Update(fn func(tx *Tx) error) (Cursor, error) {
	if err := db.enter(); err != nil {
		return Cursor{}, err
	}
	defer db.leave()
	s := db.session()
	defer db.put(s)
	err := db.exec.Atomically(s.es, func(do func(args [][]byte)) error {
		tx := &Tx{s: s, do: do}
		defer func() { tx.do = nil }()
		if err := fn(tx); err != nil {
			return err
		}
		// It stands for the commit: if that cannot be made safe, Settle puts an error
		// in its place.
		s.w.OK()
		return nil
	})
	// What fn has seen is safe too before anyone is told of it.
	s.es.Settle()
	if err != nil {
		return Cursor{}, err
	}
	if _, err := readReply(s.w.Bytes()); err != nil {
		return Cursor{}, err
	}
	if db.store.FeedDisabled() {
		return Cursor{}, nil
	}
	return db.cursorAfter(s.es.Seen())
}
