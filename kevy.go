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
// them one commit. A DB is safe for concurrent use.
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
)

// ErrClosed answers the use of a closed DB.
var ErrClosed = errors.New("kevy: the database is closed")

// DB is an open store.
type DB struct {
	store *engine.Engine
	exec  *exec.Executor
	pool  sync.Pool // of *session

	mu     sync.RWMutex // held for reading by whoever uses the store
	closed bool         // guarded by mu
}

// Fsync says when a commit is on the disk rather than with the system.
type Fsync int

const (
	// FsyncEverySec fsyncs once a second: a power cut may cost the last second,
	// the end of the process nothing.
	FsyncEverySec Fsync = iota
	// FsyncAlways fsyncs before a write returns.
	FsyncAlways
	// FsyncNo leaves it to the system, but for once in 30 seconds.
	FsyncNo
)

// Option changes how a store is opened.
type Option func(*engine.Options)

// WithFsync chooses the fsync policy; FsyncEverySec is the default.
func WithFsync(f Fsync) Option {
	return func(o *engine.Options) {
		o.Fsync = map[Fsync]aof.Policy{FsyncAlways: aof.PolicyAlways, FsyncNo: aof.PolicyNo}[f]
		if f == FsyncEverySec {
			o.Fsync = aof.PolicyEverySec
		}
	}
}

// WithLogger takes the store's own log; by default there is none.
func WithLogger(l *slog.Logger) Option { return func(o *engine.Options) { o.Logger = l } }

// WithoutFeed makes the feed's methods answer ErrFeedDisabled.
func WithoutFeed() Option { return func(o *engine.Options) { o.NoFeed = true } }

// The sizes that a store is opened with.
const (
	databases       = 16
	feedMemoryBytes = 8 << 20
	feedDiskBytes   = 1 << 30
)

// Open opens the store in dir, which it creates if there is none. An empty dir
// keeps everything in memory. A new store has one shard; one that a server
// created keeps its own number. The directory belongs to one process at a time.
func Open(dir string, options ...Option) (*DB, error) {
	opt := engine.Options{
		Dir: dir, Shards: 1, DBs: databases, NoFile: dir == "", Fsync: aof.PolicyEverySec,
		FeedMemoryBytes: feedMemoryBytes, FeedDiskBytes: feedDiskBytes,
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
	if err != nil {
		return nil, err
	}
	return &DB{store: store, exec: exec.New(all.Table(), store, opt.Logger)}, nil
}

// Close ends the store: everything committed is on the disk, and the feed's
// cursors stay good. It waits for calls that are under way.
func (db *DB) Close() error {
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
	es *exec.Session
	w  *resp.Writer
}

func (s *session) ID() uint64          { return 0 }
func (s *session) DB() int             { return s.es.DB() }
func (s *session) Exec() *exec.Session { return s.es }

var _ command.Session = (*session)(nil)

func (db *DB) session() *session {
	if s, ok := db.pool.Get().(*session); ok {
		return s
	}
	s := &session{w: resp.NewWriter(3)}
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
// arguments are copied. A write returns once it is as safe as the fsync policy
// promises.
func (db *DB) Do(ctx context.Context, args ...string) (resp.Reply, error) {
	if err := ctx.Err(); err != nil {
		return resp.Reply{}, err
	}
	if err := checkArgs(args); err != nil {
		return resp.Reply{}, err
	}
	if err := db.enter(); err != nil {
		return resp.Reply{}, err
	}
	defer db.leave()
	s := db.session()
	defer db.put(s)
	db.exec.Do(s.es, bytesOf(args))
	s.es.Settle()
	return readReply(s.w.Bytes())
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

// Tx is a transaction under way. It must not be used after Update's function
// has returned.
type Tx struct {
	s  *session
	do func(args [][]byte)
}

// Do runs one data command; it sees what the transaction changed before. Its
// effects stay even if its error is not returned from the function.
func (tx *Tx) Do(args ...string) (resp.Reply, error) {
	if err := checkArgs(args); err != nil {
		return resp.Reply{}, err
	}
	start := tx.s.w.Len()
	tx.do(bytesOf(args))
	r, err := readReply(tx.s.w.Bytes()[start:])
	tx.s.w.Truncate(start)
	return r, err
}

// Update runs fn and makes everything it changes one commit: in memory, on
// disk and in the feed, whole or not at all. If fn returns an error or panics,
// nothing has changed. Others wait meanwhile, so fn should not take long, and
// must not use the DB itself. It returns the cursor behind the commit.
func (db *DB) Update(fn func(tx *Tx) error) (Cursor, error) {
	if err := db.enter(); err != nil {
		return Cursor{}, err
	}
	defer db.leave()
	s := db.session()
	defer db.put(s)
	// One byte that stands for the commit: if it cannot be made safe, Settle
	// puts an error in its place.
	err := db.exec.Atomically(s.es, func(do func(args [][]byte)) error {
		if err := fn(&Tx{s: s, do: do}); err != nil {
			return err
		}
		s.w.OK()
		return nil
	})
	if err != nil {
		return Cursor{}, err
	}
	s.es.Settle()
	if _, err := readReply(s.w.Bytes()); err != nil {
		return Cursor{}, err
	}
	return db.cursorAfter(s.es.Seen())
}
