package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/resp"
)

// fakeServer speaks the contract of the feed about histories that a test makes
// up, and behaves as badly as it is told to.
type fakeServer struct {
	t        testing.TB
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]bool
	streams map[string]*history
	grown   chan struct{} // closed when a history grows
	log     []string      // commands, without HELLO and TAIL
	faults  faults
	rnd     *rand.Rand
}

// faults are what the server does wrong. Fields are guarded by the server's mu.
type faults struct {
	resp2       bool // HELLO and SUBSCRIBE are unknown
	noSubscribe bool // SUBSCRIBE is unknown
	password    string
	cutEvery    int  // on average, messages until a connection is cut within one
	repeat      bool // subscriptions begin at an older cursor
	silent      bool // what connections send stays without an answer
	// answer replies to a command in place of the server, if it returns true.
	answer func(w *resp.Writer, args []string) bool
	// snapshot is what SUBSCRIBE SNAPSHOT sends; tokens may be resumed if resumable.
	snapshot  [][]string
	resumable bool
}

// history is one stream: generations, each with commits.
type history struct {
	generations []uint64
	commits     [][]Commit
}

func newFake(t testing.TB, streams ...string) *fakeServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServer{t: t, listener: l, conns: map[net.Conn]bool{}, streams: map[string]*history{}, grown: make(chan struct{}), rnd: rand.New(rand.NewPCG(1, 2))}
	for i, s := range streams {
		f.streams[s] = &history{generations: []uint64{uint64(1000 + i)}, commits: make([][]Commit, 1)}
	}
	f.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns[nc] = true
			f.mu.Unlock()
			f.wg.Go(func() { f.serve(nc) })
		}
	})
	t.Cleanup(f.close)
	return f
}

func (f *fakeServer) addr() string { return f.listener.Addr().String() }

func (f *fakeServer) close() {
	f.listener.Close()
	f.cut()
	f.wg.Wait()
}

// cut ends all connections.
func (f *fakeServer) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for nc := range f.conns {
		nc.Close()
	}
}

// set changes the faults.
func (f *fakeServer) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.faults)
}

// commands returns what clients have sent, by its first words.
func (f *fakeServer) commands(prefix string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	for _, line := range f.log {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return found
}

// add commits n times one SET each in a stream, or as many as sizes says.
func (f *fakeServer) add(stream string, sizes ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.streams[stream]
	g := len(h.generations) - 1
	for _, n := range sizes {
		at := h.tail()
		c := Commit{Stream: stream, Generation: at.Generation, First: at.Offset, Last: at.Offset + uint64(n) - 1}
		for i := range n {
			o := at.Offset + uint64(i)
			c.Frames = append(c.Frames, Frame{
				Offset: o, LSN: o + 1, Time: time.Now().Truncate(time.Millisecond), Cause: User,
				Args: [][]byte{[]byte("SET"), fmt.Appendf(nil, "key:%d:%d", at.Generation, o), bytes.Repeat([]byte{'v'}, int(o)%100)},
			})
		}
		h.commits[g] = append(h.commits[g], c)
	}
	close(f.grown)
	f.grown = make(chan struct{})
}

// bump begins another generation.
func (f *fakeServer) bump(stream string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.streams[stream]
	h.generations = append(h.generations, h.generations[len(h.generations)-1]+100)
	h.commits = append(h.commits, nil)
	close(f.grown)
	f.grown = make(chan struct{})
}

func (h *history) tail() Cursor { return h.end(len(h.generations) - 1) }

func (h *history) end(g int) Cursor {
	at := Cursor{Generation: h.generations[g]}
	if k := len(h.commits[g]); k > 0 {
		at.Offset = h.commits[g][k-1].Last + 1
	}
	return at
}

func (f *fakeServer) tail(stream string) Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams[stream].tail()
}

