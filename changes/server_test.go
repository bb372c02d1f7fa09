package changes_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kevy/changes"
	"kevy/tests/inprocess"
)

// ledger is a handler that keeps what it gets, and applies strings to a map.
type ledger struct {
	mu      sync.Mutex
	commits map[string][]*changes.Commit
	values  map[string]string // by stream, a colon and the key
	frames  int
	verbs   map[string]bool
}

func newLedger() *ledger {
	return &ledger{commits: map[string][]*changes.Commit{}, values: map[string]string{}, verbs: map[string]bool{}}
}

func (l *ledger) Commit(_ context.Context, c *changes.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits[c.Stream] = append(l.commits[c.Stream], c)
	l.frames += len(c.Frames)
	for i := range c.Frames {
		f := &c.Frames[i]
		op, err := changes.Decode(f)
		if err != nil {
			return err
		}
		l.verbs[op.Verb()] = true
		switch op := op.(type) {
		case changes.Set:
			l.values[c.Stream+":"+string(op.Key)] = string(op.Value)
		case changes.Del:
			delete(l.values, c.Stream+":"+string(op.Key))
		case changes.FlushAll:
			// It is in every stream, and speaks there of that stream's keys.
			maps.DeleteFunc(l.values, func(k, _ string) bool { return strings.HasPrefix(k, c.Stream+":") })
		}
	}
	return nil
}

// content is the keys with their values, whichever stream they are of.
func (l *ledger) content() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]string, len(l.values))
	for k, v := range l.values {
		_, key, _ := strings.Cut(k, ":")
		all[key] = v
	}
	return all
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frames
}

// run runs a consumer until the returned function is called.
func run(t *testing.T, opt changes.Options, h changes.Handler) (c *changes.Consumer, stop func()) {
	t.Helper()
	opt.MinBackoff, opt.MaxBackoff = time.Millisecond, 50*time.Millisecond
	c, err := changes.New(opt, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return c, stop
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 seconds: %s", what)
		}
	}
}

func testSeed(t *testing.T) *rand.Rand {
	n := rand.Uint64()
	if s := os.Getenv("KEVY_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", n)
	return rand.New(rand.NewPCG(n, 1))
}

// TestAgainstServer follows a real server while it is written to, flushed and
// restarted, and the consumer is restarted too: what is rebuilt from the commits
// is what the server holds, and each came once, whole and in order.
func TestAgainstServer(t *testing.T) {
	for _, poll := range []bool{false, true} {
		for _, every := range []bool{false, true} {
			t.Run(fmt.Sprintf("poll=%v,shards=%v", poll, every), func(t *testing.T) {
				rnd := testSeed(t)
				s := inprocess.Start(t)
				store, err := changes.OpenFileStore(filepath.Join(t.TempDir(), "cursors"))
				if err != nil {
					t.Fatal(err)
				}
				opt := changes.Options{
					Addr: s.Addr(), Poll: poll, EveryShard: every, Start: changes.Oldest, Store: store, Durable: rnd.IntN(2) == 0,
					Connections: rnd.IntN(3), Window: 1 + rnd.IntN(10), Count: 1 + rnd.IntN(20), Filter: changes.Filter{AllDBs: true},
					Save: changes.SavePolicy{Every: 10 * time.Millisecond}, Heartbeat: 50 * time.Millisecond,
				}
				l := newLedger()
				_, stop := run(t, opt, l)
				c := s.Conn()
				want := map[string]string{}
				for i := range 1500 {
					switch n := rnd.IntN(200); {
					case n == 0:
						inprocess.Do(t, c, "FLUSHALL")
						clear(want)
					case n == 1:
						stop()
						_, stop = run(t, opt, l)
					case n == 2 && i%2 == 0:
						c.Close()
						s.Restart()
						c = s.Conn()
					case n < 20: // several keys in one commit
						line := "MSET"
						for range 1 + rnd.IntN(5) {
							k, v := fmt.Sprint("k", rnd.IntN(50)), fmt.Sprint(rnd.IntN(1000))
							if !strings.Contains(line, " "+k+" ") {
								line += " " + k + " " + v
								want[k] = v
							}
						}
						inprocess.Do(t, c, line)
					case n < 60:
						k := fmt.Sprint("k", rnd.IntN(50))
						inprocess.Do(t, c, "DEL "+k)
						delete(want, k)
					default:
						k, v := fmt.Sprint("k", rnd.IntN(50)), strings.Repeat("v", rnd.IntN(300))+"."
						inprocess.Do(t, c, "SET "+k+" "+v)
						want[k] = v
					}
				}
				inprocess.Do(t, c, "SET last 1")
				want["last"] = "1"
				until(t, "what the commits say is what the server holds", func() bool { return maps.Equal(l.content(), want) })
				stop()
				checkOrder(t, l)
			})
		}
	}
}

