package engine

import (
	"errors"
	"fmt"
	"time"

	"kevy/shard"
)

// ReloadFrom says what Reload reads.
type ReloadFrom int

const (
	// FromLog reads the log as it is on disk, base and segments.
	FromLog ReloadFrom = iota
	// FromRewrite writes a base first and reads that. A store without files writes
	// it to memory.
	FromRewrite
)

// errReload says that what was read is not what is in memory, which then stays.
var errReload = errors.New("what was loaded differs from what is in memory")

// Reload reads the whole keyspace back through what a start reads, and serves
// what came, as DEBUG RELOAD and DEBUG LOADAOF do: a test of the log and of the
// ops that rebuild a key. The store stands still meanwhile, I/O included.
func (e *Engine) Reload(from ReloadFrom) error {
	if e.opt.NoFile && from == FromLog {
		return ErrNoLog
	}
	if err := e.holdRewrites(); err != nil {
		return err
	}
	defer e.releaseRewrites()
	return e.reload(from)
}

// holdRewrites waits for the end of the rewrite that runs and lets no other
// begin until releaseRewrites.
func (e *Engine) holdRewrites() error {
	const pause = time.Millisecond
	for h := &e.rewrites; ; time.Sleep(pause) {
		h.mu.Lock()
		free, closing := !h.Running, e.closing.Load()
		if free && !closing {
			h.Running, h.Began = true, time.Now()
			e.background.Add(1)
		}
		h.mu.Unlock()
		if closing {
			return errClosing
		}
		if free {
			return nil
		}
	}
}

func (e *Engine) releaseRewrites() {
	h := &e.rewrites
	h.mu.Lock()
	h.Running = false
	h.mu.Unlock()
	e.background.Done()
}

func (e *Engine) reload(from ReloadFrom) error {
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	fresh := shard.NewSet(e.set.Shards(), e.set.DBs())
	fresh.SetLimits(e.set.Limits())
	l := newLoader(e, fresh, nil)
	var err error
	if e.opt.NoFile {
		err = e.writeBase(memoryBase{l}, e.set.Freeze())
	} else {
		if from == FromRewrite {
			err = e.rewriteHeld()
		}
		if err == nil {
			err = e.log.Reread(l)
		}
	}
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	if fresh.Digest() != e.set.Digest() {
		return fmt.Errorf("reload: %w", errReload)
	}
	e.set.Replace(fresh)
	return nil
}

// rewriteHeld is rewrite for a caller that holds every shard.
func (e *Engine) rewriteHeld() error {
	cut, err := e.log.Cut()
	if err != nil {
		return err
	}
	return e.rewriteFrom(cut, e.set.Freeze())
}

// memoryBase hands a base to a loader without a file in between.
type memoryBase struct{ l *loader }

func (m memoryBase) Write(payload []byte, _ int) error { return m.l.BasePayload(payload) }

// Keys returns how many keys there are, in all databases.
func (e *Engine) Keys() (n int) {
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	tx := e.NewTx()
	tx.Begin(e.all, 0, e.NowMs())
	defer tx.End()
	for _, db := range tx.Stats() {
		n += db.Keys
	}
	return n
}
