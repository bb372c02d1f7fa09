package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kevy/internal/op"
)

// seenFrame is what a concurrent reader notes of a frame.
type seenFrame struct {
	generation, offset, lsn uint64
	text                    string
}

// TestReadersBesideWriters lets many follow many, with FLUSHALLs in between, and
// compares what each has seen with the log.
func TestReadersBesideWriters(t *testing.T) {
	const (
		shards  = 3
		writers = 4
		commits = 900 // of each writer
	)
	s, l := openFake(t, shards)
	l.blockBytes = 2 << 10
	draw := s.Tail(0).Generation
	from := make([]Cursor, shards+1)
	for stream := range from {
		from[stream] = s.Tail(stream)
	}

	// As in a store: commits hold some shards, FLUSHALL holds all of them.
	var all sync.RWMutex
	var writing, reading sync.WaitGroup
	var written atomic.Bool
	for w := range writers {
		writing.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for i := range commits {
				if w == 0 && i%300 == 299 {
					all.Lock()
					draw += 1 << 21
					l.flushAll(shards, draw)
					all.Unlock()
					continue
				}
				var lines []string
				for range 1 + rng.IntN(3) {
					lines = append(lines, fmt.Sprintf("SET k%d %d.%d", rng.IntN(50), w, i))
				}
				if rng.IntN(50) == 0 {
					lines = append(lines, "FLUSHDB")
				}
				all.RLock()
				l.append(commitOf(shards, lines...))
				all.RUnlock()
			}
		})
	}
	reading.Go(func() {
		for !written.Load() {
			l.sync()
			time.Sleep(time.Millisecond)
		}
		l.sync()
	})
	for i := range 3 {
		reading.Go(func() {
			for n := 0; !written.Load(); n++ {
				stream := (i + n) % (shards + 1)
				if info, err := s.Info(stream); err != nil || info.Oldest.Offset != 0 {
					t.Errorf("info: %+v %v", info, err)
					return
				}
				// The end of the live generation, found by counting back.
				g := s.view.Load().current(stream)
				m, err := s.endOf(stream, &g)
				if err != nil {
					t.Error(err)
					return
				}
				if n, err := s.framesBetween(stream, &g, g.firstLSN, m.lsn); err != nil || n != m.offset {
					t.Errorf("stream %d has %d frames below LSN %d, counted %d, %v", stream, n, m.lsn, m.offset, err)
					return
				}
			}
		})
	}
	results := make([][]seenFrame, 3*(shards+1))
	for r := range results {
		stream, durable := r%(shards+1), r/(shards+1) == 1
		at := from[stream]
		reading.Go(func() {
			var b Batch
			defer b.Release()
			for {
				finished := written.Load()
				req := Request{Stream: stream, Cursor: at, Durable: durable, Count: 1 + r, Block: 20 * time.Millisecond}
				if err := s.Since(context.Background(), &req, &b); err != nil {
					t.Errorf("stream %d: %v", stream, err)
					return
				}
				err := b.Each(func(f *Frame) error {
					if durable && f.LSN > l.Durable() {
						return fmt.Errorf("LSN %d is not durable", f.LSN)
					}
					results[r] = append(results[r], seenFrame{b.Generation, f.Offset, f.LSN, rawText(f.Raw)})
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				next := Cursor{b.Generation, b.Next}
				if finished && next == at && l.Durable() == l.Last() {
					return
				}
				at = next
			}
		})
	}
	writing.Wait()
	written.Store(true)
	reading.Wait()

	for r, seen := range results {
		stream := r % (shards + 1)
		want := framesOf(t, l, s, stream)
		if len(seen) != len(want) {
			t.Fatalf("a reader of stream %d saw %d frames of %d", stream, len(seen), len(want))
		}
		for i := range want {
			if seen[i] != want[i] {
				t.Fatalf("stream %d: saw %+v, want %+v", stream, seen[i], want[i])
			}
		}
	}
	s.Close()
	if n := l.held(); n != 0 {
		t.Fatalf("%d readers of the log are still open", n)
	}
}

// framesOf decodes the whole log.
func framesOf(t *testing.T, l *fakeLog, s *Source, stream int) (out []seenFrame) {
	t.Helper()
	generation, offset := s.view.Load().ended(stream, 0).number, uint64(0)
	var sc op.Scanner
	for _, e := range l.entries {
		if e.gen != 0 {
			generation, offset = e.gen+uint64(stream), 0
		}
		sc.Reset(e.payload, 0)
		for lsn := e.first; ; lsn++ {
			f, err := sc.Next()
			must(t, err)
			if f == nil {
				break
			}
			if stream == s.All() || !f.Verb.Keyed() || op.ShardOf(f.Key(), s.Shards()) == stream {
				out = append(out, seenFrame{generation, offset, lsn, rawText(f.Raw)})
				offset++
			}
		}
	}
	return out
}

// TestLogShortenedUnderReaders: a reader that is left behind is told so and
// nobody sees a frame twice or out of order.
func TestLogShortenedUnderReaders(t *testing.T) {
	const shards = 2
	s, l := openFake(t, shards)
	l.blockBytes = 256
	s.marks.size(shards, 16, 1<<20, 64)
	var wg sync.WaitGroup
	var done atomic.Bool
	var evicted, frames atomic.Int64
	wg.Go(func() {
		defer done.Store(true)
		deadline := time.Now().Add(5 * time.Second)
		for i := 0; i < 3000 || evicted.Load() < 20 || frames.Load() < 1000; i++ {
			l.append(commitOf(shards, fmt.Sprintf("SET k%d %d", i%40, i)))
			if i%50 == 0 {
				l.drop(l.Last() - min(l.Last(), 60) + 1)
				time.Sleep(50 * time.Microsecond)
			}
			if time.Now().After(deadline) {
				return
			}
		}
	})
	for r := range 6 {
		stream := r % (shards + 1)
		wg.Go(func() {
			var b Batch
			defer b.Release()
			at, last := s.Tail(stream), uint64(0)
			for !done.Load() {
				err := s.Since(context.Background(), &Request{Stream: stream, Cursor: at, Count: 3}, &b)
				var resync *ResyncError
				if errors.As(err, &resync) && resync.Reason == ReasonEvicted {
					evicted.Add(1)
					at = resync.Oldest
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := b.Each(func(f *Frame) error {
					if f.LSN <= last {
						return fmt.Errorf("LSN %d after %d", f.LSN, last)
					}
					last = f.LSN
					frames.Add(1)
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
				at = Cursor{b.Generation, b.Next}
				if r >= 3 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d frames, %d resyncs", frames.Load(), evicted.Load())
	if evicted.Load() == 0 || frames.Load() == 0 {
		t.Error("the log was not shortened under anybody")
	}
}
