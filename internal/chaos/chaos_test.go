package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kevy/changes"
	"kevy/resp"
	"kevy/tests/process"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("kevy/tests/process.init.func1.1"))
}

func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("KEVY_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("KEVY_SEED: %v", err)
		}
	}
	t.Logf("KEVY_SEED=%d", n)
	return n
}

// serve runs a proxy for the time of the test.
func serve(t *testing.T, o Options) (*Proxy, string) {
	t.Helper()
	o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p, l.Addr().String()
}

// follower keeps what a consumer has handed to it.
type follower struct {
	mu      sync.Mutex
	at      changes.Cursor      // guarded by mu; behind the last commit
	frames  map[uint64][]string // guarded by mu; of each generation, by offset
	rebuilt int                 // guarded by mu
	errors  []string            // guarded by mu
}

func (f *follower) Commit(_ context.Context, c *changes.Commit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.frames[c.Generation]
	for i := range c.Frames {
		if c.Frames[i].Offset != uint64(len(got)) {
			f.errors = append(f.errors, fmt.Sprintf("generation %d: offset %d where %d is due", c.Generation, c.Frames[i].Offset, len(got)))
		}
		words := make([]string, len(c.Frames[i].Args))
		for j, a := range c.Frames[i].Args {
			words[j] = string(a)
		}
		got = append(got, strings.Join(words, " "))
	}
	f.frames[c.Generation] = got
	f.at = c.Next
	return nil
}

