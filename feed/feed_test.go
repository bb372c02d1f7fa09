package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kevy/internal/op"
)

var ctx = context.Background()

// keyOf returns a key of a shard.
func keyOf(shard, shards int) string {
	for i := 0; ; i++ {
		if k := fmt.Sprintf("k%d", i); op.ShardOf([]byte(k), shards) == shard {
			return k
		}
	}
}

func since(t *testing.T, s *Source, req Request) (*Batch, []string) {
	t.Helper()
	var b Batch
	must(t, s.Since(ctx, &req, &b))
	return &b, texts(t, &b)
}

func wantFrames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("frames\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReadOfAShardAndOfAll(t *testing.T) {
	s, l := openFake(t, 2)
	a, b := keyOf(0, 2), keyOf(1, 2)
	from := [3]Cursor{s.Tail(0), s.Tail(1), s.Tail(s.All())}
	l.append(commitOf(2, "SET "+a+" 1"))
	l.append(commitOf(2, "SET "+b+" 2", "DEL "+a))
	l.append(commitOf(2, "FLUSHDB"))
	batch, got := since(t, s, Request{Stream: 0, Cursor: from[0]})
	wantFrames(t, got, "0 SET "+a+" 1", "1 DEL "+a, "2 FLUSHDB")
	if batch.Generation != from[0].Generation || batch.Next != 3 || batch.CompleteLSN != 4 {
		t.Fatalf("%+v", batch)
	}
	_, got = since(t, s, Request{Stream: 1, Cursor: from[1]})
	wantFrames(t, got, "0 SET "+b+" 2", "1 FLUSHDB")
	_, got = since(t, s, Request{Stream: 2, Cursor: from[2]})
	wantFrames(t, got, "0 SET "+a+" 1", "1 SET "+b+" 2", "2 DEL "+a, "3 FLUSHDB")
	// Caught up: no frames, the cursor stands.
	batch, got = since(t, s, Request{Stream: 1, Cursor: Cursor{from[1].Generation, 2}})
	if len(got) != 0 || batch.Next != 2 || batch.Generation != from[1].Generation {
		t.Fatalf("%v %+v", got, batch)
	}
}

func TestFactsOfAFrame(t *testing.T) {
	s, l := openFake(t, 1)
	l.append(commitOf(1, "SET a 1"))
	l.append(commitOf(1, "x:3/DEL a", "e:3/DEL b", "4/SET c 1"))
	var b Batch
	must(t, s.Since(ctx, &Request{Stream: s.All(), Cursor: Cursor{s.Tail(1).Generation, 0}}, &b))
	var got []string
	must(t, b.Each(func(f *Frame) error {
		got = append(got, fmt.Sprintf("%d lsn=%d ms=%d db=%d %d-%d %s", f.Offset, f.LSN, f.UnixMs, f.DB, f.First, f.Last, f.Cause))
		return nil
	}))
	wantFrames(t, got,
		"0 lsn=1 ms=1000003 db=0 0-0 user",
		"1 lsn=2 ms=1000003 db=3 1-3 expired",
		"2 lsn=3 ms=1000003 db=3 1-3 evicted",
		"3 lsn=4 ms=1000003 db=4 1-3 user")
	stop := errors.New("stop")
	if err := b.Each(func(*Frame) error { return stop }); err != stop {
		t.Fatal(err)
	}
}

func TestCountAndBytesRoundUpToACommit(t *testing.T) {
	s, l := openFake(t, 1)
	l.append(commitOf(1, "SET a 1", "SET b 2", "SET c 3"))
	l.append(commitOf(1, "SET d 4"))
	from := Cursor{s.Tail(0).Generation, 0}
	for _, req := range []Request{{Count: 1}, {Count: 3}, {Count: -7}, {Bytes: 1}, {Bytes: -1}} {
		req.Cursor = from
		b, got := since(t, s, req)
		if len(got) != 3 || b.Next != 3 || b.CompleteLSN != 3 {
			t.Errorf("%+v: %v %d", req, got, b.Next)
		}
	}
	// A cursor inside a commit gets the rest of it.
	b, got := since(t, s, Request{Cursor: Cursor{from.Generation, 1}, Count: 1})
	wantFrames(t, got, "1 SET b 2", "2 SET c 3")
	if b.recs[0].first != 0 || b.recs[0].last != 2 {
		t.Fatalf("%+v", b.recs[0])
	}
}

