package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kevy/persist"
)

// holdFile stands for the file of holds.
type holdFile struct {
	mu    sync.Mutex
	kept  persist.Holds // guarded by mu
	saves int           // guarded by mu
	err   error         // of the next saves; guarded by mu
}

func (f *holdFile) save(h persist.Holds) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	f.kept = h
	f.saves++
	return nil
}

// on returns what the file says of a hold.
func (f *holdFile) on(name string, stream int) (persist.Hold, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.kept.Holds {
		if h.Name == name && h.Stream == stream {
			return h, true
		}
	}
	return persist.Hold{}, false
}

const holdTestMs = 2_000_000

// openHeld returns a source that keeps nothing for readers, and its holds.
func openHeld(t testing.TB, shards int, maxBytes int64) (*Source, *fakeLog, *holdFile) {
	t.Helper()
	s, l := openFake(t, shards)
	s.opt.RetainBytes = 0
	f := &holdFile{}
	openHolds(t, s, f, maxBytes)
	return s, l, f
}

func openHolds(t testing.TB, s *Source, f *holdFile, maxBytes int64) {
	t.Helper()
	if err := s.OpenHolds(HoldOptions{MaxBytes: maxBytes, Save: f.save, NowMs: func() int64 { return holdTestMs }}, f.kept); err != nil {
		t.Fatal(err)
	}
}

// describe returns what List says of the only hold.
func describe(t *testing.T, s *Source) HoldInfo {
	t.Helper()
	list := s.Holds().List(-1)
	if len(list) != 1 {
		t.Fatalf("%d holds", len(list))
	}
	return list[0]
}

func TestHoldKeepsTheLog(t *testing.T) {
	s, l, f := openHeld(t, 1, 1<<40)
	gen := s.Tail(0).Generation
	fillSegments(l, 5)
	must(t, s.Holds().Set("c", 0, Cursor{gen, 14}, 0))
	if h, ok := f.on("c", 0); !ok || h.LSN != 15 || h.Offset != 14 || h.CRC == 0 {
		t.Fatalf("a new hold is not in the file: %+v", h)
	}
	s.Tend(0)
	if l.OldestLSN() != 11 {
		t.Fatalf("the log begins with %d", l.OldestLSN())
	}
	info := describe(t, s)
	if info.LagFrames != 36 || info.LagBytes < 36*10 || info.LagMs <= 0 || info.LagMs > holdTestMs-1_000_000 || info.At != (Cursor{gen, 14}) {
		t.Fatalf("%+v", info)
	}
	// A move is in the file a Tend later, and only then is the log let go.
	must(t, s.Holds().Set("c", 0, Cursor{gen, 33}, 0))
	if h, _ := f.on("c", 0); h.Offset != 14 {
		t.Fatal("every move is written at once")
	}
	f.err = errors.New("the disk is full")
	s.Tend(0)
	if l.OldestLSN() != 11 {
		t.Fatalf("the log begins with %d before the file says so", l.OldestLSN())
	}
	f.err = nil
	s.Tend(0)
	if h, _ := f.on("c", 0); h.Offset != 33 || l.OldestLSN() != 31 {
		t.Fatalf("%+v, and the log begins with %d", h, l.OldestLSN())
	}
	// Back is at once in the file, as far as the log reaches.
	must(t, s.Holds().Set("c", 0, Cursor{gen, 31}, 0))
	if h, _ := f.on("c", 0); h.Offset != 31 {
		t.Fatalf("%+v", h)
	}
	var resync *ResyncError
	if err := s.Holds().Set("c", 0, Cursor{gen, 29}, 0); !errors.As(err, &resync) || resync.Reason != ReasonEvicted {
		t.Fatalf("below the log: %v", err)
	}
	if n, err := s.Holds().Del("c", 0); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, ok := f.on("c", 0); ok {
		t.Fatal("a removed hold is in the file")
	}
	if n, err := s.Holds().Del("c", -1); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	s.Tend(0)
	if l.OldestLSN() != 51 {
		t.Fatalf("the log begins with %d", l.OldestLSN())
	}
}

