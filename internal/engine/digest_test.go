package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kevy/feed"
	"kevy/internal/ds"
	"kevy/internal/vfs"
	"kevy/shard"
)

// TestDigestUnderLoad: writers go on while a digest is taken, and it is that of
// its cursor all the same: the sum over the shards' streams is that of ALL once
// nobody writes, and what is taken under load is a digest that the keyspace had.
func TestDigestUnderLoad(t *testing.T) {
	smallKeys, elements := 20_000, 5_000
	l := openLoaded(t, vfs.NewMem(), "data", smallKeys, elements)
	seed := crashSeed(t)
	for i := range 2 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		l.wg.Go(func() { l.write(rng, smallKeys, elements) })
	}
	during := int64(0)
	for n := 0; n < 5 || during < 5; n++ { // the writers' turn comes, also on one core
		before := l.writes.Load()
		if _, keys, sum, err := l.e.Digest(context.Background(), len(l.e.all), 0, nil); err != nil || keys == 0 || sum == (shard.Digest{}) {
			t.Fatal(keys, sum, err)
		}
		during += l.writes.Load() - before
	}
	close(l.stop)
	l.wg.Wait()
	l.e.PauseExpiry(true)
	all := len(l.e.all)
	for db := range loadedDBs {
		at, keys, want, err := l.e.Digest(context.Background(), all, db, nil)
		if err != nil || at != l.e.source.Tail(all) {
			t.Fatal(at, err)
		}
		var each shard.Digester
		sum := uint64(0)
		snap := l.e.set.FreezeDB(l.e.all, db)
		small := uint64(0) // those that begin with small1
		_ = snap.Each(func(_, _ int, entry *ds.Entry) error {
			each.AddKey(entry)
			if bytes.HasPrefix(entry.Key(), []byte("small1")) {
				small++
			}
			return nil
		})
		if each.Sum() != want || uint64(snap.Keys()) != keys {
			t.Errorf("database %d: the digest is not that of its %d keys", db, keys)
		}
		for i := range all {
			at, n, _, err := l.e.Digest(context.Background(), i, db, nil)
			if err != nil || at != l.e.source.Tail(i) {
				t.Fatal(at, err)
			}
			sum += n
		}
		if sum != keys {
			t.Errorf("database %d: the shards have %d keys, ALL has %d", db, sum, keys)
		}
		if _, n, _, err := l.e.Digest(context.Background(), all, db, []byte("small1")); err != nil || n != small {
			t.Errorf("database %d: %d keys begin with small1, and not %d: %v", db, small, n, err)
		}
	}
	mustClose(t, l.e)
}

// TestDigestWaitsItsTurn: no more than maxDigests are taken at a time, and who
// waits or scans can give up.
func TestDigestWaitsItsTurn(t *testing.T) {
	e := mustOpen(t, small(vfs.NewMem()))
	set(t, e, "k", "v")
	for range maxDigests {
		e.digests <- struct{}{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	type answer struct {
		at  feed.Cursor
		err error
	}
	answered := make(chan answer, 2)
	ask := func(ctx context.Context) {
		at, _, _, err := e.Digest(ctx, 2, 0, nil)
		answered <- answer{at, err}
	}
	go ask(ctx)
	go ask(context.Background())
	select {
	case a := <-answered:
		t.Fatalf("beside %d others: %v", maxDigests, a)
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	if a := <-answered; !errors.Is(a.err, context.Canceled) {
		t.Errorf("who gave up gets %v", a)
	}
	set(t, e, "k", "w") // a view is taken only once it is one's turn
	<-e.digests
	if a := <-answered; a.err != nil || a.at != e.source.Tail(2) {
		t.Errorf("who waited gets %v, the tail is %v", a, e.source.Tail(2))
	}
	if _, _, _, err := e.Digest(ctx, 2, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who has given up before gets %v", err)
	}
	if len(e.digests) != 0 {
		t.Errorf("%d digests are still being taken", len(e.digests))
	}
	mustClose(t, e)
}

// BenchmarkDigest is the cost of a key.
func BenchmarkDigest(b *testing.B) {
	const keys = 100_000
	e, err := Open(Options{Shards: 16, DBs: 1, NoFile: true})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	tx := e.NewTx()
	e.set.Lock(e.all)
	tx.Begin(e.all, 0, e.NowMs())
	for i := range keys {
		tx.Set(fmt.Appendf(nil, "key:%012d", i), make([]byte, 64), 0)
	}
	e.Commit(tx)
	tx.End()
	e.set.Unlock(e.all)
	b.ReportAllocs()
	for b.Loop() {
		if _, n, _, err := e.Digest(context.Background(), 16, 0, nil); err != nil || n != keys {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*keys), "ns/key")
}

// TestDigestGivesWay: where there is one processor, those that serve clients get it
// many times during a digest, in the middle of a large value too.
func TestDigestGivesWay(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "data", Shards: 1, DBs: 1})
	defer mustClose(t, e)
	tx := e.NewTx()
	e.set.Lock(e.all)
	tx.Begin(e.all, 0, e.NowMs())
	for i := range 10_000 {
		name := fmt.Appendf(nil, "member%d", i)
		tx.Set(name, make([]byte, 100), 0)
		_, _ = tx.SAdd([]byte("set"), name)
	}
	e.Commit(tx)
	tx.End()
	e.set.Unlock(e.all)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var turns atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				turns.Add(1)
				runtime.Gosched()
			}
		}
	})
	_, keys, _, err := e.Digest(context.Background(), 0, 0, nil)
	close(stop)
	wg.Wait()
	if err != nil || keys != 10_001 {
		t.Fatal(keys, err)
	}
	if n := turns.Load(); n < 80 {
		t.Errorf("others had %d turns", n)
	}
}
