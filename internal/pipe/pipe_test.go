package pipe

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/changes"
	"kevy/internal/changejson"
	"kevy/internal/chaos"
	"kevy/internal/vfs"
	"kevy/tests/keyspace"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// logText is a log for tests to read.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// runPipe runs a pipe until the function that it returns is called, which gives
// what Run returned.
func runPipe(t *testing.T, o Options, spec *Target) (stop func() error, log *logText) {
	t.Helper()
	log = &logText{}
	o = withTarget(t, o, spec, log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		_ = stop()
		if t.Failed() {
			t.Logf("log of the pipe:\n%s", log)
		}
	})
	return stop, log
}

// withTarget returns options with a target opened.
func withTarget(t *testing.T, o Options, spec *Target, log *logText) Options {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(log, nil))
	spec.Log = logger
	s, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	o.Sink, o.Log, o.FS = s, logger, spec.FS
	o.Consumer.Filter, o.Rewrite = spec.Filter, spec.Rewrite
	o.Consumer.Heartbeat = time.Second
	return o
}

// endOf runs a pipe that is to fail until it does, and returns what Run returned.
func endOf(t *testing.T, o Options, spec *Target) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return Run(ctx, withTarget(t, o, spec, &logText{}))
}

// enough is how long writes go on at most until every fault has come that a test
// is about.
const enough = 2 * time.Minute

// eventually waits for a condition.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// positionOf returns the position that a copy has, "" for none.
func positionOf(t *testing.T, s *process.Server) string {
	t.Helper()
	c := s.Conn(t)
	defer c.Close()
	r, err := c.Do("HGET", stateKey+"test", "position")
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Text)
}

// positionInFile returns the position that a file of JSON lines has, "" for none.
func positionInFile(t *testing.T, name string) string {
	t.Helper()
	file, err := vfs.OS().Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found, err := readPositions(file)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := found.at[changes.All]
	if !ok {
		return ""
	}
	return "cursor " + p.cursor.String()
}

// slowly dials connections on which what comes is read late.
func slowly(addr string, late time.Duration) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return lateConn{c, late}, err
	}
}

type lateConn struct {
	net.Conn
	late time.Duration
}

func (c lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(c.late)
	return n, err
}

// restart kills a server and starts it again on its port.
func restart(t *testing.T, s *process.Server) *process.Server {
	t.Helper()
	s.Kill()
	again, err := process.LaunchOn(s.Binary, process.Config{Dir: s.Dir}, s.Port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Kill)
	if err := again.WaitReady(30 * time.Second); err != nil {
		t.Fatalf("%v\n%s", err, again.Log())
	}
	return again
}

// TestPipeToServerOverRestarts runs the whole pipe while writes go on, connections
// are cut, the target is killed and started again, and the pipe is stopped and
// started: the copy equals its source.
func TestPipeToServerOverRestarts(t *testing.T) {
	eachTarget(t, func(t *testing.T, b process.Binary) {
		rng := testRand(t)
		source := process.Start(t, process.Subject(t), process.Config{})
		to := process.Start(t, b, process.Config{Args: []string{"--appendfsync", "always"}})
		cuts := newCutter(t, to.Addr(), rng, 20_000)
		spec := func() *Target { return target(t, "redis://"+cuts.listener.Addr().String()) }
		options := Options{Consumer: changes.Options{Addr: source.Addr()}, BatchBytes: 8_000} // which a connection carries before it is cut, now and then
		stop, _ := runPipe(t, options, spec())
		eventually(t, "the pipe has a position", func() bool { return positionOf(t, to) != "" })
		f := newFeeder(t, source.Addr())
		for round := range 6 {
			f.writes(rng, 150, true)
			switch round {
			case 1, 3:
				to = restart(t, to)
			case 2, 4:
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				f.writes(rng, 50, false)
				stop, _ = runPipe(t, options, spec())
			}
		}
		for most := time.Now().Add(enough); cuts.count() == 0 && time.Now().Before(most); {
			f.writes(rng, 50, true)
		}
		f.do("SET", "last", "1")
		tail := f.do("CHANGES", "TAIL", "ALL")
		want := "cursor " + cursorOf(t, tail.Elems[0], tail.Elems[1]).String()
		eventually(t, "the copy is at "+want, func() bool { return positionOf(t, to) == want })
		if err := stop(); err != nil {
			t.Error(err)
		}
		if cuts.count() == 0 {
			t.Error("no connection was cut")
		}
		mustEqual(t, dump(t, source), dump(t, to))
	})
}