func TestHoldErrors(t *testing.T) {
	s, l, f := openHeld(t, 2, 1<<40)
	gen := s.Tail(2).Generation
	l.append(commitOf(2, "SET k v"))
	h := s.Holds()
	for what, tc := range map[string]struct {
		name   string
		stream int
		at     Cursor
		want   string
	}{
		"no name":          {"", 2, Cursor{gen, 0}, "a hold's name is"},
		"a blank":          {"a b", 2, Cursor{gen, 0}, "a hold's name is"},
		"too long a name":  {strings.Repeat("n", 129), 2, Cursor{gen, 0}, "a hold's name is"},
		"ahead":            {"c", 2, Cursor{gen, 2}, "ahead of stream"},
		"other generation": {"c", 2, Cursor{gen + 1, 0}, "FEEDRESYNC"},
	} {
		if err := h.Set(tc.name, tc.stream, tc.at, 0); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.err = errors.New("no room")
	if err := h.Set("c", 2, Cursor{gen, 0}, 0); err == nil || len(h.List(-1)) != 0 || len(s.pins.held) != 0 {
		t.Fatalf("a hold that cannot be written is there: %v", err)
	}
	f.err = nil

	// The epoch is one for all streams of a name, and is on disk at once.
	must(t, h.Set("c", 2, Cursor{gen, 0}, 5))
	var stale *HoldStaleError
	if err := h.Set("c", 0, Cursor{gen - 2, 0}, 4); !errors.As(err, &stale) || stale.Epoch != 5 || err.Error() != "HOLDSTALE 5" {
		t.Fatal(err)
	}
	must(t, h.Set("c", 0, Cursor{gen - 2, 0}, 5))
	saves := f.saves
	must(t, h.Set("c", 2, Cursor{gen, 1}, 6))
	if on, _ := f.on("c", 0); f.saves != saves+1 || on.Epoch != 6 {
		t.Fatalf("the new epoch is not on disk: %+v", on)
	}
	if err := h.Set("c", 2, Cursor{gen, 1}, 0); !errors.As(err, &stale) {
		t.Fatalf("no epoch after one: %v", err)
	}
	if n, err := h.Del("c", -1); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	must(t, h.Set("c", 2, Cursor{gen, 1}, 0))

	for i := range persist.MaxHolds - 1 {
		must(t, h.Set(fmt.Sprint("n", i), 2, Cursor{gen, 1}, 0))
	}
	if err := h.Set("one-more", 2, Cursor{gen, 1}, 0); !errors.Is(err, ErrTooManyHolds) {
		t.Fatal(err)
	}
	must(t, h.Set("n5", 2, Cursor{gen, 0}, 0))
}

// A hold at its cap is broken, which LIST says, and the log goes.
func TestHoldAtItsCap(t *testing.T) {
	s, l, f := openHeld(t, 1, 1500)
	gen := s.Tail(0).Generation
	fillSegments(l, 1)
	must(t, s.Holds().Set("slow", 0, Cursor{gen, 0}, 0))
	must(t, s.Holds().Set("fast", 0, Cursor{gen, 0}, 0))
	broke := 0
	for i := range 30 {
		fillSegments(l, 1)
		must(t, s.Holds().Set("fast", 0, s.Tail(0), 0))
		before := l.BytesFrom(l.OldestLSN())
		s.Tend(0)
		slow, _ := f.on("slow", 0)
		if slow.Broken != "" {
			if slow.Broken != persist.BrokenSize || broke == 0 && before < 1500 {
				t.Fatalf("broken with %d bytes: %+v", before, slow)
			}
			if broke++; broke == 1 {
				t.Logf("broken in round %d with %d bytes", i, before)
			}
		}
		if kept := l.BytesFrom(l.OldestLSN()); kept > 1500+1000 {
			t.Fatalf("%d bytes are kept", kept)
		}
	}
	if broke == 0 {
		t.Fatal("it was not broken")
	}
	var broken *HoldBrokenError
	if err := s.Holds().Set("slow", 0, s.Tail(0), 9); !errors.As(err, &broken) || err.Error() != "HOLDBROKEN max-bytes" {
		t.Fatal(err)
	}
	if _, err := s.WaitUntil(ctx, 0, Cursor{gen, 1}, "slow", 0); !errors.As(err, &broken) {
		t.Fatal(err)
	}
	list := s.Holds().List(0)
	if list[0].Name != "fast" || list[0].Broken != "" || list[0].LagFrames != 0 || list[1].Broken != persist.BrokenSize || list[1].LagFrames != 310 || list[1].LagBytes != -1 {
		t.Fatalf("%+v", list)
	}
	// What the retention keeps anyway breaks nothing.
	s.opt.RetainBytes = -1
	must(t, s.Holds().Set("kept", 0, s.Tail(0), 0))
	for range 30 {
		fillSegments(l, 1)
		s.Tend(0)
	}
	if on, _ := f.on("kept", 0); on.Broken != "" {
		t.Fatalf("%+v", on)
	}
}

// A hold on a stream in which nothing happens keeps nothing of the others.
func TestHoldOfAQuietStream(t *testing.T) {
	s, l, f := openHeld(t, 2, 1<<40)
	quiet, busy := keyOf(0, 2), keyOf(1, 2)
	l.append(commitOf(2, "SET "+quiet+" 1"))
	must(t, s.Holds().Set("c", 0, s.Tail(0), 0))
	for range 20 {
		for range 10 {
			l.append(commitOf(2, "SET "+busy+" v"))
		}
		l.cut()
		l.sync()
		s.Tend(0)
	}
	if l.OldestLSN()+20 < l.Last() {
		t.Fatalf("the log is kept from LSN %d on for a reader that has read all", l.OldestLSN())
	}
	if on, _ := f.on("c", 0); on.LSN < 150 || on.Offset != 1 {
		t.Fatalf("%+v", on)
	}
	oldest := l.OldestLSN()
	l.append(commitOf(2, "SET "+quiet+" 2"))
	for range 3 {
		for range 10 {
			l.append(commitOf(2, "SET "+busy+" v"))
		}
		l.cut()
		l.sync()
		s.Tend(0)
	}
	if info := describe(t, s); info.LagFrames != 1 || l.OldestLSN() > oldest+20 {
		t.Fatalf("%+v, the log begins with %d", info, l.OldestLSN())
	}
	_, got := since(t, s, Request{Stream: 0, Cursor: Cursor{s.Tail(0).Generation, 1}})
	wantFrames(t, got, "1 SET "+quiet+" 2")
}

// Over the end of its generation a hold keeps the rest of it and what follows.
func TestHoldInAPastGeneration(t *testing.T) {
	s, l, f := openHeld(t, 1, 1<<40)
	gen := s.Tail(0).Generation
	fillSegments(l, 2)
	must(t, s.Holds().Set("c", 0, Cursor{gen, 12}, 0))
	draw := gen
	for range 3 {
		draw += 1 << 21
		l.flushAll(1, draw)
		fillSegments(l, 2)
	}
	s.Tend(0)
	if info := describe(t, s); info.LagFrames != 8+3+60 || info.Broken != "" {
		t.Fatalf("%+v", info)
	}
	if l.OldestLSN() != 11 {
		t.Fatalf("the log begins with %d", l.OldestLSN())
	}
	// At the end of a generation it holds the beginning of the next one.
	must(t, s.Holds().Set("c", 0, Cursor{gen, 21}, 0))
	s.Tend(0)
	if on, _ := f.on("c", 0); on.LSN != 22 || on.Generation != gen {
		t.Fatalf("%+v", on)
	}
	// A generation that the lineage has forgotten cannot be held.
	for range 64 {
		draw += 1 << 21
		l.flushAll(1, draw)
	}
	s.Tend(0)
	if on, _ := f.on("c", 0); on.Broken != persist.BrokenGeneration {
		t.Fatalf("%+v", on)
	}
}

// After a start a hold goes on, or says why it cannot.
func TestHoldsAfterAStart(t *testing.T) {
	s, l, f := openHeld(t, 2, 1<<40)
	gen := s.Tail(2).Generation
	a, b := keyOf(0, 2), keyOf(1, 2)
	for range 3 {
		for range 10 {
			l.append(commitOf(2, "SET "+a+" v"))
		}
		l.sync()
	}
	for name, at := range map[string]Cursor{"early": {gen, 0}, "good": {gen, 20}, "tail": {gen, 30}} {
		must(t, s.Holds().Set(name, 2, at, 3))
	}
	must(t, s.Holds().Set("quiet", 1, Cursor{gen - 1, 0}, 0))
	l.append(commitOf(2, "SET "+a+" lost"))
	l.append(commitOf(2, "SET "+b+" lost"))
	must(t, s.Holds().Set("beyond", 2, Cursor{gen, 32}, 0))
	must(t, s.Holds().Set("beside", 0, Cursor{gen - 2, 30}, 0)) // its LSN lies at what is lost

	restart := func(change func(h *persist.Hold)) (map[string]persist.Broken, *Source) {
		again := New(Options{Shards: 2, RetainBytes: -1})
		left := l.lose(30, again)
		h, err := persist.FreshHistory(1_800_000_000, 2)
		must(t, err)
		h.FirstLSN = 31
		for i := range h.Streams {
			end := []uint64{30, 0, 30}[i]
			h.Streams[i].FirstLSN = 31
			h.Streams[i].Lineage = []persist.Past{{Generation: gen - 2 + uint64(i), FirstLSN: 1, EndLSN: 30, End: end, Why: persist.Crash}}
		}
		must(t, again.Open(left, h, nil))
		file := &holdFile{kept: persist.Holds{DurableLSN: f.kept.DurableLSN}}
		for _, k := range f.kept.Holds {
			if k.Name == "quiet" {
				k.LSN = 33 // as if it had been moved along with what is lost
			}
			change(&k)
			file.kept.Holds = append(file.kept.Holds, k)
		}
		openHolds(t, again, file, 1<<40)
		found := map[string]persist.Broken{}
		for _, info := range again.Holds().List(-1) {
			found[info.Name] = info.Broken
			if on, ok := file.on(info.Name, info.Stream); !ok || on.Broken != info.Broken || on.Broken == "" && on.LSN > 31 {
				t.Errorf("the file says %+v of %+v", on, info)
			}
		}
		return found, again
	}
	found, again := restart(func(*persist.Hold) {})
	want := map[string]persist.Broken{"early": "", "good": "", "tail": "", "quiet": "", "beyond": persist.BrokenLost, "beside": ""}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Fatalf("%v, want %v", found, want)
	}
	var stale *HoldStaleError
	if err := again.Holds().Set("good", 2, Cursor{gen, 25}, 2); !errors.As(err, &stale) || stale.Epoch != 3 {
		t.Fatalf("an old epoch after a start: %v", err)
	}
	// Another history in its place has another block there.
	found, _ = restart(func(k *persist.Hold) {
		if k.Name == "good" {
			k.CRC ^= 1
		}
		if k.Name == "tail" {
			k.Generation++
		}
	})
	want["good"], want["tail"] = persist.BrokenGeneration, persist.BrokenGeneration
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Fatalf("%v, want %v", found, want)
	}
	l.drop(15)
	found, _ = restart(func(*persist.Hold) {})
	want["good"], want["tail"], want["early"] = "", "", persist.BrokenEvicted
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Fatalf("%v, want %v", found, want)
	}
}

func TestWaitUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, _ := openHeld(t, 2, 1<<40)
		gen := s.Tail(2).Generation
		l.append(commitOf(2, "SET k v"))
		must(t, s.Holds().Set("c", 2, Cursor{gen, 0}, 0))
		wait := func(at Cursor, hold string, timeout time.Duration) <-chan string {
			done := make(chan string, 1)
			go func() {
				start := time.Now()
				ok, err := s.WaitUntil(ctx, 2, at, hold, timeout)
				done <- fmt.Sprint(ok, err, time.Since(start))
			}()
			return done
		}
		expect := func(what string, done <-chan string, want string) {
			t.Helper()
			if got := <-done; !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		expect("there", wait(Cursor{gen, 1}, "", time.Hour), "true <nil> 0s")
		expect("not there", wait(Cursor{gen, 2}, "", 50*time.Millisecond), "false <nil> 50ms")
		expect("not there, and no wait", wait(Cursor{gen, 2}, "", 0), "false <nil> 0s")
		expect("the most", wait(Cursor{gen, 2}, "", time.Hour), "false <nil> 1m0s")
		expect("the hold is not there", wait(Cursor{gen, 1}, "c", 50*time.Millisecond), "false <nil> 50ms")
		expect("the hold is there", wait(Cursor{gen, 0}, "c", time.Hour), "true <nil> 0s")
		expect("no such hold", wait(Cursor{gen, 0}, "d", time.Hour), "false no such hold 'd' on stream ALL 0s")
		expect("another history", wait(Cursor{gen + 1, 0}, "", time.Hour), "false FEEDRESYNC")

		// Many wait, and each goes when its own time has come.
		var soon, later, held []<-chan string
		for range 5 {
			soon = append(soon, wait(Cursor{gen, 2}, "", time.Minute))
			later = append(later, wait(Cursor{gen, 3}, "", time.Minute))
			held = append(held, wait(Cursor{gen, 2}, "c", time.Minute))
		}
		synctest.Wait()
		time.Sleep(time.Second)
		l.append(commitOf(2, "SET k v"))
		for _, done := range soon {
			expect("a frame", done, "true <nil> 1s")
		}
		time.Sleep(time.Second)
		must(t, s.Holds().Set("c", 2, Cursor{gen, 2}, 0))
		for _, done := range held {
			expect("a hold that moved", done, "true <nil> 2s")
		}
		l.flushAll(2, s.Tail(0).Generation+1<<21)
		for _, done := range later {
			expect("the frame that ends the generation", done, "true <nil> 2s")
		}
		expect("beyond the end of a generation", wait(Cursor{gen, 4}, "", time.Hour), "false FEEDRESYNC")
		at := s.Tail(2)
		expect("a hold of the generation before", wait(at, "c", time.Second), "false <nil> 1s")
		waiting := wait(at, "c", time.Minute)
		synctest.Wait()
		_, err := s.Holds().Del("c", -1)
		must(t, err)
		expect("a hold that goes", waiting, "false no such hold")
		ending, cancel := context.WithCancel(ctx)
		go func() { time.Sleep(time.Second); cancel() }()
		if _, err := s.WaitUntil(ending, 2, Cursor{at.Generation, 9}, "", time.Minute); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		waiting = wait(Cursor{at.Generation, 9}, "", time.Minute)
		synctest.Wait()
		s.Close()
		expect("the end of the store", waiting, "false the store is closing")
		if n := s.waiting[2].waiters.Load(); n != 0 {
			t.Errorf("%d are still counted", n)
		}
	})
}

