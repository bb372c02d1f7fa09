package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/persist"
)

// fakeStore is a Freezer. Its keys are "shard/db/key".
type fakeStore struct {
	mu   sync.Mutex
	keys []string // in order; guarded by mu
	cuts int      // guarded by mu
	err  error    // of Freeze
	// pad is the size of the values.
	pad int
	// hold, if it is not nil, stops Write behind the first part until it is closed.
	hold chan struct{}
}

func (s *fakeStore) Freeze(cut func()) (Frozen, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	s.cuts++
	cut()
	return &fakeFrozen{slices.Clone(s.keys), strings.Repeat("v", s.pad+1), s.hold}, nil
}

type fakeFrozen struct {
	keys  []string
	value string
	hold  chan struct{}
}

func (f *fakeFrozen) Write(add func(shard, db, ops int, payload []byte) error) error {
	for i, k := range f.keys {
		if i == 1 && f.hold != nil {
			<-f.hold
		}
		var shard, db int
		var key string
		if _, err := fmt.Sscanf(k, "%d/%d/%s", &shard, &db, &key); err != nil {
			panic(err)
		}
		var c op.Commit
		for range 2 {
			c.Begin(op.Set, db, shard, op.User, 3)
			c.ArgString(key)
			c.ArgString(f.value)
			c.End()
		}
		if err := add(shard, db, c.Ops(), c.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

const fakeShards = 3

// openSnapshots returns a source with snapshots of a store.
func openSnapshots(t *testing.T, store *fakeStore, tune func(*SnapshotOptions)) (*Source, *fakeLog, *vfs.Mem) {
	t.Helper()
	s, l := openFake(t, fakeShards)
	mem := vfs.NewMem()
	opt := SnapshotOptions{Freezer: store, Spool: persist.SpoolOptions{FS: mem, Dir: "feed"}, Logger: slog.New(slog.DiscardHandler)}
	if tune != nil {
		tune(&opt)
	}
	s.OpenSnapshots(opt)
	return s, l, mem
}

func takeSnapshot(t *testing.T, s *Source, stream int, f ...*Filter) *SnapshotReader {
	t.Helper()
	f = append(f, nil)
	r, err := s.Snapshot(stream, f[0])
	must(t, err)
	must(t, r.Wait(context.Background()))
	return r
}

// parts reads a snapshot to its end: "n:db:key" for every second op.
func partsOf(t *testing.T, r *SnapshotReader) (out []string) {
	t.Helper()
	var p SnapshotMessage
	for {
		ok, err := r.Next(context.Background(), &SnapshotRequest{}, &p)
		must(t, err)
		if !ok {
			return out
		}
		var sc op.Scanner
		sc.Reset(p.Raw, p.DB)
		for i := range p.Ops {
			fr, err := sc.Next()
			must(t, err)
			if i%2 == 0 {
				out = append(out, fmt.Sprintf("%d:%d:%s", p.N, p.DB, fr.Key()))
			}
		}
	}
}

func wantParts(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the messages are %q, want %q", got, want)
	}
}

func TestSnapshotFilters(t *testing.T) {
	store := &fakeStore{keys: []string{"0/0/ant", "0/1/bee", "0/1/ape", "2/0/ant2", "2/2/cat"}}
	s, l, mem := openSnapshots(t, store, nil)
	for _, keys := range []string{"SET a 1", "SET b 2", "1/SET c 3"} {
		l.append(commitOf(fakeShards, keys))
	}
	filter := func(fill func(f *Filter) error) *Filter {
		f := &Filter{AllDBs: true}
		must(t, fill(f))
		return f
	}
	all := fakeShards
	read := func(stream int, f *Filter) []string {
		r := takeSnapshot(t, s, stream, f)
		defer r.Close()
		return partsOf(t, r)
	}
	wantParts(t, read(all, nil), "1:0:ant", "2:1:bee", "3:1:ape", "4:0:ant2", "5:2:cat")
	wantParts(t, read(0, nil), "1:0:ant", "2:1:bee", "3:1:ape")
	wantParts(t, read(1, nil))
	wantParts(t, read(2, nil), "1:0:ant2", "2:2:cat")
	wantParts(t, read(all, &Filter{}), "1:0:ant", "2:0:ant2")
	wantParts(t, read(all, &Filter{DB: 1}), "1:1:bee", "2:1:ape")
	wantParts(t, read(2, &Filter{DB: 1}))
	// What is there of one database makes one message.
	wantParts(t, read(all, filter(func(f *Filter) error { return f.AddPrefix([]byte("a")) })), "1:0:ant", "2:1:ape", "3:0:ant2")
	wantParts(t, read(all, filter(func(f *Filter) error { return f.AddMatch([]byte("*e*")) })), "1:1:bee", "1:1:ape")
	wantParts(t, read(all, filter(func(f *Filter) error { return f.AddPrefix([]byte("x")) })))

	r := takeSnapshot(t, s, all)
	if r.LSN() != 3 || r.Cursor() != s.Tail(all) {
		t.Errorf("the cut is at LSN %d, %v", r.LSN(), r.Cursor())
	}
	l.append(commitOf(fakeShards, "SET d 4"))
	if r.Cursor().Offset != 3 {
		t.Errorf("the cursor moved to %v", r.Cursor())
	}
	r.Close()
	s.Close()
	if infos, err := mem.List("feed"); err != nil || len(infos) > 0 {
		t.Errorf("a closed source leaves %v %v", infos, err)
	}
}

// TestSnapshotsAreShared lets 50 readers come while one is being written.
func TestSnapshotsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{keys: []string{"0/0/a", "1/0/b", "2/0/c"}, hold: make(chan struct{})}
		s, l, mem := openSnapshots(t, store, nil)
		first := takeSnapshot(t, s, fakeShards)
		l.append(commitOf(fakeShards, "SET between 1"))
		var wg sync.WaitGroup
		readers := make([]*SnapshotReader, 50)
		for i := range readers {
			wg.Go(func() {
				r, err := s.Snapshot(i%(fakeShards+1), nil)
				if err == nil {
					err = r.Wait(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
				readers[i] = r
			})
		}
		synctest.Wait()
		if store.cuts != 1 {
			t.Errorf("%d cuts were taken while one is written", store.cuts)
		}
		hold := store.hold
		store.hold = nil
		close(hold)
		wg.Wait()
		if store.cuts != 2 {
			t.Errorf("51 readers took %d cuts", store.cuts)
		}
		for i, r := range readers {
			if r.LSN() != 1 {
				t.Fatalf("the cut of who came at LSN 1 is at LSN %d", r.LSN())
			}
			if n := len(partsOf(t, r)); i%(fakeShards+1) == fakeShards && n != 3 || i%(fakeShards+1) < fakeShards && n != 1 {
				t.Errorf("a reader of stream %d got %d messages", i%(fakeShards+1), n)
			}
			r.Close()
		}
		if infos := s.Snapshots(); len(infos) != 2 || infos[0].Readers != 1 || infos[1].Readers != 0 || !infos[1].Written || infos[1].LogBytes != 0 {
			t.Errorf("the snapshots are %+v", infos)
		}
		partsOf(t, first)
		first.Close()
		// A reader that gave up waiting is no reader.
		store.hold = make(chan struct{})
		takeSnapshot(t, s, 0).Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		gone, err := s.Snapshot(0, nil)
		must(t, err)
		if err := gone.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits no longer gets %v", err)
		}
		if r, err := s.ResumeSnapshot(0, nil, []byte(gone.Token()), 0); !errors.Is(err, ErrNoSnapshot) {
			t.Errorf("one that is not cut is resumed: %v %v", r != nil, err)
		}
		gone.Close()
		close(store.hold)
		synctest.Wait()
		if store.cuts != 3 {
			t.Errorf("a cut was taken for nobody")
		}
		s.Close()
		if infos, err := mem.List("feed"); err != nil || len(infos) > 0 {
			t.Errorf("a closed source leaves %v %v", infos, err)
		}
	})
}

func TestSnapshotResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys, want []string
		for i := range 200 {
			keys = append(keys, fmt.Sprintf("%d/0/k%d", i/100, i))
			want = append(want, fmt.Sprintf("%d:0:k%d", i+1, i))
		}
		store := &fakeStore{keys: keys}
		s, l, _ := openSnapshots(t, store, nil)
		defer s.Close()
		l.append(commitOf(fakeShards, "SET a 1"))
		r := takeSnapshot(t, s, fakeShards)
		token := r.Token()
		wantParts(t, partsOf(t, r), want...)
		r.Close()
		for n := 0; n <= 200; n += 7 {
			r, err := s.ResumeSnapshot(fakeShards, nil, []byte(token), uint64(n))
			must(t, err)
			if r.Token() != token || r.LSN() != 1 {
				t.Errorf("it goes on as %s, of LSN %d", r.Token(), r.LSN())
			}
			wantParts(t, partsOf(t, r), want[n:]...)
			r.Close()
		}
		var beyond *SnapshotMessageError
		for _, n := range []uint64{201, 1000, math.MaxUint64} {
			if _, err := s.ResumeSnapshot(fakeShards, nil, []byte(token), n); !errors.As(err, &beyond) || beyond.N != n {
				t.Errorf("behind message %d: %v", n, err)
			}
		}
		shard := takeSnapshot(t, s, 1)
		partsOf(t, shard)
		shard.Close()
		if r, err := s.ResumeSnapshot(1, nil, []byte(shard.Token()), 99); err != nil {
			t.Error(err)
		} else {
			wantParts(t, partsOf(t, r), "100:0:k199")
			r.Close()
		}
		if _, err := s.ResumeSnapshot(1, nil, []byte(shard.Token()), 101); !errors.As(err, &beyond) {
			t.Errorf("behind the last message of a shard: %v", err)
		}
		id, _, _ := strings.Cut(token, "-")
		for _, bad := range []string{"", "-", "-ALL", "nosuch", id, id + "-", id + "-0", id + "-all", strings.Repeat("0", 32) + "-ALL", shard.Token()} {
			if r, err := s.ResumeSnapshot(fakeShards, nil, []byte(bad), 0); !errors.Is(err, ErrNoSnapshot) {
				t.Errorf("the token %q: %v %v", bad, r != nil, err)
			}
		}

		// A minute after the last one left it is over.
		r, err := s.ResumeSnapshot(fakeShards, nil, []byte(token), 3)
		must(t, err)
		time.Sleep(5 * time.Minute)
		s.Tend(0)
		wantParts(t, partsOf(t, r), want[3:]...)
		r.Close()
		time.Sleep(SnapshotResume - time.Second)
		s.Tend(0)
		r, err = s.ResumeSnapshot(fakeShards, nil, []byte(token), 100)
		must(t, err)
		wantParts(t, partsOf(t, r), want[100:]...)
		r.Close()
		time.Sleep(SnapshotResume)
		if l.kept != 2 {
			t.Errorf("the log is kept from LSN %d on", l.kept)
		}
		s.Tend(0)
		if l.kept != math.MaxUint64 {
			t.Errorf("without snapshots the log is kept from LSN %d on", l.kept)
		}
		if _, err := s.ResumeSnapshot(fakeShards, nil, []byte(token), 100); !errors.Is(err, ErrNoSnapshot) {
			t.Errorf("after its minute: %v", err)
		}
	})
}

