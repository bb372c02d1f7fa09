package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kevy/changes"
)

func seed(t *testing.T) *rand.Rand {
	s := uint64(time.Now().UnixNano())
	if v := os.Getenv("KEVY_SEED"); v != "" {
		var err error
		if s, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// history is what a store has: commits that a pipe can read again from any
// cursor.
type history struct {
	commits []*changes.Commit
	frames  int
}

func randomHistory(rng *rand.Rand, n int) *history {
	h := &history{}
	f := newFeed("ALL")
	for range n {
		ops := make([]string, 1+rng.IntN(4))
		for i := range ops {
			ops[i] = fmt.Sprintf("SET k%d v%d-%d", rng.IntN(50), f.lsn, i)
		}
		if rng.IntN(100) == 0 {
			ops = append(ops, "FLUSHDB")
		}
		h.commits = append(h.commits, f.commit(ops...))
		h.frames += len(ops)
		if rng.IntN(300) == 0 { // another generation
			c := h.commits[len(h.commits)-1]
			f.generation++
			f.next = 0
			c.Next = changes.Cursor{Generation: f.generation}
		}
	}
	return h
}

// from returns the commits from a cursor on.
func (h *history) from(t *testing.T, at changes.Cursor, ok bool) []*changes.Commit {
	if !ok {
		return h.commits
	}
	for i, c := range h.commits {
		if c.Generation == at.Generation && c.First == at.Offset {
			return h.commits[i:]
		}
		if c.Next == at {
			return h.commits[i+1:]
		}
	}
	t.Fatalf("cursor %v is at no commit's border", at)
	return nil
}

// check compares the topic with the history: every frame once, in every
// partition in order, and the frames of each commit in one transaction, if that can be
// told.
func (h *history) check(t *testing.T, o Options) {
	t.Helper()
	got := map[string]int{}
	partitions := committed(t, o)
	order := map[string]int{}
	for _, c := range h.commits {
		for _, f := range c.Frames {
			order[fmt.Sprintf("%d:%d", c.Generation, f.Offset)] = len(order)
		}
	}
	records := 0
	for p, rs := range partitions {
		last := -1
		for _, r := range rs {
			records++
			at := header(r, HeaderCursor)
			i, ok := order[at]
			if !ok {
				t.Fatalf("partition %d: frame %s is of no commit", p, at)
			}
			if i <= last {
				t.Fatalf("partition %d: frame %s comes again or too late", p, at)
			}
			last = i
			got[at+" "+string(r.Value)]++
		}
	}
	for _, c := range h.commits {
		for i, f := range c.Frames {
			want := 1
			if f.Verb() == "FLUSHDB" {
				want = len(partitions)
			}
			name := fmt.Sprintf("%d:%d %s", c.Generation, f.Offset, words{}.AppendFrame(nil, c, i))
			if got[name] != want {
				t.Errorf("frame %s is there %d times, not %d", name, got[name], want)
			}
		}
	}
	t.Logf("%d frames, %d records in %d partitions", h.frames, records, len(partitions))
}

// Faults of every kind, brokers that restart and pipes that are killed, and still
// every frame is there once and in order.
func TestExactlyOnce(t *testing.T) {
	rng := seed(t)
	n := 3000
	if v := os.Getenv("KEVY_KAFKA_COMMITS"); v != "" {
		n, _ = strconv.Atoi(v)
	}
	b := startBroker(t)
	h := randomHistory(rng, n)
	o := b.options("t")
	s := open(t, o)
	left := h.commits
	var faults []*kfake.FaultHandle
	restarts, kills := 0, 0
	for len(left) > 0 {
		switch rng.IntN(12) {
		case 0:
			b.stop()
			done := make(chan struct{})
			wait := time.Duration(rng.IntN(300)) * time.Millisecond
			go func() {
				defer close(done)
				time.Sleep(wait)
				b.start()
			}()
			defer func() { <-done }()
			restarts++
			if rng.IntN(2) == 0 {
				<-done
			}
		case 1, 2, 3, 4:
			if c := b.running(); c != nil {
				faults = append(faults, injectFault(rng, c))
			}
		case 5: // killed: no abort, no farewell
			s.cl.Close()
			s = open(t, o)
			m, ok := s.at["ALL"]
			c := m.cursor()
			left = h.from(t, c, ok)
			kills++
		case 6: // killed in the middle of a transaction
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(5000))*time.Microsecond)
			err := s.Write(ctx, left[:min(len(left), 50)])
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if s.cl != nil {
				s.cl.Close()
			}
			s = open(t, o)
			m, ok := s.at["ALL"]
			c := m.cursor()
			left = h.from(t, c, ok)
			kills++
			continue
		}
		size := min(len(left), 1+rng.IntN(100))
		write(t, s, left[:size]...)
		left = left[size:]
	}
	// Faults that no request of the sink ran into are not for the check: it asks
	// once, where the sink would try again.
	hits := 0
	for _, f := range faults {
		f.Remove()
		hits += f.Hits()
	}
	t.Logf("%d faults that failed %d requests, %d restarts, %d kills", len(faults), hits, restarts, kills)
	h.check(t, o)
}

