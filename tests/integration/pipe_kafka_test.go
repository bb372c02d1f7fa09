package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kevy/internal/changejson"
	"kevy/tests/process"
	"kevy/tests/wire"
)

const brokerEnv = "KEVY_TEST_BROKER" // directory and ports of a broker that this binary is to be

// TestBrokerProcess is no test: it is the brokers of others, in a process of its own. kfake keeps its data over
// an orderly end, which SIGTERM is; a SIGKILL in the middle of its commit of a transaction leaves that in some
// partitions and not in others, as no Kafka does.
func TestBrokerProcess(t *testing.T) {
	dir, list, ok := strings.Cut(os.Getenv(brokerEnv), "|")
	if !ok {
		t.Skip("the broker of other tests")
	}
	var ports []int
	for p := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(p)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, n)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	cluster, err := kfake.NewCluster(kfake.Ports(ports...), kfake.DataDir(dir), kfake.SyncWrites(), kfake.DefaultNumPartitions(6))
	if err != nil {
		t.Fatal(err)
	}
	<-end
	cluster.Close()
}

// kafkaCluster is brokers in a process.
type kafkaCluster struct {
	dir   string
	ports []string
	proc  *process.Server
}

func startKafka(t *testing.T) *kafkaCluster {
	t.Helper()
	k := &kafkaCluster{dir: t.TempDir()}
	for range 3 {
		port, err := process.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		k.ports = append(k.ports, strconv.Itoa(port))
	}
	k.start(t)
	t.Cleanup(func() { k.proc.Kill() })
	return k
}

func (k *kafkaCluster) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k.proc, err = process.Command(process.Config{Dir: k.dir, Env: []string{brokerEnv + "=" + k.dir + "|" + strings.Join(k.ports, ",")}},
		self, "-test.run=^TestBrokerProcess$", "-test.timeout=0")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+k.ports[0]); err == nil {
			c.Close()
			return
		}
		if !k.proc.Running() || time.Now().After(deadline) {
			t.Fatalf("the broker does not start:\n%s", k.proc.Log())
		}
	}
}

func (k *kafkaCluster) stop(t *testing.T) {
	t.Helper()
	if err := k.proc.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := k.proc.WaitExit(time.Minute); err != nil {
		t.Fatalf("the brokers do not end: %v\n%s", err, k.proc.Log())
	}
}

func (k *kafkaCluster) brokers() string { return "127.0.0.1:" + strings.Join(k.ports, ",127.0.0.1:") }

func (k *kafkaCluster) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(k.brokers(), ",")...))...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// pipeStall is how long nothing may reach the topic while there is something to deliver.
const pipeStall = time.Minute

// ends returns where each partition of a topic ends; an error if the brokers are away.
func ends(ctx context.Context, cl *kgo.Client, topic string) (map[int32]int64, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	meta, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.ReplicaID = -1
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = topic
	for _, p := range meta.Topics[0].Partitions {
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Partition, lp.Timestamp = p.Partition, -1
		lt.Partitions = append(lt.Partitions, lp)
	}
	list.Topics = append(list.Topics, lt)
	resp, err := list.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, err
			}
			offsets[p.Partition] = p.Offset
		}
	}
	return offsets, nil
}

