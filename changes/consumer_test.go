package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kevy/resp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modes runs a test over SUBSCRIBE and over SINCE.
func modes(t *testing.T, run func(t *testing.T, f *fakeServer, opt Options)) {
	for _, poll := range []bool{false, true} {
		t.Run(map[bool]string{false: "subscribe", true: "since"}[poll], func(t *testing.T) {
			f := newFake(t, All, "0", "1", "2")
			run(t, f, Options{Addr: f.addr(), Poll: poll, Heartbeat: 100 * time.Millisecond})
		})
	}
}

func TestConsumerReads(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1, 3, 1)
		store := new(MemoryStore)
		opt.Start, opt.Store, opt.Filter.AllDBs = Oldest, store, true
		r := newRecorder()
		c := start(t, opt, r)
		r.until(t, "history", func() bool { return r.count(All) == 5 })
		f.add(All, 2, 2)
		r.until(t, "live commits", func() bool { return r.count(All) == 9 })
		f.bump(All)
		f.add(All, 1)
		r.until(t, "another generation", func() bool { return r.count(All) == 10 })
		c.stop()
		f.checkAll(t, r, All, Cursor{Generation: 1000})
		if at, _, _ := store.Load(context.Background(), All); at != f.tail(All) {
			t.Errorf("the store has %v, the tail is %v", at, f.tail(All))
		}
		if n := len(f.commands("HELLO")); n != 0 {
			t.Errorf("%d HELLOs are in the log", n)
		}
		st := c.Status().Streams[0]
		if st.State != Stopped || st.Commits != 6 || st.Frames != 10 || st.Cursor != f.tail(All) || st.Saved != f.tail(All) {
			t.Errorf("status: %+v", st)
		}
	})
}

func TestConsumerStartsAtTail(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1, 1)
		store := new(MemoryStore)
		opt.Store = store
		c := start(t, opt, newRecorder())
		newRecorder().until(t, "the beginning is saved", func() bool { return len(store.Cursors()) == 1 })
		c.stop()
		// What comes while the consumer is down is not lost, though nothing came
		// before it went.
		f.add(All, 1)
		r := newRecorder()
		c = start(t, opt, r)
		r.until(t, "what came meanwhile", func() bool { return r.count(All) == 1 })
		c.stop()
		if got := r.commits[All][0].First; got != 2 {
			t.Errorf("it went on at %d", got)
		}
	})
}

func TestStoredCursorWins(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1, 1, 1)
		for name, s := range map[string]Start{"tail": Tail, "oldest": Oldest, "snapshot": Snapshot, "at": At(Cursor{1000, 0})} {
			store := new(MemoryStore)
			if err := store.Save(t.Context(), All, Cursor{1000, 2}); err != nil {
				t.Fatal(err)
			}
			opt.Start, opt.Store = s, store
			r := newRecorder()
			c := start(t, opt, r)
			r.until(t, name, func() bool { return r.count(All) == 1 })
			c.stop()
			if got := r.commits[All][0].First; got != 2 || len(r.events) != 0 {
				t.Errorf("%s: began at %d, %v", name, got, r.events)
			}
		}
		opt.Start, opt.Store = At(Cursor{1000, 1}), nil
		r := newRecorder()
		c := start(t, opt, r)
		r.until(t, "from a cursor", func() bool { return r.count(All) == 2 })
		c.stop()
	})
}