// TestSnapshotResumeFiltered resumes readers with filters behind each message: it
// keeps its number, whatever was remembered of where it ends.
func TestSnapshotResumeFiltered(t *testing.T) {
	store := &fakeStore{pad: 1000}
	for i := range 3000 {
		store.keys = append(store.keys, fmt.Sprintf("%d/%d/key%d", i/1000, i/230%2, i))
	}
	s, _, _ := openSnapshots(t, store, nil)
	defer s.Close()
	sparse, dense, db := &Filter{AllDBs: true}, &Filter{AllDBs: true}, &Filter{DB: 1}
	must(t, sparse.AddMatch([]byte("*77")))
	must(t, dense.AddRegex(nil, []byte("[0-6]$"), false))
	must(t, dense.AddPrefix([]byte("key8")))
	for name, f := range map[string]*Filter{"sparse": sparse, "dense": dense, "db": db} {
		for _, stream := range []int{1, fakeShards} {
			r := takeSnapshot(t, s, stream, f)
			whole := partsOf(t, r)
			r.Close()
			last := 0
			if _, err := fmt.Sscanf(whole[len(whole)-1], "%d:", &last); err != nil || last < 2 {
				t.Fatalf("%s: there are %d messages: %v", name, last, err)
			}
			if kind := r.kind(); last > borderMessages && len(r.snapshot.borders[kind].marks) < 2 {
				t.Errorf("%s: of %d messages %d borders are remembered", name, last, len(r.snapshot.borders[kind].marks))
			}
			for n := 0; n <= last; n += 1 + last/12 {
				again, err := s.ResumeSnapshot(stream, f, []byte(r.Token()), uint64(n))
				must(t, err)
				got := partsOf(t, again)
				again.Close()
				want := whole[slices.IndexFunc(append(whole, fmt.Sprintf("%d:", n+1)), func(part string) bool { return strings.HasPrefix(part, fmt.Sprintf("%d:", n+1)) }):]
				if !slices.Equal(got, want) {
					t.Fatalf("%s: behind message %d of %d there are %d keys, not %d", name, n, last, len(got), len(want))
				}
			}
			var beyond *SnapshotMessageError
			if _, err := s.ResumeSnapshot(stream, f, []byte(r.Token()), uint64(last+1)); !errors.As(err, &beyond) {
				t.Errorf("%s: behind message %d of %d: %v", name, last+1, last, err)
			}
			for _, other := range []*Filter{nil, {}, {DB: 2}, sparse, dense, db} {
				if _, err := s.ResumeSnapshot(stream, other, []byte(r.Token()), 1); other != f && !errors.Is(err, errOtherFilter) {
					t.Errorf("%s: with another filter: %v", name, err)
				}
			}
			// Without what was remembered.
			r.snapshot.borders = nil
			for i := range maxBorders {
				r.snapshot.noteMessage(fmt.Sprint(i), border{n: 1, parts: 1})
			}
			again, err := s.ResumeSnapshot(stream, f, []byte(r.Token()), uint64(last))
			must(t, err)
			wantParts(t, partsOf(t, again))
			again.Close()
			again, err = s.ResumeSnapshot(stream, f, []byte(r.Token()), uint64(last+1))
			must(t, err)
			if _, err := again.Next(context.Background(), &SnapshotRequest{}, new(SnapshotMessage)); !errors.As(err, &beyond) {
				t.Errorf("%s: behind message %d of %d: %v", name, last+1, last, err)
			}
			again.Close()
		}
	}
}

