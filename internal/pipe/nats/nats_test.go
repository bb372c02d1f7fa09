package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"kevy/changes"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// host is a server that can be restarted with its data.
type host struct {
	t    testing.TB
	opts server.Options
	srv  *server.Server
}

func startHost(t testing.TB, change func(*server.Options)) *host {
	t.Helper()
	h := &host{t: t, opts: server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}}
	if change != nil {
		change(&h.opts)
	}
	h.start()
	h.opts.Port = h.srv.Addr().(*net.TCPAddr).Port
	t.Cleanup(h.stop)
	return h
}

func (h *host) start() {
	h.t.Helper()
	opts := h.opts
	srv, err := server.NewServer(&opts)
	if err != nil {
		h.t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		h.t.Fatal("the server is not ready")
	}
	h.srv = srv
}

func (h *host) stop() {
	if h.srv != nil {
		h.srv.Shutdown()
		h.srv.WaitForShutdown()
		h.srv = nil
	}
}

func (h *host) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", h.opts.Port) }

func (h *host) options(stream string) Options {
	return Options{
		Servers: []string{h.url()}, Stream: stream, Streams: []string{"ALL"}, Form: words{},
		Logger: slog.New(slog.NewTextHandler(testLog{h.t}, nil)),
	}
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// words is the form of tests: the op's words.
type words struct{}

func (words) AppendFrame(dst []byte, c *changes.Commit, i int) []byte {
	return append(dst, bytes.Join(c.Frames[i].Args, []byte{' '})...)
}

func (words) AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte {
	return append(dst, bytes.Join(p.Ops[i], []byte{' '})...)
}

func (words) AppendSnapshotStart(dst []byte, _, token string) []byte {
	return append(dst, "start "+token...)
}

func (words) AppendSnapshotEnd(dst []byte, _, _ string, at changes.Cursor) []byte {
	return append(dst, "end "+at.String()...)
}

// feed makes commits of one stream.
type feed struct {
	stream     string
	generation uint64
	next, lsn  uint64
}

func newFeed(stream string) *feed { return &feed{stream: stream, generation: 1000} }

func (f *feed) commit(ops ...string) *changes.Commit {
	c := &changes.Commit{Stream: f.stream, Generation: f.generation, First: f.next}
	for _, o := range ops {
		f.lsn++
		c.Frames = append(c.Frames, changes.Frame{Offset: f.next, Args: bytes.Fields([]byte(o)), LSN: f.lsn, Time: time.UnixMilli(1_790_000_000_000 + int64(f.lsn)), Cause: "user"})
		f.next++
	}
	c.Last = f.next - 1
	c.Next = changes.Cursor{Generation: f.generation, Offset: f.next}
	return c
}

func tryOpen(ctx context.Context, o Options) (*Sink, map[string]changes.Cursor, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	s, err := New(o)
	if err != nil {
		return nil, nil, err
	}
	at, ok, err := s.Resume(ctx)
	if err == nil && !ok {
		err = errors.New("Resume says that the stream has no place for cursors")
	}
	return s, at, err
}

func open(t testing.TB, o Options) (*Sink, map[string]changes.Cursor) {
	t.Helper()
	s, at, err := tryOpen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.drop)
	return s, at
}

func write(t testing.TB, s *Sink, commits ...*changes.Commit) {
	t.Helper()
	if err := s.Write(t.Context(), commits); err != nil {
		t.Fatal(err)
	}
}

func (h *host) jetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := natsgo.Connect(h.url())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// stored returns the messages of a stream.
func (h *host) stored(t testing.TB, name string) []*jetstream.RawStreamMsg {
	t.Helper()
	js := h.jetStream(t)
	st, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var all []*jetstream.RawStreamMsg
	state := st.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := st.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func show(all []*jetstream.RawStreamMsg) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", m.Subject, m.Header.Get(HeaderCursor), m.Data)
	}
	return b.String()
}

