// Package engine is a store: the keyspace, the log and the feed behind one
// commit point. It opens them together, recovers, commits, rewrites the log and
// closes.
package engine

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/persist"
	"kevy/shard"
)

// Options say what store to open.
type Options struct {
	FS  vfs.FS // nil: the machine's
	Dir string
	// Shards is the number of shards of a new store; one that exists keeps its
	// own. DBs is the number of databases.
	Shards, DBs int
	// NoFile keeps everything in memory; the feed's history then is what fits
	// FeedMemoryBytes.
	NoFile bool
	Fsync  aof.Policy
	// NoFeed makes every reader of the feed get an error, and commits do not pay
	// for it. The next start begins a new generation.
	NoFeed bool
	// FeedMemoryBytes is how much recent log stays in memory for readers;
	// FeedDiskBytes and FeedAgeMs bound what is kept on disk below the base (0:
	// no bound by age).
	FeedMemoryBytes int64
	FeedDiskBytes   int64
	FeedAgeMs       int64
	// FeedHoldBytes is how much log a hold keeps at most.
	FeedHoldBytes int64
	// SnapshotMaxBytes bounds the file of a snapshot that readers of the feed take,
	// and SnapshotLogBytes the log that is kept for one; 0 sets no limit.
	SnapshotMaxBytes, SnapshotLogBytes int64
	// SegmentBytes is the size at which a segment of the log is closed; 0 takes
	// the log's default.
	SegmentBytes int64
	Recover      aof.RecoverMode
	// Offline opens the store to look at it or to fill it, not to serve it: nothing
	// expires, is rewritten or let go by itself. Import opens it to fill it from a
	// file, also where that was begun before and did not end.
	Offline, Import bool
	// Divert, for a store that is opened Offline, gets the ops that rebuild it, in
	// the order of the log, and the keyspace stays empty. What a frame points to is
	// valid until Divert returns; its error ends Open and is wrapped by the result.
	// Where the log needs a keyspace, Open fails with ErrNeedsKeyspace.
	Divert  func(f *op.Frame) error
	Rewrite RewriteRule
	// MaxMemory bounds what keys occupy; the zero value is no bound.
	MaxMemory MaxMemory
	// Foreign runs a command that another server left in the log, on a Tx that
	// holds every shard, records nothing and expires nothing.
	Foreign func(tx *shard.Tx, args [][]byte) error
	Version string       // of the program, for the directory's records
	NowMs   func() int64 // nil: the machine's clock
	Logger  *slog.Logger // nil: none

	tuneLog func(*aof.Options) // tests make the log's sizes small
}

// Engine is an open store. It is safe for concurrent use.
type Engine struct {
	opt      Options
	set      *shard.Set
	all      []int
	log      *aof.Log
	pos      op.LogPosition // guarded by the log's mutex
	source   *feed.Source
	contract *persist.Contract // nil without files
	lock     interface{ Close() error }
	tellWork atomic.Pointer[func(event string, took time.Duration)]
	report   Report
	// importing is what an import that did not end has left, nil if there is none.
	importing *persist.Importing

	policy   atomic.Int32
	rule     atomic.Pointer[RewriteRule]
	rewrites rewriteHistory
	closing  atomic.Bool
	evictor  evictor
	digests  chan struct{} // holds one for each that is being taken
	serve    atomic.Pointer[func(tx *shard.Tx) (after func())]
	tell     atomic.Pointer[func(tx *shard.Tx, lsn uint64)]

	stop       chan struct{}
	tendNow    chan struct{}
	background sync.WaitGroup
}

// Set returns the keyspace.
func (e *Engine) Set() *shard.Set { return e.set }

// Feed returns the feed's source.
func (e *Engine) Feed() *feed.Source { return e.source }

// Report says what the start found.
func (e *Engine) Report() Report { return e.report }

// NowMs returns the time in unix milliseconds.
func (e *Engine) NowMs() int64 { return e.opt.NowMs() }

// NewTx returns a Tx whose commits go to this store's log.
func (e *Engine) NewTx() *shard.Tx { return e.set.NewTx(&e.pos) }

// Commit appends what tx recorded, which must be at least one op, to the log
// and the feed and returns the LSN of its last op. The caller holds the Tx's
// shards. It only touches memory: Wait says when the commit is safe.
func (e *Engine) Commit(tx *shard.Tx) (lsn uint64) {
	c := tx.Commit()
	if c.FlushesAll() && !e.opt.NoFeed {
		lsn = e.commitFlushAll(c)
	} else {
		lsn = e.log.Append(c)
	}
	tx.Committed(lsn)
	if tx.Noted() {
		e.Tell(tx, lsn)
	}
	return lsn
}

// TellWith sets what is called, before the shards are unlocked, with a Tx that has
// noted events or changed keys, which show what is in the log up to lsn. It must
// not wait for anything.
func (e *Engine) TellWith(fn func(tx *shard.Tx, lsn uint64)) { e.tell.Store(&fn) }