func TestCountIsClamped(t *testing.T) {
	s, l := openFake(t, 1)
	for range MaxCount + 10 {
		l.append(commitOf(1, "SET a 1"))
	}
	from := Cursor{s.Tail(0).Generation, 0}
	for count, want := range map[int]int{0: DefaultCount, 1 << 30: MaxCount} {
		var b Batch
		must(t, s.Since(ctx, &Request{Cursor: from, Count: count, Bytes: 1 << 40}, &b))
		if b.Len() != want {
			t.Errorf("COUNT %d: %d frames", count, b.Len())
		}
	}
}

func TestOneReadScansABoundedPartOfTheLog(t *testing.T) {
	s, l := openFake(t, 1)
	big := "SET a " + strings.Repeat("v", 1<<20)
	for range 70 {
		l.append(commitOf(1, big))
	}
	f := &Filter{}
	must(t, f.AddPrefix([]byte("nothing")))
	b, got := since(t, s, Request{Cursor: Cursor{s.Tail(0).Generation, 0}, Filter: f, Block: time.Hour})
	if len(got) != 0 || b.Next < 60 || b.Next > 66 {
		t.Fatalf("%d frames, next %d", len(got), b.Next)
	}
	b, got = since(t, s, Request{Cursor: Cursor{b.Generation, b.Next}, Filter: f})
	if len(got) != 0 || b.Next != 70 {
		t.Fatalf("%d frames, next %d", len(got), b.Next)
	}
}

func TestLargeCommitIsNotCopied(t *testing.T) {
	s, l := openFake(t, 1)
	l.append(commitOf(1, "SET first 1"))
	value := strings.Repeat("v", 1<<20)
	var ops []string
	for i := range 6 {
		ops = append(ops, fmt.Sprintf("SET k%d %s", i, value), fmt.Sprintf("SET other%d 1", i))
	}
	l.append(commitOf(1, ops...))
	l.append(commitOf(1, "SET last 1"))
	f := &Filter{}
	must(t, f.AddPrefix([]byte("k")))
	must(t, f.AddPrefix([]byte("first")))
	must(t, f.AddPrefix([]byte("last")))
	at := Cursor{s.Tail(0).Generation, 0}
	var all []string
	var b Batch
	for range 3 {
		must(t, s.Since(ctx, &Request{Cursor: at, Filter: f, Bytes: MaxBytes}, &b))
		for range 2 { // a batch can be read twice
			n := len(all)
			must(t, b.Each(func(f *Frame) error {
				all = append(all, fmt.Sprintf("%d %.12s %d-%d %d", f.Offset, rawText(f.Raw), f.First, f.Last, f.LSN))
				return nil
			}))
			if len(all)-n != b.Len() {
				t.Fatalf("Len is %d", b.Len())
			}
			if b.Len() == 6 && len(b.buf) != 0 {
				t.Fatal("the large commit was copied")
			}
			if n > 0 && b.Len() == 6 {
				break
			}
			all = all[:n]
		}
		if b.Len() == 1 {
			must(t, b.Each(func(f *Frame) error { all = append(all, rawText(f.Raw)); return nil }))
		}
		at = Cursor{b.Generation, b.Next}
	}
	wantFrames(t, all, "SET first 1", "1 SET k0 vvvvv 1-12 2", "3 SET k1 vvvvv 1-12 4", "5 SET k2 vvvvv 1-12 6", "7 SET k3 vvvvv 1-12 8",
		"9 SET k4 vvvvv 1-12 10", "11 SET k5 vvvvv 1-12 12", "SET last 1")
	must(t, s.Since(ctx, &Request{Cursor: Cursor{at.Generation, 4}, Bytes: MaxBytes}, &b))
	if b.large == nil || b.Len() != 9 {
		t.Fatalf("%d frames of the rest of the commit", b.Len())
	}
	must(t, b.Each(func(f *Frame) error {
		if f.Offset < 4 || f.First != 1 || f.Last != 12 {
			return fmt.Errorf("%d of %d-%d", f.Offset, f.First, f.Last)
		}
		return nil
	}))
	if first, last, err := s.Get(0, Cursor{at.Generation, 7}, &b); err != nil || first != 1 || last != 12 || b.Len() != 12 {
		t.Fatalf("%d-%d %v, %d frames", first, last, err, b.Len())
	}
}