// TestConsumerUnderFaults holds that every commit comes once and in order from a
// server that cuts connections in the middle of messages, begins again at older
// cursors and changes generations.
func TestConsumerUnderFaults(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		rnd := seed(t)
		f.rnd = rand.New(rand.NewPCG(rnd.Uint64(), 0))
		f.set(func(x *faults) { x.cutEvery, x.repeat = 6, true })
		opt.Start, opt.EveryShard = Oldest, true
		opt.Filter.AllDBs = rnd.IntN(2) == 0
		opt.Connections = rnd.IntN(3)
		opt.Window = 1 + rnd.IntN(8)
		opt.Save = SavePolicy{Commits: 1 + rnd.IntN(20), Every: 5 * time.Millisecond}
		store := new(MemoryStore)
		opt.Store = store
		r := newRecorder()
		streams := []string{"0", "1", "2"}
		if opt.Poll {
			opt.Heartbeat = 20 * time.Millisecond
		}
		c := start(t, opt, r)
		total := map[string]int{}
		faulty := func() (duplicates, reconnects uint64) {
			for _, st := range c.Status().Streams {
				duplicates += st.Duplicates
				reconnects += st.Reconnects
			}
			return duplicates, reconnects
		}
		// How often a connection is cut depends on how many commits a message holds:
		// it goes on until the faults have happened.
		tried := func() bool {
			duplicates, reconnects := faulty()
			return duplicates > 0 && reconnects > 0
		}
		for i, most := 0, time.Now().Add(time.Minute); i < 300 || !tried() && time.Now().Before(most); i++ {
			s := streams[rnd.IntN(3)]
			size := 1 + rnd.IntN(4)
			f.add(s, size)
			total[s] += size
			if rnd.IntN(25) == 0 {
				f.bump(streams[rnd.IntN(3)])
			}
			if i%10 == 0 {
				time.Sleep(time.Millisecond)
			}
			if i == 150 { // a restart of the consumer
				c.stop()
				c = start(t, opt, r)
			}
		}
		for _, s := range streams {
			r.until(t, "all of stream "+s, func() bool { return r.count(s) >= total[s] })
		}
		c.stop()
		for i, s := range streams {
			f.checkAll(t, r, s, Cursor{Generation: uint64(1001 + i)})
			at, _, _ := store.Load(t.Context(), s)
			if last := r.commits[s][len(r.commits[s])-1].Next; at != last && at.Offset != 0 {
				t.Errorf("stream %s: saved %v, handled %v", s, at, last)
			}
		}
		if duplicates, reconnects := faulty(); !tried() {
			t.Errorf("%d duplicates and %d lost connections: the faults did not happen", duplicates, reconnects)
		}
	})
}

func TestEveryShardIsParallel(t *testing.T) {
	for _, connections := range []int{0, 1, 2, 9} {
		f := newFake(t, All, "0", "1", "2")
		var busy, met atomic.Int32
		all := make(chan struct{})
		r := newRecorder()
		r.hook = func(ctx context.Context, c *Commit) error {
			if busy.Add(1) == 3 {
				close(all)
			}
			select {
			case <-all: // all three handle at the same time
				met.Add(1)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c := start(t, Options{Addr: f.addr(), EveryShard: true, Start: Oldest, Connections: connections}, r)
		for _, s := range []string{"0", "1", "2"} {
			f.add(s, 1)
		}
		r.until(t, "three handlers at once", func() bool { return met.Load() == 3 })
		c.stop()
	}
}

func TestHandlerErrorStops(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1, 2, 1, 1)
		store := new(MemoryStore)
		opt.Start, opt.Store = Oldest, store
		broken := errors.New("the target is down")
		r := newRecorder()
		r.hook = func(_ context.Context, c *Commit) error {
			if c.First == 3 {
				return fmt.Errorf("commit %d: %w", c.First, broken)
			}
			return nil
		}
		c := start(t, opt, r)
		if err := c.wait(); !errors.Is(err, broken) {
			t.Fatalf("Run: %v", err)
		}
		if at, _, _ := store.Load(t.Context(), All); at != (Cursor{1000, 3}) {
			t.Errorf("the cursor is %v", at)
		}
		r.hook = nil
		again := rerun(t, c.Consumer) // goes on
		r.until(t, "the rest", func() bool { return r.count(All) == 5 })
		again.stop()
		f.checkAll(t, r, All, Cursor{Generation: 1000})
	})
}

// batcher takes commits as they come, and refuses the second batch once.
type batcher struct {
	*recorder
	batches int
	sizes   []int
}

func (b *batcher) Commits(ctx context.Context, commits []Commit) error {
	if b.batches++; b.batches == 2 {
		return errors.New("the transaction failed")
	}
	b.note(func() {
		b.sizes = append(b.sizes, len(commits))
		for i := range commits {
			b.commits[All] = append(b.commits[All], &commits[i])
		}
	})
	return nil
}

func (b *batcher) Commit(context.Context, *Commit) error {
	panic("Commit of a BatchHandler")
}

func TestBatchHandler(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, slices.Repeat([]int{2}, 100)...)
		store := new(MemoryStore)
		opt.Start, opt.Store = Oldest, store
		b := &batcher{recorder: newRecorder()}
		c := start(t, opt, b)
		if err := c.wait(); err == nil || err.Error() != "the transaction failed" {
			t.Fatalf("Run: %v", err)
		}
		if at := store.Cursors()[All]; at != (Cursor{1000, uint64(2 * b.sizes[0])}) {
			t.Errorf("the cursor is %v behind a batch of %d commits", at, b.sizes[0])
		}
		again := rerun(t, c.Consumer)
		b.until(t, "the rest", func() bool { return b.count(All) == 200 })
		again.stop()
		f.checkAll(t, b.recorder, All, Cursor{Generation: 1000})
		if most := slices.Max(b.sizes); most < 2 {
			t.Errorf("batches of %d commits at most", most)
		}
		if st := c.Status().Streams[0]; st.Commits != 100 || st.Frames != 200 {
			t.Errorf("status: %+v", st)
		}
	})
}