// TestPipeToWebhookOverRestarts has a receiver that is away, refuses, and takes
// batches whose answers are lost: it gets every frame, in order once those that
// came again are left out, and no stop of the pipe loses one.
func TestPipeToWebhookOverRestarts(t *testing.T) {
	rng := testRand(t)
	source := process.Start(t, process.Subject(t), process.Config{})
	f := newFeeder(t, source.Addr())
	var mu sync.Mutex
	var offsets []uint64                            // guarded by mu; of the last generation seen
	again := 0                                      // guarded by mu
	fates := rand.New(rand.NewPCG(rng.Uint64(), 3)) // guarded by mu
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fate := fates.IntN(6)
		if fate == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body := new(bytes.Buffer)
		if _, err := body.ReadFrom(req.Body); err != nil {
			return
		}
		for line := range bytes.Lines(body.Bytes()) {
			frame, err := changejson.ParseFrame(line)
			if err != nil {
				t.Errorf("%q: %v", line, err)
				return
			}
			next := uint64(len(offsets))
			switch {
			case frame.Offset < next:
				again++
			case frame.Offset > next:
				t.Errorf("offset %d where %d is due", frame.Offset, next)
			default:
				offsets = append(offsets, frame.Offset)
			}
		}
		if fate == 1 { // taken, and the answer is lost
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	serve := func(l net.Listener) *httptest.Server {
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
		s.Start()
		return s
	}
	server := serve(listener)
	defer func() { server.Close() }()
	file := filepath.Join(t.TempDir(), "pipe.cursor")
	options := Options{Consumer: changes.Options{Addr: source.Addr(), Start: changes.Oldest}, CursorFile: file, BatchCommits: 20}
	spec := func() *Target { return target(t, "http://"+addr) }
	stop, _ := runPipe(t, options, spec())
	for round := range 6 {
		f.writes(rng, 100, false)
		switch round {
		case 1, 3:
			server.Close()
			f.writes(rng, 20, false)
			if listener, err = net.Listen("tcp", addr); err != nil {
				t.Fatal(err)
			}
			server = serve(listener)
		case 2, 4:
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			stop, _ = runPipe(t, options, spec())
		}
	}
	lost := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return again > 0
	}
	// How many batches there are depends on how much falls together.
	for most := time.Now().Add(enough); !lost() && time.Now().Before(most); time.Sleep(time.Millisecond) {
		f.writes(rng, 20, false)
	}
	total := len(collectFrames(f))
	eventually(t, "every frame has come", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(offsets) == total
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d frames, %d came again", total, again)
	if again == 0 {
		t.Error("no answer was lost")
	}
}

func collectFrames(f *feeder) (frames []changes.Frame) {
	for _, c := range f.commits("DB", "*") {
		frames = append(frames, c.Frames...)
	}
	return frames
}

func TestPipeIsChecked(t *testing.T) {
	source := process.Start(t, process.Subject(t), process.Config{})
	f := newFeeder(t, source.Addr())
	f.do("SET", "a", "1")
	file := filepath.Join(t.TempDir(), "dir", "pipe.cursor")
	options := Options{Consumer: changes.Options{Addr: source.Addr(), Start: changes.Oldest}, CursorFile: file}

	if err := endOf(t, Options{Consumer: options.Consumer}, target(t, "stdout:")); err == nil || !strings.Contains(err.Error(), "name a file for it with --cursor-file") {
		t.Errorf("no cursor file: %v", err)
	}
	stop, _ := runPipe(t, options, target(t, "stdout:"))
	eventually(t, "there is a cursor", func() bool { _, err := vfs.OS().Stat(file); return err == nil })
	if err := endOf(t, options, target(t, "stdout:")); err == nil || !strings.Contains(err.Error(), "another pipe is using the cursor file") {
		t.Errorf("two pipes: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	spec := target(t, "stdout:")
	spec.Filter.Prefixes = []string{"a"}
	if err := endOf(t, options, spec); err == nil || !strings.Contains(err.Error(), `was kept for other filters (all databases; now all databases, prefix "a")`) {
		t.Errorf("other filters: %v", err)
	}
	// A cursor that the server cannot serve.
	if err := vfs.WriteFileAtomic(vfs.OS(), file, fmt.Appendf(nil, `{"format":1,"selection":"all databases","cursors":{"ALL":"1:5"}}`)); err != nil {
		t.Fatal(err)
	}
	var resync *changes.ResyncError
	if err := endOf(t, options, target(t, "stdout:")); !errors.As(err, &resync) || !strings.Contains(err.Error(), "--on-resync=snapshot") {
		t.Errorf("an unknown cursor: %v", err)
	}
	for text, want := range map[string]string{
		"x":            "is no cursor file of a pipe",
		`{"format":9}`: "has format 9, and this program reads 1",
		`{"format":1,"selection":"all databases","cursors":{"ALL":"x"}}`: "stream ALL",
		`{"format":1,"selection":"all databases","snapshots":["ALL"]}`:   "start with --snapshot",
	} {
		if err := vfs.WriteFileAtomic(vfs.OS(), file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := endOf(t, options, target(t, "stdout:")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestPipeKeepsUp has a filter that nothing passes: its cursor moves on.
func TestPipeKeepsUp(t *testing.T) {
	source := process.Start(t, process.Subject(t), process.Config{})
	f := newFeeder(t, source.Addr())
	file := filepath.Join(t.TempDir(), "pipe.cursor")
	spec := target(t, "stdout:")
	spec.Filter.Prefixes = []string{"never"}
	stop, _ := runPipe(t, Options{Consumer: changes.Options{Addr: source.Addr()}, CursorFile: file, Hold: "test"}, spec)
	eventually(t, "there is a cursor", func() bool { _, err := vfs.OS().Stat(file); return err == nil })
	f.writes(rand.New(rand.NewPCG(1, 1)), 100, false)
	tail := f.do("CHANGES", "TAIL", "ALL")
	at := cursorOf(t, tail.Elems[0], tail.Elems[1])
	eventually(t, "the cursor moves", func() bool {
		got, err := openCursors(file)
		return err == nil && got["ALL"] == at
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	if held := f.do("CHANGES", "HOLD", "LIST").String(); !strings.Contains(held, `"test"`) || !strings.Contains(held, fmt.Sprint(":", at.Offset)) {
		t.Errorf("the pipe is at %v, and its hold is %s", at, held)
	}
}

func openCursors(file string) (map[string]changes.Cursor, error) {
	f := &cursorFile{fsys: vfs.OS(), name: file}
	f.now.Selection = selectionOf(&changes.Filter{AllDBs: true, Prefixes: []string{"never"}}, nil)
	err := f.load(f.now.Selection, false)
	return f.cursors(), err
}

// TestPipeBeginsWithASnapshot starts pipes with --snapshot while writes go on, of
// the whole and of a part under other names, stops one in the middle, and takes
// the state anew when the cursor is no longer good: the copies equal the source.
func TestPipeBeginsWithASnapshot(t *testing.T) {
	rng := testRand(t)
	source := process.Start(t, process.Subject(t), process.Config{})
	f := newFeeder(t, source.Addr())
	for i := range 3000 {
		f.do("SET", fmt.Sprintf("a:%d", i), fmt.Sprint(i))
	}
	f.writes(rng, 300, false)
	whole := process.Start(t, process.Oracle(t), process.Config{})
	part := process.Start(t, process.Oracle(t), process.Config{})
	foreign := part.Conn(t)
	if _, err := foreign.Do("SET", "a:foreign", "1"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "out.jsonl")
	options := Options{Consumer: changes.Options{Addr: source.Addr()}, Snapshot: true, SnapshotOnResync: true}
	specs := []func() *Target{
		func() *Target {
			s := target(t, "redis://"+whole.Addr())
			s.Snapshot = true
			return s
		},
		func() *Target {
			s := target(t, "redis://"+part.Addr())
			s.Snapshot, s.Filter.Prefixes, s.Rewrite = true, []string{"a:"}, Rewrite{{"a:", "copy:"}}
			return s
		},
		func() *Target {
			s := target(t, "file://"+file)
			s.Snapshot = true
			return s
		},
	}
	run := func(after time.Duration) {
		t.Helper()
		var stops []func() error
		for i, spec := range specs {
			o := options
			if i == 2 { // the file lags behind the servers: a stop delivers what was read, and no more
				o.Consumer.Dial = slowly(source.Addr(), 20*time.Millisecond)
			}
			stop, _ := runPipe(t, o, spec())
			stops = append(stops, stop)
		}
		if after > 0 {
			f.writes(rng, rng.IntN(60), true)
			time.Sleep(after)
		} else {
			f.writes(rng, 300, true)
			f.do("SET", "a:last", fmt.Sprint(rng.Uint64()))
			tail := f.do("CHANGES", "TAIL", "ALL")
			want := "cursor " + cursorOf(t, tail.Elems[0], tail.Elems[1]).String()
			for _, s := range []*process.Server{whole, part} {
				eventually(t, "the copy is at "+want, func() bool { return positionOf(t, s) == want })
			}
			eventually(t, "the file is at "+want, func() bool { return positionInFile(t, file) == want })
		}
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	}
	check := func() {
		t.Helper()
		state := dump(t, source)
		mustEqual(t, state, dump(t, whole))
		want, got := keyspace.Dump{}, dump(t, part)
		if _, ok := got[keyspace.Key{Name: "a:foreign"}]; !ok {
			t.Error("the foreign key is gone")
		}
		delete(got, keyspace.Key{Name: "a:foreign"})
		for key, value := range state {
			if rest, ok := strings.CutPrefix(key.Name, "a:"); ok {
				key.Name = "copy:" + rest
				want[key] = value
			}
		}
		mustEqual(t, want, got)
	}
	for range 5 {
		run(time.Duration(1+rng.IntN(60)) * time.Millisecond) // cut off somewhere
	}
	run(0)
	check()
	// Cursors that the server does not know: the state is taken anew.
	for _, s := range []*process.Server{whole, part} {
		c := s.Conn(t)
		if _, err := c.Do("HSET", stateKey+"test", "position", "cursor 1:1"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do("SET", "copy:stale", "1"); err != nil {
			t.Fatal(err)
		}
	}
	run(0)
	check()

	// The file holds what rebuilds the state: the last snapshot, and what follows.
	rebuilt := process.Start(t, process.Subject(t), process.Config{})
	c := rebuilt.Conn(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	do := func(db int, args []string) {
		t.Helper()
		for _, words := range [][]string{{"SELECT", fmt.Sprint(db)}, args} {
			if r, err := c.Do(words...); err != nil || r.Kind == wire.Error {
				t.Fatalf("%q: %v %v", words, r, err)
			}
		}
	}
	starts := 0
	for line := range bytes.Lines(data) {
		var l struct {
			Event  string
			DB     int
			Args   []string
			Base64 []int
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%.200s: %v", line, err)
		}
		for _, i := range l.Base64 {
			raw, err := base64.StdEncoding.DecodeString(l.Args[i])
			if err != nil {
				t.Fatal(err)
			}
			l.Args[i] = string(raw)
		}
		switch l.Event {
		case "snapshot-start":
			starts++
			do(0, []string{"FLUSHALL"})
		case "snapshot", "":
			do(l.DB, l.Args)
		}
	}
	if starts == 0 {
		t.Error("no snapshot is in the file")
	}
	mustEqual(t, dump(t, source), dump(t, rebuilt))
}

// TestPipeThroughChaos has a proxy between the source and the pipe that drops,
// repeats, stalls and tells it to resync: the copy equals the source, whether the
// pipe takes the state anew or not.
func TestPipeThroughChaos(t *testing.T) {
	for _, resync := range []float64{0, 0.3} {
		t.Run(fmt.Sprintf("resync=%v", resync), func(t *testing.T) {
			rng := testRand(t)
			source := process.Start(t, process.Subject(t), process.Config{})
			to := process.Start(t, process.Oracle(t), process.Config{})
			proxy, err := chaos.New(chaos.Options{To: source.Addr(), Seed: rng.Uint64(), Drop: 0.1, Redeliver: 0.5, Stall: 0.05, StallMax: 20 * time.Millisecond, Resync: resync})
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var serving sync.WaitGroup
			serving.Go(func() {
				if err := proxy.Serve(ctx, l); err != nil {
					t.Error(err)
				}
			})
			defer serving.Wait()
			defer cancel()
			options := Options{
				Consumer: changes.Options{Addr: l.Addr().String(), MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, Count: 10}, Snapshot: true, SnapshotOnResync: true,
			}
			spec := target(t, "redis://"+to.Addr())
			spec.Snapshot = true
			stop, _ := runPipe(t, options, spec)
			f := newFeeder(t, source.Addr())
			// How often the proxy has a choice depends on how much the traffic falls
			// together: writes go on until each kind of fault has come.
			tried := func() bool {
				n := proxy.Counts()
				return n.Drops > 0 && n.Redeliveries > 0 && n.Stalls > 0 && (resync == 0 || n.Resyncs > 0)
			}
			for i, most := 0, time.Now().Add(enough); i < 60 || !tried() && time.Now().Before(most); i++ {
				f.writes(rng, 20, true)
				time.Sleep(5 * time.Millisecond)
			}
			f.do("SET", "last", "1")
			tail := f.do("CHANGES", "TAIL", "ALL")
			want := "cursor " + cursorOf(t, tail.Elems[0], tail.Elems[1]).String()
			eventually(t, "the copy is at "+want, func() bool { return positionOf(t, to) == want })
			if err := stop(); err != nil {
				t.Error(err)
			}
			mustEqual(t, dump(t, source), dump(t, to))
			n := proxy.Counts()
			t.Logf("%+v", n)
			if !tried() {
				t.Errorf("not everything was tried: %+v", n)
			}
		})
	}
}
