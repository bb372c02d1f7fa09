package exec

import (
	"fmt"
	"runtime/debug"
	"slices"

	"kevy/shard"
)

// unserved is a key whose first waiter can only be served under locks that were
// not free.
type unserved struct {
	db     int
	key    []byte
	shards []int // that serving it takes
}

// serve serves those who wait for the keys that the Tx has changed: the keys in
// the order of their first change, those who wait for one in the order in which
// they came, each with a commit of its own. That may change further keys, whose
// turn comes last. It returns the keys that it could not go on with, for
// serveAway. The Tx is committed, and holds more shards afterwards if needed.
func (x *Executor) serve(tx *shard.Tx) (away []unserved) {
	tx.Commit().Reset()
	for q := tx.NextReady(); q != nil; q = tx.NextReady() {
		if shards := x.serveQueue(tx, q); shards != nil {
			away = append(away, unserved{q.DB(), slices.Clone(q.Key()), shards})
		}
	}
	tx.TakeLookups() // nobody asked for these
	return away
}

// serveAway goes on where serve had to stop, once the shards are unlocked. A key
// whose first waiter is another one by now needs other locks, perhaps, so it may
// come again; each time one of those who wait has gone.
func (x *Executor) serveAway(tx *shard.Tx, away []unserved) {
	for len(away) > 0 {
		a := away[0]
		x.store.Set().Lock(a.shards)
		tx.Begin(a.shards, a.db, x.store.NowMs())
		tx.Recall(a.key)
		more := x.serve(tx)
		x.store.Set().Unlock(tx.Held())
		tx.End()
		away = append(more, away[1:]...)
	}
}

// serveEngine is serve and serveAway for a commit of the engine's own.
func (x *Executor) serveEngine(tx *shard.Tx) (after func()) {
	away := x.serve(tx)
	if len(away) == 0 {
		return nil
	}
	return func() { x.serveAway(tx, away) }
}

// serveQueue serves those who wait for one key. Where the next one's turn needs
// shards that are held by others it stops and returns all that serving it takes.
func (x *Executor) serveQueue(tx *shard.Tx, q *shard.Queue) (shards []int) {
	key := q.Key()
	tx.Select(q.DB())
	kind, there := tx.Kind(key)
	q.Each(func(w *shard.Waiter) bool {
		if !there && !q.AwaitsEnd() {
			return false
		}
		if !w.Gone && (!there || kind != w.Kind) {
			return true
		}
		p := w.Of.(*parked)
		if !x.reach(tx, p.also) {
			if p.over() {
				return true
			}
			shards = insertSorted(slices.Clone(p.also), q.Shard())
			return false
		}
		if p.attempt(tx, key) {
			kind, there = tx.Kind(key)
		}
		return true
	})
	x.commitFor(nil, tx) // an overdue key may have gone
	return shards
}

// reach makes the Tx hold further shards. It does not wait for their locks:
// taken out of turn, they could be those of somebody who waits for ours.
func (x *Executor) reach(tx *shard.Tx, shards []int) bool {
	if tx.HoldsShards(shards) {
		return true
	}
	held := slices.Clone(tx.Held())
	for _, i := range shards {
		if slices.Contains(held, i) {
			continue
		}
		if !x.store.Set().TryLock(i) {
			tx.Widen(held)
			return false
		}
		held = insertSorted(held, i)
	}
	tx.Widen(held)
	return true
}

// commitFor commits what the Tx recorded since the last commit, if anything, on
// behalf of p, which may be nil.
func (x *Executor) commitFor(p *parked, tx *shard.Tx) {
	if tx.Commit().Ops() == 0 {
		if p != nil {
			p.seen = x.store.Set().LastLSN(tx.Held())
		}
		return
	}
	lsn := x.store.Commit(tx)
	if p != nil {
		p.seen, p.lsn, p.streams = lsn, lsn, x.streamsOf(nil, tx.Commit())
	}
	tx.Commit().Reset()
}

// over reports whether the wait has ended.
func (p *parked) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outcome != waiting
}

// attempt serves p from key if there is something for it. It reports whether
// the wait is over.
func (p *parked) attempt(tx *shard.Tx, key []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outcome == waiting {
		if !p.try(tx, key) {
			return false
		}
		p.x.commitFor(p, tx)
		p.ends(served)
	}
	tx.Leave(&p.Waiter)
	return true
}

// try calls Try. A panic in it, which is a bug, costs only the one who is served:
// what it changed is committed op by op, as with a handler.
func (p *parked) try(tx *shard.Tx, key []byte) (done bool) {
	c := &p.ctx
	defer func() {
		c.Tx = nil
		if v := recover(); v != nil {
			p.x.stats.panics.Add(1)
			p.x.log.Error("serving a blocked command panicked", "command", p.spec.FullName(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			tx.Commit().Abandon()
			p.w.Reset()
			p.w.Error(internalError(p.spec))
			done = true
		}
		if done && p.w.Len() > 0 && p.w.Bytes()[0] == '-' {
			p.x.stats.commands[p.spec.Number()].failed.Add(1)
			p.x.stats.CountError(errorCode(p.w.Bytes()))
		}
	}()
	c.Tx = tx
	return p.wait.Try(c, key)
}