func TestRunRunsOnce(t *testing.T) {
	f := newFake(t, All)
	c := start(t, Options{Addr: f.addr()}, newRecorder())
	newRecorder().until(t, "it runs", func() bool { return c.Status().Streams[0].State == Reading })
	if err := c.Run(t.Context()); err == nil {
		t.Error("a second Run beside the first")
	}
	c.stop()
}

func TestSavePolicy(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1, 1, 1, 1, 1)
		opt.Start = Oldest
		for name, test := range map[string]struct {
			policy SavePolicy
			saves  []uint64 // offsets while it runs; what is saved at the beginning is 0
		}{
			"each":  {SavePolicy{}, []uint64{0, 1, 2, 3, 4, 5}},
			"pairs": {SavePolicy{Commits: 2}, []uint64{0, 2, 4}},
			"time":  {SavePolicy{Every: 30 * time.Millisecond}, []uint64{0, 5}},
			"never": {SavePolicy{Commits: 100, Every: time.Hour}, []uint64{0}},
		} {
			store := &countingStore{}
			opt.Save, opt.Store = test.policy, store
			r := newRecorder()
			c := start(t, opt, r)
			r.until(t, name, func() bool {
				return r.count(All) == 5 && store.last() >= test.saves[len(test.saves)-1]
			})
			if name != "time" { // there the clock says how many
				if got := store.all(); !slices.Equal(got, test.saves) {
					t.Errorf("%s: saved %v, want %v", name, got, test.saves)
				}
			}
			c.stop()
			if got := store.last(); got != 5 {
				t.Errorf("%s: saved %d in the end", name, got)
			}
		}
		store := &countingStore{fail: errors.New("disk full")}
		opt.Store = store
		if err := start(t, opt, newRecorder()).wait(); !errors.Is(err, store.fail) {
			t.Errorf("a store that fails: %v", err)
		}
	})
}

type countingStore struct {
	mu    sync.Mutex
	saved []uint64
	fail  error
}

func (s *countingStore) Load(context.Context, string) (Cursor, bool, error) {
	return Cursor{}, false, nil
}

func (s *countingStore) Save(_ context.Context, _ string, at Cursor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = append(s.saved, at.Offset)
	return s.fail
}

func (s *countingStore) all() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.saved)
}

func (s *countingStore) last() uint64 {
	all := s.all()
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

func TestResync(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1, 1, 1)
		old := func() *MemoryStore {
			s := new(MemoryStore)
			if err := s.Save(t.Context(), All, Cursor{77, 5}); err != nil {
				t.Fatal(err)
			}
			return s
		}
		opt.Store = old()
		var resync *ResyncError
		err := start(t, opt, newRecorder()).wait()
		if want := (ResyncError{All, Cursor{1000, 3}, Cursor{1000, 0}, "generation"}); !errors.As(err, &resync) || *resync != want {
			t.Fatalf("stop: %v", err)
		}
		if at, _, _ := opt.Store.Load(t.Context(), All); at != (Cursor{77, 5}) {
			t.Errorf("the cursor became %v", at)
		}
		// The application rebuilds, at first in vain.
		store := old()
		opt.Store = store
		fault := errors.New("the index is locked")
		opt.OnResync = ResyncRebuild(func(context.Context, *ResyncError) (Cursor, error) { return Cursor{}, fault })
		if err := start(t, opt, newRecorder()).wait(); !errors.Is(err, fault) {
			t.Fatalf("a rebuild that fails: %v", err)
		}
		opt.OnResync = ResyncRebuild(func(_ context.Context, e *ResyncError) (Cursor, error) {
			if e.Reason != "generation" {
				t.Errorf("reason %q", e.Reason)
			}
			return e.Tail, nil
		})
		r := newRecorder()
		c := start(t, opt, r)
		r.until(t, "the rebuilt cursor", func() bool { at, _, _ := store.Load(t.Context(), All); return at == Cursor{1000, 3} })
		f.add(All, 1)
		r.until(t, "what follows", func() bool { return r.count(All) == 1 })
		if st := c.Status().Streams[0]; st.Resyncs != 1 {
			t.Errorf("status: %+v", st)
		}
		c.stop()
		f.checkAll(t, r, All, Cursor{1000, 3})
		// A snapshot.
		opt.Store, opt.OnResync = old(), ResyncSnapshot
		f.set(func(x *faults) { x.snapshot = [][]string{{"SET", "a", "1"}, {"SET", "b", "2"}} })
		r = newRecorder()
		c = start(t, opt, r)
		if opt.Poll {
			if err := c.wait(); err == nil || !strings.Contains(err.Error(), "SUBSCRIBE") {
				t.Errorf("a snapshot over SINCE: %v", err)
			}
			return
		}
		r.until(t, "the snapshot", func() bool { at, _, _ := opt.Store.Load(t.Context(), All); return at == Cursor{1000, 4} })
		f.add(All, 2)
		r.until(t, "what follows", func() bool { return r.count(All) == 2 })
		c.stop()
		f.checkAll(t, r, All, Cursor{1000, 4})
		if want := []string{"start ALL 1000-4", "part ALL 1000-4 1 0 [[SET a 1]]", "part ALL 1000-4 2 0 [[SET b 2]]", "end ALL 1000:4"}; !slices.Equal(r.events, want) {
			t.Errorf("events %q", r.events)
		}
	})
}