func TestGetReturnsTheWholeCommit(t *testing.T) {
	s, l := openFake(t, 2)
	a, b0 := keyOf(0, 2), keyOf(1, 2)
	l.append(commitOf(2, "SET "+a+" 1"))
	l.append(commitOf(2, "SET "+a+" 2", "SET "+b0+" 2", "SET "+a+" 3"))
	l.append(commitOf(2, "SET "+a+" 4"))
	gen := s.Tail(0).Generation
	var b Batch
	for offset, want := range map[uint64][2]uint64{0: {0, 0}, 1: {1, 2}, 2: {1, 2}, 3: {3, 3}} {
		first, last, err := s.Get(0, Cursor{gen, offset}, &b)
		if err != nil || [2]uint64{first, last} != want || b.Len() != int(last-first)+1 {
			t.Errorf("%d: %d-%d %v, %d frames", offset, first, last, err, b.Len())
		}
	}
	_, _, err := s.Get(0, Cursor{gen, 4}, &b)
	var notFound *NotFoundError
	if !errors.As(err, &notFound) || notFound.Tail != (Cursor{gen, 4}) || ReplyError(err).Error() != fmt.Sprintf("FEEDNOTFOUND %d 4", gen) {
		t.Fatal(err)
	}
	if _, _, err = s.Get(0, Cursor{gen + 1, 0}, &b); !isResync(err, ReasonGeneration) {
		t.Fatal(err)
	}
	l.flushAll(2, gen+1<<30)
	if _, _, err = s.Get(0, Cursor{gen, 5}, &b); !isResync(err, ReasonLost) {
		t.Fatal(err)
	}
	if first, last, err := s.Get(0, Cursor{gen, 4}, &b); err != nil || first != 4 || last != 4 {
		t.Fatal(first, last, err)
	}
	l.drop(100)
	if _, _, err = s.Get(0, Cursor{gen, 0}, &b); !isResync(err, ReasonEvicted) {
		t.Fatal(err)
	}
}

func isResync(err error, reason string) bool {
	var e *ResyncError
	return errors.As(err, &e) && e.Reason == reason
}

func TestErrorsOfACursor(t *testing.T) {
	s, l := openFake(t, 2)
	for range 5 {
		l.append(commitOf(2, "SET "+keyOf(0, 2)+" 1"))
	}
	gen := s.Tail(0).Generation
	var b Batch
	read := func(at Cursor, strict bool) error {
		return s.Since(ctx, &Request{Cursor: at, Strict: strict}, &b)
	}
	if err := read(Cursor{gen, 6}, false); !errors.Is(err, ErrAhead) || ReplyError(err).Error() != "ERR feed cursor ahead of stream" {
		t.Error(err)
	}
	if err := read(Cursor{gen + 1, 0}, false); !isResync(err, ReasonGeneration) || err.Error() != fmt.Sprintf("FEEDRESYNC %d 5 %d 0 generation", gen, gen) {
		t.Error(err)
	}
	draw2 := gen + 1<<30
	l.flushAll(2, draw2)
	if err := read(Cursor{gen, 7}, false); !isResync(err, ReasonLost) || ReplyError(err).Error() != fmt.Sprintf("FEEDRESYNC %d 0 %d 0 lost", draw2, gen) {
		t.Error(err)
	}
	if err := read(Cursor{gen, 5}, true); !isResync(err, ReasonGeneration) || ReplyError(err).Error() != fmt.Sprintf("FEEDRESYNC %d 0", draw2) {
		t.Error(err)
	}
	if err := read(Cursor{gen, 2}, false); err != nil || b.Len() != 4 || b.Next != 6 || b.Generation != gen {
		t.Error(err, b.Len())
	}
	if err := read(Cursor{gen, 6}, false); err != nil || b.Len() != 0 || b.Generation != draw2 || b.Next != 0 {
		t.Error(err, b)
	}
	l.append(commitOf(2, "SET "+keyOf(0, 2)+" 1"))
	l.seal()
	l.append(commitOf(2, "SET "+keyOf(0, 2)+" 2"))
	l.drop(8)
	if err := read(Cursor{draw2, 0}, false); !isResync(err, ReasonEvicted) || err.Error() != fmt.Sprintf("FEEDRESYNC %d 2 %d 1 evicted", draw2, draw2) {
		t.Error(err)
	}
	if err := read(Cursor{draw2, 1}, false); err != nil || b.Len() != 1 {
		t.Error(err)
	}
}