// TestSnapshotHoldsTheLog sees what may go below a cut, and when.
func TestSnapshotHoldsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := openFake(t, fakeShards)
		s.opt.RetainBytes = 0
		l.durable = math.MaxUint64 - 1
		s.OpenSnapshots(SnapshotOptions{
			Freezer: &fakeStore{}, Spool: persist.SpoolOptions{FS: vfs.NewMem(), Dir: "feed"}, MaxLogBytes: 5000, Logger: slog.New(slog.DiscardHandler),
		})
		defer s.Close()
		write := func() {
			for range 50 {
				l.append(commitOf(fakeShards, "SET a 1"))
				l.cut()
			}
			s.Tend(0)
		}
		write()
		r := takeSnapshot(t, s, 0)
		write()
		if l.floor != 51 || l.oldest > 51 {
			t.Errorf("with a snapshot of LSN 50 the floor is %d, the oldest %d", l.floor, l.oldest)
		}
		for range 5 {
			write()
		}
		var cost *SnapshotCostError
		if ok, err := r.Next(context.Background(), &SnapshotRequest{}, new(SnapshotMessage)); ok || !errors.As(err, &cost) || cost.Limit != 5000 || cost.Bytes <= 5000 {
			t.Errorf("beyond its limit a snapshot goes on: %v %v", ok, err)
		}
		if _, err := s.ResumeSnapshot(0, nil, []byte(r.Token()), 0); !errors.Is(err, ErrNoSnapshot) {
			t.Errorf("it is resumed: %v", err)
		}
		r.Close()
		s.Tend(0)
		if l.floor <= 51 || l.kept != math.MaxUint64 {
			t.Errorf("without it the floor is %d, kept is what follows %d", l.floor, l.kept)
		}
	})
}

func TestSnapshotsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{keys: []string{"0/0/a"}}
		s, l, mem := openSnapshots(t, store, nil)
		defer s.Close()
		var readers []*SnapshotReader
		take := func() *SnapshotReader {
			l.append(commitOf(fakeShards, "SET a 1"))
			r := takeSnapshot(t, s, 0)
			synctest.Wait()
			return r
		}
		for range MaxSnapshots {
			readers = append(readers, take())
		}
		// All are read: one more shares the youngest.
		if r := take(); r.LSN() != MaxSnapshots || store.cuts != MaxSnapshots {
			t.Errorf("one more is of LSN %d, the cut %d", r.LSN(), store.cuts)
		} else {
			r.Close()
		}
		// One that was lost can be resumed, and stays.
		readers[0].Close()
		if r := take(); r.LSN() != MaxSnapshots {
			t.Errorf("one more is of LSN %d", r.LSN())
		}
		r, err := s.ResumeSnapshot(0, nil, []byte(readers[0].Token()), 0)
		must(t, err)
		// One that was read to its end makes room.
		partsOf(t, r)
		r.Close()
		if r := take(); r.LSN() != MaxSnapshots+3 || store.cuts != MaxSnapshots+1 {
			t.Errorf("one more is of LSN %d, the cut %d", r.LSN(), store.cuts)
		}
		if _, err := s.ResumeSnapshot(0, nil, []byte(readers[0].Token()), 0); !errors.Is(err, ErrNoSnapshot) {
			t.Errorf("the one that made room: %v", err)
		}
		if infos, err := mem.List("feed"); err != nil || len(infos) != MaxSnapshots {
			t.Errorf("there are %d files, %v", len(infos), err)
		}
	})
}

// TestSnapshotFaults ends snapshots before their time.
func TestSnapshotFaults(t *testing.T) {
	big := make([]string, 20_000)
	for i := range big {
		big[i] = fmt.Sprintf("0/0/key%d", i)
	}
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite} {
		store := &fakeStore{keys: big}
		s, l, mem := openSnapshots(t, store, nil)
		remove := mem.Inject(vfs.Fault{Op: op, Glob: "*.spool", After: int(op-vfs.OpCreate) * 2, Err: syscall.ENOSPC})
		r, err := s.Snapshot(fakeShards, nil)
		for n := 0; err == nil; n++ {
			var ok bool
			if ok, err = r.Next(context.Background(), &SnapshotRequest{}, new(SnapshotMessage)); err == nil && !ok {
				t.Fatalf("%v: the snapshot ends after %d messages as if it were whole", op, n)
			}
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "the snapshot is given up: ") {
			t.Errorf("%v: %v", op, err)
		}
		if r != nil {
			r.Close()
		}
		if infos, err := mem.List("feed"); err != nil || len(infos) > 0 || l.kept != 0 && l.kept != math.MaxUint64 {
			t.Errorf("%v: it leaves %v %v, and the log is kept from LSN %d on", op, infos, err, l.kept)
		}
		remove()
		r = takeSnapshot(t, s, fakeShards)
		if got := partsOf(t, r); len(got) != len(big) {
			t.Errorf("%v: the next snapshot has %d keys", op, len(got))
		}
		r.Close()
		s.Close()
	}
	store := &fakeStore{err: errors.New("no")}
	s, _, mem := openSnapshots(t, store, nil)
	r, err := s.Snapshot(0, nil)
	must(t, err)
	if err := r.Wait(context.Background()); !errors.Is(err, store.err) {
		t.Errorf("a store that cannot be frozen: %v", err)
	}
	r.Close()
	s.Close()
	if infos, err := mem.List("feed"); err != nil || len(infos) > 0 {
		t.Errorf("it leaves %v %v", infos, err)
	}
	if _, err := s.Snapshot(0, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed source: %v", err)
	}
	none, _ := openFake(t, fakeShards)
	if _, err := none.Snapshot(0, nil); !errors.Is(err, ErrDisabled) {
		t.Errorf("of a source without snapshots: %v", err)
	}
	none.Close()
}