// TestResyncAgainAndAgain holds that a server that answers resync to everything
// is not asked in a tight loop.
func TestResyncAgainAndAgain(t *testing.T) {
	f := newFake(t, All)
	var asked atomic.Int32
	f.set(func(x *faults) {
		x.answer = func(w *resp.Writer, args []string) bool {
			if args[1] != "SUBSCRIBE" && args[1] != "SINCE" {
				return false
			}
			asked.Add(1)
			w.Error(resp.Errorf("FEEDRESYNC", "1 2 1 0 evicted"))
			return true
		}
	})
	for _, poll := range []bool{false, true} {
		asked.Store(0)
		r := newRecorder()
		c := start(t, Options{
			Addr: f.addr(), Poll: poll, Start: Oldest, MinBackoff: 20 * time.Millisecond, MaxBackoff: 20 * time.Millisecond,
			OnResync: ResyncRebuild(func(_ context.Context, e *ResyncError) (Cursor, error) { return e.Tail, nil }),
		}, r)
		begin := time.Now()
		const times, least = 8, 10 * time.Millisecond // half of what it waits may be left out by chance
		r.until(t, "it is asked", func() bool { return asked.Load() >= times })
		if took := time.Since(begin); took < (times-1)*least {
			t.Errorf("asked %d times in %v", times, took)
		}
		c.stop()
	}
}

func TestSnapshotThenLive(t *testing.T) {
	f := newFake(t, All)
	f.add(All, 1, 1)
	var ops [][]string
	for i := range 50 {
		ops = append(ops, []string{"SET", fmt.Sprint(i), "v"})
	}
	f.set(func(x *faults) { x.snapshot, x.cutEvery, x.resumable = ops, 7, true })
	store := new(MemoryStore)
	r := newRecorder()
	c := start(t, Options{Addr: f.addr(), Start: Snapshot, Store: store, Window: 3}, r)
	r.until(t, "the snapshot", func() bool { return len(store.Cursors()) == 1 })
	f.add(All, 1, 1)
	r.until(t, "live commits", func() bool { return r.count(All) == 2 })
	c.stop()
	f.checkAll(t, r, All, Cursor{1000, 2})
	checkSnapshot(t, r.events, 50)
	if n := len(f.commands("CHANGES SUBSCRIBE ALL SNAPSHOT 1000-2 ")); n == 0 {
		t.Error("it was never resumed")
	}
}

// checkSnapshot checks that the last snapshot is whole, and each part in it once.
func checkSnapshot(t *testing.T, events []string, parts int) {
	t.Helper()
	last := 0
	for i, e := range events {
		if strings.HasPrefix(e, "start") {
			last = i
		}
	}
	events = events[last:]
	if len(events) != parts+2 || !strings.HasPrefix(events[parts+1], "end ") {
		t.Fatalf("%d events: %q", len(events), events)
	}
	for i, e := range events[1 : parts+1] {
		if f := strings.Fields(e); f[0] != "part" || f[3] != fmt.Sprint(i+1) {
			t.Errorf("part %d is %s", i+1, e)
		}
	}
}

func TestSnapshotBeginsAgain(t *testing.T) {
	f := newFake(t, All)
	var ops [][]string
	for i := range 20 {
		ops = append(ops, []string{"SET", fmt.Sprint(i), "v"})
	}
	f.set(func(x *faults) { x.snapshot, x.cutEvery = ops, 20 })
	store := new(MemoryStore)
	r := newRecorder()
	c := start(t, Options{Addr: f.addr(), Start: Snapshot, Store: store}, r)
	r.until(t, "the snapshot", func() bool { return len(store.Cursors()) == 1 })
	c.stop()
	checkSnapshot(t, r.events, 20)
}