// TestReaderBehindTheFloorOfOthers: a shard's reader that has seen all of its
// stream is not evicted because the ops of others are.
func TestReaderBehindTheFloorOfOthers(t *testing.T) {
	s, l := openFake(t, 2)
	a, b := "SET "+keyOf(0, 2)+" 1", "SET "+keyOf(1, 2)+" 1"
	l.append(commitOf(2, a))
	batch, _ := since(t, s, Request{Cursor: Cursor{s.Tail(0).Generation, 0}})
	at := Cursor{batch.Generation, batch.Next}
	for range 5 {
		l.append(commitOf(2, b))
		l.seal()
	}
	l.drop(l.Last())
	l.append(commitOf(2, a))
	opened := l.opened
	_, got := since(t, s, Request{Cursor: at})
	wantFrames(t, got, "1 "+a)
	if l.opened == opened {
		t.Fatal("the reader that was kept was not behind the floor")
	}
	s.cache.clear()
	_, got = since(t, s, Request{Cursor: at})
	wantFrames(t, got, "1 "+a)
}

// TestLogShortenedDuringTheSearch: the place that was found is gone when it is
// opened.
func TestLogShortenedDuringTheSearch(t *testing.T) {
	s, l := openFake(t, 2)
	a, b := "SET "+keyOf(0, 2)+" 1", "SET "+keyOf(1, 2)+" 1"
	for range 3 {
		l.append(commitOf(2, b))
		l.seal()
	}
	l.append(commitOf(2, a))
	l.onOpen = func() { l.drop(3) }
	_, got := since(t, s, Request{Cursor: Cursor{s.Tail(0).Generation, 0}})
	wantFrames(t, got, "0 "+a)
	if l.OldestLSN() != 3 {
		t.Fatal("nothing was dropped")
	}
}

func TestPastGenerationsAreBounded(t *testing.T) {
	s, l := openFake(t, 1)
	first := s.Tail(0).Generation
	for i := range uint64(100) {
		l.flushAll(1, first+(i+1)<<21)
	}
	if n := len(s.view.Load().past); n != 64 {
		t.Fatalf("%d past generations", n)
	}
	if err := s.Since(ctx, &Request{Cursor: Cursor{first, 0}}, &Batch{}); !isResync(err, ReasonGeneration) {
		t.Fatal(err)
	}
	if _, got := since(t, s, Request{Cursor: Cursor{first + 36<<21, 0}}); len(got) != 1 {
		t.Fatal(got)
	}
}

func TestStreamNames(t *testing.T) {
	s := New(Options{Shards: 12})
	for name, want := range map[string]int{"0": 0, "11": 11, "ALL": 12, "all": 12, "aLl": 12} {
		if got, err := s.Stream([]byte(name)); err != nil || got != want {
			t.Errorf("%s: %d %v", name, got, err)
		}
	}
	for _, name := range []string{"12", "-1", "", "ALLE", "x", "01", "+1", "9999999999999999999"} {
		_, err := s.Stream([]byte(name))
		var none *NoStreamError
		if !errors.As(err, &none) || ReplyError(err).Error() != "ERR no such stream '"+name+"'" {
			t.Errorf("%q: %v", name, err)
		}
	}
	if s.StreamName(3) != "3" || s.StreamName(12) != "ALL" {
		t.Error("names do not come back")
	}
}