// Where many wait, one that has just looked lets the next commits pass and is
// answered a moment later all the same, at its timeout too.
func TestManyWaitUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, _ := openHeld(t, 2, 1<<40)
		defer s.Close()
		gen := s.Tail(2).Generation
		const waiting = 10_000
		var wg sync.WaitGroup
		var early atomic.Int64
		for i := range waiting {
			wg.Go(func() {
				timeout := time.Hour
				if i%2 == 0 {
					timeout = 50 * time.Millisecond
				}
				start := time.Now()
				if ok, err := s.WaitUntil(ctx, 2, Cursor{gen, 2}, "", timeout); !ok || err != nil {
					t.Error(ok, err)
				}
				if time.Since(start) < maxLookPause {
					early.Add(1)
				}
			})
		}
		synctest.Wait()
		l.append(commitOf(2, "SET k v"))
		synctest.Wait()
		l.append(commitOf(2, "SET k v"))
		synctest.Wait()
		if len(s.waiting[2].token) != 1 || early.Load() != 0 {
			t.Errorf("they look at every commit; %d are through", early.Load())
		}
		wg.Wait()
		if n := early.Load(); n != waiting/2 {
			t.Errorf("%d were answered at their timeouts", n)
		}
		if n := s.untils.Load() + s.waiting[2].waiters.Load(); n != 0 {
			t.Errorf("%d are still counted", n)
		}
	})
}