func TestMessages(t *testing.T) {
	h := startHost(t, nil)
	s, at := open(t, h.options("F"))
	if len(at) != 0 {
		t.Errorf("a new stream has cursors %v", at)
	}
	f := newFeed("ALL")
	write(t, s, f.commit("SET user:1 a", "HSET b.c* f 1"), f.commit("FLUSHALL"))
	if got := show(h.stored(t, "F")); got != "F.user:1 1000:0: SET user:1 a\nF.b%2Ec%2A 1000:1: HSET b.c* f 1\nF.%- 1000:2: FLUSHALL\n" {
		t.Errorf("the stream holds\n%s", got)
	}
	m := h.stored(t, "F")[1]
	if m.Header.Get(natsgo.MsgIdHdr) != "ALL 1000:1" || m.Header.Get(HeaderFirst) != "0" || m.Header.Get(HeaderLast) != "1" || m.Header.Get(HeaderLSN) != "2" ||
		m.Header.Get(HeaderTime) != "1790000000002" || m.Header.Get(HeaderDB) != "0" || m.Header.Get(HeaderCause) != "user" || m.Header.Get(HeaderStream) != "ALL" {
		t.Errorf("headers %v", m.Header)
	}
	s, at = open(t, h.options("F"))
	if at["ALL"].String() != "1000:3" {
		t.Errorf("the cursor is %v", at)
	}
	// What the pipe gives again is not stored again, however old it is.
	again := newFeed("ALL")
	write(t, s, again.commit("SET user:1 a", "HSET b.c* f 1"), again.commit("FLUSHALL"), again.commit("SET z 1"))
	if n := len(h.stored(t, "F")); n != 4 {
		t.Errorf("%d messages, not 4", n)
	}
}

// The pipe ends in the middle of a commit, and goes on there.
func TestMiddleOfCommit(t *testing.T) {
	h := startHost(t, nil)
	s, _ := open(t, h.options("F"))
	f := newFeed("ALL")
	write(t, s, f.commit("SET a 1"))
	c := f.commit("SET b 1", "SET c 1", "SET d 1")
	cut := *c
	cut.Frames = c.Frames[:2]
	write(t, s, &cut)
	s, at := open(t, h.options("F"))
	if at["ALL"].String() != "1000:1" {
		t.Errorf("the cursor is %v, not that of the commit", at)
	}
	write(t, s, c)
	if got := show(h.stored(t, "F")); got != "F.a 1000:0: SET a 1\nF.b 1000:1: SET b 1\nF.c 1000:2: SET c 1\nF.d 1000:3: SET d 1\n" {
		t.Errorf("the stream holds\n%s", got)
	}
}