func TestFilters(t *testing.T) {
	s, l := openFake(t, 1)
	l.append(commitOf(1, "SET user:1 a"))
	l.append(commitOf(1, "1/SET user:2 a"))
	l.append(commitOf(1, "SET order:1 a", "DEL user:3"))
	l.append(commitOf(1, "1/FLUSHDB"))
	l.append(commitOf(1, "FLUSHDB"))
	l.append(commitOf(1, "1/SET x* a"))
	for name, tc := range map[string]struct {
		filter   Filter
		prefixes []string
		globs    []string
		want     string
	}{
		"database 0":        {want: "0 2 3 5"},
		"database 1":        {filter: Filter{DB: 1}, want: "1 4 6"},
		"every database":    {filter: Filter{AllDBs: true}, want: "0 1 2 3 4 5 6"},
		"prefix":            {filter: Filter{AllDBs: true}, prefixes: []string{"user:"}, want: "0 1 3 4 5"},
		"two prefixes":      {prefixes: []string{"user:", "order"}, want: "0 2 3 5"},
		"glob":              {filter: Filter{AllDBs: true}, globs: []string{"user:[12]"}, want: "0 1 4 5"},
		"glob of a prefix":  {filter: Filter{AllDBs: true}, globs: []string{"us*"}, want: "0 1 3 4 5"},
		"glob of all":       {filter: Filter{AllDBs: true}, globs: []string{"*"}, want: "0 1 2 3 4 5 6"},
		"glob with escape":  {filter: Filter{AllDBs: true}, globs: []string{`x\*`}, want: "4 5 6"},
		"glob in between":   {globs: []string{"*er:1"}, want: "0 2 5"},
		"prefix or glob":    {prefixes: []string{"order"}, globs: []string{"user:3"}, want: "2 3 5"},
		"nothing":           {prefixes: []string{"none"}, want: "5"},
		"literal glob only": {globs: []string{"user:1"}, want: "0 5"},
	} {
		t.Run(name, func(t *testing.T) {
			f := tc.filter
			for _, p := range tc.prefixes {
				must(t, f.AddPrefix([]byte(p)))
			}
			for _, g := range tc.globs {
				must(t, f.AddMatch([]byte(g)))
			}
			b, got := since(t, s, Request{Cursor: Cursor{s.Tail(0).Generation, 0}, Filter: &f})
			var offsets []string
			for _, text := range got {
				offset, _, _ := strings.Cut(text, " ")
				offsets = append(offsets, offset)
			}
			if strings.Join(offsets, " ") != tc.want || b.Next != 7 {
				t.Fatalf("%v, next %d, want %s", got, b.Next, tc.want)
			}
		})
	}
}

func TestFlushAllPassesEveryFilterAndEndsTheGeneration(t *testing.T) {
	s, l := openFake(t, 2)
	gen := s.Tail(2).Generation
	l.append(commitOf(2, "SET a 1"))
	end, ends := l.flushAll(2, gen-2+1<<30)
	if end != 2 || ends[2] != 2 || ends[0]+ends[1] != 3 {
		t.Fatalf("ended with LSN %d at %v", end, ends)
	}
	f := &Filter{DB: 9}
	must(t, f.AddPrefix([]byte("zzz")))
	b, got := since(t, s, Request{Stream: 2, Cursor: Cursor{gen, 0}, Filter: f})
	wantFrames(t, got, "1 FLUSHALL")
	if b.Generation != gen || b.Next != 2 {
		t.Fatalf("%+v", b)
	}
	b, got = since(t, s, Request{Stream: 2, Cursor: Cursor{gen, 2}, Filter: f, Block: time.Hour})
	if len(got) != 0 || b.Generation != gen+1<<30 || b.Next != 0 || b.CompleteLSN != 2 {
		t.Fatalf("%+v", b)
	}
}

