package integration

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// TestKillConsumers kills the server with SIGKILL again and again while consumers follow it by SUBSCRIBE, each with a
// hold and nothing else to keep the log for them: no history is retained. Each rebuilds the keys from what it is pushed.
// A DURABLE one never has to begin anew, misses nothing and gets nothing twice; another one begins anew only where frames
// that it saw were lost; and what is held is served after each crash.
func TestKillConsumers(t *testing.T) {
	cycles := int(number(t, "KEVY_KILL_CYCLES", 6))
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	if process.Subject(t).Redis {
		t.Skip("redis-server has no feed")
	}
	for i, policy := range []string{"everysec", "always"} {
		t.Run(policy, func(t *testing.T) {
			t.Logf("KEVY_SEED=%d KEVY_KILL_CYCLES=%d", seed, cycles)
			k := &consumerKiller{policy: policy, dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, uint64(i))), ledger: newLedger()}
			for _, durable := range []bool{true, false} {
				for _, stream := range []string{"ALL", strconv.Itoa(k.rng.IntN(16))} {
					name := fmt.Sprintf("%s-%v", stream, durable)
					k.followers = append(k.followers, &follower{name: name, stream: stream, durable: durable, ledger: k.ledger})
				}
			}
			for cycle := range cycles {
				if k.cycle(t, cycle); t.Failed() {
					return
				}
			}
			k.report(t, cycles)
		})
	}
}

// consumerKiller is a data directory and the consumers that live through its crashes.
type consumerKiller struct {
	policy    string
	dir       string
	rng       *rand.Rand
	ledger    *ledger
	followers []*follower
	writes    int // acknowledged, ever
	written   int // numbers given to writes, ever
	anew      int // times that a consumer without DURABLE had to begin anew
	moved     int // holds that a crash found further on than at the last quiet moment
}

// follower is a consumer that is pushed a stream and rebuilds its keys.
type follower struct {
	name, stream string
	durable      bool
	ledger       *ledger

	held cursor // where it was held when the server was quiet

	mu     sync.Mutex
	at     cursor            // guarded by mu
	keys   map[string]string // guarded by mu
	frames int               // guarded by mu
}

func (k *consumerKiller) cycle(t *testing.T, cycle int) {
	args := []string{
		"--appendfsync", k.policy, "--feed-retention-bytes", "0", "--feed-backlog-bytes", "128kb",
		"--auto-aof-rewrite-min-size", "512kb", "--auto-aof-rewrite-percentage", "20",
	}
	s := process.Start(t, process.Subject(t), process.Config{Dir: k.dir, Args: args})
	c := s.Conn(t)
	state := readKeys(t, c)
	for _, f := range k.followers {
		if cycle == 0 {
			f.begin(t, c, state)
			f.hold(t, c)
			continue
		}
		k.checkHold(t, c, f)
	}
	stop := make(chan struct{})
	errs := make(chan error, 2*len(k.followers))
	for _, f := range k.followers {
		go func() { errs <- f.follow(s.Addr(), stop) }()
	}
	if cycle > 0 {
		k.catchUp(t, c, state, errs, s.Addr(), stop)
	}
	if t.Failed() {
		close(stop)
		return
	}
	// The load, with a rewrite in it, after which nothing but the holds keeps the log.
	var acked atomic.Int64
	var writers sync.WaitGroup
	for w := range 4 {
		from := k.written
		k.written += 1_000_000
		writers.Go(func() { acked.Add(int64(writeUntilGone(s.Addr(), w, from))) })
	}
	span := time.Duration(80+k.rng.IntN(250)) * time.Millisecond
	time.Sleep(span / 2)
	if k.rng.IntN(8) == 0 {
		if r, err := c.Do("FLUSHALL"); err != nil || r.IsError("") {
			t.Errorf("FLUSHALL: %s %v", r, err)
		}
	}
	if k.rng.IntN(2) == 0 {
		if r, err := c.Do("BGREWRITEAOF"); err != nil || r.IsError("") && !strings.Contains(string(r.Text), "in progress") {
			t.Errorf("BGREWRITEAOF: %s %v", r, err)
		}
	}
	time.Sleep(span / 2)
	s.Kill()
	writers.Wait()
	k.writes += int(acked.Load())
	close(stop)
	for range k.followers {
		if err := <-errs; err != nil {
			t.Errorf("cycle %d: under load: %v", cycle, err)
		}
	}
}

