package engine

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/ds"
	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/shard"
)

// written is a store that goroutines write to without a pause.
type written struct {
	t    *testing.T
	e    *Engine
	stop chan struct{}
	wg   sync.WaitGroup
	// dying says that the log may refuse writes.
	dying atomic.Bool
}

func openWritten(t *testing.T, opt Options) *written {
	opt.Shards, opt.DBs, opt.Fsync = crashShards, crashDBs, aof.PolicyEverySec
	if opt.FS == nil {
		opt.FS = vfs.NewMem()
	}
	if opt.Dir == "" {
		opt.Dir = "/data"
	}
	e, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	return &written{t: t, e: e, stop: make(chan struct{})}
}

// commit makes a commit of random ops on some shards.
func (w *written) commit(rng *rand.Rand, tx *shard.Tx) {
	first := rng.IntN(crashShards)
	held := w.e.all[first:min(crashShards, first+1+rng.IntN(crashShards-1))]
	if len(held) == crashShards {
		held = held[1:]
	}
	w.change(held, tx, rng.IntN(crashDBs), func() {
		for range 1 + rng.IntN(5) {
			if rng.IntN(6) == 0 {
				tx.Select(rng.IntN(crashDBs))
			}
			randomChange(rng, tx)
		}
	})
}

// upheaval makes a commit that concerns every key.
func (w *written) upheaval(rng *rand.Rand) {
	tx := w.e.NewTx()
	w.change(w.e.all, tx, rng.IntN(crashDBs), func() {
		randomChange(rng, tx)
		switch rng.IntN(3) {
		case 0:
			tx.FlushAll()
		case 1:
			tx.FlushDB(tx.DB())
		default:
			tx.SwapDB(0, 1+rng.IntN(crashDBs-1))
		}
		randomChange(rng, tx)
	})
}

func (w *written) change(held []int, tx *shard.Tx, db int, fn func()) {
	w.e.set.Lock(held)
	defer w.e.set.Unlock(held)
	tx.Begin(held, db, w.e.NowMs())
	defer tx.End()
	fn()
	if tx.Commit().Ops() > 0 {
		w.e.Commit(tx)
	}
}

// write begins n writers.
func (w *written) write(n int, seed uint64) {
	for i := range n {
		w.wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			tx := w.e.NewTx()
			for {
				select {
				case <-w.stop:
					return
				default:
				}
				if err := w.e.Admit(); err != nil {
					if w.dying.Load() {
						return
					}
					w.t.Errorf("the log refuses a write: %v", err)
					return
				}
				w.commit(rng, tx)
			}
		})
	}
}

func (w *written) quiet() {
	close(w.stop)
	w.wg.Wait()
	w.stop = make(chan struct{})
}

func (w *written) close() {
	w.quiet()
	if err := w.e.Close(); err != nil {
		w.t.Error(err)
	}
}

// now returns where every stream stands, and what the store holds there.
func (w *written) now() (tails []feed.Cursor, d shard.Digest) {
	w.e.set.Lock(w.e.all)
	defer w.e.set.Unlock(w.e.all)
	for i := range crashShards + 1 {
		tails = append(tails, w.e.source.Tail(i))
	}
	return tails, w.e.set.Digest()
}

// mirror is what a consumer of one stream makes of what it reads.
type mirror struct {
	t      *testing.T
	source *feed.Source
	stream int
	filter *feed.Filter
	model  *modelSet
	at     feed.Cursor
	token  string
	parts  uint64
	batch  feed.Batch
}

func (w *written) mirror(stream int, filter *feed.Filter) *mirror {
	return &mirror{t: w.t, source: w.e.source, stream: stream, filter: filter, model: newModelSet()}
}