func TestSwapDB(t *testing.T) {
	s, l := openFake(t, 1)
	l.append(commitOf(1, "SET a 1"))
	l.append(commitOf(1, "SET b 1", "SWAPDB 0 3"))
	l.append(commitOf(1, "SET c 1"))
	gen := s.Tail(0).Generation
	_, all := since(t, s, Request{Cursor: Cursor{gen, 0}, Filter: &Filter{AllDBs: true}})
	wantFrames(t, all, "0 SET a 1", "1 SET b 1", "2 SWAPDB 0 3", "3 SET c 1")
	// A reader of one of the two gets what came before, then must resync.
	b, got := since(t, s, Request{Cursor: Cursor{gen, 0}, Filter: &Filter{}})
	wantFrames(t, got, "0 SET a 1")
	for range 2 {
		err := s.Since(ctx, &Request{Cursor: Cursor{gen, b.Next}, Filter: &Filter{}}, &Batch{})
		if !isResync(err, ReasonSwapDB) {
			t.Fatal(err)
		}
	}
	if err := s.Since(ctx, &Request{Cursor: Cursor{gen, 0}, Filter: &Filter{DB: 3}}, &Batch{}); !isResync(err, ReasonSwapDB) {
		t.Fatal(err)
	}
	b, got = since(t, s, Request{Cursor: Cursor{gen, 0}, Filter: &Filter{DB: 2}})
	if len(got) != 0 || b.Next != 4 {
		t.Fatalf("%v %d", got, b.Next)
	}
}

func TestDurableReaderSeesOnlyWhatIsFsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := openFake(t, 1)
		gen := s.Tail(0).Generation
		l.append(commitOf(1, "SET a 1"))
		l.sync()
		l.append(commitOf(1, "SET b 1"))
		b, got := since(t, s, Request{Cursor: Cursor{gen, 0}, Durable: true})
		wantFrames(t, got, "0 SET a 1")
		if b.Next != 1 {
			t.Fatal(b.Next)
		}
		go func() {
			time.Sleep(time.Second)
			l.sync()
		}()
		start := time.Now()
		_, got = since(t, s, Request{Cursor: Cursor{gen, 1}, Durable: true, Block: time.Hour})
		wantFrames(t, got, "1 SET b 1")
		if took := time.Since(start); took < time.Second || took > time.Second+2*durablePause {
			t.Fatal(took)
		}
		// At the end of a generation too: it must not be moved on before the end is
		// durable.
		l.flushAll(1, gen+1<<30)
		b, got = since(t, s, Request{Cursor: Cursor{gen, 2}, Durable: true, Block: time.Second})
		if len(got) != 0 || b.Generation != gen || b.Next != 2 {
			t.Fatalf("%v %+v", got, b)
		}
		l.sync()
		_, got = since(t, s, Request{Cursor: Cursor{gen, 2}, Durable: true})
		wantFrames(t, got, "2 FLUSHALL")
	})
	s := New(Options{Shards: 1, NeverDurable: true})
	if err := s.Since(ctx, &Request{Durable: true}, &Batch{}); !errors.Is(err, ErrNeedsLog) {
		t.Fatal(err)
	}
}

