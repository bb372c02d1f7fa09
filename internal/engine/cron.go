package engine

import (
	"time"
)

const (
	// expireEvery is how often overdue keys are looked for; a look at a shard
	// without any costs a lock.
	expireEvery = 50 * time.Millisecond
	// expireBatch is how many keys go in one commit, which bounds how long a
	// shard stays locked.
	expireBatch = 64
	// expireBudget is how long one round may take of every expireEvery.
	expireBudget = 12 * time.Millisecond
	// tendEvery is how often the slower duties are looked at.
	tendEvery = time.Second
)

// startCron starts the goroutines that expire keys and tend the log.
func (e *Engine) startCron() {
	e.background.Go(e.expireLoop)
	e.background.Go(e.evictLoop)
	e.background.Go(e.tendLoop)
}

func (e *Engine) expireLoop() {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	tx := e.NewTx()
	held := make([]int, 1)
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
		}
		if e.set.ExpiryPaused() || e.log.Admit() != nil {
			continue
		}
		deadline := time.Now().Add(expireBudget)
		cycle := time.Duration(0) // without the time for which others had the shards
		for i := range e.all {
			held[0] = i
			for {
				e.set.Lock(held)
				start := time.Now()
				// What is written once expiry is paused stays, however long this round
				// has waited for its turn.
				if e.set.ExpiryPaused() {
					e.set.Unlock(held)
					break
				}
				tx.Begin(held, 0, e.NowMs())
				n := tx.ExpireDue(expireBatch)
				if n > 0 {
					e.Commit(tx)
				}
				e.release(tx)
				now := time.Now()
				cycle += now.Sub(start)
				if n < expireBatch || now.After(deadline) {
					break
				}
			}
		}
		e.took("expire-cycle", cycle)
	}
}

// TellWork says who is told, from now on, how long work of the engine's own took, under
// the names that events of LATENCY have in Redis.
func (e *Engine) TellWork(tell func(event string, took time.Duration)) { e.tellWork.Store(&tell) }

func (e *Engine) took(event string, took time.Duration) {
	if tell := e.tellWork.Load(); tell != nil {
		(*tell)(event, took)
	}
}

// tendLoop makes generations durable, moves the feed's floor and starts
// rewrites.
func (e *Engine) tendLoop() {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-e.tendNow:
		case <-tick.C:
		}
		e.tend()
	}
}

func (e *Engine) tend() {
	if err := e.syncGenerations(); err != nil {
		e.opt.Logger.Error("cannot write the feed's generations, will try again", "error", err)
	}
	e.moveFloor()
	if e.rewriteDue() {
		_ = e.StartRewrite() // one that began meanwhile is as good
	}
}

// RewriteRule says when the log is rewritten by itself: once its segments have
// grown by Percentage over the base and are at least MinBytes together. A
// Percentage of 0 means never.
type RewriteRule struct {
	Percentage int64
	MinBytes   int64
}

// SetRewriteRule changes the rule.
func (e *Engine) SetRewriteRule(r RewriteRule) { e.rule.Store(&r) }

func (e *Engine) rewriteDue() bool {
	rule := e.rule.Load()
	if e.opt.NoFile || rule.Percentage == 0 || e.closing.Load() || e.rewrites.waiting() {
		return false
	}
	st := e.log.Status()
	size := st.BaseBytes + st.LogBytes
	return size >= rule.MinBytes && st.LogBytes*100 >= max(st.BaseBytes, 1)*rule.Percentage
}
