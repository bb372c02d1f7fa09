package engine

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"kevy/shard"
)

// MaxMemory says how much memory keys, and what else counts, may occupy, and what
// happens beyond it.
type MaxMemory struct {
	// Bytes is the bound; 0 is none.
	Bytes int64
	// Evict makes keys go beyond it. Without it nothing does, and MakeRoom says so.
	Evict bool
	// By says which keys go, and Volatile that only those do that expire.
	By       shard.EvictBy
	Volatile bool
	// Samples is how many keys are looked at for each that goes; 0 takes the default.
	Samples int
	// Tenacity says how long who is in need of room evicts by himself, from 0 for
	// not at all to 100 for as long as it takes, by the scale of Redis.
	Tenacity int
}

// The defaults of Redis.
const (
	DefaultSamples  = 5
	DefaultTenacity = 10
)

// What is compared with the bound is Set.Bytes, the count of the keyspace, and
// Outside, what is counted elsewhere: clients, for a server. The heap is not asked: it
// has garbage in it, and would fall not when keys go but when the collector comes.
//
// Eviction holds one shard at a time, and each key that goes is a commit of its own.
// It is done by whoever needs the room, before he locks anything, and goes on
// in the background when it takes him too long.
type evictor struct {
	max     atomic.Pointer[MaxMemory]
	bytes   atomic.Int64 // max.Bytes
	outside atomic.Int64
	// need has room for one: the background is to look.
	need chan struct{}
	// over is since when, in nanoseconds of the machine's clock, there was too much
	// and eviction did not make up for it; 0: it did. overTotal is how long that
	// was so before.
	over, overTotal atomic.Int64

	mu   sync.Mutex // of who evicts; before any shard
	tx   *shard.Tx
	rng  *rand.Rand
	pool []candidate // ascending by score
	by   shard.EvictBy
	// volatile and by are what pool and weights are of: MaxMemory.Volatile and By.
	volatile bool
	weights  []int // of each shard: keys that may go, as of when it was last looked at
	total    int   // of weights
	stale    int   // keys that went since weights were taken
	held     [1]int
}

// candidate is a key that may go; it may be gone, or changed, meanwhile.
type candidate struct {
	shard, db int
	key       string
	score     int64
}

const (
	// poolSize is how many candidates are kept from one search to the next, as in
	// Redis: so that few samples find old keys.
	poolSize = 16
	// weightsFor is after how many keys the weights are taken anew.
	weightsFor = 1024
	// clockEvery is after how many keys the time is looked at.
	clockEvery = 16
	// evictPatience is how long eviction waits for a shard: a script may have it
	// for long, and who needs room must come to be told so.
	evictPatience = time.Millisecond
	// evictEvery is how often the background looks by itself: clients grow without
	// asking for room.
	evictEvery = 100 * time.Millisecond
	// backgroundTenacity is that of the background, which lets others evict in between.
	backgroundTenacity = 10
	// pressure is what part of the bound there may be too much while somebody else
	// evicts, before who needs room waits for him.
	pressure = 64
)

func (e *Engine) openEvictor(max MaxMemory) {
	v := &e.evictor
	v.need = make(chan struct{}, 1)
	v.tx = e.NewTx()
	v.rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	v.weights = make([]int, e.set.Shards())
	e.SetMaxMemory(max)
}

// SetMaxMemory changes the bound, and what happens beyond it.
func (e *Engine) SetMaxMemory(m MaxMemory) {
	if m.Samples <= 0 {
		m.Samples = DefaultSamples
	}
	e.evictor.max.Store(&m)
	e.evictor.bytes.Store(m.Bytes)
	e.Relieve()
}

// MaxMemory returns them.
func (e *Engine) MaxMemory() MaxMemory { return *e.evictor.max.Load() }

// Outside returns the count of what is held in memory outside of the keyspace and is
// compared with the bound as well. Its owner keeps it.
func (e *Engine) Outside() *atomic.Int64 { return &e.evictor.outside }

// CountedBytes returns what is compared with the bound.
func (e *Engine) CountedBytes() int64 { return e.set.Bytes() + e.evictor.outside.Load() }

