package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"kevy/internal/vfs"
	"kevy/shard"
)

// evictRand returns a generator whose seed is shown, and is KEVY_SEED if that is set.
func evictRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("KEVY_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

var policies = map[string]MaxMemory{
	"allkeys-lru":     {Evict: true, By: shard.EvictByIdle},
	"allkeys-lfu":     {Evict: true, By: shard.EvictByUses},
	"allkeys-random":  {Evict: true, By: shard.EvictAtRandom},
	"volatile-lru":    {Evict: true, By: shard.EvictByIdle, Volatile: true},
	"volatile-lfu":    {Evict: true, By: shard.EvictByUses, Volatile: true},
	"volatile-random": {Evict: true, By: shard.EvictAtRandom, Volatile: true},
	"volatile-ttl":    {Evict: true, By: shard.EvictByTTL, Volatile: true},
}

// countOf returns how many keys there are, with and without a deadline.
func countOf(e *Engine) (volatile, persistent int) {
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	tx := e.NewTx()
	tx.Begin(e.all, 0, e.NowMs())
	defer tx.End()
	for _, db := range tx.Stats() {
		volatile += db.Expires
		persistent += db.Keys - db.Expires
	}
	return volatile, persistent
}

func recounted(e *Engine) int64 {
	e.set.Lock(e.all)
	defer e.set.Unlock(e.all)
	return e.set.Recount()
}

// Under each policy the bound holds behind each write that room was made for; nothing goes
// below it; what may not go stays, until nothing else is left, which is said; the count
// is exact, and the log makes the same keyspace.
func TestEvictionKeepsTheBound(t *testing.T) {
	for name, m := range policies {
		t.Run(name, func(t *testing.T) {
			rng := evictRand(t)
			fs := vfs.NewMem()
			opt := small(fs)
			opt.Shards = 4
			e := mustOpen(t, opt)
			if m.By == shard.EvictByUses {
				e.set.SetLFU(&shard.LFU{LogFactor: 10, DecayMinutes: 1})
			}
			write := func(persistent bool) {
				key := fmt.Appendf(nil, "%v:%d", persistent, rng.IntN(1_000_000))
				at := int64(0)
				if !persistent {
					at = e.NowMs() + 1e6 + rng.Int64N(1e6)
				}
				commit(t, e, func(tx *shard.Tx) {
					tx.Select(rng.IntN(4))
					switch rng.IntN(3) {
					case 0:
						tx.Set(key, make([]byte, rng.IntN(500)), at)
					case 1:
						tx.Del(key)
						_, _ = tx.HSet(key, []byte("f"), make([]byte, rng.IntN(500)))
						tx.ExpireAt(key, max(at, e.NowMs()+1e6))
						if at == 0 {
							tx.Persist(key)
						}
					default:
						_ = tx.SetRange([]byte("grows"), rng.IntN(2000), []byte("x"))
					}
				})
			}
			e.SetMaxMemory(MaxMemory{Bytes: math.MaxInt64, Evict: true, By: m.By, Volatile: m.Volatile, Tenacity: 100})
			for i := range 600 {
				if !e.MakeRoom() {
					t.Fatal("no room below the bound")
				}
				write(i%2 == 0)
			}
			if e.set.Evicted() != 0 {
				t.Fatalf("%d keys evicted below the bound", e.set.Evicted())
			}
			_, persistent := countOf(e)
			m.Bytes, m.Tenacity = e.CountedBytes()*3/4, 100
			if !m.Volatile {
				m.Bytes /= 2
			}
			e.SetMaxMemory(m)
			const largest = 6000 // what one write can add: a value of 2,000 bytes, rounded up, and an index that doubles
			meanwhile := 0
			for range 600 {
				if !e.MakeRoom() {
					t.Fatal("no room")
				}
				for n := e.CountedBytes(); n > m.Bytes; n = e.CountedBytes() {
					// The background evicts just now, and is not waited for below pressure.
					if meanwhile++; n > m.Bytes+m.Bytes/pressure || meanwhile > 100 {
						t.Fatalf("%d bytes of %d after room was made, more than the bound for the time %d", n, m.Bytes, meanwhile)
					}
					time.Sleep(time.Millisecond)
					if !e.MakeRoom() {
						t.Fatal("no room")
					}
				}
				if m.Volatile {
					write(false)
				} else {
					write(rng.IntN(2) == 0)
				}
				if n := e.CountedBytes(); n > m.Bytes+largest {
					t.Fatalf("%d bytes of %d", n, m.Bytes)
				}
			}
			if got, want := e.CountedBytes(), recounted(e); got != want {
				t.Fatalf("counted %d, there are %d", got, want)
			}
			if n := e.set.Evicted(); n < 100 {
				t.Errorf("%d keys evicted only", n)
			}
			if m.Volatile {
				if _, n := countOf(e); n < persistent {
					t.Fatalf("%d of %d persistent keys are left", n, persistent)
				}
				m.Bytes = 1
				e.SetMaxMemory(m)
				if e.MakeRoom() {
					t.Fatal("there is room where only persistent keys are left")
				}
				if n, _ := countOf(e); n != 0 {
					t.Fatalf("%d keys that may go are left", n)
				}
				if current, total := e.EvictionExceeded(); current <= 0 || total < current {
					t.Errorf("exceeded for %v, in all for %v", current, total)
				}
			}
			m.Bytes = 0
			e.SetMaxMemory(m)
			if !e.MakeRoom() {
				t.Fatal("no room without a bound")
			}
			if current, _ := e.EvictionExceeded(); current != 0 {
				t.Errorf("exceeded for %v without a bound", current)
			}
			want := digestOf(e)
			mustClose(t, e)
			e = mustOpen(t, opt)
			defer mustClose(t, e)
			if digestOf(e) != want || e.set.Bytes() != recounted(e) {
				t.Errorf("the log makes another keyspace, or %d bytes counted of %d", e.set.Bytes(), recounted(e))
			}
		})
	}
}

// Without eviction nothing goes, and it is said that there is no room.
func TestNoEviction(t *testing.T) {
	e := mustOpen(t, small(vfs.NewMem()))
	defer mustClose(t, e)
	set(t, e, "k", "v")
	e.SetMaxMemory(MaxMemory{Bytes: 1})
	if e.MakeRoom() || !e.OverMemory() || e.set.Evicted() != 0 {
		t.Error("there is room, or a key went")
	}
	e.SetMaxMemory(MaxMemory{Bytes: 1 << 20})
	if !e.MakeRoom() || e.OverMemory() {
		t.Error("no room below the bound")
	}
	e.Outside().Add(2 << 20)
	if e.MakeRoom() {
		t.Error("what is outside does not count")
	}
}

// What does not fit into the budget is done in the background, and so is what nobody
// asks for.
func TestEvictionInTheBackground(t *testing.T) {
	opt := small(vfs.NewMem())
	e := mustOpen(t, opt)
	defer mustClose(t, e)
	for i := range 3000 {
		set(t, e, fmt.Sprint("k", i), "some value")
	}
	m := policies["allkeys-lru"]
	m.Bytes = e.CountedBytes() / 4
	before := e.set.Evicted()
	e.SetMaxMemory(m) // Tenacity 0: nothing at once
	if !e.MakeRoom() {
		t.Fatal("no room")
	}
	for deadline := time.Now().Add(time.Minute); e.OverMemory(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes of %d after a minute", e.CountedBytes(), m.Bytes)
		}
	}
	if e.set.Evicted() == before {
		t.Error("nothing was evicted")
	}
	e.Outside().Store(m.Bytes / 2)
	for deadline := time.Now().Add(time.Minute); e.OverMemory(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what grows outside makes nothing go")
		}
	}
	if got, want := e.set.Bytes(), recounted(e); got != want {
		t.Errorf("counted %d, there are %d", got, want)
	}
}