// TestSnapshotClose closes the source under readers of every kind.
func TestSnapshotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{keys: []string{"0/0/a", "1/0/b"}, hold: make(chan struct{})}
		s, _, mem := openSnapshots(t, store, nil)
		var wg sync.WaitGroup
		r := takeSnapshot(t, s, fakeShards)
		wg.Go(func() {
			if _, err := r.Next(context.Background(), &SnapshotRequest{}, new(SnapshotMessage)); !errors.Is(err, ErrClosed) {
				t.Errorf("a reader that waits for a part: %v", err)
			}
			r.Close()
		})
		wg.Go(func() {
			r, err := s.Snapshot(0, nil)
			if err == nil {
				err = r.Wait(context.Background())
			}
			if !errors.Is(err, ErrClosed) {
				t.Errorf("a reader that waits for a cut: %v", err)
			}
		})
		synctest.Wait()
		wg.Go(s.Close)
		synctest.Wait()
		close(store.hold)
		wg.Wait()
		if infos, err := mem.List("feed"); err != nil || len(infos) > 0 || len(mem.OpenFiles()) > 0 {
			t.Errorf("it leaves %v %v, open are %v", infos, err, mem.OpenFiles())
		}
	})
}

// TestSnapshotProgress says how far a reader is that finds nothing.
func TestSnapshotProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{keys: []string{"0/0/a", "0/0/b"}, hold: make(chan struct{})}
		s, l, _ := openSnapshots(t, store, nil)
		defer s.Close()
		r := takeSnapshot(t, s, 0)
		defer r.Close()
		ctx, cancel := context.WithCancel(context.Background())
		req := &SnapshotRequest{Progress: 3 * time.Second}
		var p SnapshotMessage
		began := time.Now()
		if ok, err := r.Next(ctx, req, &p); !ok || err != nil || p.Ops != 0 || p.N != 0 || time.Since(began) != req.Progress {
			t.Errorf("after %v: %v %v %+v", time.Since(began), ok, err, p)
		}
		close(store.hold)
		synctest.Wait()
		for n := range 2 {
			if ok, err := r.Next(ctx, req, &p); !ok || err != nil || p.Ops != 2 || p.N != uint64(n+1) {
				t.Errorf("message %d: %v %v %+v", n+1, ok, err, p)
			}
		}
		if ok, err := r.Next(ctx, req, &p); ok || err != nil {
			t.Errorf("behind the last: %v %v", ok, err)
		}
		l.append(commitOf(fakeShards, "SET a 1"))
		durable := takeSnapshot(t, s, 0)
		defer durable.Close()
		req.Durable, req.Progress = true, 0
		time.AfterFunc(time.Hour, l.sync)
		began = time.Now()
		if ok, err := durable.Next(ctx, req, &p); !ok || err != nil || p.N != 1 || time.Since(began) < time.Hour {
			t.Errorf("a durable reader, after %v: %v %v %+v", time.Since(began), ok, err, p)
		}
		l.append(commitOf(fakeShards, "SET a 1"))
		never := takeSnapshot(t, s, 0)
		defer never.Close()
		time.AfterFunc(time.Hour, cancel)
		if _, err := never.Next(ctx, req, &p); !errors.Is(err, context.Canceled) {
			t.Errorf("one that gives up: %v", err)
		}
		s.opt.NeverDurable = true
		if _, err := never.Next(context.Background(), req, &p); !errors.Is(err, ErrNeedsLog) {
			t.Errorf("without a log: %v", err)
		}
	})
}
