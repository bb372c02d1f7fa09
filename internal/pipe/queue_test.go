package pipe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kevy/changes"
)

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			name string
			item item
			most int
		}{
			{"items", item{commit: oneCommit("ALL", 1, "DEL a")}, maxQueueItems},
			{"bytes", item{commit: oneCommit("ALL", 1, "DEL a"), bytes: maxQueueBytes / 4}, 4},
			{"one large", item{commit: oneCommit("ALL", 1, "DEL a"), bytes: 2 * maxQueueBytes}, 1},
		} {
			q := newQueue()
			for range test.most {
				if err := q.push(t.Context(), test.item); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if err := q.push(ctx, test.item); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: one more: %v", test.name, err)
			}
			cancel()
			pushed := make(chan error)
			go func() { pushed <- q.push(t.Context(), test.item) }()
			synctest.Wait()
			if batch, _ := q.take(batchLimits{commits: 1, bytes: 1}, time.Time{}); len(batch) != 1 {
				t.Errorf("%s: a batch of %d", test.name, len(batch))
			}
			if err := <-pushed; err != nil {
				t.Errorf("%s: after a take: %v", test.name, err)
			}
		}
	})
}

func TestQueueMakesBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		push := func(it item) {
			t.Helper()
			if err := q.push(t.Context(), it); err != nil {
				t.Fatal(err)
			}
		}
		small := item{commit: oneCommit("ALL", 1, "DEL a"), bytes: 10}
		limits := batchLimits{commits: 3, bytes: 100, wait: time.Second}
		take := func(want int, after time.Duration) {
			t.Helper()
			begin := time.Now()
			batch, ended := q.take(limits, time.Time{})
			if len(batch) != want || ended || time.Since(begin) != after {
				t.Errorf("%d items after %v (%v), want %d after %v", len(batch), time.Since(begin), ended, want, after)
			}
		}
		for range 4 {
			push(small)
		}
		take(3, 0)           // as many as a batch has
		take(1, time.Second) // as long as it waits
		push(item{commit: small.commit, bytes: 95})
		push(small)
		take(1, 0) // as much as it weighs
		push(item{part: &changes.SnapshotPart{}})
		push(item{commit: small.commit, bytes: 1000})
		take(1, 0) // a snapshot's items stand between commits
		take(1, 0)
		take(1, 0)

		// Progress takes the place of progress, of its own stream alone.
		for i, stream := range []string{"0", "0", "1", "0"} {
			push(item{commit: &changes.Commit{Stream: stream, Next: changes.Cursor{Generation: 1, Offset: uint64(i)}}})
		}
		limits.wait = 0
		take(3, 0)

		begin := time.Now()
		if batch, ended := q.take(limits, begin.Add(time.Minute)); len(batch) > 0 || ended || time.Since(begin) != time.Minute {
			t.Errorf("nothing comes: %d items after %v", len(batch), time.Since(begin))
		}
		push(small)
		q.close()
		take(1, 0)
		if _, ended := q.take(limits, time.Time{}); !ended {
			t.Error("it does not end")
		}
	})
}