// begin takes the state and the cursor of a quiet server.
func (f *follower) begin(t *testing.T, c *wire.Conn, state map[string]string) {
	t.Helper()
	at, err := position(c, "TAIL", f.stream)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.keys = at, maps.Clone(state)
}

// hold tells the server to keep the log from where the consumer is.
func (f *follower) hold(t *testing.T, c *wire.Conn) {
	t.Helper()
	f.mu.Lock()
	at := f.at
	f.held = at
	f.mu.Unlock()
	if r, err := setHold(c, f.name, f.stream, at); err != nil || r.IsError("") {
		t.Errorf("%s: HOLD SET: %s %v", f.name, r, err)
	}
}

func setHold(c *wire.Conn, name, stream string, at cursor) (wire.Reply, error) {
	return c.Do("CHANGES", "HOLD", "SET", name, stream, strconv.FormatInt(at.generation, 10), strconv.FormatInt(at.offset, 10))
}

// checkHold holds the server to what a hold promises over a crash.
func (k *consumerKiller) checkHold(t *testing.T, c *wire.Conn, f *follower) {
	t.Helper()
	r, err := c.Do("CHANGES", "HOLD", "LIST")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Elems {
		facts := map[string]wire.Reply{}
		for i := 0; i+1 < len(e.Elems); i += 2 {
			facts[string(e.Elems[i].Text)] = e.Elems[i+1]
		}
		if string(facts["name"].Text) != f.name {
			continue
		}
		if !facts["broken"].IsNil() {
			if reason := string(facts["broken"].Text); f.durable || reason != "lost" && reason != "generation" {
				t.Errorf("the hold of %s is broken: %s", f.name, e)
			}
			return
		}
		g, _ := facts["at"].Elems[0].Int()
		o, _ := facts["at"].Elems[1].Int()
		held := cursor{g, o}
		if held.generation > f.at.generation || held.generation == f.at.generation && held.offset > f.at.offset {
			t.Errorf("%s is held at %s and is at %s", f.name, held, f.at)
		}
		if held != f.held {
			k.moved++
		}
		// All behind it is served, and is what it was.
		if err := (&consumer{stream: f.stream, at: held, ledger: k.ledger}).catchUp(c); err != nil {
			t.Errorf("from the hold of %s at %s: %v", f.name, held, err)
		}
		return
	}
	t.Errorf("the hold of %s is gone: %s", f.name, r)
}

// catchUp waits until every consumer is at the tail of the quiet server, and compares what it has with what there is. One
// that saw what is gone begins anew.
func (k *consumerKiller) catchUp(t *testing.T, c *wire.Conn, state map[string]string, errs chan error, addr string, stop chan struct{}) {
	t.Helper()
	shards, err := c.Do("CHANGES", "SHARDS")
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := shards.Int(); n != 16 {
		t.Fatalf("%s shards", shards)
	}
	deadline := time.Now().Add(time.Minute)
	for _, f := range k.followers {
		tail, err := position(c, "TAIL", f.stream)
		if err != nil {
			t.Fatal(err)
		}
		for {
			f.mu.Lock()
			at := f.at
			f.mu.Unlock()
			if at == tail {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is at %s, and the tail is %s", f.name, at, tail)
			}
			select {
			case err := <-errs:
				k.beginAnew(t, c, state, err)
				if t.Failed() {
					return
				}
				for _, other := range k.followers {
					if re := (*resyncOf)(nil); errors.As(err, &re) && re.follower == other {
						go func() { errs <- other.follow(addr, stop) }()
					}
				}
			case <-time.After(time.Millisecond):
			}
		}
	}
	for _, f := range k.followers {
		f.mu.Lock()
		got := maps.Clone(f.keys)
		f.mu.Unlock()
		for key, value := range state {
			if f.stream != "ALL" {
				break // it has the keys of one shard, and those that it began with
			}
			if got[key] != value {
				t.Errorf("%s has %q of %s, which is %q", f.name, got[key], key, value)
			}
		}
		if f.stream == "ALL" && len(got) != len(state) {
			t.Errorf("%s has %d keys of %d", f.name, len(got), len(state))
		}
		f.hold(t, c)
	}
}

