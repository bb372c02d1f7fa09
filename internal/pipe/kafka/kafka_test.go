package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"kevy/changes"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// broker is a cluster that can be restarted with its data.
type broker struct {
	t       testing.TB
	dir     string
	ports   []int
	opts    []kfake.Opt
	mu      sync.Mutex
	cluster *kfake.Cluster // guarded by mu where it is restarted; nil while it is stopped
}

func (b *broker) running() *kfake.Cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cluster
}

func startBroker(t testing.TB, opts ...kfake.Opt) *broker {
	t.Helper()
	b := &broker{t: t, dir: t.TempDir(), opts: opts}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *broker) start() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	opts := append([]kfake.Opt{kfake.DataDir(b.dir), kfake.DefaultNumPartitions(4)}, b.opts...)
	if b.ports == nil {
		opts = append(opts, kfake.NumBrokers(3))
	} else {
		opts = append(opts, kfake.Ports(b.ports...))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.cluster = c
	if b.ports == nil {
		for _, a := range c.ListenAddrs() {
			_, port, _ := net.SplitHostPort(a)
			n, _ := strconv.Atoi(port)
			b.ports = append(b.ports, n)
		}
	}
}

func (b *broker) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cluster != nil {
		b.cluster.Close()
		b.cluster = nil
	}
}

func (b *broker) options(topic string) Options {
	return Options{
		Brokers: b.cluster.ListenAddrs(), Topic: topic, Form: words{},
		Logger: slog.New(slog.NewTextHandler(testLog{b.t}, nil)),
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

func (f *feed) commit(ops ...string) *changes.Commit { return f.commitIn(0, ops...) }

func (f *feed) commitIn(db int, ops ...string) *changes.Commit {
	c := &changes.Commit{Stream: f.stream, Generation: f.generation, First: f.next}
	for _, o := range ops {
		f.lsn++
		var args [][]byte
		for _, w := range strings.Fields(o) {
			args = append(args, []byte(w))
		}
		c.Frames = append(c.Frames, changes.Frame{Offset: f.next, Args: args, LSN: f.lsn, DB: db, Time: time.UnixMilli(1_790_000_000_000 + int64(f.lsn)), Cause: "user"})
		f.next++
	}
	c.Last = f.next - 1
	c.Next = changes.Cursor{Generation: f.generation, Offset: f.next}
	return c
}

func open(t testing.TB, o Options) *Sink {
	t.Helper()
	s, _, err := tryOpen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSink(t, s) })
	return s
}

// tryOpen is New and Resume.
func tryOpen(ctx context.Context, o Options) (*Sink, map[string]changes.Cursor, error) {
	s, err := New(o)
	if err != nil {
		return nil, nil, err
	}
	at, ok, err := s.Resume(ctx)
	if err == nil && !ok {
		err = errors.New("Resume says that the topic has no place for cursors")
	}
	return s, at, err
}

func closeSink(t testing.TB, s *Sink) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func write(t testing.TB, s *Sink, commits ...*changes.Commit) {
	t.Helper()
	if err := s.Write(t.Context(), commits); err != nil {
		t.Fatal(err)
	}
}

