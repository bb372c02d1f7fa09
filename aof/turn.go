package aof

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// turn lets one goroutine at a time work for all that wait for the outcome:
// whoever takes it leads, the others sleep until it is given back and then look
// for themselves. An uncontended turn costs one atomic operation each way.
type turn struct {
	held    atomic.Bool
	waiting atomic.Int32
	gate    sync.RWMutex
	wake    sync.Cond // on gate's read lock, so that all who wake go on at once
}

func (t *turn) init() { t.wake.L = t.gate.RLocker() }

func (t *turn) tryTake() bool { return t.held.CompareAndSwap(false, true) }

// take waits for the turn.
func (t *turn) take() {
	for !t.tryTake() {
		t.waiting.Add(1)
		t.gate.RLock()
		if t.held.Load() {
			t.wake.Wait()
		}
		t.gate.RUnlock()
		t.waiting.Add(-1)
	}
}

// giveBack ends the turn.
func (t *turn) giveBack() {
	t.held.Store(false)
	t.notify()
}

// notify wakes all who wait. A waiter holds the gate from its last look until
// it sleeps, so none is missed.
func (t *turn) notify() {
	if t.waiting.Load() == 0 {
		return
	}
	t.gate.Lock()
	//lint:ignore SA2001 whoever holds the gate by now sleeps once it is free
	t.gate.Unlock()
	t.wake.Broadcast()
}

// await sleeps until reached is at target, or the turn is given back, or notify
// is called. It may also return for no reason.
func (t *turn) await(reached *atomic.Uint64, target uint64) {
	t.waiting.Add(1)
	t.gate.RLock()
	if t.held.Load() && reached.Load() < target {
		t.wake.Wait()
	}
	t.gate.RUnlock()
	t.waiting.Add(-1)
}

// letOthersJoin gives the goroutines that are about to append a chance to do so
// before the caller takes the turn: their commits then go into its block.
func letOthersJoin() { runtime.Gosched() }