// OverMemory reports whether there is more than the bound allows.
func (e *Engine) OverMemory() bool {
	most := e.evictor.bytes.Load()
	return most != 0 && e.CountedBytes() > most
}

// Relieve lets the background see to it that there is no more than the bound allows.
// It does not wait.
func (e *Engine) Relieve() {
	select {
	case e.evictor.need <- struct{}{}:
	default:
	}
}

// MakeRoom evicts until there is no more than the bound allows, or the time is over
// that the tenacity gives, after which the background goes on. It reports false if that
// cannot be reached, because there is nothing that may go. The caller holds no shard.
func (e *Engine) MakeRoom() bool {
	if !e.OverMemory() {
		return true
	}
	m := e.MaxMemory()
	v := &e.evictor
	if !m.Evict {
		v.exceeded(true)
		return false
	}
	if e.log.Err() != nil {
		// What goes could not be logged. Writers are refused for that.
		return true
	}
	if !v.mu.TryLock() {
		if e.CountedBytes()-m.Bytes < m.Bytes/pressure {
			return true
		}
		v.mu.Lock()
	}
	defer v.mu.Unlock()
	end := e.evict(m, evictBudget(m.Tenacity))
	if end == outOfTime {
		e.Relieve()
	}
	return end != nothingLeft
}

// evictBudget is how long who needs room evicts: Redis's scale, up to half a
// millisecond for the tenacities up to 10 and 15 % more with each beyond.
func evictBudget(tenacity int) time.Duration {
	switch {
	case tenacity >= 100:
		return math.MaxInt64
	case tenacity > 10:
		return time.Duration(500 * math.Pow(1.15, float64(tenacity-10)) * float64(time.Microsecond))
	}
	return time.Duration(max(tenacity, 0)) * 50 * time.Microsecond
}

// Why evict has ended.
type evictionEnd int

const (
	roomMade evictionEnd = iota
	outOfTime
	shardBusy   // a shard could not be had
	nothingLeft // no key may go
)

// evict removes keys while there is too much and the budget lasts. The caller has v.mu.
func (e *Engine) evict(m MaxMemory, budget time.Duration) (end evictionEnd) {
	if e.set.ExpiryHeld() {
		return roomMade // writes are paused: nothing may go, as in Redis
	}
	v := &e.evictor
	if v.by != m.By || v.volatile != m.Volatile {
		v.by, v.volatile = m.By, m.Volatile
		v.pool, v.stale = v.pool[:0], weightsFor
	}
	start := time.Now()
	for n := 1; e.OverMemory(); n++ {
		if end = e.evictOne(m); end != roomMade {
			break
		}
		if (n%clockEvery == 0 && time.Since(start) > budget || budget == 0) && e.OverMemory() {
			end = outOfTime
			break
		}
	}
	v.exceeded(end != roomMade)
	e.took("eviction-cycle", time.Since(start))
	return end
}

// exceeded notes whether there is too much after all.
func (v *evictor) exceeded(is bool) {
	now := time.Now().UnixNano()
	if is {
		v.over.CompareAndSwap(0, now)
	} else if since := v.over.Swap(0); since != 0 {
		v.overTotal.Add(max(0, now-since))
	}
}

// EvictionExceeded returns for how long there has been too much without a break, and
// for how long in all since the start or ResetEvictionExceeded.
func (e *Engine) EvictionExceeded() (current, total time.Duration) {
	v := &e.evictor
	if !e.OverMemory() {
		v.exceeded(false)
	}
	if since := v.over.Load(); since != 0 {
		current = max(0, time.Duration(time.Now().UnixNano()-since))
	}
	return current, time.Duration(v.overTotal.Load()) + current
}

// ResetEvictionExceeded makes the total begin anew.
func (e *Engine) ResetEvictionExceeded() {
	e.evictor.overTotal.Store(0)
	e.evictor.over.Store(0)
}

