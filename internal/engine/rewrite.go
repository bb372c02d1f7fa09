package engine

import (
	"errors"
	"fmt"
	"time"

	"kevy/internal/alarm"
	"kevy/internal/ds"
	"kevy/internal/op"
	"kevy/shard"
)

// ErrRewriting answers a rewrite while one runs.
//
//lint:ignore ST1005 the text is Redis's
var ErrRewriting = errors.New("Background append only file rewriting already in progress")

// ErrNoLog answers what only a store with a log on disk can do.
var ErrNoLog = errors.New("the store has no append only file")

// StartRewrite starts Rewrite in the background. A failure is logged and shows
// in RewriteStatus.
func (e *Engine) StartRewrite() error {
	if err := e.beginRewrite(); err != nil {
		return err
	}
	go func() {
		err := e.rewrite()
		if err != nil && !errors.Is(err, errClosing) {
			e.opt.Logger.Error("the rewrite of the log failed", "error", err)
		}
		e.endRewrite(err)
	}()
	return nil
}

// Rewrite writes a base that holds every key as of now and drops the log
// below it. Commits go on meanwhile. It returns when the base is installed.
func (e *Engine) Rewrite() error {
	if err := e.beginRewrite(); err != nil {
		return err
	}
	err := e.rewrite()
	e.endRewrite(err)
	return err
}

func (e *Engine) rewrite() error {
	cut, snap, err := e.cut()
	if err != nil {
		return fmt.Errorf("rewrite the log: %w", err)
	}
	return e.rewriteFrom(cut, snap)
}

// rewriteFrom makes the snapshot, which it releases, the base of the log behind
// the cut that it belongs to.
func (e *Engine) rewriteFrom(cut uint64, snap *shard.Snapshot) error {
	start := time.Now()
	base, err := e.log.BeginBase(cut)
	if err != nil {
		snap.Release()
		return fmt.Errorf("rewrite the log: %w", err)
	}
	if err := e.writeBase(base, snap); err != nil {
		base.Abort()
		return fmt.Errorf("rewrite the log: %w", err)
	}
	// Recovery will no longer read the log below the cut: where generations ended
	// there must be on disk elsewhere first.
	if err := e.settleGenerations(); err != nil {
		base.Abort()
		return fmt.Errorf("rewrite the log: %w", err)
	}
	if err := base.Commit(); err != nil {
		return fmt.Errorf("rewrite the log: %w", err)
	}
	e.opt.Logger.Info("log rewritten", "keys", snap.Keys(), "cut_lsn", cut, "took", time.Since(start).Round(time.Millisecond).String())
	return nil
}

// cut takes the store's state and the border of the log that it belongs to. It
// is the only moment of a rewrite at which commits stand still: microseconds.
func (e *Engine) cut() (lsn uint64, snap *shard.Snapshot, err error) {
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	if lsn, err = e.log.Cut(); err != nil {
		return 0, nil, err
	}
	return lsn, e.set.Freeze(), nil
}

// baseChunkBytes is about how much of a base is handed to the log at once.
const baseChunkBytes = 64 << 10

// baseWriter is where a base goes.
type baseWriter interface {
	Write(payload []byte, ops int) error
}

// writeBase writes the ops that rebuild every key of the snapshot, which it
// releases.
func (e *Engine) writeBase(base baseWriter, snap *shard.Snapshot) error {
	var c op.Commit
	var payload []byte
	ops, db := 0, -1
	flush := func() error {
		err := base.Write(payload, ops)
		payload, ops = payload[:0], 0
		return err
	}
	rest := e.newRest()
	defer rest.Close()
	for _, lib := range snap.Libraries() {
		c.Reset()
		shard.RebuildLibrary(&c, lib)
		payload = append(payload, c.Bytes()...)
		ops += c.Ops()
	}
	err := walk(snap, rest, func(keyDB, stream int, entry *ds.Entry) error {
		if e.closing.Load() {
			return errClosing
		}
		c.Reset()
		shard.Rebuild(&c, keyDB, stream, entry.Key(), entry)
		large := len(c.Bytes()) >= baseChunkBytes
		if large && ops > 0 {
			if err := flush(); err != nil {
				return err
			}
		}
		if keyDB != db {
			db = keyDB
			payload = op.AppendSelect(payload, db)
		}
		if large && len(payload) == 0 {
			return base.Write(c.Bytes(), c.Ops()) // without a copy
		}
		payload = append(payload, c.Bytes()...)
		ops += c.Ops()
		if len(payload) >= baseChunkBytes {
			return flush()
		}
		return nil
	})
	if err == nil && ops > 0 {
		err = flush()
	}
	return err
}

var errClosing = errors.New("the store is closing")

// newRest is for work over the whole keyspace.
func (e *Engine) newRest() *alarm.Rest { return alarm.NewRest(e.log.Last) }

// restKeys is how many keys are passed between two looks whether to rest.
const restKeys = 32

// walk is snap.Each with rests in between.
func walk(snap *shard.Snapshot, rest *alarm.Rest, fn func(db, shard int, e *ds.Entry) error) error {
	n := 0
	return snap.Each(func(db, shard int, e *ds.Entry) error {
		if n++; n%restKeys == 0 {
			rest.Look()
		}
		return fn(db, shard, e)
	})
}