// resyncOf is a consumer that was told to begin anew.
type resyncOf struct {
	follower *follower
	resync
}

// beginAnew judges the end of a subscription, and lets a consumer begin anew that may have to.
func (k *consumerKiller) beginAnew(t *testing.T, c *wire.Conn, state map[string]string, err error) {
	t.Helper()
	var re *resyncOf
	if !errors.As(err, &re) {
		t.Errorf("a consumer of a quiet server ends: %v", err)
		return
	}
	f := re.follower
	if f.durable {
		t.Errorf("%s asked for DURABLE and has to begin anew at %s: %v", f.name, f.at, re)
		return
	}
	lost, err := lostBehind(c, f.stream, f.at)
	if err != nil || !lost {
		t.Errorf("%s has to begin anew at %s, and nothing was lost: %v, %v", f.name, f.at, re, err)
	}
	k.anew++
	if r, err := c.Do("CHANGES", "HOLD", "DEL", f.name); err != nil || r.IsError("") {
		t.Errorf("HOLD DEL: %s %v", r, err)
	}
	f.begin(t, c, state)
}

// lostBehind reports whether frames that a reader at a cursor has seen are gone: its generation ended before it, or was
// itself lost with the FLUSHALL that began it.
func lostBehind(c *wire.Conn, stream string, at cursor) (bool, error) {
	r, err := c.Do("CHANGES", "INFO", stream)
	if err != nil {
		return false, err
	}
	for i := 0; i+1 < len(r.Elems); i += 2 {
		if string(r.Elems[i].Text) != "lineage" {
			continue
		}
		for _, past := range r.Elems[i+1].Elems {
			g, _ := past.Elems[1].Int()
			end, _ := past.Elems[3].Int()
			if g == at.generation {
				return end < at.offset, nil
			}
		}
		return true, nil
	}
	return false, fmt.Errorf("CHANGES INFO: %s", r)
}

// follow is pushed the stream until the connection breaks or stop is closed, and moves the hold along.
func (f *follower) follow(addr string, stop <-chan struct{}) error {
	conn, err := wire.Dial(addr)
	if err != nil {
		return nil
	}
	defer conn.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-stop:
			conn.Close()
		case <-ended:
		}
	}()
	mover, err := wire.Dial(addr)
	if err != nil {
		return nil
	}
	defer mover.Close()
	f.mu.Lock()
	at := f.at
	f.mu.Unlock()
	args := []string{"CHANGES", "SUBSCRIBE", f.stream, strconv.FormatInt(at.generation, 10), strconv.FormatInt(at.offset, 10), "COUNT", "500", "META", "DB", "*"}
	if f.durable {
		args = append(args, "DURABLE")
	}
	if _, err := conn.Do("HELLO", "3"); err != nil {
		return gone(err)
	}
	if err := conn.Send(args...); err != nil {
		return gone(err)
	}
	for n := 0; ; n++ {
		m, err := conn.ReadReply()
		if err != nil {
			return gone(err)
		}
		if err := f.take(m); err != nil {
			return fmt.Errorf("%s (durable %v): %w", f.name, f.durable, err)
		}
		if n%5 != 4 {
			continue
		}
		f.mu.Lock()
		at := f.at
		f.mu.Unlock()
		if r, err := setHold(mover, f.name, f.stream, at); err == nil && r.IsError("") {
			return fmt.Errorf("%s: HOLD SET at %s: %s", f.name, at, r)
		}
	}
}

// gone leaves out the errors of a connection whose server has gone.
func gone(err error) error {
	if broken(err) {
		return nil
	}
	return err
}