// checkOrder holds that offsets have no hole and no repetition.
func checkOrder(t *testing.T, l *ledger) {
	t.Helper()
	for stream, commits := range l.commits {
		var next changes.Cursor
		for _, c := range commits {
			if c.Generation != next.Generation {
				next = changes.Cursor{Generation: c.Generation}
			}
			if c.First != next.Offset || uint64(len(c.Frames)) != c.Last-c.First+1 {
				t.Fatalf("stream %s: a commit of %d frames at %d to %d, after %v", stream, len(c.Frames), c.First, c.Last, next)
			}
			for i, f := range c.Frames {
				if f.Offset != c.First+uint64(i) || f.Time.IsZero() || f.LSN == 0 || f.Cause != changes.User {
					t.Fatalf("stream %s: frame %+v", stream, f)
				}
			}
			next.Offset = c.Last + 1
		}
	}
	if len(l.commits) == 0 {
		t.Error("nothing came")
	}
}

// TestEveryOpComes makes the server write an op of each kind, and decodes them.
func TestEveryOpComes(t *testing.T) {
	s := inprocess.Start(t)
	l := newLedger()
	_, stop := run(t, changes.Options{Addr: s.Addr(), Start: changes.Oldest, Filter: changes.Filter{AllDBs: true}, Heartbeat: 50 * time.Millisecond}, l)
	c := s.Conn()
	for _, line := range []string{
		"SET k v EX 100", "APPEND k w", "PERSIST k", "PEXPIRE k 100000", "INCR n", "DEL k", "HSET h f 1 g 2", "HEXPIRE h 100 FIELDS 1 f",
		"HPERSIST h FIELDS 1 f", "HDEL h g", "LPUSH l a b c d e", "RPUSH l z z z", "LPOP l", "RPOP l 2", "LSET l 0 x", "LINSERT l AFTER x y", "LREM l 1 y",
		"LTRIM l 0 1", "SADD s a b c", "SPOP s", "ZADD z 1.5 a inf b", "ZREM z a", "XADD x 5-1 f v", "XADD x 6-1 f v", "XDEL x 5-1",
		"XADD x 7-1 f v", "XTRIM x MINID 7", "XSETID x 9-9", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >", "XACK x g 7-1",
		"XTRIM x MAXLEN 0", "XGROUP DELCONSUMER x g c", "XGROUP DESTROY x g", "SWAPDB 0 1", "FLUSHDB", "FLUSHALL", "SET end 1",
	} {
		inprocess.Do(t, c, line)
	}
	until(t, "the last one", func() bool {
		return l.content()["end"] == "1"
	})
	stop()
	var verbs []string
	for v := range l.verbs {
		verbs = append(verbs, v)
	}
	slices.Sort(verbs)
	if len(verbs) != 31 {
		t.Errorf("%d ops came: %q", len(verbs), verbs)
	}
}

