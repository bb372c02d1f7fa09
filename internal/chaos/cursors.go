package chaos

import (
	"math/rand/v2"
	"sync"
)

// cursor is a place in a stream.
type cursor struct{ generation, offset uint64 }

// maxCursors is how many cursors of a stream are remembered, and maxStreams of
// how many streams; the oldest ones give way.
const (
	maxCursors = 256
	maxStreams = 20_000
)

// cursors are those that were given out, of each stream in the order of the
// log.
type cursors struct {
	mu    sync.Mutex
	given map[string][]cursor // guarded by mu
}

// give remembers a cursor that a client now has. One from before the last one
// adds nothing, since it lies on the way to it.
func (c *cursors) give(stream string, at cursor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given == nil {
		c.given = map[string][]cursor{}
	}
	list, known := c.given[stream]
	if !known && len(c.given) >= maxStreams {
		return
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == at || list[i].generation == at.generation && list[i].offset > at.offset {
			return
		}
		if list[i].generation != at.generation && i < len(list)-1 && list[i+1].generation == at.generation {
			break // what comes before is of other generations
		}
	}
	if len(list) == maxCursors {
		// Every other one goes, so that far ones stay.
		kept := list[:0]
		for i := 0; i < len(list); i += 2 {
			kept = append(kept, list[i])
		}
		list = kept
	}
	c.given[stream] = append(list, at)
}

// before picks one that was given out before a cursor. ok is false if there is
// none.
func (c *cursors) before(stream string, at cursor, rng func(n int) int) (cursor, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.given[stream]
	n := 0
	for n < len(list) && list[n] != at && !(list[n].generation == at.generation && list[n].offset >= at.offset) {
		n++
	}
	if n == len(list) && (n == 0 || list[n-1].generation != at.generation) {
		return cursor{}, false // at is of a history that was not seen
	}
	if n == 0 {
		return cursor{}, false
	}
	// Mostly near ones: what a crash takes back is little.
	back := 1 + rng(min(n, 8))
	if rng(8) == 0 {
		back = 1 + rng(n)
	}
	return list[n-back], true
}

// random is a source that many connections share.
type random struct {
	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
}

func (r *random) chance(rate float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.Float64() < rate
}

func (r *random) int(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(n)
}
