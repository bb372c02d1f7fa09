// Package aof is the log: a commit is appended once, and recovery and the
// readers of the change feed read it, each at its own LSN.
//
// The log is memory first. Append copies a commit into the open block and
// returns; WaitWritten and WaitDurable make what has gathered a block, with a
// checksum, and write it, one goroutine for all that wait. What was appended
// lately stays in memory for readers. On disk the log is a Redis 7 multi-part
// AOF (docs/formats.md): the payload of a block is RESP commands, about which
// this package knows only where one ends.
//
// # Locks
//
// The turns of Log.writer and Log.syncer are taken in this order, then one of
// the mutexes manifestMu, segMu and mu, in this order. Append and Cut take mu
// only, and nothing does I/O under it.
package aof

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"kevy/internal/vfs"
)

// Log is the log of one data directory. All methods are safe for concurrent use.
type Log struct {
	opt    Options
	policy atomic.Int32

	last    atomic.Uint64 // written under mu
	written atomic.Uint64 // by the writer
	durable atomic.Uint64 // by the syncer
	stated  atomic.Uint64 // the durable LSN that the last block on disk states; by the writer

	unwrittenBytes atomic.Int64
	failed         atomic.Pointer[error]
	stalled        atomic.Pointer[stall]
	closed         atomic.Bool
	rewriting      atomic.Bool

	mu       sync.Mutex
	mem      memory // guarded by mu
	lastMs   int64  // of the last block; guarded by mu
	needFile bool   // the next block begins a file; guarded by mu
	files    int    // begun in mem and not yet on disk; guarded by mu

	writer turn
	out    output // touched only in the writer's turn

	syncer turn
	// file is replaced in the turns of both the writer and the syncer, so either
	// one is enough to use it. It is nil as long as there is no file to append to.
	file  vfs.File
	syncs syncStats

	dir directory

	stop    chan struct{} // closed by Close
	running sync.WaitGroup
}

func newLog(opt Options) *Log {
	l := &Log{opt: opt, stop: make(chan struct{})}
	l.policy.Store(int32(opt.Policy))
	l.mem.chunkBytes = opt.chunkBytes()
	l.mem.blockBytes = opt.BlockBytes
	l.mem.keep = math.MaxUint64
	l.writer.init()
	l.syncer.init()
	l.dir.init(opt)
	return l
}

// Append adds a commit and returns the LSN of its last op. It never waits for
// the disk and never fails: whether the commit was written is what WaitWritten
// and WaitDurable tell. e is not used after the return.
func (l *Log) Append(e Encoder) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(e)
}

// AppendAnnotated is Append and, with nothing in between, Annotate.
func (l *Log) AppendAnnotated(e Encoder, line string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.append(e)
	l.annotate(line)
	return last
}

func (l *Log) append(e Encoder) uint64 {
	last := l.last.Load()
	ops := e.Ops()
	if ops == 0 {
		return last
	}
	if ops > maxOps {
		panic(fmt.Sprintf("aof: a commit of %d ops", ops))
	}
	bytes := l.encode(e, last+1)
	_, b := l.mem.tail()
	b.ops += int32(ops)
	l.last.Store(last + uint64(ops))
	if l.opt.NoFile {
		l.written.Store(last + uint64(ops))
	} else {
		l.unwrittenBytes.Add(int64(bytes))
	}
	if l.opt.Publish != nil {
		l.opt.Publish(last+1, e)
	}
	return last + uint64(ops)
}

// encode puts a commit that begins with LSN first into the open block, or into
// a new one, and returns its size. The caller holds mu.
func (l *Log) encode(e Encoder, first uint64) int {
	for {
		if !l.mem.open {
			l.beginBlock(first)
		}
		c, b := l.mem.tail()
		limit := int(b.start) + l.opt.BlockBytes
		room := c.buf[b.end:b.end:limit]
		commit := e.AppendTo(room, b.ops == 0)
		if len(commit) <= cap(room) && len(commit) > 0 {
			if room = room[:len(commit)]; &room[0] != &commit[0] {
				copy(room, commit)
			}
			b.end += int32(len(commit))
			c.used = int(b.end)
			return len(commit)
		}
		if len(commit) == 0 {
			panic("aof: a commit with ops is encoded as nothing")
		}
		if b.ops == 0 {
			// It is larger than a block on its own. Its bytes stay where they are.
			b.extra = &blockExtra{payload: commit}
			l.mem.charge(c, int64(cap(commit))+int64(unsafe.Sizeof(*b.extra)))
			l.mem.open = false
			return len(commit)
		}
		l.mem.open = false
	}
}

// beginBlock opens a block whose first op is first. The caller holds mu.
func (l *Log) beginBlock(first uint64) {
	l.lastMs = max(l.lastMs, l.opt.NowMs())
	if l.needFile {
		l.beginFile(first)
	}
	l.mem.add(first, l.lastMs, true)
	l.mem.open = true
	l.mem.trim(l.opt.MemoryBytes, l.opt.NoFile)
}

