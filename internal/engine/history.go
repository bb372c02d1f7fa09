package engine

import (
	"strconv"
	"time"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/op"
	"kevy/persist"
)

// commitFlushAll appends a commit that holds FLUSHALL and ends the feed's
// generations with it. The caller holds every shard, so no commit comes between.
// The new number rides in the log behind the commit; the sidecars follow.
func (e *Engine) commitFlushAll(c *op.Commit) (lsn uint64) {
	draw := e.drawGeneration()
	e.source.ExpectFlushAll(draw)
	lsn = e.log.AppendAnnotated(c, "#kevy-gen "+strconv.FormatUint(draw, 10))
	if e.contract != nil {
		endLSN, ends := e.source.LastEnd()
		e.contract.Bump(draw, endLSN, ends, persist.FlushAll)
		select {
		case e.tendNow <- struct{}{}:
		default:
		}
	}
	return lsn
}

// drawGeneration returns a number for the next generation.
func (e *Engine) drawGeneration() uint64 {
	now := e.NowMs() / 1000
	var draw uint64
	var err error
	last := e.source.Tail(0).Generation
	if e.contract != nil {
		draw, err = e.contract.Draw(now)
	} else {
		draw, err = persist.Draw(now, last, e.set.Shards())
	}
	if err != nil {
		// The clock is beyond 2106. A number right behind the last one is unique
		// in this directory still.
		e.opt.Logger.Error("cannot draw a generation", "error", err)
		draw = last + uint64(e.set.Shards()) + 1
	}
	return draw
}

// syncGenerations makes ended generations durable once their last op is.
func (e *Engine) syncGenerations() error {
	if e.contract == nil || !e.contract.Pending() {
		return nil
	}
	return e.contract.Sync(e.log.Durable())
}

// settleGenerations makes every generation that has ended durable, and the log
// up to there.
func (e *Engine) settleGenerations() error {
	if !e.contract.Pending() {
		return nil
	}
	if err := e.log.Sync(); err != nil {
		return err
	}
	return e.contract.Sync(e.log.Durable())
}

// moveFloor lets the log go that no reader needs.
func (e *Engine) moveFloor() { e.source.Tend(e.NowMs()) }

// RewriteStatus describes the rewrites of the log.
type RewriteStatus struct {
	Running  bool
	Count    int64
	Failures int64 // since the last success
	LastErr  error
	LastTook time.Duration
	LastEnd  time.Time
	Began    time.Time // of the one that runs
}

// LastSeconds returns how long the last rewrite took, -1 before the first.
func (s *RewriteStatus) LastSeconds() int64 {
	if s.Count == 0 {
		return -1
	}
	return int64(s.LastTook / time.Second)
}

// CurrentSeconds returns how long the running rewrite takes already, -1 if none
// runs.
func (s *RewriteStatus) CurrentSeconds() int64 {
	if !s.Running {
		return -1
	}
	return int64(time.Since(s.Began) / time.Second)
}

// RewriteStatus returns how rewrites went.
func (e *Engine) RewriteStatus() RewriteStatus { return e.rewrites.status() }

// LogStatus describes the log.
func (e *Engine) LogStatus() aof.Status { return e.log.Status() }

// InMemory reports whether the store has no files.
func (e *Engine) InMemory() bool { return e.opt.NoFile }

// FeedDisabled reports whether readers of the feed are refused.
func (e *Engine) FeedDisabled() bool { return e.opt.NoFeed }

// archive shows the log to the feed.
func (e *Engine) archive() feed.Archive { return archive{e.log} }

// PrefixStats counts the live keys of database 0 that begin with prefix, and
// those of them that have a deadline. It holds the whole store meanwhile.
func (e *Engine) PrefixStats(prefix []byte) (keys, expires int) {
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	tx := e.NewTx()
	tx.Begin(e.all, 0, e.NowMs())
	defer tx.End()
	return tx.PrefixStats(prefix)
}