func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := openFake(t, 2)
		a, b := keyOf(0, 2), keyOf(1, 2)
		at := s.Tail(0)
		later := func(d time.Duration, fn func()) {
			go func() {
				time.Sleep(d)
				fn()
			}()
		}
		blocked := func(req Request) (time.Duration, *Batch, error) {
			var batch Batch
			start := time.Now()
			err := s.Since(ctx, &req, &batch)
			return time.Since(start), &batch, err
		}
		// Woken by a frame of its own stream, not by others.
		later(time.Second, func() { l.append(commitOf(2, "SET "+b+" 1")) })
		later(2*time.Second, func() { l.append(commitOf(2, "SET "+a+" 1")) })
		took, batch, err := blocked(Request{Cursor: at, Block: time.Minute})
		if err != nil || took != 2*time.Second || batch.Len() != 1 {
			t.Fatal(took, batch.Len(), err)
		}
		// The wait ends at its time, and after a minute at the latest.
		for ask, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: MaxBlock} {
			if took, batch, err := blocked(Request{Cursor: Cursor{at.Generation, 1}, Block: ask}); err != nil || took != want || batch.Next != 1 {
				t.Fatal(took, batch.Next, err)
			}
		}
		// Frames that the filter leaves out move the cursor and do not end the wait.
		f := &Filter{}
		must(t, f.AddPrefix([]byte("wanted")))
		for i := range 50 {
			later(time.Duration(i)*time.Millisecond, func() { l.append(commitOf(2, "SET "+a+" 1")) })
		}
		took, batch, err = blocked(Request{Cursor: Cursor{at.Generation, 1}, Block: time.Second, Filter: f})
		if err != nil || took != time.Second || batch.Len() != 0 || batch.Next != 51 {
			t.Fatal(took, batch.Len(), batch.Next, err)
		}
		// A new generation ends it.
		later(time.Second, func() { s.Bump(at.Generation+1<<30, "promotion") })
		took, batch, err = blocked(Request{Cursor: Cursor{at.Generation, 51}, Block: time.Minute})
		if err != nil || took != time.Second || batch.Generation != at.Generation+1<<30 {
			t.Fatal(took, batch.Generation, err)
		}
		// So does a client that hangs up, and the end of the store.
		gone, hangUp := context.WithCancel(ctx)
		later(time.Second, hangUp)
		if err := s.Since(gone, &Request{Cursor: s.Tail(0), Block: time.Minute}, &Batch{}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		later(time.Second, s.Close)
		if _, _, err := blocked(Request{Cursor: s.Tail(0), Block: time.Minute}); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if l.held() != 0 {
			t.Fatalf("%d readers of the log are still open", l.held())
		}
	})
}

func TestEveryWaiterIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := openFake(t, 1)
		const readers = 100
		done := make(chan int, readers)
		for range readers {
			go func() {
				var b Batch
				if err := s.Since(ctx, &Request{Cursor: s.Tail(0), Block: time.Minute}, &b); err != nil {
					t.Error(err)
				}
				done <- b.Len()
			}()
		}
		synctest.Wait()
		if n := s.waiting[0].waiters.Load(); n != readers {
			t.Fatalf("%d wait", n)
		}
		l.append(commitOf(1, "SET a 1"))
		synctest.Wait()
		for range readers {
			if n := <-done; n != 1 {
				t.Fatalf("%d frames", n)
			}
		}
		if n := s.waiting[0].waiters.Load(); n != 0 {
			t.Fatalf("%d still wait", n)
		}
	})
}

// TestSequentialReaderDoesNotSearch: who comes back with the cursor it was given
// goes on with the same reader of the log.
func TestSequentialReaderDoesNotSearch(t *testing.T) {
	s, l := openFake(t, 4)
	for i := range 5000 {
		l.append(commitOf(4, fmt.Sprintf("SET k%d v", i)))
	}
	for _, stream := range []int{2, 4} {
		at := Cursor{s.Tail(stream).Generation, 0}
		opened := l.opened
		var b Batch
		n := 0
		for range 400 {
			must(t, s.Since(ctx, &Request{Stream: stream, Cursor: at, Count: 20}, &b))
			n += b.Len()
			at = Cursor{b.Generation, b.Next}
			if n%100 == 0 {
				l.append(commitOf(4, "SET more v"))
			}
		}
		if l.opened != opened+1 {
			t.Errorf("stream %d: %d readers for %d frames", stream, l.opened-opened, n)
		}
	}
}

func TestIdleScansAreBoundedAndExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := openFake(t, 1)
		for range 200 {
			l.append(commitOf(1, "SET a 1"))
		}
		gen := s.Tail(0).Generation
		for i := range 100 {
			since(t, s, Request{Cursor: Cursor{gen, uint64(2 * i)}, Count: 1})
		}
		if l.held() != maxCachedScans {
			t.Fatalf("%d readers of the log are held", l.held())
		}
		time.Sleep(maxIdle / 2)
		s.Tend(0)
		if l.held() != maxCachedScans {
			t.Fatalf("%d readers of the log are held", l.held())
		}
		time.Sleep(maxIdle)
		s.Tend(0)
		if l.held() != 0 {
			t.Fatalf("%d readers of the log are held", l.held())
		}
	})
}