// after returns commits that follow a cursor, and where to go on.
func (h *history) after(at Cursor, most int) ([]Commit, Cursor, *resp.Error) {
	g := slices.Index(h.generations, at.Generation)
	if g < 0 {
		tail := h.tail()
		return nil, at, resp.Errorf("FEEDRESYNC", "%d %d %d 0 generation", tail.Generation, tail.Offset, h.generations[0])
	}
	var out []Commit
	for _, c := range h.commits[g] {
		if c.Last >= at.Offset && len(out) < most {
			out = append(out, c)
		}
	}
	switch {
	case len(out) > 0:
		at.Offset = out[len(out)-1].Last + 1
	case at.Offset > h.end(g).Offset:
		return nil, at, resp.Errorf("ERR", "feed cursor ahead of stream")
	case g < len(h.generations)-1:
		at = Cursor{Generation: h.generations[g+1]}
	}
	return out, at, nil
}

// older returns a cursor up to ten commits back.
func (h *history) older(at Cursor, rnd *rand.Rand) Cursor {
	g := slices.Index(h.generations, at.Generation)
	if g > 0 && rnd.IntN(4) == 0 {
		g--
		at.Generation, at.Offset = h.generations[g], h.end(g).Offset
	}
	for range rnd.IntN(10) {
		for i := len(h.commits[g]) - 1; i >= 0; i-- {
			if c := h.commits[g][i]; c.Last < at.Offset {
				at.Offset = c.First
				break
			}
		}
	}
	return at
}

// fakeConn is one connection of a fakeServer.
type fakeConn struct {
	f      *fakeServer
	nc     net.Conn
	proto  int
	stop   chan struct{}
	pushes sync.WaitGroup

	mu      sync.Mutex // of writing
	credits map[string]int
	more    chan struct{}
}

var errCut = errors.New("the connection is cut on purpose")

func (f *fakeServer) serve(nc net.Conn) {
	c := &fakeConn{f: f, nc: nc, proto: 2, stop: make(chan struct{}), credits: map[string]int{}, more: make(chan struct{})}
	defer func() {
		nc.Close()
		close(c.stop)
		c.pushes.Wait()
		f.mu.Lock()
		delete(f.conns, nc)
		f.mu.Unlock()
	}()
	in := resp.NewReader(nc, resp.DefaultLimits())
	for {
		args, ok, err := in.Next()
		if err != nil {
			f.t.Errorf("the client sent %v", err)
			return
		}
		if !ok {
			if in.Fill() != nil {
				return
			}
			continue
		}
		words := make([]string, len(args))
		for i, a := range args {
			words[i] = string(a)
		}
		if err := c.do(words); err != nil {
			return
		}
	}
}

