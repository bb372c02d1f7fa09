package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kevy/aof"
	"kevy/internal/vfs"
	"kevy/shard"
)

// TestReload: reloads between writes, rewrites, files that have just begun and
// flushes change nothing, and neither does a start after them: keys, offsets of
// the feed and its generation go on.
func TestReload(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewMem()
	opt := small(fs)
	opt.SegmentBytes = 4 << 10
	opt.Rewrite = RewriteRule{Percentage: 100, MinBytes: 1}
	e := mustOpen(t, opt)
	e.PauseExpiry(true)
	for i := range 300 {
		switch rng.IntN(8) {
		case 0:
			_ = e.StartRewrite() // one may run
		case 1:
			commit(t, e, func(tx *shard.Tx) { tx.FlushAll() })
		case 2:
			if _, err := e.log.Cut(); err != nil {
				t.Fatal(err)
			}
		default:
			commit(t, e, func(tx *shard.Tx) {
				for range 1 + rng.IntN(20) {
					key := []byte(fmt.Sprint("k", rng.IntN(50)))
					tx.Del(key)
					if _, err := tx.PushRight(key, make([]byte, rng.IntN(200)), key); err != nil {
						t.Fatal(err)
					}
					tx.ExpireAt(key, 1+rng.Int64N(1<<42)) // overdue ones too
				}
			})
		}
		e.set.Lock(e.all)
		want := e.set.Digest()
		e.set.Unlock(e.all)
		last := e.log.Last()
		if err := e.Reload(ReloadFrom(rng.IntN(2))); err != nil {
			t.Fatalf("reload %d: %v", i, err)
		}
		if got := e.set.Digest(); got != want || e.log.Last() != last {
			t.Fatalf("reload %d: the keyspace is another one, or the log moved from LSN %d to %d", i, last, e.log.Last())
		}
	}
	want, tail := e.set.Digest(), e.Feed().Tail(0)
	mustClose(t, e)
	e = mustOpen(t, opt)
	if e.set.Digest() != want || e.Feed().Tail(0) != tail || !e.Report().Resumed {
		t.Errorf("the next start found another state, or the feed does not go on: %+v", e.Report())
	}
	mustClose(t, e)
}

// While a rewrite is held off by a reload, or the store closes, callers are told
// so; a store without files reloads from memory only.
func TestReloadRefusals(t *testing.T) {
	e := mustOpen(t, small(vfs.NewMem()))
	if err := e.holdRewrites(); err != nil {
		t.Fatal(err)
	}
	if err := e.Rewrite(); !errors.Is(err, ErrRewriting) {
		t.Errorf("a rewrite during a reload: %v", err)
	}
	ended := make(chan error)
	go func() { ended <- e.Reload(FromLog) }()
	select {
	case err := <-ended:
		t.Errorf("a reload does not wait for the one before: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	e.releaseRewrites()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	mustClose(t, e)
	if err := e.Reload(FromLog); !errors.Is(err, errClosing) {
		t.Errorf("a reload of a store that is closed: %v", err)
	}

	memory := mustOpen(t, Options{Shards: 2, DBs: 1, NoFile: true, Fsync: aof.PolicyEverySec, FeedMemoryBytes: 1 << 20})
	set(t, memory, "k", "v")
	if err := memory.Reload(FromLog); !errors.Is(err, ErrNoLog) {
		t.Errorf("a log that is not there: %v", err)
	}
	if err := memory.Reload(FromRewrite); err != nil || get(memory, 0, "k") != "v" {
		t.Errorf("from memory: %v", err)
	}
	mustClose(t, memory)
}

// A fault on the way leaves the keyspace as it is.
func TestReloadFault(t *testing.T) {
	fs := vfs.NewMem()
	e := mustOpen(t, small(fs))
	set(t, e, "k", "v")
	for _, op := range []vfs.Op{vfs.OpOpen, vfs.OpRead} {
		heal := fs.Inject(vfs.Fault{Op: op})
		if err := e.Reload(FromLog); err == nil {
			t.Errorf("a fault of %v is not noticed", op)
		}
		heal()
		if got := get(e, 0, "k"); got != "v" {
			t.Errorf("after a fault of %v: %q", op, got)
		}
	}
	if err := e.Reload(FromRewrite); err != nil {
		t.Error(err)
	}
	mustClose(t, e)
}