// TestPipeKafka carries the feed of a server under load into Kafka while the server and the pipe are killed and the
// brokers restarted, again and again, and checks that the topic holds every frame of the feed's history exactly once, and
// in each partition, hence for each key, in order.
func TestPipeKafka(t *testing.T) {
	b := subject(t, "has no feed")
	frames := int64(number(t, "KEVY_PIPE_FRAMES", 40_000))
	kills := int(number(t, "KEVY_PIPE_KILLS", 2))
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_PIPE_FRAMES=%d KEVY_PIPE_KILLS=%d", seed, frames, kills)
	rng := rand.New(rand.NewPCG(seed, 3))
	begun := time.Now()

	k := startKafka(t)
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var server *process.Server
	startServer := func() {
		t.Helper()
		if server, err = process.LaunchOn(b, process.Config{Dir: dir, Args: []string{"--feed-retention-bytes", "16gb"}}, port); err == nil {
			err = server.WaitReady(time.Minute)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, server.Log())
		}
	}
	startServer()
	defer func() { server.Kill() }()
	var pipe *process.Server
	startPipe := func() {
		t.Helper()
		pipe, err = process.Command(process.Config{Dir: dir}, b.Path, "changes", "pipe", "-p", strconv.Itoa(port), "--durable", "--from", "oldest",
			"--to", "kafka://"+k.brokers()+"/changes?partitions=6", "--loglevel", "warn")
		if err != nil {
			t.Fatal(err)
		}
	}
	startPipe()
	defer func() { pipe.Kill() }()
	watch := k.client(t)
	defer func() { watch.Close() }()

	// Writers keep a little ahead of the pipe, so that every kill finds it at work.
	var written, delivered atomic.Int64
	stop := make(chan struct{})
	const writers = 4
	done := make(chan struct{}, writers)
	for i := range writers {
		go func() {
			writeFrames("127.0.0.1:"+strconv.Itoa(port), i, seed, frames, &written, &delivered, stop)
			done <- struct{}{}
		}()
	}
	progress, at := int64(0), time.Now()
	look := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if m, err := ends(ctx, watch, "changes"); err == nil {
			n := int64(0)
			for _, end := range m {
				n += end
			}
			delivered.Store(n)
		}
		if n := delivered.Load(); n != progress {
			progress, at = n, time.Now()
		} else if time.Since(at) > pipeStall {
			t.Fatalf("nothing was delivered for %v: %d written, %d delivered\npipe:\n%s\nbrokers:\n%s", pipeStall, written.Load(), n, pipe.Log(), k.proc.Log())
		}
		if !pipe.Running() {
			t.Fatalf("the pipe ended by itself:\n%s", pipe.Log())
		}
		if !server.Running() {
			t.Fatalf("the server ended by itself:\n%s", server.Log())
		}
	}
	events := []string{}
	for range kills {
		for _, what := range rng.Perm(3) {
			events = append(events, []string{"server", "brokers", "pipe"}[what])
		}
	}
	for i, what := range events {
		for delivered.Load() < frames*int64(i+1)/int64(len(events)+1) {
			look()
			time.Sleep(20 * time.Millisecond)
		}
		switch what {
		case "server":
			server.Kill()
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			startServer()
		case "brokers":
			k.stop(t)
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			k.start(t)
		case "pipe":
			pipe.Kill()
			startPipe()
		}
		t.Logf("%6.1f s: ended the %s at %d written, about %d delivered", time.Since(begun).Seconds(), what, written.Load(), delivered.Load())
	}
	for n := 0; n < writers; {
		select {
		case <-done:
			n++
		default:
			look()
			time.Sleep(20 * time.Millisecond)
		}
	}
	close(stop)

	truth := readHistory(t, server.Conn(t))
	t.Logf("%6.1f s: %d frames in the feed", time.Since(begun).Seconds(), len(truth.order))
	for {
		// A look at the records is worth it once nothing comes any more.
		for quiet := time.Now(); time.Since(quiet) < 2*time.Second; time.Sleep(50 * time.Millisecond) {
			before := delivered.Load()
			if look(); delivered.Load() != before {
				quiet = time.Now()
			}
		}
		records := checkTopic(t, k, truth, false)
		if records == truth.records {
			break
		}
		if time.Since(begun) > 15*time.Minute {
			t.Fatalf("%d of %d records are there:\n%s", records, truth.records, pipe.Log())
		}
	}
	checkTopic(t, k, truth, true)
	t.Logf("%6.1f s: %d frames through %d kills each of server and pipe and as many restarts of the brokers: each is there once and in order", time.Since(begun).Seconds(), len(truth.order), kills)
	if len(truth.order) < int(frames) {
		t.Errorf("%d frames: the load did not run", len(truth.order))
	}
}