// TestRareFilterMoves holds that the saved cursor of a filter that nothing passes
// follows the stream.
func TestRareFilterMoves(t *testing.T) {
	for _, poll := range []bool{false, true} {
		s := inprocess.Start(t)
		store := new(changes.MemoryStore)
		_, stop := run(t, changes.Options{
			Addr: s.Addr(), Poll: poll, Start: changes.Oldest, Store: store, Filter: changes.Filter{Prefixes: []string{"never:"}}, Heartbeat: 30 * time.Millisecond,
		}, newLedger())
		c := s.Conn()
		for range 100 {
			inprocess.Do(t, c, "INCR n")
		}
		until(t, "the cursor moves", func() bool { return store.Cursors()[changes.All].Offset == 100 })
		stop()
	}
}

// TestResyncFromServer takes a cursor of no history of the server.
func TestResyncFromServer(t *testing.T) {
	for _, poll := range []bool{false, true} {
		s := inprocess.Start(t)
		c := s.Conn()
		inprocess.Do(t, c, "SET a 1")
		store := new(changes.MemoryStore)
		if err := store.Save(t.Context(), changes.All, changes.Cursor{Generation: 7, Offset: 7}); err != nil {
			t.Fatal(err)
		}
		l := newLedger()
		rebuilt := make(chan *changes.ResyncError, 1)
		_, stop := run(t, changes.Options{
			Addr: s.Addr(), Poll: poll, Store: store, Heartbeat: 50 * time.Millisecond,
			OnResync: changes.ResyncRebuild(func(_ context.Context, e *changes.ResyncError) (changes.Cursor, error) {
				rebuilt <- e
				return e.Oldest, nil
			}),
		}, l)
		if e := <-rebuilt; e.Reason != "generation" || e.Stream != changes.All || e.Tail.Offset != 1 {
			t.Errorf("resync %+v", e)
		}
		until(t, "the history", func() bool { return l.count() == 1 })
		stop()
	}
}

// mirror takes snapshots and commits of one stream, strings only.
type mirror struct {
	*ledger
	starts, parts, ends int
}

func (m *mirror) SnapshotStart(_ context.Context, stream, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts++
	maps.DeleteFunc(m.values, func(k, _ string) bool { return strings.HasPrefix(k, stream+":") })
	return nil
}

func (m *mirror) SnapshotPart(_ context.Context, p *changes.SnapshotPart) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts++
	for _, args := range p.Ops {
		op, err := changes.DecodeOp(args)
		if err != nil {
			return err
		}
		m.values[p.Stream+":"+string(op.(changes.Set).Key)] = string(op.(changes.Set).Value)
	}
	return nil
}

func (m *mirror) SnapshotEnd(context.Context, string, changes.Cursor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends++
	return nil
}

// fragile is a connection that is lost after some bytes.
type fragile struct {
	net.Conn
	left atomic.Int64
}

func (f *fragile) Read(b []byte) (int, error) {
	if f.left.Load() <= 0 {
		f.Close()
		return 0, net.ErrClosed
	}
	n, err := f.Conn.Read(b[:min(len(b), 4096)])
	f.left.Add(-int64(n))
	return n, err
}