// committed reads the records of a topic that consumers see, by partition.
func committed(t testing.TB, o Options) map[int32][]*kgo.Record {
	t.Helper()
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(o.connection()...)
	if err != nil {
		t.Fatal(err)
	}
	found, err := o.lookUp(t.Context(), cl)
	cl.Close()
	if err != nil {
		t.Fatal(err)
	}
	var partitions []int32
	for i := range found[o.Topic].partitions {
		partitions = append(partitions, int32(i))
	}
	records := map[int32][]*kgo.Record{}
	if err := o.readCommitted(t.Context(), o.Topic, partitions, true, func(r *kgo.Record) error {
		records[r.Partition] = append(records[r.Partition], r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return records
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// show is the records of a partition, one a line.
func show(records []*kgo.Record) string {
	var b strings.Builder
	for _, r := range records {
		at := header(r, HeaderCursor)
		if token := header(r, HeaderToken); token != "" {
			at = "snapshot " + token
		}
		value := "tombstone"
		if r.Value != nil {
			value = string(r.Value)
		}
		fmt.Fprintf(&b, "%s %s: %s\n", at, r.Key, value)
	}
	return b.String()
}

func TestHistory(t *testing.T) {
	b := startBroker(t)
	o := b.options("t")
	o.Partitions = 3
	s := open(t, o)
	if len(s.at) != 0 {
		t.Fatalf("a new topic has cursors %v", s.at)
	}
	f := newFeed("ALL")
	write(t, s, f.commit("SET a 1", "SET b 1"), f.commit("DEL a"), f.commit("XGROUP CREATE a g 0-0 MKSTREAM"))
	write(t, s, f.commit("FLUSHALL"))
	write(t, s, f.commit("SET a 2"))
	perKey := map[string][]string{}
	flushes := 0
	for _, records := range committed(t, o) {
		seenFlush := false
		for _, r := range records {
			if r.Key == nil {
				if string(r.Value) != "FLUSHALL" {
					t.Errorf("record without a key: %s", r.Value)
				}
				flushes++
				seenFlush = true
				continue
			}
			if string(r.Value) == "SET a 2" != seenFlush {
				t.Errorf("%s on the wrong side of the FLUSHALL", r.Value)
			}
			perKey[string(r.Key)] = append(perKey[string(r.Key)], string(r.Value))
			if header(r, HeaderStream) != "ALL" || header(r, HeaderDB) != "0" || header(r, HeaderCause) != "user" || header(r, HeaderLSN) == "" {
				t.Errorf("headers %v", r.Headers)
			}
			if string(r.Value) == "SET b 1" {
				if header(r, HeaderCursor) != "1000:1" || header(r, HeaderLast) != "1" || header(r, HeaderTime) != "1790000000002" || r.Timestamp.UnixMilli() != 1790000000002 {
					t.Errorf("headers %v, timestamp %v", r.Headers, r.Timestamp)
				}
			}
		}
	}
	if flushes != 3 {
		t.Errorf("FLUSHALL is in %d partitions of 3", flushes)
	}
	if got := fmt.Sprint(perKey); got != "map[a:[SET a 1 DEL a XGROUP CREATE a g 0-0 MKSTREAM SET a 2] b:[SET b 1]]" {
		t.Errorf("by key: %s", got)
	}
	s2, at, err := tryOpen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer closeSink(t, s2)
	if at["ALL"] != (changes.Cursor{Generation: 1000, Offset: f.next}) {
		t.Errorf("the cursor is %v, not %d", at, f.next)
	}
	if s2.at["ALL"].LSN != f.lsn {
		t.Errorf("the cursor's LSN is %d, not %d", s2.at["ALL"].LSN, f.lsn)
	}
}

// The pipe that was there before can write no more, and does not take over again.
func TestFenced(t *testing.T) {
	b := startBroker(t)
	o := b.options("t")
	old := open(t, o)
	f := newFeed("ALL")
	write(t, old, f.commit("SET a 1"))
	successor := open(t, o)
	late := *f
	err := old.Write(t.Context(), []*changes.Commit{late.commit("SET a late")})
	if err == nil || !strings.Contains(err.Error(), "taken over") {
		t.Errorf("a pipe that was replaced wrote: %v", err)
	}
	write(t, successor, f.commit("SET a 2"))
	if got := show(committed(t, o)[0]) + show(committed(t, o)[1]) + show(committed(t, o)[2]) + show(committed(t, o)[3]); got != "1000:0 a: SET a 1\n1000:1 a: SET a 2\n" {
		t.Errorf("the topic holds\n%s", got)
	}
	if err := old.Write(t.Context(), nil); err == nil {
		t.Error("a sink that has failed goes on")
	}
}

func TestStreamsToPartitions(t *testing.T) {
	b := startBroker(t)
	o := b.options("t")
	o.Partition = ByStream
	o.Streams = []string{"1", "0"}
	s := open(t, o)
	f0, f1 := newFeed("0"), newFeed("1")
	write(t, s, f1.commit("SET b 1"), f0.commit("SET a 1"), f0.commit("FLUSHALL"), f1.commit("FLUSHALL"))
	got := committed(t, o)
	if show(got[0]) != "1000:0 a: SET a 1\n1000:1 : FLUSHALL\n" || show(got[1]) != "1000:0 b: SET b 1\n1000:1 : FLUSHALL\n" {
		t.Errorf("partitions:\n%s\n%s", show(got[0]), show(got[1]))
	}
	err := s.Write(t.Context(), []*changes.Commit{newFeed("2").commit("SET c 1")})
	if err == nil || !strings.Contains(err.Error(), "one for every shard") {
		t.Errorf("stream 2 of 2 partitions: %v", err)
	}

	o = b.options("u")
	s = open(t, o)
	write(t, s, newFeed("0").commit("SET a 1"))
	if err := s.Write(t.Context(), []*changes.Commit{newFeed("1").commit("SET b 1")}); err == nil || !strings.Contains(err.Error(), "one stream a topic") {
		t.Errorf("two streams by key: %v", err)
	}
}

// What cannot be right is refused with what to do.
func TestRefused(t *testing.T) {
	b := startBroker(t)
	compact, del, both := "compact", "delete", "compact,delete"
	for topic, policy := range map[string]string{"compacted": compact, "deleted": del, "both": both, "c.cursors": del} {
		if err := b.cluster.CreateTopic(topic, 2, map[string]string{"cleanup.policy": policy}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, want string
		change     func(*Options)
	}{
		{"history, compacted", "mode=changelog", func(o *Options) { o.Topic = "compacted" }},
		{"history, compacted and deleted", "make it delete", func(o *Options) { o.Topic = "both" }},
		{"changelog, deleted", "make it compact", func(o *Options) { o.Topic, o.Mode, o.Snapshot = "deleted", Changelog, true }},
		{"cursors, deleted", "drops cursors", func(o *Options) { o.Topic = "c" }},
		{"partitions", "2 partitions, not 3", func(o *Options) { o.Topic, o.Partitions = "deleted", 3 }},
		{"changelog, no snapshot", "--snapshot", func(o *Options) { o.Mode = Changelog }},
		{"no form", "no form", func(o *Options) { o.Form = nil }},
		{"at least once, changelog", "needs transactions", func(o *Options) { o.Mode, o.AtLeastOnce = Changelog, true }},
	} {
		o := b.options("x")
		c.change(&o)
		if _, _, err := tryOpen(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := b.cluster.CreateTopic("small", 2, map[string]string{"max.message.bytes": "20000"}); err != nil {
		t.Fatal(err)
	}
	s := open(t, b.options("small"))
	f := newFeed("ALL")
	err := s.Write(t.Context(), []*changes.Commit{f.commit("SET a 1"), f.commit("SET big " + strings.Repeat("x", 30000))})
	if err == nil || !strings.Contains(err.Error(), "max.message.bytes") || !strings.Contains(err.Error(), `key "big", cursor 1000:1`) {
		t.Errorf("a record that is too large: %v", err)
	}
	for p, records := range committed(t, b.options("small")) {
		t.Errorf("partition %d holds %d records of a transaction that failed", p, len(records))
	}
}

// A topic that was deleted and made anew is not taken for the one that the
// cursors are of.
func TestTopicMadeAnew(t *testing.T) {
	b := startBroker(t)
	o := b.options("t")
	s := open(t, o)
	write(t, s, newFeed("ALL").commit("SET a 1"))
	if err := b.cluster.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tryOpen(t.Context(), o); err == nil || !strings.Contains(err.Error(), "records are gone") {
		t.Errorf("a topic made anew was taken: %v", err)
	}
	o.Partition = ByStream
	if _, _, err := tryOpen(t.Context(), o); err == nil {
		t.Error("another way to choose partitions was taken")
	}
}

// A cursor moves without records, so that a filter that nothing passes does not
// let it fall out of the history.
func TestIdleCursor(t *testing.T) {
	b := startBroker(t)
	o := b.options("t")
	s := open(t, o)
	f := newFeed("ALL")
	write(t, s, f.commit("SET a 1"))
	empty := func() *changes.Commit {
		f.next++
		return &changes.Commit{Stream: "ALL", Generation: f.generation, Next: changes.Cursor{Generation: f.generation, Offset: f.next}}
	}
	n := s.owner.N
	write(t, s, empty(), empty())
	if s.owner.N != n {
		t.Error("each heartbeat is a transaction")
	}
	s.idleEvery = 0
	write(t, s, empty())
	if s.owner.N != n+1 {
		t.Error("a cursor without records does not move")
	}
	s.idleEvery = time.Hour
	write(t, s, empty())
	closeSink(t, s)
	m, err := s.o.readMarks(t.Context(), true)
	if err != nil || m.cursors["ALL"].Offset != f.next || m.cursors["ALL"].LSN != 1 {
		t.Errorf("after the close the cursor is %v (%v), not %d", m.cursors, err, f.next)
	}
}

func TestOptions(t *testing.T) {
	o := Options{Topic: "t", User: "u"}
	for _, w := range []string{"mode=changelog", "partition=stream", "partitions=16", "replication=3", "cursors=c", "compression=zstd", "sasl=PLAIN", "state-max-bytes=5", "transactions=yes"} {
		name, v, _ := strings.Cut(w, "=")
		if err := o.Set(name, v); err != nil {
			t.Error(err)
		}
		if !slices.Contains(Names, name) {
			t.Errorf("%s is not among the names", name)
		}
	}
	var err error
	if o.Brokers, err = Brokers("b1:9093,b2,[::1]"); err != nil || fmt.Sprint(o.Brokers) != "[b1:9093 b2:9092 [::1]:9092]" {
		t.Errorf("brokers %v, %v", o.Brokers, err)
	}
	if err := o.complete(); err != nil || o.Mode != Changelog || o.Partition != ByStream || o.Partitions != 16 || o.Replication != 3 || o.Cursors != "c" || o.SASL != "plain" || o.MaxStateBytes != 5 {
		t.Errorf("%+v, %v", o, err)
	}
	for given, want := range map[string]string{
		"x=1": "no option", "mode=x": "mode=x", "partition=x": "partition=x", "partitions=x": "partitions=x", "partitions=-1": "partitions=-1",
		"sasl=x": "sasl=x", "compression=x": "compression=x", "cursors=t": "of their own", "cursors=a b": "cannot be a topic",
		"transactions=x": "yes or no", "state-max-bytes=-1": "at least 1", "replication=-1": "at least 1",
	} {
		o := Options{Brokers: []string{"b:1"}, Topic: "t", User: "u"}
		name, v, _ := strings.Cut(given, "=")
		err := o.Set(name, v)
		if err == nil {
			err = o.complete()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", given, err)
		}
	}
	for _, topic := range []string{"", ".", "..", "a b", strings.Repeat("x", 250)} {
		o := Options{Brokers: []string{"b:1"}, Topic: topic}
		if err := o.complete(); err == nil {
			t.Errorf("%q was taken for a topic", topic)
		}
	}
	if _, err := Brokers("a,,b"); err == nil {
		t.Error("an empty broker was taken")
	}
	if err := (&Options{Brokers: []string{"b:1"}, Topic: "t", SASL: "plain"}).complete(); err == nil {
		t.Error("sasl without a user was taken")
	}
}