// snapshot begins with the state, and drops the connection behind so many
// messages.
func (m *mirror) snapshot(cut int) *feed.SnapshotReader {
	ctx := context.Background()
	var r *feed.SnapshotReader
	var err error
	if m.token == "" {
		r, err = m.source.Snapshot(m.stream, m.filter)
	} else {
		r, err = m.source.ResumeSnapshot(m.stream, m.filter, []byte(m.token), m.parts)
	}
	if err == nil {
		err = r.Wait(ctx)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.token = r.Token()
	var p feed.SnapshotMessage
	for n := 0; n != cut; n++ {
		ok, err := r.Next(ctx, &feed.SnapshotRequest{}, &p)
		if err != nil {
			m.t.Fatal(err)
		}
		if !ok {
			m.at = r.Cursor()
			return r
		}
		if p.N != m.parts+1 || p.Ops == 0 {
			m.t.Fatalf("message %d, of %d ops, follows %d", p.N, p.Ops, m.parts)
		}
		m.parts = p.N
		m.apply(p.Raw, p.DB, p.Ops)
	}
	r.Close()
	return nil
}

func (m *mirror) apply(raw []byte, db, ops int) {
	var sc op.Scanner
	sc.Reset(raw, db)
	for range ops {
		f, err := sc.Next()
		if err != nil {
			m.t.Fatal(err)
		}
		m.model.apply(m.t, f)
	}
	if f, err := sc.Next(); f != nil || err != nil {
		m.t.Fatalf("there is more than the %d ops of a message: %v", ops, err)
	}
}

// follow reads on up to a cursor.
func (m *mirror) follow(to feed.Cursor) {
	for m.at.Generation != to.Generation || m.at.Offset < to.Offset {
		req := feed.Request{Stream: m.stream, Cursor: m.at, Filter: m.filter, Block: time.Second}
		if err := m.source.Since(context.Background(), &req, &m.batch); err != nil {
			m.t.Fatal(err)
		}
		next := m.at.Offset
		err := m.batch.Each(func(f *feed.Frame) error {
			if f.Offset < next || m.filter == nil && f.Offset != next {
				return fmt.Errorf("frame %d follows, not %d", f.Offset, next)
			}
			next = f.Offset + 1
			if m.at.Generation == to.Generation && f.Offset >= to.Offset {
				return errBehind
			}
			m.apply(f.Raw, f.DB, 1)
			return nil
		})
		if err == errBehind {
			m.at = to
			return
		}
		if err != nil {
			m.t.Fatal(err)
		}
		m.at = feed.Cursor{Generation: m.batch.Generation, Offset: m.batch.Next}
	}
}

var errBehind = fmt.Errorf("the frames behind the cursor")

// digest returns that of the keys that pass.
func (m *mirror) digest(passes func(db int, key []byte) bool) shard.Digest {
	var sum shard.Digester
	snap := m.model.set.Freeze()
	_ = snap.Each(func(db, _ int, e *ds.Entry) error {
		if passes(db, e.Key()) {
			sum.Add(db, e)
		}
		return nil
	})
	return sum.Sum()
}

func every(int, []byte) bool { return true }

// sum adds the digests of parts of a keyspace.
func sum(digests ...shard.Digest) (out shard.Digest) {
	total := new(big.Int)
	for _, d := range digests {
		total.Add(total, new(big.Int).SetBytes(d[:]))
	}
	total.SetBit(total, 8*len(out), 0) // at most four are added, of which two may carry
	total.SetBit(total, 8*len(out)+1, 0)
	total.FillBytes(out[:])
	return out
}

// TestSnapshotUnderLoad begins with a snapshot while everything changes, follows
// and compares, 100 times over, with ALL, with all shard streams, with filters,
// and over connections that are lost.
func TestSnapshotUnderLoad(t *testing.T) {
	for _, noFile := range []bool{false, true} {
		t.Run(fmt.Sprintf("NoFile=%v", noFile), func(t *testing.T) {
			seed := crashSeed(t)
			rng := rand.New(rand.NewPCG(seed, 1))
			w := openWritten(t, Options{NoFile: noFile, FeedMemoryBytes: 1 << 20, FeedDiskBytes: 1 << 20, SegmentBytes: 1 << 20})
			defer w.close()
			w.write(3, seed)
			for range 50 {
				w.snapshots(rng)
			}
		})
	}
}

func (w *written) snapshots(rng *rand.Rand) {
	t := w.t
	prefix, glob := &feed.Filter{AllDBs: true}, &feed.Filter{AllDBs: true}
	if err := prefix.AddPrefix([]byte("key1")); err != nil {
		t.Fatal(err)
	}
	if err := glob.AddMatch([]byte("*[02468]")); err != nil {
		t.Fatal(err)
	}
	all, ones, even := w.mirror(crashShards, nil), w.mirror(crashShards, prefix), w.mirror(crashShards, glob)
	mirrors := []*mirror{all, ones, even}
	for i := range crashShards {
		mirrors = append(mirrors, w.mirror(i, nil))
	}
	if rng.IntN(4) == 0 && !w.e.opt.NoFile {
		_ = w.e.StartRewrite() // one that runs is as good
	}
	for _, i := range rng.Perm(len(mirrors)) {
		m := mirrors[i]
		if rng.IntN(8) == 0 {
			w.upheaval(rng)
		}
		for {
			cut := -1
			if rng.IntN(2) == 0 {
				cut = rng.IntN(4)
			}
			if r := m.snapshot(cut); r != nil {
				defer r.Close()
				break
			}
		}
	}
	if rng.IntN(4) == 0 && !w.e.opt.NoFile {
		if err := w.e.Rewrite(); err != nil && !errors.Is(err, ErrRewriting) {
			t.Fatal(err)
		}
	}
	w.upheaval(rng)
	w.e.source.Tend(w.e.NowMs())
	tails, want := w.now()
	for _, m := range mirrors {
		m.follow(tails[m.stream])
	}
	if got := all.digest(every); got != want {
		t.Fatalf("ALL has not what the store has: %v, want %v", got, want)
	}
	var parts []shard.Digest
	for _, m := range mirrors[3:] {
		parts = append(parts, m.digest(every))
	}
	if got := sum(parts...); got != want {
		t.Fatal("the shard streams together have not what the store has")
	}
	for i, passes := range []func(db int, key []byte) bool{
		func(_ int, key []byte) bool { return string(key[:4]) == "key1" },
		func(_ int, key []byte) bool { return slices.Contains([]byte("02468"), key[len(key)-1]) },
	} {
		if got, want := mirrors[1+i].digest(every), all.digest(passes); got != want {
			t.Fatalf("filter %d has not what of the store passes", i)
		}
	}
}