func TestIdleCursor(t *testing.T) {
	h := startHost(t, nil)
	s, _ := open(t, h.options("F"))
	s.every = 0
	f := newFeed("ALL")
	write(t, s, f.commit("SET a 1"))
	empty := &changes.Commit{Stream: "ALL", Generation: f.generation, Next: changes.Cursor{Generation: f.generation, Offset: 77}}
	write(t, s, empty)
	s, at := open(t, h.options("F"))
	if at["ALL"].String() != "1000:77" {
		t.Errorf("the cursor is %v", at)
	}
	// A message after it counts more than what the bucket says.
	s.every = time.Hour
	s.moved = time.Now()
	f.next = 80
	write(t, s, f.commit("SET a 2"))
	s, at = open(t, h.options("F"))
	if at["ALL"].String() != "1000:81" {
		t.Errorf("the cursor is %v", at)
	}
	// Close leaves the latest.
	s.every, s.moved = time.Hour, time.Now()
	empty.Next.Offset = 99
	write(t, s, empty)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Messages that are gone leave the bucket's cursor.
	st, err := h.jetStream(t).Stream(t.Context(), "F")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, at = open(t, h.options("F"))
	if at["ALL"].String() != "1000:99" {
		t.Errorf("the cursor is %v", at)
	}
	f.next = 99
	write(t, s, f.commit("SET a 3"))
	if n := len(h.stored(t, "F")); n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestSnapshot(t *testing.T) {
	h := startHost(t, nil)
	o := h.options("F")
	o.Snapshot = true
	s, _ := open(t, o)
	part := &changes.SnapshotPart{Stream: "ALL", Token: "x", N: 1, DB: 2, Ops: [][][]byte{{[]byte("SET"), []byte("a"), []byte("1")}, {[]byte("SET"), []byte("b"), []byte("1")}}}
	if err := s.SnapshotPart(t.Context(), part); err == nil {
		t.Error("a part of no snapshot is taken")
	}
	if err := s.SnapshotStart(t.Context(), "ALL", "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.SnapshotPart(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	s, at := open(t, o)
	if len(at) != 0 {
		t.Errorf("in the middle of a snapshot the cursor is %v", at)
	}
	without := o
	without.Snapshot = false
	if _, _, err := tryOpen(t.Context(), without); err == nil || !strings.Contains(err.Error(), "--snapshot") {
		t.Errorf("it goes on from nowhere: %v", err)
	}
	if err := s.SnapshotStart(t.Context(), "ALL", "y"); err != nil {
		t.Fatal(err)
	}
	if err := s.SnapshotEnd(t.Context(), "ALL", changes.Cursor{Generation: 1000, Offset: 5}); err != nil {
		t.Fatal(err)
	}
	if _, at = open(t, o); at["ALL"].String() != "1000:5" {
		t.Errorf("behind the snapshot the cursor is %v", at)
	}
	if got := show(h.stored(t, "F")); got != "F.%- : start x\nF.a : SET a 1\nF.b : SET b 1\nF.%- : start y\nF.%- 1000:5: end 1000:5\n" {
		t.Errorf("the stream holds\n%s", got)
	}
}

func TestStreams(t *testing.T) {
	h := startHost(t, nil)
	o := h.options("F")
	o.Streams = []string{"0", "1"}
	o.Subject = "F.{key}"
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "{stream}") {
		t.Errorf("two streams in one subject: %v", err)
	}
	o.Subject = ""
	s, _ := open(t, o)
	f0, f1 := newFeed("0"), newFeed("1")
	write(t, s, f0.commit("SET a 1"), f1.commit("SET b 1"), f0.commit("SET a 2"))
	_, at := open(t, o)
	if at["0"].String() != "1000:2" || at["1"].String() != "1000:1" {
		t.Errorf("cursors %v", at)
	}
}

func TestRefused(t *testing.T) {
	h := startHost(t, func(o *server.Options) { o.MaxPayload = 8 << 10 })
	js := h.jetStream(t)
	for _, c := range []jetstream.StreamConfig{
		{Name: "LAST", Subjects: []string{"LAST.>"}, MaxMsgsPerSubject: 1},
		{Name: "NOACK", Subjects: []string{"NOACK.>"}, NoAck: true},
		{Name: "OTHER", Subjects: []string{"x.*.y"}},
		{Name: "SMALL", Subjects: []string{"SMALL.>"}, MaxMsgSize: 300},
	} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		want   string
		change func(*Options)
	}{
		{"max_msgs_per_subject", func(o *Options) { o.Stream = "LAST" }},
		{"no_ack", func(o *Options) { o.Stream = "NOACK" }},
		{"add that to its subjects", func(o *Options) { o.Stream = "OTHER" }},
		{"no other stream has", func(o *Options) { o.Subject = "x.{key}.y" }},
		{"change the stream or the target", func(o *Options) { o.Replicas = 3 }},
		{"cannot be a stream", func(o *Options) { o.Stream = "a.b" }},
		{"no server", func(o *Options) { o.Servers = nil }},
		{"1 to 5", func(o *Options) { o.Replicas = 6 }},
		{"no form", func(o *Options) { o.Form = nil }},
	} {
		o := h.options("NEW")
		c.change(&o)
		if s, _, err := tryOpen(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
			s.drop()
		}
	}
	s, _ := open(t, h.options("SMALL"))
	if err := s.Write(t.Context(), []*changes.Commit{newFeed("ALL").commit("SET a " + strings.Repeat("x", 400))}); err == nil || !strings.Contains(err.Error(), "max_msg_size") {
		t.Errorf("a message beyond max_msg_size: %v", err)
	}
	s, _ = open(t, h.options("LARGE"))
	if err := s.Write(t.Context(), []*changes.Commit{newFeed("ALL").commit("SET a " + strings.Repeat("x", 9000))}); err == nil || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("a message beyond max_payload: %v", err)
	}

	// Somebody else's message on the same subjects.
	s, _ = open(t, h.options("F"))
	f := newFeed("ALL")
	write(t, s, f.commit("SET a 1"))
	if _, err := js.Publish(t.Context(), "F.a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), []*changes.Commit{f.commit("SET a 2")}); err == nil || !strings.Contains(err.Error(), "writes to") {
		t.Errorf("another writer: %v", err)
	}
	if _, _, err := tryOpen(t.Context(), h.options("F")); err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("another writer: %v", err)
	}

	plain := startHost(t, func(o *server.Options) { o.JetStream = false })
	o := plain.options("F")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &until{text: "nats-server -js", reached: cancel}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	// It tries again and again, until tryOpen's time is over.
	if _, _, err := tryOpen(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("no JetStream: %v, %s", err, &log.all)
	}
	locked := startHost(t, func(o *server.Options) { o.Authorization = "secret" })
	if _, _, err := tryOpen(t.Context(), locked.options("F")); err == nil || !strings.Contains(err.Error(), "check user") {
		t.Errorf("no token: %v", err)
	}
}