// A shard that somebody has for long keeps nobody who needs room waiting.
func TestEvictionDoesNotWaitForAShard(t *testing.T) {
	opt := small(vfs.NewMem())
	opt.Shards = 1
	e := mustOpen(t, opt)
	defer mustClose(t, e)
	set(t, e, "k", "v")
	m := policies["allkeys-random"]
	m.Bytes, m.Tenacity = 1, 100
	e.set.Lock(e.all)
	e.SetMaxMemory(m)
	if !e.MakeRoom() {
		t.Error("no room")
	}
	if !e.OverMemory() {
		t.Error("the key went from a locked shard")
	}
	e.set.Unlock(e.all)
	for deadline := time.Now().Add(time.Minute); e.OverMemory(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the key is still there a minute after")
		}
	}
}

// The keys that go are old, or little used: by samples, so not the very oldest, but far
// better than by chance.
func TestEvictionFindsOldKeys(t *testing.T) {
	const keys = 4000
	for name, m := range policies {
		if m.By == shard.EvictAtRandom {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rng := evictRand(t)
			opt := small(vfs.NewMem())
			opt.Shards, opt.Offline = 16, true
			now := int64(1_000_000_000_000)
			opt.NowMs = func() int64 { return now }
			e := mustOpen(t, opt)
			defer mustClose(t, e)
			if m.By == shard.EvictByUses {
				e.set.SetLFU(&shard.LFU{LogFactor: 10, DecayMinutes: 0})
			}
			rank := rng.Perm(keys) // the lower, the sooner a key should go
			commit(t, e, func(tx *shard.Tx) {
				for i, r := range rank {
					key := fmt.Appendf(nil, "k%d", i)
					tx.Set(key, make([]byte, 50), now+1e9+int64(r)*1000)
					tx.SetIdle(key, int64(keys-r))
					tx.SetFrequency(key, uint8(r*255/keys))
				}
			})
			m.Bytes, m.Tenacity = e.CountedBytes()/2, 100
			e.SetMaxMemory(m)
			if !e.MakeRoom() {
				t.Fatal("no room")
			}
			gone, old := 0, 0
			commit(t, e, func(tx *shard.Tx) {
				for i, r := range rank {
					if !tx.Exists(fmt.Appendf(nil, "k%d", i)) {
						gone++
						if r < keys/2 {
							old++
						}
					}
				}
				tx.Del([]byte("k0"))
				tx.Set([]byte("k0"), nil, 0)
			})
			share := float64(old) / float64(gone)
			t.Logf("%d of %d keys went, %.1f %% of them of the older half", gone, keys, 100*share)
			if gone < keys/3 || share < 0.85 {
				t.Errorf("%d went, of them %.3f of the older half", gone, share)
			}
		})
	}
}