// send writes a message, or a part of it and then cuts.
func (c *fakeConn) send(write func(w *resp.Writer)) error {
	w := resp.NewWriter(c.proto)
	write(w)
	c.f.mu.Lock()
	silent, every := c.f.faults.silent, c.f.faults.cutEvery
	cut := -1
	if every > 0 && c.f.rnd.IntN(every) == 0 {
		cut = c.f.rnd.IntN(w.Len() + 1)
	}
	c.f.mu.Unlock()
	if silent {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cut >= 0 {
		c.nc.Write(w.Bytes()[:cut])
		c.nc.Close()
		return errCut
	}
	_, err := c.nc.Write(w.Bytes())
	return err
}

func (c *fakeConn) do(args []string) error {
	f := c.f
	f.mu.Lock()
	faults := f.faults
	if args[0] != "HELLO" && !(len(args) > 1 && args[1] == "TAIL") {
		f.log = append(f.log, strings.Join(args, " "))
	}
	f.mu.Unlock()
	answered := false
	if faults.answer != nil {
		w := resp.NewWriter(max(c.proto, 3))
		if answered = faults.answer(w, args); answered && w.Len() > 0 {
			return c.send(func(out *resp.Writer) { out.Raw(w.Bytes()) })
		}
	}
	fail := func(e *resp.Error) error { return c.send(func(w *resp.Writer) { w.Error(e) }) }
	switch {
	case answered:
		return nil
	case args[0] == "HELLO" && faults.resp2:
		return fail(resp.Errorf("ERR", "unknown command 'HELLO', with args beginning with: '3'"))
	case args[0] == "HELLO":
		if faults.password != "" && (len(args) < 5 || args[4] != faults.password) {
			return fail(resp.Errorf("WRONGPASS", "invalid username-password pair or user is disabled."))
		}
		c.proto = 3
		return c.send(func(w *resp.Writer) { w.Map(0) })
	case args[0] == "AUTH":
		if args[len(args)-1] != faults.password {
			return fail(resp.Errorf("WRONGPASS", "invalid username-password pair or user is disabled."))
		}
		return c.send(func(w *resp.Writer) { w.OK() })
	case args[0] != "CHANGES":
		return fail(resp.Errorf("ERR", "unknown command '%s'", args[0]))
	}
	switch args[1] {
	case "SHARDS":
		f.mu.Lock()
		n := 0
		for s := range f.streams {
			if s != All {
				n++
			}
		}
		f.mu.Unlock()
		return c.send(func(w *resp.Writer) { w.Int(int64(n)) })
	case "TAIL", "OLDEST":
		at := f.tail(args[2])
		if args[1] == "OLDEST" {
			at = Cursor{Generation: f.streams[args[2]].generations[0]}
		}
		return c.send(func(w *resp.Writer) {
			w.Array(2)
			w.Int(int64(at.Generation))
			w.Int(int64(at.Offset))
		})
	case "SUBSCRIBE":
		if faults.noSubscribe || faults.resp2 {
			return fail(resp.Errorf("ERR", "unknown subcommand 'SUBSCRIBE'. Try CHANGES HELP."))
		}
		return c.subscribe(args)
	case "CREDIT":
		n, _ := strconv.Atoi(args[3])
		c.mu.Lock()
		c.credits[args[2]] += n
		close(c.more)
		c.more = make(chan struct{})
		c.mu.Unlock()
		return c.send(func(w *resp.Writer) {
			w.Push(3)
			w.BulkString("changes-credit")
			w.BulkString(args[2])
			w.Int(int64(n))
		})
	case "SINCE":
		return c.since(args)
	}
	return fail(resp.Errorf("ERR", "unknown subcommand '%s'. Try CHANGES HELP.", args[1]))
}

func cursorOf(g, o string) Cursor {
	at, err := ParseCursor(g + ":" + o)
	if err != nil {
		panic(err)
	}
	return at
}

func option(args []string, name string, otherwise int) int {
	if i := slices.Index(args, name); i >= 0 {
		n, err := strconv.Atoi(args[i+1])
		if err != nil {
			panic(err)
		}
		return n
	}
	return otherwise
}

func (c *fakeConn) since(args []string) error {
	at := cursorOf(args[3], args[4])
	deadline := time.Now().Add(time.Duration(option(args, "BLOCK", 0)) * time.Millisecond)
	for {
		c.f.mu.Lock()
		if c.f.faults.repeat && c.f.rnd.IntN(3) == 0 {
			at = c.f.streams[args[2]].older(at, c.f.rnd)
		}
		commits, next, err := c.f.streams[args[2]].after(at, 1+c.f.rnd.IntN(10))
		grown := c.f.grown
		c.f.mu.Unlock()
		if err == nil && len(commits) == 0 && next == at && time.Now().Before(deadline) {
			select {
			case <-grown:
			case <-time.After(time.Until(deadline)):
			}
			continue
		}
		return c.send(func(w *resp.Writer) {
			if err != nil {
				w.Error(err)
				return
			}
			w.Array(4)
			w.Int(int64(next.Generation))
			w.Int(int64(next.Offset))
			writeFrames(w, commits)
			w.Int(int64(next.Offset))
		})
	}
}

func (c *fakeConn) subscribe(args []string) error {
	stream := args[2]
	var at Cursor
	from := -1 // of the snapshot's parts
	c.f.mu.Lock()
	h := c.f.streams[stream]
	var err *resp.Error
	switch {
	case h == nil:
		err = resp.Errorf("ERR", "no such stream '%s'", stream)
	case args[3] == "TAIL":
		at = h.tail()
	case args[3] == "OLDEST":
		at = Cursor{Generation: h.generations[0]}
	case args[3] == "SNAPSHOT":
		at, from = h.tail(), 0
		if args[4] != "COUNT" {
			if !c.f.faults.resumable {
				err = resp.Errorf("ERR", "no such snapshot")
				break
			}
			at = cursorOf(strings.Split(args[4], "-")[0], strings.Split(args[4], "-")[1])
			from, _ = strconv.Atoi(args[5])
		}
	default:
		at = cursorOf(args[3], args[4])
		_, _, err = h.after(at, 1)
		if err == nil && c.f.faults.repeat {
			at = h.older(at, c.f.rnd)
		}
	}
	ops := c.f.faults.snapshot
	c.f.mu.Unlock()
	if err != nil {
		return c.send(func(w *resp.Writer) { w.Error(err) })
	}
	c.mu.Lock()
	c.credits[stream] = option(args, "WINDOW", 1<<30)
	c.mu.Unlock()
	serr := c.send(func(w *resp.Writer) {
		w.Push(4)
		w.BulkString("changes-subscribe")
		w.BulkString(stream)
		w.Int(int64(at.Generation))
		w.Int(int64(at.Offset))
	})
	if serr != nil {
		return serr
	}
	heartbeat := time.Duration(option(args, "HEARTBEAT", 60000)) * time.Millisecond
	c.pushes.Go(func() {
		if from >= 0 && !c.pushSnapshot(stream, at, ops, from) {
			return
		}
		c.push(stream, at, heartbeat)
	})
	return nil
}

// pushSnapshot sends the parts behind the first from, numbered from 1.
func (c *fakeConn) pushSnapshot(stream string, at Cursor, ops [][]string, from int) bool {
	if !c.use(stream) || c.send(func(w *resp.Writer) {
		w.Push(3)
		w.BulkString("changes-snapshot-start")
		w.BulkString(stream)
		w.BulkString(fmt.Sprintf("%d-%d", at.Generation, at.Offset))
	}) != nil {
		return false
	}
	for i := from; i < len(ops); i++ {
		if !c.use(stream) || c.send(func(w *resp.Writer) {
			w.Push(5)
			w.BulkString("changes-snapshot")
			w.BulkString(stream)
			w.Int(int64(i + 1))
			w.Int(0)
			w.Array(1)
			w.Array(len(ops[i]))
			for _, a := range ops[i] {
				w.BulkString(a)
			}
		}) != nil {
			return false
		}
	}
	return c.use(stream) && c.send(func(w *resp.Writer) {
		w.Push(4)
		w.BulkString("changes-snapshot-end")
		w.BulkString(stream)
		w.Int(int64(at.Generation))
		w.Int(int64(at.Offset))
	}) == nil
}

// use takes one credit, waiting for it.
func (c *fakeConn) use(stream string) bool {
	for {
		c.mu.Lock()
		ok, more := c.credits[stream] > 0, c.more
		if ok {
			c.credits[stream]--
		}
		c.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-more:
		case <-c.stop:
			return false
		}
	}
}

