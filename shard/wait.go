package shard

import (
	"slices"
	"strings"
	"sync/atomic"

	"kevy/internal/op"
)

// Waiter stands for a client that waits until one of its keys holds what it
// asked for. Tx.Wait puts it into the keys' queues.
type Waiter struct {
	// Kind is the type of value that it waits for.
	Kind Kind
	// AwaitsEnd says that it also waits for a key to go or to become something
	// else.
	AwaitsEnd bool
	// Of is who waits. This package does not look at it.
	Of any

	places []place
	left   atomic.Int32 // of the places, those still in a queue
}

// place is a waiter's place in the queue of one key.
type place struct {
	waiter     *Waiter
	sh         *Shard
	queue      *Queue // nil: it was left; guarded by sh.mu, as are the neighbours
	prev, next *place
}

// Queue holds those who wait for one key, first come first. It is guarded by the
// key's shard.
type Queue struct {
	sh          *Shard
	db          int
	name        string // as watchName builds it
	key         []byte
	first, last *place
	awaitEnd    int  // of the waiters, those with AwaitsEnd
	ready       bool // a Tx has noted it
}

// DB returns the key's database.
func (q *Queue) DB() int { return q.db }

// Key returns the key, which must not be changed.
func (q *Queue) Key() []byte { return q.key }

// Shard returns the key's shard.
func (q *Queue) Shard() int { return q.sh.index }

// Empty reports whether nobody waits any more.
func (q *Queue) Empty() bool { return q.first == nil }

// AwaitsEnd reports whether somebody waits for the key to go.
func (q *Queue) AwaitsEnd() bool { return q.awaitEnd > 0 }

// Each calls fn with those who wait, first come first, until it returns false.
// fn may make the one it was called with leave.
func (q *Queue) Each(fn func(w *Waiter) bool) {
	for p := q.first; p != nil; {
		next := p.next
		if !fn(p.waiter) {
			return
		}
		p = next
	}
}

// Wait puts w at the end of the queue of each key of the selected database. The
// keys' shards are held; w is in no queue.
func (tx *Tx) Wait(w *Waiter, keys [][]byte) {
	w.places = make([]place, 0, len(keys)) // places do not move
	for _, key := range keys {
		sh := tx.shard(key)
		q := sh.queueOf(tx.db, key)
		if q.last != nil && q.last.waiter == w {
			continue // a key that was named before
		}
		w.places = append(w.places, place{waiter: w, sh: sh, queue: q, prev: q.last})
		p := &w.places[len(w.places)-1]
		if q.last == nil {
			q.first = p
		} else {
			q.last.next = p
		}
		q.last = p
		if w.AwaitsEnd {
			q.awaitEnd++
		}
	}
	w.left.Store(int32(len(w.places)))
}

// queueOf returns the queue of a key, a new one if there was none.
func (sh *Shard) queueOf(db int, key []byte) *Queue {
	sh.scratch = watchName(sh.scratch[:0], db, key)
	q := sh.queues[string(sh.scratch)]
	if q == nil {
		if sh.queues == nil {
			sh.queues = make(map[string]*Queue)
		}
		q = &Queue{sh: sh, db: db, name: string(sh.scratch), key: append([]byte{}, key...)}
		sh.queues[q.name] = q
	}
	return q
}