// TestPaceIsTheHandlers holds that a handler that stands still is sent no more
// than the window, and that bytes are bounded beside it.
func TestPaceIsTheHandlers(t *testing.T) {
	f := newFake(t, All)
	for range 100 {
		f.add(All, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	}
	r, gate := newRecorder(), newGate()
	r.hook = gate.hook
	c := start(t, Options{Addr: f.addr(), Start: Oldest, Window: 4, Heartbeat: 10 * time.Millisecond}, r)
	gate.consumer <- c.Consumer
	if s := <-gate.looked; s.messages == 0 || s.messages > 4 {
		t.Errorf("%d messages wait, the window is 4", s.messages)
	}
	if n := len(f.commands("CHANGES CREDIT")); n != 0 {
		t.Errorf("%d credits though nothing was handled", n)
	}
	r.until(t, "the tail is known", func() bool { return c.Status().Streams[0].LagFrames >= 900 })
	if st := c.Status().Streams[0]; st.Reconnects != 0 {
		t.Errorf("status while it stands: %+v", st)
	}
	close(gate.open)
	r.until(t, "the rest", func() bool { return r.count(All) == 1000 })
	r.until(t, "no lag", func() bool { st := c.Status().Streams[0]; return st.LagFrames == 0 && st.Lag == 0 })
	c.stop()
	f.checkAll(t, r, All, Cursor{Generation: 1000})
	if n := len(f.commands("CHANGES CREDIT")); n == 0 {
		t.Error("no credit was given")
	}
}

func TestBytesAheadAreBounded(t *testing.T) {
	b := newBudget(100)
	ctx, cancel := context.WithCancel(t.Context())
	if !b.take(ctx, 500) { // more than there is, alone
		t.Fatal("nothing was held")
	}
	done := make(chan bool)
	go func() { done <- b.take(ctx, 1) }()
	select {
	case <-done:
		t.Fatal("there was no room")
	case <-time.After(20 * time.Millisecond):
	}
	b.give(500)
	if !<-done {
		t.Fatal("room was given back")
	}
	if !b.take(ctx, 99) {
		t.Fatal("there is room for 99")
	}
	go func() { done <- b.take(ctx, 1) }()
	cancel()
	if <-done {
		t.Error("there was no room")
	}
	// A consumer whose handler stands still.
	f := newFake(t, All)
	f.add(All, slices.Repeat([]int{50}, 100)...)
	r, gate := newRecorder(), newGate()
	r.hook = gate.hook
	c := start(t, Options{Addr: f.addr(), Start: Oldest, MaxAheadBytes: 20_000}, r)
	gate.consumer <- c.Consumer
	if s := <-gate.looked; s.bytes == 0 || s.bytes > 200_000 || s.messages > 2 { // one message may be larger than is allowed
		t.Errorf("%d messages wait, and %d bytes are held, of 20,000", s.messages, s.bytes)
	}
	close(gate.open)
	r.until(t, "all", func() bool { return r.count(All) == 5000 })
	c.stop()
	f.checkAll(t, r, All, Cursor{Generation: 1000})
}

// gate is a handler that stands still at the first commit, and looks, on the
// goroutine that may, at what waits behind it.
type gate struct {
	consumer chan *Consumer
	looked   chan waiting
	open     chan struct{}
}

type waiting struct {
	messages int
	bytes    int64
}

func newGate() *gate {
	return &gate{consumer: make(chan *Consumer), looked: make(chan waiting), open: make(chan struct{})}
}

func (g *gate) hook(context.Context, *Commit) error {
	select {
	case c := <-g.consumer:
		s := c.all()[0]
		a := s.session.ahead
		for deadline := time.Now().Add(20 * time.Second); len(s.queue) == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond) // for more than may come
		a.mu.Lock()
		held := a.held
		a.mu.Unlock()
		g.looked <- waiting{len(s.queue), held}
	case <-g.open:
	}
	<-g.open
	return nil
}