// push sends what follows a cursor until the connection ends.
func (c *fakeConn) push(stream string, at Cursor, heartbeat time.Duration) {
	for {
		c.f.mu.Lock()
		commits, next, err := c.f.streams[stream].after(at, 1+c.f.rnd.IntN(10))
		grown := c.f.grown
		c.f.mu.Unlock()
		if err != nil {
			c.send(func(w *resp.Writer) {
				w.Push(3)
				w.BulkString("changes-end")
				w.BulkString(stream)
				w.BulkString(err.Error())
			})
			return
		}
		if len(commits) == 0 && next == at {
			select {
			case <-grown:
				continue
			case <-time.After(heartbeat):
			case <-c.stop:
				return
			}
		}
		if len(commits) > 0 && !c.use(stream) {
			return
		}
		at = next
		if c.send(func(w *resp.Writer) { writeChanges(w, stream, next, commits, next.Offset) }) != nil {
			return
		}
	}
}

// recorder is a handler that keeps what it gets.
type recorder struct {
	mu      sync.Mutex
	commits map[string][]*Commit
	events  []string // of snapshots and progress
	changed chan struct{}
	hook    func(ctx context.Context, c *Commit) error
}

func newRecorder() *recorder {
	return &recorder{commits: map[string][]*Commit{}, changed: make(chan struct{})}
}