// take applies one message.
func (f *follower) take(m wire.Reply) error {
	if m.IsError("FEEDRESYNC") {
		return &resyncOf{f, resync{string(m.Text)}}
	}
	if len(m.Elems) < 3 {
		return fmt.Errorf("a message is %s", m)
	}
	switch kind := string(m.Elems[0].Text); kind {
	case "changes-subscribe":
		return nil
	case "changes-end":
		text := string(m.Elems[2].Text)
		if strings.HasPrefix(text, "FEEDRESYNC") {
			return &resyncOf{f, resync{text}}
		}
		return fmt.Errorf("the subscription ends: %s", m)
	case "changes":
	default:
		return fmt.Errorf("a message is %s", m)
	}
	if len(m.Elems) != 6 || string(m.Elems[1].Text) != f.stream {
		return fmt.Errorf("a message is %s", m)
	}
	next := cursor{}
	var err1, err2 error
	next.generation, err1 = m.Elems[2].Int()
	next.offset, err2 = m.Elems[3].Int()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	frames := m.Elems[4].Elems
	if next.generation != f.at.generation {
		if next.offset != 0 || len(frames) != 0 {
			return fmt.Errorf("it moves from %s to %s with %d frames", f.at, next, len(frames))
		}
		f.at = next
		return nil
	}
	for i, raw := range frames {
		fr, err := parseFrame(raw)
		if err != nil {
			return err
		}
		if fr.offset != f.at.offset {
			return fmt.Errorf("frame %d where %s was due", fr.offset, f.at)
		}
		if err := f.ledger.note(f.stream, f.at, fr); err != nil {
			return err
		}
		f.apply(fr)
		f.at.offset++
		f.frames++
		if i == len(frames)-1 && fr.last != fr.offset {
			return fmt.Errorf("a message ends at %s, inside a commit that ends at %d", f.at, fr.last)
		}
	}
	if next != f.at {
		return fmt.Errorf("it is at %s after the frames, and the message says %s", f.at, next)
	}
	// What was written in one MULTI is seen together.
	if a, b := f.keys["pair:a"], f.keys["pair:b"]; f.stream == "ALL" && a != b {
		return fmt.Errorf("at %s half of a commit is seen: %q and %q", f.at, a, b)
	}
	return nil
}

// apply changes the keys. The caller holds mu.
func (f *follower) apply(fr frame) {
	switch fr.args[0] {
	case "SET":
		f.keys[fr.args[1]] = fr.args[2]
	case "DEL":
		delete(f.keys, fr.args[1])
	case "FLUSHALL":
		clear(f.keys)
	default:
		panic(fmt.Sprintf("the load makes no %q", fr.args))
	}
}

// readKeys returns all keys of a quiet server.
func readKeys(t *testing.T, c *wire.Conn) map[string]string {
	t.Helper()
	r, err := c.Do("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]string{}
	names := r.Strings()
	if len(names) == 0 {
		return state
	}
	values, err := c.Do(append([]string{"MGET"}, names...)...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values.Elems {
		state[names[i]] = string(v.Text)
	}
	return state
}

// writeUntilGone writes numbers from one on until the server has gone, and returns how many commands were answered.
func writeUntilGone(addr string, w, from int) (acked int) {
	c, err := wire.Dial(addr)
	if err != nil {
		return 0
	}
	defer c.Close()
	pad := strings.Repeat("x", 100)
	for n := from; ; {
		var cmds [][]string
		for range 30 {
			n++
			cmds = append(cmds, []string{"SET", fmt.Sprintf("w%d:%d", w, n%97), strconv.Itoa(n) + pad})
		}
		cmds = append(cmds, []string{"DEL", fmt.Sprintf("w%d:%d", w, n%89)})
		value := strconv.Itoa(n)
		cmds = append(cmds, []string{"MULTI"}, []string{"SET", "pair:a", value}, []string{"SET", "pair:b", value}, []string{"EXEC"})
		replies, err := c.Pipeline(cmds...)
		if err != nil {
			return acked
		}
		acked += len(replies)
	}
}

func (k *consumerKiller) report(t *testing.T, cycles int) {
	frames := map[bool]int{}
	for _, f := range k.followers {
		frames[f.durable] += f.frames
	}
	t.Logf("%s: %d kills, %d writes acknowledged; DURABLE consumers took %d frames and never began anew, the others took %d and began anew %d times; "+
		"%d holds were found further on", k.policy, cycles, k.writes, frames[true], frames[false], k.anew, k.moved)
	if cycles >= 50 && k.moved == 0 || k.writes < 100*cycles || frames[true] < 100*cycles || frames[false] < 100*cycles {
		t.Error("too little happened")
	}
}