// At agrees with a look at every frame, over generations and streams.
func TestAt(t *testing.T) {
	const shards = 3
	s, l := openFake(t, shards)
	l.blockBytes = 200
	draw := s.Tail(0).Generation
	type stamped struct {
		at Cursor
		ms int64
	}
	frames := make([][]stamped, shards+1)
	var b Batch
	from := [shards + 1]Cursor{}
	for i := range from {
		from[i] = s.Tail(i)
	}
	for i := range 600 {
		l.append(commitOf(shards, fmt.Sprintf("SET k%d v", i), fmt.Sprintf("SET j%d v", i%7)))
		switch {
		case i%200 == 150:
			draw += 1 << 21
			l.flushAll(shards, draw)
		case i%100 == 99:
			l.cut()
		case i%30 == 0:
			l.seal()
			l.nowMs += 40
		}
	}
	for stream := range from {
		for at := from[stream]; ; {
			must(t, s.Since(ctx, &Request{Stream: stream, Cursor: at}, &b))
			must(t, b.Each(func(f *Frame) error {
				frames[stream] = append(frames[stream], stamped{Cursor{at.Generation, f.Offset}, f.UnixMs})
				return nil
			}))
			next := Cursor{b.Generation, b.Next}
			if next == at {
				break
			}
			at = next
		}
	}
	check := func() {
		t.Helper()
		for stream := range frames {
			oldest, err := s.Oldest(stream)
			must(t, err)
			tail := s.Tail(stream)
			for ms := int64(999_990); ms < l.nowMs+20; ms += 7 {
				want := tail
				for _, f := range frames[stream] {
					if f.ms >= ms && !f.at.before(oldest) {
						want = f.at
						break
					}
				}
				got, err := s.At(stream, ms)
				// The end of a generation and the beginning of the next are one place.
				for err == nil && got != want {
					g, ok := s.view.Load().find(stream, got.Generation)
					if !ok || !g.ended || got.Offset != g.end {
						break
					}
					got = Cursor{g.next, 0}
				}
				if err != nil || got != want {
					t.Fatalf("stream %d at %d: %v %v, want %v", stream, ms, got, err, want)
				}
			}
		}
	}
	check()
	l.drop(500)
	check()
}