func (r *recorder) note(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Commit(ctx context.Context, c *Commit) error {
	if r.hook != nil {
		if err := r.hook(ctx, c); err != nil {
			return err
		}
	}
	r.note(func() { r.commits[c.Stream] = append(r.commits[c.Stream], c) })
	return nil
}

func (r *recorder) event(format string, a ...any) error {
	r.note(func() { r.events = append(r.events, fmt.Sprintf(format, a...)) })
	return nil
}

func (r *recorder) SnapshotStart(_ context.Context, stream, token string) error {
	return r.event("start %s %s", stream, token)
}

func (r *recorder) SnapshotPart(_ context.Context, p *SnapshotPart) error {
	return r.event("part %s %s %d %d %s", p.Stream, p.Token, p.N, p.DB, p.Ops)
}

func (r *recorder) SnapshotEnd(_ context.Context, stream string, at Cursor) error {
	return r.event("end %s %v", stream, at)
}

// count returns how many frames of a stream came.
func (r *recorder) count(stream string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.commits[stream] {
		n += len(c.Frames)
	}
	return n
}

// until waits for a condition on what came.
func (r *recorder) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("not within 20 seconds: %s", what)
		}
	}
}

// running is a consumer that runs beside a test.
type running struct {
	*Consumer
	t      testing.TB
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func start(t testing.TB, opt Options, h Handler) *running {
	t.Helper()
	if opt.MinBackoff == 0 {
		opt.MinBackoff, opt.MaxBackoff = time.Millisecond, 20*time.Millisecond
	}
	c, err := New(opt, h)
	if err != nil {
		t.Fatal(err)
	}
	return rerun(t, c)
}

func rerun(t testing.TB, c *Consumer) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Consumer: c, t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		r.err = c.Run(ctx)
		close(r.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// stop ends the consumer, which must end well.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	if err := r.wait(); err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(20 * time.Second):
		r.t.Fatal("Run did not end within 20 seconds")
		return nil
	}
}

// checkAll compares what a stream's consumer got with the history from a cursor
// on.
func (f *fakeServer) checkAll(t testing.TB, r *recorder, stream string, from Cursor) {
	t.Helper()
	var want []string
	f.mu.Lock()
	for at := from; ; {
		commits, next, err := f.streams[stream].after(at, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if next == at {
			break
		}
		for i := range commits {
			want = append(want, fmt.Sprint(commits[i].Generation, commits[i].First, commits[i].Last, len(commits[i].Frames)))
		}
		at = next
	}
	f.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, c := range r.commits[stream] {
		got = append(got, fmt.Sprint(c.Generation, c.First, c.Last, len(c.Frames)))
		for i, fr := range c.Frames {
			if fr.Offset != c.First+uint64(i) || string(fr.Key()) != fmt.Sprintf("key:%d:%d", c.Generation, fr.Offset) {
				t.Errorf("frame %d of commit %s: %d %q", i, got[len(got)-1], fr.Offset, fr.Key())
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("stream %s: %d commits, want %d", stream, len(got), len(want))
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Errorf("the first that differs is %d: %s, want %s", i, got[i], want[i])
				break
			}
		}
	}
}