func TestProgressIsSaved(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1)
		f.set(func(x *faults) {
			x.answer = func(w *resp.Writer, args []string) bool {
				if args[1] != "SUBSCRIBE" && args[1] != "SINCE" {
					return false
				}
				// Nothing passes the filter, the cursor moves.
				if args[1] == "SUBSCRIBE" {
					w.Push(4)
					w.BulkString("changes-subscribe")
					w.BulkString(All)
					w.Int(1000)
					w.Int(0)
					writeChanges(w, All, Cursor{1000, 7}, nil, 7)
					writeChanges(w, All, Cursor{1100, 0}, nil, 7)
					writeChanges(w, All, Cursor{1100, 500}, nil, 7)
					return true
				}
				next := Cursor{1100, 500}
				switch args[3] + ":" + args[4] {
				case "1000:0":
					next = Cursor{1000, 7}
				case "1000:7":
					next = Cursor{1100, 0}
				case "1100:500":
					time.Sleep(5 * time.Millisecond)
				}
				w.Array(4)
				w.Int(int64(next.Generation))
				w.Int(int64(next.Offset))
				w.Array(0)
				w.Int(7)
				return true
			}
		})
		store := new(MemoryStore)
		opt.Store, opt.Start = store, At(Cursor{1000, 0})
		r := newRecorder()
		p := &progressRecorder{recorder: r}
		c := start(t, opt, p)
		r.until(t, "the cursor", func() bool { return store.Cursors()[All] == Cursor{1100, 500} })
		c.stop()
		if want := []string{"progress ALL 1000:7", "progress ALL 1100:0", "progress ALL 1100:500"}; !slices.Equal(r.events, want) {
			t.Errorf("events %q", r.events)
		}
	})
}

type progressRecorder struct{ *recorder }

func (p *progressRecorder) Progress(_ context.Context, stream string, at Cursor) error {
	return p.event("progress %s %v", stream, at)
}

// TestKeptByTarget holds the way of a target that keeps the cursor itself: it
// begins where the target says, and nothing is lost between two consumers.
func TestKeptByTarget(t *testing.T) {
	f := newFake(t, All)
	f.add(All, 1, 1, 1)
	var mu sync.Mutex
	at, ok, keys := Cursor{}, false, []string(nil)
	load := func(context.Context, string) (Cursor, bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return at, ok, nil
	}
	take := HandlerFunc(func(_ context.Context, c *Commit) error {
		mu.Lock()
		defer mu.Unlock()
		if len(keys) == 2 {
			keys = append(keys, "half") // rolled back with the cursor
			keys = keys[:2]
			return errors.New("the transaction failed")
		}
		keys = append(keys, string(c.Frames[0].Key()))
		at, ok = c.Next, true
		return nil
	})
	opt := Options{Addr: f.addr(), Start: Oldest, Store: KeptByTarget(load)}
	if err := start(t, opt, take).wait(); err == nil {
		t.Fatal("no error")
	}
	if at != (Cursor{1000, 2}) {
		t.Fatalf("the target is at %v", at)
	}
	r := newRecorder()
	c := start(t, opt, r)
	r.until(t, "the third", func() bool { return r.count(All) == 1 })
	c.stop()
	if r.commits[All][0].First != 2 {
		t.Errorf("it went on at %d", r.commits[All][0].First)
	}
}

func TestServerThatIsBehind(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1)
		var n atomic.Int32
		f.set(func(x *faults) {
			x.answer = func(w *resp.Writer, args []string) bool {
				if args[1] != "SUBSCRIBE" && args[1] != "SINCE" || n.Add(1) > 3 {
					return false
				}
				w.Error(resp.Errorf("FEEDBEHIND", "1000 0"))
				return true
			}
		})
		opt.Start = Oldest
		r := newRecorder()
		c := start(t, opt, r)
		r.until(t, "the commit", func() bool { return r.count(All) == 1 })
		c.stop()
	})
}