// leave takes a place out of its queue, whose shard is held.
func (p *place) leave() {
	q := p.queue
	if q == nil {
		return
	}
	if p.prev == nil {
		q.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.queue, p.prev, p.next = nil, nil, nil
	if p.waiter.AwaitsEnd {
		q.awaitEnd--
	}
	if q.first == nil {
		delete(q.sh.queues, q.name)
	}
	p.waiter.left.Add(-1)
}

// Leave takes w out of the queues of the held shards.
func (tx *Tx) Leave(w *Waiter) {
	for i := range w.places {
		if p := &w.places[i]; tx.holds(p.sh.index) {
			p.leave()
		}
	}
}

// Leave takes w out of all queues that it is still in. It takes their shards'
// locks, none of which the caller may hold.
func (s *Set) Leave(w *Waiter) {
	for i := range w.places {
		if w.left.Load() == 0 {
			return
		}
		p := &w.places[i]
		s.lockOne(p.sh)
		p.leave()
		p.sh.mu.Unlock()
	}
}

// wake says whom a change of a key concerns of those who wait for it.
type wake uint8

const (
	wakeNone wake = iota
	wakeEnd       // who waits for its end
	wakeAll
)

// note remembers that a key has changed for which somebody waits whom that
// concerns.
func (tx *Tx) note(q *Queue, w wake) {
	if q != nil && !q.ready && (w == wakeAll || w == wakeEnd && q.AwaitsEnd()) {
		q.ready = true
		tx.ready = append(tx.ready, q)
	}
}

// wakes returns whom an op concerns: all, if it can give the key what somebody
// waits for.
func wakes(v op.Verb) wake {
	switch v {
	case op.LPush, op.RPush, op.ZAdd, op.XAdd:
		return wakeAll
	case op.XDel, op.XTrim, op.PExpireAt, op.Persist:
		return wakeNone
	}
	return wakeEnd
}

// wakesAs is wakes for a value that is put in place whole.
func wakesAs(k Kind) wake {
	switch k {
	case KindList, KindZSet, KindStream:
		return wakeAll
	}
	return wakeEnd
}

// Awaited reports whether somebody waits for a key of the shards, which are held.
func (s *Set) Awaited(held []int) bool {
	for _, i := range held {
		if len(s.shards[i].queues) > 0 {
			return true
		}
	}
	return false
}

// Ready reports whether keys have changed for which somebody waits.
func (tx *Tx) Ready() bool { return len(tx.ready) > 0 }

// NextReady returns the queue of the key that was first to change of those not
// returned yet, nil if there is none. A key that changes after that is ready
// anew. Before the shards are unlocked, all must have been taken.
func (tx *Tx) NextReady() *Queue {
	if tx.readyAt == len(tx.ready) {
		clear(tx.ready)
		tx.ready, tx.readyAt = tx.ready[:0], 0
		return nil
	}
	q := tx.ready[tx.readyAt]
	tx.readyAt++
	q.ready = false
	return q
}

// Recall makes a key of the selected database ready, whether it changed or not,
// if somebody waits for it.
func (tx *Tx) Recall(key []byte) {
	sh := tx.shard(key)
	if len(sh.queues) > 0 {
		sh.scratch = watchName(sh.scratch[:0], tx.db, key)
		tx.note(sh.queues[string(sh.scratch)], wakeAll)
	}
}

// forgetReady drops what was noted.
func (tx *Tx) forgetReady() {
	for tx.NextReady() != nil {
	}
}

// noteDB notes those keys of a database about to be cleared whose end somebody
// waits for.
func (tx *Tx) noteDB(sh *Shard, db int) {
	tx.noteEach(sh, func(q *Queue) bool { return q.db == db && q.AwaitsEnd() && sh.dbs[db].keys.Get(q.key) != nil })
}

// noteSwap notes those keys of two exchanged databases that are there now, or
// whose end somebody waits for.
func (tx *Tx) noteSwap(sh *Shard, a, b int) {
	tx.noteEach(sh, func(q *Queue) bool {
		return (q.db == a || q.db == b) && (q.AwaitsEnd() || sh.dbs[q.db].keys.Get(q.key) != nil)
	})
}

// noteEach notes the queues that fn picks, in the order of their names: a map
// has none.
func (tx *Tx) noteEach(sh *Shard, fn func(q *Queue) bool) {
	if tx.replay || len(sh.queues) == 0 {
		return
	}
	var picked []*Queue
	for _, q := range sh.queues {
		if fn(q) {
			picked = append(picked, q)
		}
	}
	slices.SortFunc(picked, func(a, b *Queue) int { return strings.Compare(a.name, b.name) })
	for _, q := range picked {
		tx.note(q, wakeAll)
	}
}

// Widen adds shards, which the caller has locked since Begin, to those held:
// held is all of them, ascending.
func (tx *Tx) Widen(held []int) { tx.held, tx.only = held, nil }

// HoldsShards reports whether all of the shards are held.
func (tx *Tx) HoldsShards(shards []int) bool {
	for _, i := range shards {
		if !tx.holds(i) {
			return false
		}
	}
	return true
}

// TryLock takes the lock of one shard if nobody has it, and may be called
// whatever other locks are held.
func (s *Set) TryLock(shard int) bool {
	if !s.shards[shard].mu.TryLock() {
		return false
	}
	if s.yielded.Load() == nil {
		return true
	}
	s.shards[shard].mu.Unlock()
	return false
}

// Debt is a key that was filled and whose waiters could not all be served, since
// that takes the locks of Shards too, which were not free. It stands with the
// key's shard, and a command that locks that shard serves them before it runs: to
// all commands it is as if the push had done it. What the store does by itself,
// as to expire, to take a rewrite's cut and to serve others, pays no debts.
type Debt struct {
	DB     int
	Key    []byte
	Shards []int // that serving takes, ascending
}

// Owe notes a debt with the shard of its key, which is held.
func (tx *Tx) Owe(d *Debt) {
	sh := tx.shard(d.Key)
	sh.debts = append(sh.debts, d)
}

// Debtor returns one of the held shards that has debts, ok is false if none has.
func (s *Set) Debtor(held []int) (shard int, ok bool) {
	for _, i := range held {
		if len(s.shards[i].debts) > 0 {
			return i, true
		}
	}
	return 0, false
}

// FirstDebt returns the oldest debt of a shard, nil if it has none. It takes the
// shard's lock, which the caller must not hold.
func (s *Set) FirstDebt(shard int) *Debt {
	sh := s.shards[shard]
	s.lockOne(sh)
	defer sh.mu.Unlock()
	if len(sh.debts) == 0 {
		return nil
	}
	return sh.debts[0]
}

// TakeDebt takes a debt off its shard, whose key is ready then. It does nothing
// if somebody else has. The debt's shards are held.
func (tx *Tx) TakeDebt(d *Debt) {
	tx.db = d.DB
	sh := tx.shard(d.Key)
	i := slices.Index(sh.debts, d)
	if i < 0 {
		return
	}
	sh.debts = slices.Delete(sh.debts, i, i+1)
	tx.Recall(d.Key)
}