// addEmptyBlock adds a block without ops before the op first. The caller holds
// mu; no block may be open.
func (l *Log) addEmptyBlock(first uint64, extra *blockExtra) {
	l.lastMs = max(l.lastMs, l.opt.NowMs())
	c, b := l.mem.add(first, l.lastMs, false)
	if extra != nil {
		b.extra = extra
		l.mem.charge(c, int64(cap(extra.lines))+int64(unsafe.Sizeof(*extra)))
	}
}

// beginFile makes the op first the first one of a file. The caller holds mu; no
// block may be open.
func (l *Log) beginFile(first uint64) {
	l.needFile = false
	l.files++
	extra := &blockExtra{newFile: true}
	if l.opt.FileHeader != nil {
		extra.lines = l.opt.FileHeader(nil)
		eachLine(extra.lines, checkLineLength)
	}
	l.addEmptyBlock(first, extra)
}

func checkLineLength(text []byte) {
	if len(text)+1+checksumBytes > maxLineBytes {
		panic(fmt.Sprintf("aof: an annotation of %d bytes", len(text)))
	}
}

// Annotate adds a line between what was appended before and what will be
// appended after, such as "#kevy-gen <draw>". The line has no line end; it gets
// a checksum of its own, and an LSN to belong to.
func (l *Log) Annotate(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.annotate(line)
}

func (l *Log) annotate(line string) {
	text := []byte(line)
	checkLineLength(text)
	l.mem.open = false
	first := l.last.Load() + 1
	if l.needFile {
		l.beginFile(first)
	}
	l.addEmptyBlock(first, &blockExtra{lines: append(text, '\r', '\n')})
	if !l.opt.NoFile {
		l.unwrittenBytes.Add(int64(len(text)))
	}
}

// Cut makes the next op the first one of a new segment, and returns the LSN of
// the last one before it. It does no I/O.
func (l *Log) Cut() (cutLSN uint64, err error) {
	if l.opt.NoFile {
		return 0, ErrNoFile
	}
	if err := l.failure(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut(), nil
}

// cut is Cut for a caller that holds mu.
func (l *Log) cut() uint64 {
	last := l.last.Load()
	l.mem.open = false
	if !l.beginsFile(last + 1) {
		l.beginFile(last + 1)
	}
	return last
}

// beginsFile says whether a file with first as its first op is on its way, or
// there, and has nothing in it yet.
func (l *Log) beginsFile(first uint64) bool {
	for i := len(l.mem.chunks) - 1; i >= 0; i-- {
		blocks := l.mem.chunks[i].blocks
		for j := len(blocks) - 1; j >= 0; j-- {
			if blocks[j].first != first || blocks[j].ops > 0 {
				return false
			}
			if blocks[j].extra != nil && blocks[j].extra.newFile {
				return true
			}
		}
	}
	return false
}

// Last is the LSN of the last op appended.
func (l *Log) Last() uint64 { return l.last.Load() }

// Written is the LSN up to which the log has reached the kernel: the end of the
// process loses nothing of it.
func (l *Log) Written() uint64 { return l.written.Load() }

// Durable is the LSN up to which the log was fsynced.
func (l *Log) Durable() uint64 { return l.durable.Load() }

// SetPolicy changes when the log is fsynced.
func (l *Log) SetPolicy(p Policy) { l.policy.Store(int32(p)) }

// Policy returns the current policy.
func (l *Log) Policy() Policy { return Policy(l.policy.Load()) }

// stall is what keeps the log from being written at the moment.
type stall struct {
	err error
	at  time.Time // of the last attempt
}

// retryAfter is the time between two attempts to write a log that is stalled.
const retryAfter = 100 * time.Millisecond

// failure returns why nothing will be written any more, nil if it will.
func (l *Log) failure() error {
	if err := l.failed.Load(); err != nil {
		return *err
	}
	if l.closed.Load() {
		return ErrClosed
	}
	return nil
}

// Err returns why the log cannot be written at the moment, nil if it can. It
// does not wait.
func (l *Log) Err() error {
	if err := l.failure(); err != nil {
		return err
	}
	if s := l.stalled.Load(); s != nil {
		return s.err
	}
	return nil
}

// obstacle returns why there is no use in trying to write now, nil if there is.
func (l *Log) obstacle() error {
	if err := l.failure(); err != nil {
		return err
	}
	if s := l.stalled.Load(); s != nil && time.Since(s.at) < retryAfter {
		return s.err
	}
	return nil
}

// fail ends all writing. The first cause stays.
func (l *Log) fail(doing string, cause error) error {
	err := fmt.Errorf("%w: %s: %w", ErrFailed, doing, cause)
	if l.failed.CompareAndSwap(nil, &err) {
		l.opt.Logger.Error("the log has failed: writes are refused until a restart", "doing", doing, "err", cause)
	}
	l.writer.notify()
	l.syncer.notify()
	return *l.failed.Load()
}

// isFailure says whether err is or wraps what fail returned.
func isFailure(err error) bool { return errors.Is(err, ErrFailed) }