// TestRefusals holds that what trying again would not change ends Run, with the
// server's words.
func TestRefusals(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		for _, text := range []string{
			"ERR no such stream '99'", "ERR feed is disabled", "ERR DURABLE needs a log", "ERR invalid filter: x", "NOPERM this user has no permissions",
			"ERR feed cursor ahead of stream",
		} {
			f.set(func(x *faults) {
				x.answer = func(w *resp.Writer, args []string) bool {
					if args[1] != "SUBSCRIBE" && args[1] != "SINCE" {
						return false
					}
					w.Error(replyError(text))
					return true
				}
			})
			opt.Start = At(Cursor{1000, 0})
			var e *resp.Error
			if err := start(t, opt, newRecorder()).wait(); !errors.As(err, &e) || e.Error() != text {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
	f := newFake(t, All)
	f.set(func(x *faults) { x.password = "secret" })
	for _, opt := range []Options{{}, {Password: "wrong"}, {Username: "u"}} {
		opt.Addr = f.addr()
		if err := start(t, opt, newRecorder()).wait(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("login: %v", err)
		}
		opt.EveryShard = true
		if err := start(t, opt, newRecorder()).wait(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("login to ask for the shards: %v", err)
		}
	}
	for _, resp2 := range []bool{false, true} {
		f := newFake(t, All)
		f.set(func(x *faults) { x.resp2, x.password = resp2, "secret" })
		r := newRecorder()
		c := start(t, Options{Addr: f.addr(), Password: "secret", Start: Oldest}, r)
		f.add(All, 1)
		r.until(t, "a commit behind a login", func() bool { return r.count(All) == 1 })
		c.stop()
	}
}

func TestOldServers(t *testing.T) {
	for name, change := range map[string]func(*faults){
		"no SUBSCRIBE": func(x *faults) { x.noSubscribe = true },
		"no RESP3":     func(x *faults) { x.resp2 = true },
	} {
		for _, connections := range []int{0, 1} {
			f := newFake(t, All, "0", "1", "2")
			f.set(change)
			r := newRecorder()
			c := start(t, Options{Addr: f.addr(), EveryShard: true, Start: Oldest, Connections: connections}, r)
			for _, s := range []string{"0", "1", "2"} {
				f.add(s, 1, 2)
				r.until(t, name, func() bool { return r.count(s) == 3 })
			}
			c.stop()
		}
	}
}

// TestNonsense holds that a server that speaks nonsense costs a connection and
// nothing more.
func TestNonsense(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1)
		answers := []string{
			":1\r\n", "+OK\r\n", "$-1\r\n", "*0\r\n", "*1\r\n:1\r\n", "_\r\n", "%1\r\n:1\r\n:1\r\n", "\x00\x00\x00\r\n",
			">3\r\n$11\r\nchanges-end\r\n$1\r\n9\r\n$1\r\nx\r\n",
			">6\r\n$7\r\nchanges\r\n$3\r\nALL\r\n:1000\r\n:5\r\n*0\r\n:1\r\n",
			">4\r\n$20\r\nchanges-snapshot-end\r\n$3\r\nALL\r\n:1000\r\n:5\r\n",
			">3\r\n$22\r\nchanges-snapshot-start\r\n$3\r\nALL\r\n$1\r\nt\r\n",
			">2\r\n$19\r\nchanges-unsubscribe\r\n$3\r\nALL\r\n",
			">4\r\n$17\r\nchanges-subscribe\r\n$1\r\n9\r\n:1\r\n:1\r\n",
			">3\r\n$14\r\nchanges-credit\r\n$3\r\nALL\r\n:1\r\n",
			"-LOADING wait\r\n", "-ERR max number of clients reached\r\n",
		}
		var n atomic.Int32
		f.set(func(x *faults) {
			x.answer = func(w *resp.Writer, args []string) bool {
				if args[1] != "SUBSCRIBE" && args[1] != "SINCE" {
					return false
				}
				i := int(n.Add(1)) - 1
				if i >= len(answers) {
					return false
				}
				w.Raw([]byte(answers[i]))
				return true
			}
		})
		opt.Start, opt.Filter.AllDBs = Oldest, true
		opt.Heartbeat = 20 * time.Millisecond
		r := newRecorder()
		c := start(t, opt, r)
		r.until(t, "the commit", func() bool { return r.count(All) == 1 })
		c.stop()
		if st := c.Status().Streams[0]; st.Reconnects < uint64(len(answers))/2 || len(r.events) > 0 {
			t.Errorf("status: %+v, events %q", st, r.events)
		}
		f.checkAll(t, r, All, Cursor{Generation: 1000})
	})
}

// TestGapIsAnError holds that a stream that skips is never taken for one that
// does not, where the filter leaves nothing out.
func TestGapIsAnError(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.set(func(x *faults) {
			x.answer = func(w *resp.Writer, args []string) bool {
				if args[1] != "SUBSCRIBE" && args[1] != "SINCE" {
					return false
				}
				c := Commit{First: 3, Last: 3, Frames: []Frame{{Offset: 3, Args: [][]byte{[]byte("DEL"), []byte("k")}, Cause: User}}}
				if args[1] == "SUBSCRIBE" {
					w.Push(4)
					w.BulkString("changes-subscribe")
					w.BulkString(All)
					w.Int(1000)
					w.Int(2)
					writeChanges(w, All, Cursor{1000, 4}, []Commit{c}, 7)
					return true
				}
				w.Array(4)
				w.Int(1000)
				w.Int(4)
				writeFrames(w, []Commit{c})
				w.Int(7)
				return true
			}
		})
		opt.Start, opt.Filter.AllDBs = At(Cursor{1000, 2}), true
		r := newRecorder()
		if err := start(t, opt, r).wait(); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "is at 1000:2 and goes on at 1000:3") {
			t.Errorf("Run: %v", err)
		}
		if r.count(All) != 0 {
			t.Error("the frame behind the gap was handled")
		}
	})
}