// TestConsumer runs the consumer library through the proxy, with pushes and with
// SINCE, while writes go on: it sees every frame once and in order, however the
// proxy treats it.
func TestConsumer(t *testing.T) {
	for _, poll := range []bool{false, true} {
		t.Run(fmt.Sprintf("poll=%v", poll), func(t *testing.T) {
			seed := seed(t)
			rng := rand.New(rand.NewPCG(seed, 7))
			source := process.Start(t, process.Subject(t), process.Config{})
			proxy, addr := serve(t, Options{To: source.Addr(), Seed: seed, Drop: 0.1, Redeliver: 0.5, Stall: 0.05, StallMax: 50 * time.Millisecond, Resync: 0.1})
			f := &follower{frames: map[uint64][]string{}}
			consumer, err := changes.New(changes.Options{
				Addr: addr, Start: changes.Oldest, Filter: changes.Filter{AllDBs: true}, Poll: poll, Heartbeat: 100 * time.Millisecond, Count: 7,
				MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond,
				// The history is there, as the test knows, so the place where the consumer
				// was is as good as a rebuilt state.
				OnResync: changes.ResyncRebuild(func(_ context.Context, e *changes.ResyncError) (changes.Cursor, error) {
					f.mu.Lock()
					defer f.mu.Unlock()
					f.rebuilt++
					if e.Reason != "evicted" || e.Tail.IsZero() || e.Oldest.IsZero() {
						f.errors = append(f.errors, e.Error())
					}
					if f.at.IsZero() {
						return e.Oldest, nil
					}
					return f.at, nil
				}),
			}, f)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- consumer.Run(ctx) }()
			c := source.Conn(t)
			// How often the proxy has a choice depends on how much the traffic falls
			// together: writes go on until each kind of fault has come.
			tried := func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				n := proxy.Counts()
				return n.Drops > 0 && n.Redeliveries > 0 && n.Stalls > 0 && n.Resyncs > 0 && f.rebuilt > 0
			}
			var want []string
			for i, most := 0, time.Now().Add(2*time.Minute); i < 600 || !tried() && time.Now().Before(most); i++ {
				key := fmt.Sprint("k", rng.IntN(50))
				if rng.IntN(4) == 0 {
					replies, err := c.Pipeline([]string{"MULTI"}, []string{"SET", key, fmt.Sprint(i)}, []string{"SET", key + "x", "y"}, []string{"EXEC"})
					if err != nil || len(replies) != 4 {
						t.Fatal(replies, err)
					}
					want = append(want, fmt.Sprintf("SET %s %d", key, i), "SET "+key+"x y")
				} else {
					if _, err := c.Do("SET", key, fmt.Sprint(i)); err != nil {
						t.Fatal(err)
					}
					want = append(want, fmt.Sprintf("SET %s %d", key, i))
				}
				if i%10 == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
			deadline := time.Now().Add(60 * time.Second)
			for {
				f.mu.Lock()
				got, faults := 0, len(f.errors)
				for _, frames := range f.frames {
					got += len(frames)
				}
				f.mu.Unlock()
				if got >= len(want) || faults > 0 || time.Now().After(deadline) {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			cancel()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			for _, e := range f.errors {
				t.Error(e)
			}
			var got []string
			for _, frames := range f.frames {
				got = append(got, frames...)
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%d frames came, %d were written", len(got), len(want))
			}
			n := proxy.Counts()
			t.Logf("%+v, %d rebuilt", n, f.rebuilt)
			if !tried() {
				t.Errorf("not everything was tried: %+v, %d rebuilt", n, f.rebuilt)
			}
		})
	}
}

// TestPassesTheRest has a client that uses every shape of reply: without faults
// it cannot tell the proxy from the server.
func TestPassesTheRest(t *testing.T) {
	source := process.Start(t, process.Subject(t), process.Config{})
	_, addr := serve(t, Options{To: source.Addr(), Seed: seed(t)})
	ask := func(addr string) string {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		var all strings.Builder
		for _, line := range []string{
			"PING", "SET a 1", "GET a", "GET none", "RPUSH l a b", "LRANGE l 0 -1", "BLPOP none 0.001", "NOSUCH x", "HELLO 3", "GET none",
			"HSET h f v", "HGETALL h", "SADD s m", "SMEMBERS s", "ZADD z 1.5 m", "ZSCORE z m", "ZRANGE z 0 -1 WITHSCORES", "CHANGES SHARDS", "CHANGES HELP",
			"CHANGES SINCE ALL x y", "CHANGES TAIL 99", "COMMAND COUNT", "CHANGES UNSUBSCRIBE", "CHANGES SUBSCRIBE 99 TAIL", "PING", "FLUSHALL",
			"SET x y", "MULTI", "SET q 1", "EXEC", "GET q", "DEL q x a l h s z",
		} {
			args := strings.Fields(line)
			if _, err := conn.Write(resp.AppendCommand(nil, args...)); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			r, err := resp.ReadReply(in)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if args[0] == "HELLO" {
				r = resp.Reply{Type: r.Type} // holds the connection's id
			}
			fmt.Fprintf(&all, "%s: %s\n", line, r.String())
		}
		return all.String()
	}
	direct := ask(source.Addr())
	if through := ask(addr); through != direct {
		t.Errorf("through the proxy:\n%s\ndirectly:\n%s", through, direct)
	}
	if strings.Count(direct, "\n") != 32 {
		t.Errorf("asked too little:\n%s", direct)
	}
}

func TestCursorsAreOlderOnes(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 1))
	var c cursors
	if _, ok := c.before("ALL", cursor{1, 5}, rng.IntN); ok {
		t.Error("one is older, and none was given")
	}
	order := map[cursor]int{}
	n := 0
	for g := range uint64(3) {
		for o := uint64(0); o < 400; o += 1 + rng.Uint64N(5) {
			at := cursor{100 - g, o} // generations are no order
			order[at] = n
			n++
			c.give("ALL", at)
			if rng.IntN(5) == 0 {
				c.give("ALL", cursor{100 - g, o / 2}) // what was delivered again
			}
			older, ok := c.before("ALL", at, rng.IntN)
			if n > 1 && !ok {
				t.Fatalf("nothing was given before %v", at)
			}
			if place, given := order[older]; ok && (!given || place >= order[at]) {
				t.Fatalf("%v is said to be before %v", older, at)
			}
		}
	}
	if got := len(c.given["ALL"]); got > maxCursors || got < maxCursors/4 {
		t.Errorf("%d cursors are kept; at most %d", got, maxCursors)
	}
	if _, ok := c.before("ALL", cursor{7, 1}, rng.IntN); ok {
		t.Error("a cursor of an unknown history has older ones")
	}
	for i := range maxStreams + 10 {
		c.give(fmt.Sprint(i), cursor{1, 1})
	}
	if len(c.given) > maxStreams {
		t.Errorf("%d streams; at most %d", len(c.given), maxStreams)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		"the rate of drop is 1.5; it goes from 0 to 1":      {Drop: 1.5},
		"the rate of resync is -1; it goes from 0 to 1":     {Resync: -1},
		"with a rate of drop of 1 nothing":                  {Drop: 1},
		"stalls need a longest time":                        {Stall: 0.1},
		"the rate of redeliver is NaN; it goes from 0 to 1": {Redeliver: func() float64 { z := 0.0; return z / z }()},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}