// Tell tells what the Tx has noted. Commit does so by itself: it is for what was
// noted beside a commit, or without one.
func (e *Engine) Tell(tx *shard.Tx, lsn uint64) {
	if fn := e.tell.Load(); fn != nil {
		(*fn)(tx, lsn)
	}
	tx.TakeNoted()
}

// ServeWith sets what is called behind a commit of the engine's own that changed
// keys for which somebody waits, on the Tx that holds their shards: it serves
// them. after, if it is not nil, goes on once the shards are unlocked.
func (e *Engine) ServeWith(fn func(tx *shard.Tx) (after func())) { e.serve.Store(&fn) }

// release unlocks the shards of a Tx of the engine's own, whose ops are
// committed, once those who wait for them are served.
func (e *Engine) release(tx *shard.Tx) {
	var after func()
	if tx.Ready() {
		after = (*e.serve.Load())(tx) // nobody can wait without it
	}
	e.set.Unlock(tx.Held())
	tx.End()
	if after != nil {
		after()
	}
}

// Admit is asked before a write takes any lock: it waits while the log has too
// much to write, and returns why the log cannot advance if it cannot.
func (e *Engine) Admit() error { return e.log.Admit() }

// LogErr returns why the log cannot be written at the moment, nil if it can.
func (e *Engine) LogErr() error { return e.log.Err() }

// Wait returns once everything up to lsn is as safe as the fsync policy
// promises: written to the file, or fsynced under always. The error says why
// the log cannot get there.
func (e *Engine) Wait(lsn uint64) error {
	if lsn <= e.Reached() {
		return nil
	}
	if e.Policy() == aof.PolicyAlways {
		return e.log.WaitDurable(lsn)
	}
	return e.log.WaitWritten(lsn)
}

// Reached returns the LSN up to which Wait does not wait.
func (e *Engine) Reached() uint64 {
	if e.opt.NoFile {
		return e.log.Last() // it is as safe as it will ever be
	}
	if e.Policy() == aof.PolicyAlways {
		return e.log.Durable()
	}
	return e.log.Written()
}

// Policy returns the fsync policy.
func (e *Engine) Policy() aof.Policy { return aof.Policy(e.policy.Load()) }

// SetPolicy changes the fsync policy for what is acknowledged from now on.
func (e *Engine) SetPolicy(p aof.Policy) {
	e.policy.Store(int32(p))
	e.log.SetPolicy(p)
}

// PauseExpiry stops or resumes the removal of overdue keys that nobody asks
// for, as DEBUG SET-ACTIVE-EXPIRE does.
func (e *Engine) PauseExpiry(pause bool) { e.set.PauseExpiry(pause) }

// Close ends the store: what was committed is written and fsynced, and the
// feed's generations can go on at the next start. No Tx may be in use.
func (e *Engine) Close() error {
	if !e.beginClose() {
		return nil
	}
	close(e.stop)
	e.background.Wait()
	e.source.Close()
	heldErr := e.saveHolds()
	tail, err := e.log.Close()
	if err == nil && e.contract != nil && !e.opt.NoFeed {
		next := e.source.NextOffsets()
		err = e.contract.Close(persist.Tail{LSN: tail.LSN, CRC: tail.CRC, Inode: tail.Inode}, next)
	}
	err = errors.Join(err, heldErr)
	if e.lock != nil {
		err = errors.Join(err, e.lock.Close())
	}
	return err
}

// rewriteHistory remembers how rewrites went.
type rewriteHistory struct {
	mu sync.Mutex
	RewriteStatus
	failedAt time.Time
}

// retryRewriteAfter is how long an automatic rewrite waits after one failed.
const retryRewriteAfter = time.Minute

// beginRewrite notes that a rewrite begins. Close waits for it until endRewrite.
func (e *Engine) beginRewrite() error {
	h := &e.rewrites
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case e.opt.NoFile:
		return ErrNoLog
	case e.opt.Divert != nil:
		return errDiverted
	case e.closing.Load():
		return errClosing
	case h.Running:
		return ErrRewriting
	}
	h.Running, h.Began = true, time.Now()
	e.background.Add(1)
	return nil
}

func (e *Engine) endRewrite(err error) {
	e.rewrites.end(err)
	e.background.Done()
}

// beginClose makes no rewrite begin any more. It reports false if that was done
// before.
func (e *Engine) beginClose() bool {
	h := &e.rewrites
	h.mu.Lock()
	defer h.mu.Unlock()
	return e.closing.CompareAndSwap(false, true)
}

func (h *rewriteHistory) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.Running = false
	h.Count++
	h.LastTook, h.LastEnd, h.LastErr = now.Sub(h.Began), now, err
	if err != nil {
		h.Failures++
		h.failedAt = now
	} else {
		h.Failures = 0
	}
}

func (h *rewriteHistory) status() RewriteStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.RewriteStatus
}

// waiting reports whether an automatic rewrite must not start now.
func (h *rewriteHistory) waiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Running || (h.LastErr != nil && time.Since(h.failedAt) < retryRewriteAfter)
}