// TestHoldsAtOnce sets, deletes, lists and awaits holds from many sides while the
// log goes on: in the end the file, the list and the pins agree, and what is held
// is there.
func TestHoldsAtOnce(t *testing.T) {
	seed := seedOf(t)
	s, l, f := openHeld(t, 3, 20<<10)
	stop := make(chan struct{})
	var background, consumers sync.WaitGroup
	background.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 99))
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for range 1 + rng.IntN(10) {
				l.append(commitOf(3, fmt.Sprintf("SET k%d v", rng.IntN(20))))
			}
			if n%5 == 0 {
				l.cut()
				l.sync()
				s.Tend(0)
			}
			if n%200 == 199 {
				l.flushAll(3, s.Tail(0).Generation+1<<21)
			}
			time.Sleep(50 * time.Microsecond)
		}
	})
	var sets, stale, broken atomic.Int64
	for w := range 6 {
		consumers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			var b Batch
			defer b.Release()
			name, stream := fmt.Sprint("c", w%3), rng.IntN(4)
			at := s.Tail(stream)
			for end := time.Now().Add(400 * time.Millisecond); time.Now().Before(end); {
				var resync *ResyncError
				err := s.Since(ctx, &Request{Stream: stream, Cursor: at, Count: 20}, &b)
				if err == nil {
					at = Cursor{b.Generation, b.Next}
					err = s.Holds().Set(name, stream, at, uint64(rng.IntN(4)))
				}
				switch {
				case err == nil:
					sets.Add(1)
				case errors.As(err, new(*HoldStaleError)):
					stale.Add(1)
				case errors.As(err, new(*HoldBrokenError)):
					broken.Add(1)
					if _, err := s.Holds().Del(name, -1); err != nil {
						t.Error(err)
					}
				case errors.As(err, &resync):
					at = resync.Tail
				default:
					t.Error(err)
				}
				switch rng.IntN(12) {
				case 0:
					if _, err := s.Holds().Del(name, rng.IntN(4)); err != nil {
						t.Error(err)
					}
				case 1:
					s.Holds().List(-1)
				case 2:
					_, err := s.WaitUntil(ctx, stream, at, name, time.Millisecond)
					if err != nil && !errors.As(err, new(*NoHoldError)) && !errors.As(err, new(*HoldBrokenError)) && !errors.As(err, &resync) {
						t.Error(err)
					}
				}
			}
		})
	}
	consumers.Wait()
	close(stop)
	background.Wait()
	must(t, s.Holds().Save())
	held := 0
	list := s.Holds().List(-1)
	for _, info := range list {
		on, ok := f.on(info.Name, info.Stream)
		if !ok || on.Broken != info.Broken || on.Epoch != info.Epoch || (Cursor{on.Generation, on.Offset}) != info.At {
			t.Errorf("the file says %+v of %+v", on, info)
		}
		if info.Broken != "" {
			continue
		}
		held++
		if err := s.Since(ctx, &Request{Stream: info.Stream, Cursor: info.At}, new(Batch)); err != nil {
			t.Errorf("%+v is not served: %v", info, err)
		}
	}
	if n, bad := s.Holds().Count(); n != len(f.kept.Holds) || n != len(list) || n-bad != held || len(s.pins.held) != held {
		t.Errorf("%d holds, %d broken, %d in the file, %d listed, %d pins", n, bad, len(f.kept.Holds), len(list), len(s.pins.held))
	}
	t.Logf("%d set, %d stale, %d broken", sets.Load(), stale.Load(), broken.Load())
	if sets.Load() < 50 || stale.Load() == 0 {
		t.Error("too little happened")
	}
}