// writeFrames writes until about so many frames have been written by all.
func writeFrames(addr string, id int, seed uint64, frames int64, written, delivered *atomic.Int64, stop chan struct{}) {
	lead := min(frames/8, 60_000)
	rng := rand.New(rand.NewPCG(seed, uint64(100+id)))
	for written.Load() < frames {
		c, err := wire.Dial(addr)
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		for n := 0; written.Load() < frames; n++ {
			select {
			case <-stop:
				c.Close()
				return
			default:
			}
			if written.Load()-delivered.Load() > lead {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			var buf []byte
			const pipeline = 64
			replies, count := 0, int64(0)
			for range pipeline {
				key := fmt.Sprintf("k%d:%d", id, rng.IntN(500))
				value := strconv.FormatUint(rng.Uint64(), 36)
				switch rng.IntN(10) {
				case 0:
					buf = wire.AppendStrings(buf, "HSET", "h"+key, value[:1], value)
				case 1:
					buf = wire.AppendStrings(buf, "RPUSH", "l"+key, value, "\xff\x00"+value)
				case 2:
					buf = wire.AppendStrings(buf, "DEL", key)
					count-- // there may be no such key
				case 3:
					buf = wire.AppendStrings(buf, "MULTI")
					buf = wire.AppendStrings(buf, "SET", key, value)
					buf = wire.AppendStrings(buf, "INCR", "n"+key)
					buf = wire.AppendStrings(buf, "EXEC")
					replies, count = replies+3, count+1
				default:
					buf = wire.AppendStrings(buf, "SET", key, value)
				}
				replies, count = replies+1, count+1
			}
			if id == 0 && n%2000 == 1999 {
				buf = wire.AppendStrings(buf, "FLUSHALL")
				replies++
			}
			if _, err = c.Write(buf); err != nil {
				break
			}
			for ; replies > 0 && err == nil; replies-- {
				_, err = c.ReadReply()
			}
			if err != nil {
				break
			}
			written.Add(count)
		}
		c.Close()
	}
}

// history is what the feed has: the place of each frame, and its words.
type feedHistory struct {
	order   map[string]int // by cursor
	args    []string
	records int // in the topic: a frame without a key is in every partition
}

// readHistory reads the feed from its beginning to its durable end.
func readHistory(t *testing.T, c *wire.Conn) *feedHistory {
	t.Helper()
	h := &feedHistory{order: map[string]int{}}
	at, err := position(c, "OLDEST", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	for {
		r := do(t, c, "CHANGES", "SINCE", "ALL", fmt.Sprint(at.generation), fmt.Sprint(at.offset), "COUNT", "10000", "META", "DB", "*")
		for _, f := range r.Elems[2].Elems {
			args := strings.Join(f.Elems[1].Strings(), " ")
			offset, err := f.Elems[0].Int()
			if err != nil {
				t.Fatal(err)
			}
			cursor := fmt.Sprintf("%d:%d", at.generation, offset)
			if _, ok := h.order[cursor]; ok {
				t.Fatalf("the feed has %s twice", cursor)
			}
			h.order[cursor] = len(h.args)
			h.args = append(h.args, args)
			h.records++
			if args == "FLUSHALL" {
				h.records += 5
			}
		}
		g, _ := r.Elems[0].Int()
		o, _ := r.Elems[1].Int()
		next := at
		next.generation, next.offset = g, o
		if next == at {
			return h
		}
		at = next
	}
}

// checkTopic reads what is committed in the topic and fails the test where it is not as the feed has it: a frame
// that the feed has not, twice, or too late. It returns the number of records; with whole there must be all.
func checkTopic(t *testing.T, k *kafkaCluster, h *feedHistory, whole bool) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ask := k.client(t)
	defer ask.Close()
	end, err := ends(ctx, ask, "changes")
	if err != nil {
		return 0
	}
	from := map[int32]kgo.Offset{}
	last := map[int32]int{}
	for p, n := range end {
		if n > 0 {
			from[p] = kgo.NewOffset().At(0)
			last[p] = -1
		}
	}
	cl := k.client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"changes": from}))
	defer cl.Close()
	records := 0
	seen := make([]uint8, len(h.args))
	for len(from) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the topic cannot be read to its end: %v of %v left", len(from), len(end))
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Offset+1 >= end[r.Partition] {
				delete(from, r.Partition)
			}
			if r.Attrs.IsControl() {
				continue
			}
			records++
			f, err := changejson.ParseFrame(r.Value)
			if err != nil {
				t.Fatalf("record %q: %v", r.Value, err)
			}
			cursor := fmt.Sprintf("%d:%d", f.Generation, f.Offset)
			i, ok := h.order[cursor]
			if !ok {
				if whole {
					t.Fatalf("partition %d has frame %s, which the feed has not", r.Partition, cursor)
				}
				continue
			}
			var args []string
			for _, a := range f.Args {
				args = append(args, string(a))
			}
			if got := strings.Join(args, " "); got != h.args[i] {
				t.Fatalf("frame %s is %q, and %q in the feed", cursor, got, h.args[i])
			}
			if key := string(r.Key); key != "" && key != args[1] {
				t.Fatalf("frame %s, %q, has the key %q", cursor, args, key)
			}
			if i <= last[r.Partition] {
				t.Fatalf("partition %d: frame %s comes again or too late", r.Partition, cursor)
			}
			last[r.Partition] = i
			seen[i]++
		}
	}
	if whole {
		for cursor, i := range h.order {
			want := uint8(1)
			if h.args[i] == "FLUSHALL" {
				want = 6
			}
			if seen[i] != want {
				t.Errorf("frame %s, %q, is there %d times", cursor, h.args[i], seen[i])
			}
		}
	}
	return records
}
