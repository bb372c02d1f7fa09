package exec

import (
	"fmt"
	"runtime/debug"
	"slices"

	"kevy/shard"
)

// serve serves those who wait for the keys that the Tx has changed: the keys in
// the order of their first change, those who wait for one in the order in which
// they came, each with a commit of its own. That may change further keys, whose
// turn comes last. The Tx is committed, and holds more shards afterwards if that
// was needed. Where the locks of those were not free, the rest is a debt of the
// key's shard; owes says so.
func (x *Executor) serve(tx *shard.Tx) (owes bool) {
	tx.Commit().Reset()
	// What waits is served as of now: a key that a transaction pushed may be
	// overdue by its end.
	tx.Proceed(x.store.NowMs())
	tx.TellMisses(false)
	for q := tx.NextReady(); q != nil; q = tx.NextReady() {
		if shards := x.serveQueue(tx, q); shards != nil {
			tx.Owe(&shard.Debt{DB: q.DB(), Key: slices.Clone(q.Key()), Shards: shards})
			owes = true
		}
	}
	tx.TakeLookups() // nobody asked for these
	return owes
}

// payAll serves what the shards owe. None is held.
func (x *Executor) payAll(tx *shard.Tx, shards []int) {
	for _, i := range shards {
		x.pay(tx, i)
	}
}

// pay serves what a shard owes, which may take several attempts: those who wait
// for a key change, and so do the locks that the first of them needs. Each time
// one of them has gone. No shard is held.
func (x *Executor) pay(tx *shard.Tx, debtor int) {
	set := x.store.Set()
	for d := set.FirstDebt(debtor); d != nil; d = set.FirstDebt(debtor) {
		set.Lock(d.Shards)
		tx.Begin(d.Shards, d.DB, x.store.NowMs())
		tx.TakeDebt(d)
		owes := x.serve(tx)
		held := slices.Clone(tx.Held())
		set.Unlock(held)
		tx.End()
		if owes {
			// What came of it may be in other shards.
			for _, i := range held {
				if i != debtor {
					x.pay(tx, i)
				}
			}
		}
	}
}

// serveEngine is serve, and pay behind it, for a commit of the engine's own.
func (x *Executor) serveEngine(tx *shard.Tx) (after func()) {
	if !x.serve(tx) {
		return nil
	}
	held := slices.Clone(tx.Held())
	return func() { x.payAll(tx, held) }
}

// serveQueue serves those who wait for one key. Where the next one's turn needs
// shards that are held by others it stops and returns all that serving it takes.
func (x *Executor) serveQueue(tx *shard.Tx, q *shard.Queue) (shards []int) {
	key := q.Key()
	if q.Empty() {
		return nil
	}
	tx.Select(q.DB())
	kind, there := tx.Kind(key)
	q.Each(func(w *shard.Waiter) bool {
		if !there && !q.AwaitsEnd() {
			return false
		}
		if !w.AwaitsEnd && (!there || kind != w.Kind) {
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
	if p != nil {
		tx.Serves = p.ctx.Session
	}
	lsn := x.store.Commit(tx)
	tx.Serves = nil
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