// TestStall holds that a connection on which nothing comes is given up.
func TestStall(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1)
		opt.Start, opt.Heartbeat = Oldest, 20*time.Millisecond
		r := newRecorder()
		c := start(t, opt, r)
		r.until(t, "the first", func() bool { return r.count(All) == 1 })
		time.Sleep(minStall + 500*time.Millisecond) // idle is not stalled
		if n := c.Status().Streams[0].Reconnects; n != 0 {
			t.Errorf("%d connections lost while idle", n)
		}
		f.set(func(x *faults) { x.silent = true })
		r.until(t, "the connection is given up", func() bool { return c.Status().Streams[0].Reconnects > 0 })
		f.set(func(x *faults) { x.silent = false })
		f.cut()
		f.add(All, 1)
		r.until(t, "the second", func() bool { return r.count(All) == 2 })
		c.stop()
	})
}

func TestCommitTooLarge(t *testing.T) {
	modes(t, func(t *testing.T, f *fakeServer, opt Options) {
		f.add(All, 1, 5000)
		opt.Start, opt.MaxMessageBytes = Oldest, 100_000
		var large *TooLargeError
		if err := start(t, opt, newRecorder()).wait(); !errors.As(err, &large) {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestServerThatIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	for _, every := range []bool{false, true} {
		r := newRecorder()
		c := start(t, Options{Addr: addr, EveryShard: every}, r)
		if !every {
			r.until(t, "it is told", func() bool { return c.Status().Streams[0].LastError != nil })
		}
		c.stop() // it ends although it never got a connection
	}
	r := newRecorder()
	c := start(t, Options{Dial: func(context.Context) (net.Conn, error) { return nil, io.ErrClosedPipe }}, r)
	r.until(t, "it tries again", func() bool { return c.Status().Streams[0].Reconnects >= 2 })
	c.stop()
	if st := c.Status().Streams[0]; !errors.Is(st.LastError, io.ErrClosedPipe) {
		t.Errorf("status: %+v", st)
	}
}

func TestBackoff(t *testing.T) {
	b := backoff{least: 100 * time.Millisecond, most: time.Second}
	for i, most := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		most *= time.Millisecond
		if d := b.delay(); d < most/2 || d > most {
			t.Errorf("wait %d is %v, not between %v and %v", i, d, most/2, most)
		}
	}
	b.reset()
	if d := b.delay(); d > 100*time.Millisecond {
		t.Errorf("after a reset: %v", d)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	h := HandlerFunc(func(context.Context, *Commit) error { return nil })
	good := Options{Addr: "x:1"}
	if _, err := New(good, h); err != nil {
		t.Fatal(err)
	}
	if _, err := New(good, nil); err == nil {
		t.Error("no handler")
	}
	for name, change := range map[string]func(*Options){
		"no address":       func(o *Options) { o.Addr = "" },
		"streams and all":  func(o *Options) { o.Streams, o.EveryShard = []string{"0"}, true },
		"stream twice":     func(o *Options) { o.Streams = []string{"0", "0"} },
		"blank stream":     func(o *Options) { o.Streams = []string{""} },
		"many streams":     func(o *Options) { o.Streams = make([]string, maxStreams+1) },
		"cursor for two":   func(o *Options) { o.Streams, o.Start = []string{"0", "1"}, At(Cursor{1, 1}) },
		"cursor for all":   func(o *Options) { o.EveryShard, o.Start = true, At(Cursor{1, 1}) },
		"window":           func(o *Options) { o.Window = maxWindow + 1 },
		"count":            func(o *Options) { o.Count = maxCount + 1 },
		"bytes":            func(o *Options) { o.Bytes = maxBytes + 1 },
		"heartbeat":        func(o *Options) { o.Heartbeat = maxHeartbeat + 1 },
		"short heartbeat":  func(o *Options) { o.Heartbeat = time.Microsecond },
		"negative":         func(o *Options) { o.MaxAheadBytes = -1 },
		"snapshot":         func(o *Options) { o.Start = Snapshot },
		"resync snapshot":  func(o *Options) { o.OnResync = ResyncSnapshot },
		"resync of nil":    func(o *Options) { o.OnResync = ResyncRebuild(nil) },
		"backoff":          func(o *Options) { o.MinBackoff, o.MaxBackoff = 2, 1 },
		"filter":           func(o *Options) { o.Filter.Prefixes = []string{""} },
		"negative commits": func(o *Options) { o.Save.Commits = -1 },
	} {
		opt := good
		change(&opt)
		if _, err := New(opt, h); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