func TestRetention(t *testing.T) {
	for name, tc := range map[string]struct {
		opt  Options
		now  int64
		want func(segs []Segment) uint64
	}{
		"no limit":          {Options{RetainBytes: -1}, 1 << 50, func([]Segment) uint64 { return 0 }},
		"room for all":      {Options{RetainBytes: 1 << 40}, 1 << 50, func([]Segment) uint64 { return 0 }},
		"room for two":      {Options{RetainBytes: 2200}, 0, func(s []Segment) uint64 { return s[3].FirstLSN }},
		"room for none":     {Options{RetainBytes: 0}, 0, func(s []Segment) uint64 { return 51 }},
		"by age":            {Options{RetainBytes: -1, RetainMs: 10}, 1_000_010 + 9, func(s []Segment) uint64 { return s[2].FirstLSN }},
		"all are too old":   {Options{RetainBytes: -1, RetainMs: 10}, 1 << 50, func(s []Segment) uint64 { return 51 }},
		"whichever is less": {Options{RetainBytes: 1100, RetainMs: 1 << 40}, 1 << 30, func(s []Segment) uint64 { return s[4].FirstLSN }},
	} {
		t.Run(name, func(t *testing.T) {
			s, l := openFake(t, 1)
			s.opt.RetainBytes, s.opt.RetainMs = tc.opt.RetainBytes, tc.opt.RetainMs
			for range 5 {
				for range 10 {
					l.append(commitOf(1, "SET key "+strings.Repeat("v", 70)))
				}
				l.cut()
			}
			// The last segment is empty; the first one was begun by openFake.
			segs := l.Segments()
			if len(segs) != 6 || segs[0].Bytes < 900 || segs[0].Bytes > 1090 {
				t.Fatalf("%d segments, the first of %d bytes", len(segs), segs[0].Bytes)
			}
			// What is not fsynced stays, whatever the retention: a DURABLE reader
			// could not have read it.
			s.Tend(tc.now)
			if want := min(tc.want(segs), 1); l.floor != want {
				t.Fatalf("before an fsync the floor is %d, want %d", l.floor, want)
			}
			l.sync()
			s.Tend(tc.now)
			if want := tc.want(segs); l.floor != want {
				t.Fatalf("floor %d, want %d", l.floor, want)
			}
		})
	}
}

func TestInfo(t *testing.T) {
	s, l := openFake(t, 2)
	a := keyOf(0, 2)
	gen := s.Tail(0).Generation
	l.append(commitOf(2, "SET "+a+" 1"))
	l.flushAll(2, gen+1<<30)
	l.append(commitOf(2, "SET "+a+" 1"))
	l.sync()
	l.append(commitOf(2, "SET "+a+" 1"))
	info, err := s.Info(0)
	must(t, err)
	want := Info{
		Stream: 0, Generation: gen + 1<<30, Oldest: Cursor{gen, 0}, Next: 2, Durable: Cursor{gen + 1<<30, 1}, MemoryBytes: 12345,
		DiskBytes: info.DiskBytes, Lineage: []PastGeneration{{gen, 2, 2, "flushall"}},
	}
	if fmt.Sprint(info) != fmt.Sprint(want) || info.DiskBytes == 0 {
		t.Fatalf("%+v", info)
	}
	cursors, err := s.CursorsAfter(3, []int{0, 1, 2})
	must(t, err)
	if fmt.Sprint(cursors) != fmt.Sprint([]Cursor{{gen + 1<<30, 1}, {gen + 1 + 1<<30, 0}, {gen + 2 + 1<<30, 1}}) {
		t.Fatal(cursors)
	}
	l.drop(100)
	cursors, err = s.CursorsAfter(3, []int{0})
	if err != nil || cursors[0] != s.Tail(0) {
		t.Fatal(cursors, err)
	}
}