// until is a log that is watched for a text.
type until struct {
	text    string
	reached func()
	all     bytes.Buffer
}

func (u *until) Write(p []byte) (int, error) {
	u.all.Write(p)
	if strings.Contains(u.all.String(), u.text) {
		u.reached()
	}
	return len(p), nil
}

func TestSubjects(t *testing.T) {
	op := func(text string) *changes.Frame { return &changes.Frame{Args: bytes.Split([]byte(text), []byte{' '})} }
	long := strings.Repeat("k", 300)
	for _, c := range []struct{ template, op, want, filter string }{
		{"a.{key}", "SET user:1 v", "a.user:1", "a.*"},
		{"a.{path}", "SET user:1::x v", "a.user.1.%.x", "a.>"},
		{"a.{stream}.{db}.{verb}.{key}", "XGROUP CREATE k g 0", "a.ALL.3.XGROUP.k", "a.ALL.*.*.*"},
		{"a.b", "SET k v", "a.b", "a.b"},
		{"a.{key}", "SET  v", "a.%", "a.*"},
		{"a.{key}", "SET %- v", "a.%25-", "a.*"},
		{"a.{key}", "SET \x00é. v", "a.%00%C3%A9%2E", "a.*"},
		{"a.{path}", "FLUSHALL", "a.%-", "a.>"},
		{"a.{verb}", "", "a.%-", "a.*"},
		{"a.{path}", "SET " + strings.Repeat("x:", 40) + " v", "a." + strings.Repeat("x.", 15) + strings.Repeat("x:", 25), "a.>"},
		{"a.{key}", "SET " + long + " v", "a." + long[:256] + "%~de75e9b7a7c3da5ffea6f2b3d5c1f5b2", "a.*"},
	} {
		s, err := parseSubject(c.template)
		if err != nil {
			t.Fatal(err)
		}
		f := op(c.op)
		if c.op == "" {
			f = &changes.Frame{}
		}
		got := s.of("ALL", 3, f)
		if want, _, hashed := strings.Cut(c.want, "%~"); got != c.want && !(hashed && strings.HasPrefix(got, want+"%~") && len(got) == len(c.want)) {
			t.Errorf("%s of %q is %s, not %s", c.template, c.op, got, c.want)
		}
		if s.filter("ALL") != c.filter || !covers(s.filter(""), got) {
			t.Errorf("%s has the filter %s", c.template, s.filter("ALL"))
		}
	}
	for _, bad := range []string{"", "{key}", "a..b", "a.*", "a.{path}.b", "a.{x}", "a b", "a.>", strings.Repeat("a", 600)} {
		if _, err := parseSubject(bad); err == nil {
			t.Errorf("the subject %q was taken", bad)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{{"a.>", "a.*", true}, {"a.*", "a.>", false}, {"a.*", "a.b", true}, {"a.b", "a.*", false}, {"a", "a.b", false}, {"a.b", "a", false}, {">", "a.>", true}, {"a.*.c", "a.b.c", true}} {
		if covers(c.a, c.b) != c.want {
			t.Errorf("covers(%s, %s)", c.a, c.b)
		}
	}
}

func TestOptions(t *testing.T) {
	var o Options
	for _, w := range []string{"subject=a.{key}", "replicas=3", "window=5m", "creds=x"} {
		name, v, _ := strings.Cut(w, "=")
		if err := o.Set(name, v); err != nil || !slices.Contains(Names, name) {
			t.Errorf("%s: %v", w, err)
		}
	}
	if o.Subject != "a.{key}" || o.Replicas != 3 || o.Window != 5*time.Minute || o.Creds != "x" {
		t.Errorf("%+v", o)
	}
	for _, w := range []string{"x=1", "replicas=x", "window=x"} {
		name, v, _ := strings.Cut(w, "=")
		if err := o.Set(name, v); err == nil {
			t.Errorf("%s was taken", w)
		}
	}
}

// A server that restarts, pipes that are killed, connections that end in the
// middle of a batch, a window of ids that is over at once: each frame is stored once
// and in order.
func TestExactlyOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("KEVY_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	h := startHost(t, nil)
	o := h.options("F")
	o.Window = 100 * time.Millisecond // the least that JetStream takes
	f := newFeed("ALL")
	var commits []*changes.Commit
	want := []string{}
	for range 1500 {
		ops := make([]string, 1+rng.IntN(5))
		for i := range ops {
			ops[i] = fmt.Sprintf("SET k%d v%d", rng.IntN(50), rng.Uint32())
		}
		c := f.commit(ops...)
		commits = append(commits, c)
		for i := range c.Frames {
			want = append(want, fmt.Sprintf("%d:%d %s", c.Generation, c.Frames[i].Offset, ops[i]))
		}
		if rng.IntN(300) == 0 {
			f.generation++
			f.next = 0
			c.Next = changes.Cursor{Generation: f.generation}
		}
	}
	from := func(at map[string]changes.Cursor) []*changes.Commit {
		c, ok := at["ALL"]
		if !ok {
			return commits
		}
		for i := range commits {
			if commits[i].Generation == c.Generation && commits[i].First == c.Offset {
				return commits[i:]
			}
			if commits[i].Next == c || commits[i].Generation == c.Generation && commits[i].Last+1 == c.Offset {
				return commits[i+1:]
			}
		}
		t.Fatalf("cursor %v is at no commit's border", c)
		return nil
	}
	s, _ := open(t, o)
	restarts, kills, cuts := 0, 0, 0
	left := commits
	for len(left) > 0 {
		n := min(len(left), 1+rng.IntN(80))
		var done chan struct{}
		switch rng.IntN(5) {
		case 0:
			done = make(chan struct{})
			wait := time.Duration(rng.IntN(2000)) * time.Microsecond
			go func() {
				defer close(done)
				time.Sleep(wait)
				h.stop()
				h.start()
			}()
			restarts++
		case 1:
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(4000))*time.Microsecond)
			_ = s.Write(ctx, left[:n])
			cancel()
			s.drop()
			var at map[string]changes.Cursor
			s, at = open(t, o)
			left = from(at)
			kills++
			continue
		case 2:
			done = make(chan struct{})
			conn, wait := s.conn, time.Duration(rng.IntN(2000))*time.Microsecond
			go func() {
				defer close(done)
				time.Sleep(wait)
				if conn != nil {
					conn.Close()
				}
			}()
			cuts++
		}
		write(t, s, left[:n]...)
		left = left[n:]
		if done != nil {
			<-done
		}
	}
	var got []string
	for _, m := range h.stored(t, "F") {
		got = append(got, m.Header.Get(HeaderCursor)+" "+string(m.Data))
	}
	if !slices.Equal(got, want) {
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Errorf("of %d messages (wanted %d) number %d is %s, not %s", len(got), len(want), i, got[min(i, len(got)-1)], want[i])
				break
			}
		}
	}
	t.Logf("%d messages over %d restarts, %d kills, %d cuts", len(got), restarts, kills, cuts)
}