// evictOne removes the best candidate after another search; it ends with roomMade also
// if that turned out to be gone, or in use. The caller has v.mu.
func (e *Engine) evictOne(m MaxMemory) evictionEnd {
	v := &e.evictor
	if v.stale >= weightsFor || v.total == 0 {
		if !e.weigh(m.Volatile) {
			return shardBusy
		}
		if v.total == 0 {
			return nothingLeft
		}
	}
	if m.By == shard.EvictAtRandom {
		v.pool = v.pool[:0]
	}
	if !e.fillPool(m) {
		return shardBusy
	}
	last := len(v.pool) - 1
	if last < 0 {
		return roomMade // the shard has none any more, and less weight now
	}
	c := v.pool[last]
	v.pool = v.pool[:last]
	if !e.holdForEviction(c.shard) {
		return shardBusy
	}
	least := c.score
	if m.By == shard.EvictAtRandom {
		least = 0
	}
	if v.tx.Evict(c.db, []byte(c.key), m.By, m.Volatile, least) {
		e.Commit(v.tx)
		v.stale++
	}
	v.reweigh(c.shard, v.tx.Evictable(m.Volatile))
	e.release(v.tx)
	return roomMade
}

// holdForEviction locks a shard and begins the evictor's Tx on it.
func (e *Engine) holdForEviction(i int) bool {
	v := &e.evictor
	v.held[0] = i
	if !e.set.LockWithin(i, evictPatience) {
		return false
	}
	v.tx.Begin(v.held[:], 0, e.NowMs())
	return true
}

// weigh counts the keys that may go in every shard.
func (e *Engine) weigh(volatile bool) bool {
	v := &e.evictor
	for i := range e.all {
		if !e.holdForEviction(i) {
			return false
		}
		v.reweigh(i, v.tx.Evictable(volatile))
		e.release(v.tx)
	}
	v.stale = 0
	return true
}

func (v *evictor) reweigh(shard, n int) {
	v.total += n - v.weights[shard]
	v.weights[shard] = n
}

// fillPool samples a shard, chosen by how many of its keys may go, into the pool. It
// reports false if it cannot be had.
func (e *Engine) fillPool(m MaxMemory) bool {
	v := &e.evictor
	at := v.rng.IntN(v.total)
	i := 0
	for at >= v.weights[i] {
		at -= v.weights[i]
		i++
	}
	if !e.holdForEviction(i) {
		return false
	}
	samples := m.Samples
	if m.By == shard.EvictAtRandom {
		samples = 1
	}
	v.tx.Sample(m.By, m.Volatile, samples, v.rng, func(db int, key []byte, score int64) {
		if m.By == shard.EvictAtRandom {
			// Of one in each database: whichever has more keys is likelier to be chosen.
			score = int64(v.rng.Uint64() >> 1)
		}
		v.offer(i, db, key, score)
	})
	v.reweigh(i, v.tx.Evictable(m.Volatile))
	e.release(v.tx)
	return true
}

// offer puts a key into the pool if it is better than the worst, or there is room.
func (v *evictor) offer(shard, db int, key []byte, score int64) {
	for i := range v.pool {
		if c := &v.pool[i]; c.shard == shard && c.db == db && c.key == string(key) {
			return
		}
	}
	if len(v.pool) == poolSize {
		if score <= v.pool[0].score {
			return
		}
		v.pool = append(v.pool[:0], v.pool[1:]...)
	}
	at := len(v.pool)
	v.pool = append(v.pool, candidate{})
	for at > 0 && v.pool[at-1].score > score {
		v.pool[at] = v.pool[at-1]
		at--
	}
	v.pool[at] = candidate{shard: shard, db: db, key: string(key), score: score}
}

// evictLoop evicts in the background.
func (e *Engine) evictLoop() {
	v := &e.evictor
	tick := time.NewTicker(evictEvery)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-v.need:
		case <-tick.C:
		}
		for e.OverMemory() && !e.closing.Load() {
			m := e.MaxMemory()
			if !m.Evict || e.log.Admit() != nil {
				break
			}
			v.mu.Lock()
			end := e.evict(m, evictBudget(backgroundTenacity))
			v.mu.Unlock()
			if end != outOfTime {
				break // the next tick tries again
			}
		}
		if !e.OverMemory() && v.over.Load() != 0 {
			v.exceeded(false)
		}
	}
}