// injectFault lets the next one or two requests of some kind fail. Until they come,
// whoever makes them, the fault stays.
func injectFault(rng *rand.Rand, c *kfake.Cluster) *kfake.FaultHandle {
	kinds := []struct {
		keys []kmsg.Key
		errs []*kerr.Error
	}{
		{[]kmsg.Key{kmsg.Produce}, []*kerr.Error{kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
			kerr.InvalidProducerEpoch, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidTxnState, kerr.TransactionAbortable, kerr.UnknownServerError}},
		{[]kmsg.Key{kmsg.EndTxn}, []*kerr.Error{kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.RequestTimedOut, kerr.InvalidProducerEpoch, kerr.ProducerFenced,
			kerr.UnknownServerError, kerr.InvalidTxnState, kerr.CoordinatorLoadInProgress}},
		{[]kmsg.Key{kmsg.InitProducerID}, []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorNotAvailable}},
		{[]kmsg.Key{kmsg.AddPartitionsToTxn}, []*kerr.Error{kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.NotCoordinator}},
		{[]kmsg.Key{kmsg.Metadata, kmsg.ListOffsets, kmsg.Fetch}, []*kerr.Error{kerr.LeaderNotAvailable, kerr.NotLeaderForPartition}},
	}
	k := kinds[rng.IntN(len(kinds))]
	return c.Fault(kfake.Fault{Keys: k.keys, Err: k.errs[rng.IntN(len(k.errs))], Count: 1 + rng.IntN(2)})
}

// Without transactions nothing is lost, and what comes again can be told by its
// cursor.
func TestAtLeastOnce(t *testing.T) {
	rng := seed(t)
	b := startBroker(t)
	h := randomHistory(rng, 500)
	o := b.options("t")
	o.AtLeastOnce = true
	s := open(t, o)
	left := h.commits
	for len(left) > 0 {
		if rng.IntN(4) == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(2000))*time.Microsecond)
			_ = s.Write(ctx, left[:min(len(left), 50)])
			cancel()
			if s.cl != nil {
				s.cl.Close()
			}
			s = open(t, o)
			m, ok := s.at["ALL"]
			c := m.cursor()
			left = h.from(t, c, ok)
		}
		size := min(len(left), 1+rng.IntN(40))
		write(t, s, left[:size]...)
		left = left[size:]
	}
	seen := map[string]bool{}
	for _, rs := range committed(t, o) {
		for _, r := range rs {
			seen[header(r, HeaderCursor)] = true
		}
	}
	if len(seen) != h.frames {
		t.Errorf("%d of %d frames are there", len(seen), h.frames)
	}
}

// A permission that is missing is named.
func TestPermissions(t *testing.T) {
	b := startBroker(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"),
		kfake.User("SCRAM-SHA-512", "pipe", "secret"))
	o := b.options("t")
	o.User, o.Password = "pipe", "secret"
	wrong := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, TopLevel: true, Err: kerr.SaslAuthenticationFailed, Count: -1})
	if _, _, err := tryOpen(t.Context(), o); err == nil || !strings.Contains(err.Error(), "check user") {
		t.Errorf("a wrong password: %v", err)
	}
	wrong.Remove()
	if _, _, err := tryOpen(t.Context(), o); err == nil || !strings.Contains(err.Error(), "let this user") {
		t.Errorf("a user who may nothing: %v", err)
	}
	o.User, o.Password, o.SASL = "admin", "admin", "plain"
	s := open(t, o)
	write(t, s, newFeed("ALL").commit("SET a 1"))
}

// No broker answers: Open waits, and ends with ctx.
func TestAway(t *testing.T) {
	b := startBroker(t)
	o := b.options("t")
	b.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := tryOpen(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