// TestSnapshotFromServer begins with a snapshot under writes, over connections
// that are lost in the middle of it, and proves the result with DIGEST.
func TestSnapshotFromServer(t *testing.T) {
	for _, every := range []bool{false, true} {
		s := inprocess.Start(t)
		c := s.Conn()
		const keys = 20000
		for i := 0; i < keys; i += 100 {
			line := "MSET"
			for j := range 100 {
				line += fmt.Sprintf(" k%d %d", i+j, i)
			}
			inprocess.Do(t, c, line)
		}
		stopWriting, written := make(chan struct{}), make(chan int)
		go func() {
			w := s.Conn()
			rnd := rand.New(rand.NewPCG(1, 1))
			for n := 0; ; n++ {
				select {
				case <-stopWriting:
					written <- n
					return
				default:
				}
				args := []string{"SET", fmt.Sprint("k", rnd.IntN(keys)), fmt.Sprint("new", n)}
				if n%5 == 0 {
					args = []string{"DEL", fmt.Sprint("k", rnd.IntN(keys))}
				}
				if _, err := w.Do(args...); err != nil {
					t.Error(err)
				}
			}
		}()
		m := &mirror{ledger: newLedger()}
		var dials atomic.Int64
		store := new(changes.MemoryStore)
		con, stop := run(t, changes.Options{
			Start: changes.Snapshot, EveryShard: every, Store: store, Heartbeat: 50 * time.Millisecond, Window: 4,
			Dial: func(ctx context.Context) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
				if err != nil {
					return nil, err
				}
				f := &fragile{Conn: nc}
				f.left.Store(1 << 40)
				if n := dials.Add(1); n < 10 {
					f.left.Store(40_000 * n)
				}
				return f, nil
			},
		}, m)
		streams := 1
		if every {
			streams = 4
		}
		until(t, "the snapshot", func() bool { return len(store.Cursors()) == streams })
		time.Sleep(100 * time.Millisecond)
		close(stopWriting)
		if n := <-written; n == 0 {
			t.Error("nothing was written meanwhile")
		}
		lost := uint64(0)
		for _, st := range con.Status().Streams {
			lost += st.Reconnects
			tail := inprocess.Do(t, c, "CHANGES TAIL "+st.Stream).Strings()
			until(t, "stream "+st.Stream+" is caught up", func() bool {
				at := store.Cursors()[st.Stream]
				return tail[0] == fmt.Sprint(at.Generation) && tail[1] == fmt.Sprint(at.Offset)
			})
			var d changes.Digest
			m.mu.Lock()
			for k, v := range m.values {
				if key, ok := strings.CutPrefix(k, st.Stream+":"); ok {
					d.Add(changes.StringDigest([]byte(key), []byte(v), 0))
				}
			}
			m.mu.Unlock()
			want := inprocess.Do(t, c, "CHANGES DIGEST "+st.Stream).Strings()
			if want[0] != tail[0] || want[1] != tail[1] || want[2] != fmt.Sprint(d.Keys()) || want[3] != d.String() {
				t.Errorf("stream %s: the server's digest is %v, the mirror's %d %v at %v", st.Stream, want, d.Keys(), d.String(), tail)
			}
		}
		stop()
		if lost == 0 {
			t.Error("no connection was lost")
		}
		if m.starts != streams || m.ends != streams || m.parts == 0 {
			t.Errorf("%d snapshots began, %d ended, with %d parts: %d streams, each resumed", m.starts, m.ends, m.parts, streams)
		}
	}
}

// TestHold holds that a consumer's hold follows what it has saved, and that one
// that was replaced is stopped.
func TestHold(t *testing.T) {
	for _, poll := range []bool{false, true} {
		s := inprocess.Start(t)
		c := s.Conn()
		inprocess.Do(t, c, "SET a 1")
		opt := changes.Options{Addr: s.Addr(), Poll: poll, Start: changes.Oldest, Hold: "search", HoldEpoch: 5, Heartbeat: 20 * time.Millisecond}
		_, stop := run(t, opt, newLedger())
		at := func(offset int) string {
			return fmt.Sprintf(`"name", "search", "stream", "ALL", "at", [:%s, :%d], "epoch", :5`, inprocess.Do(t, c, "CHANGES TAIL ALL").Strings()[0], offset)
		}
		until(t, "the hold is set", func() bool { return strings.Contains(inprocess.Do(t, c, "CHANGES HOLD LIST").String(), at(1)) })
		inprocess.Do(t, c, "SET b 1")
		until(t, "the hold moves", func() bool { return strings.Contains(inprocess.Do(t, c, "CHANGES HOLD LIST").String(), at(2)) })
		stop()
		inprocess.Do(t, c, strings.NewReplacer("[:", "", ", :", " ", "]", "").Replace("CHANGES HOLD SET search ALL "+inprocess.Do(t, c, "CHANGES TAIL ALL").String()+" EPOCH 6"))
		old, err := changes.New(opt, newLedger())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := old.Run(ctx); err == nil || !strings.Contains(err.Error(), "HOLDSTALE 6") {
			t.Errorf("the one that was replaced: %v", err)
		}
		cancel()
	}
}
