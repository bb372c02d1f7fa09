package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/keyspace"
	"kevy/tests/oracle"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// TestKillRandomCommands kills the server under random commands of every kind, FLUSHALL, SWAPDB and
// transactions included. What the keys must hold is not known then; but a reader that asks for durable
// frames must never have to start again, no position may name two frames, and a redis-server that applies
// the frames as they stand must hold what the restarted server holds.
func TestKillRandomCommands(t *testing.T) {
	b := subject(t, "has no feed")
	cycles := int(number(t, "KEVY_KILL_CYCLES", 6))
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_KILL_CYCLES=%d", seed, cycles)
	rng := rand.New(rand.NewPCG(seed, 2))
	mirror := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}})
	r := &consumer{stream: "ALL", ledger: newLedger(), mirror: mirror.Conn(t), durable: true}
	dir := t.TempDir()
	commands := 0
	for cycle := range cycles {
		policy := []string{"always", "everysec"}[cycle%2]
		s := process.Start(t, b, process.Config{Dir: dir, Args: []string{"--appendfsync", policy}})
		c := s.Conn(t)
		d, err := keyspace.Read(c, databases)
		if err != nil {
			t.Fatalf("cycle %d: %v", cycle, err)
		}
		if cycle == 0 {
			err = r.restart(c, d)
		} else {
			err = r.catchUp(c)
		}
		if err != nil {
			t.Fatalf("cycle %d: the reader at %s: %v", cycle, r.at, err)
		}
		got, err := keyspace.Read(r.mirror, databases)
		if err != nil {
			t.Fatal(err)
		}
		r.mirrorDB = 0
		if diff := keyspace.Diff(d, got, keyspace.Options{}, 5); len(diff) > 0 {
			t.Fatalf("cycle %d: the mirror differs from the server: %q", cycle, diff)
		}
		if err := readAll(c, "ALL", r.ledger); err != nil {
			t.Fatalf("cycle %d: %v", cycle, err)
		}
		stop := make(chan struct{})
		followed := make(chan error, 1)
		go func() { followed <- r.follow(s.Addr(), stop) }()
		var clients sync.WaitGroup
		var sent [4]int
		for i := range sent {
			clients.Add(1)
			go func() {
				defer clients.Done()
				sent[i] = runRandom(s.Addr(), seed+uint64(100*cycle+i))
			}()
		}
		time.Sleep(time.Duration(100+rng.IntN(400)) * time.Millisecond)
		s.Kill()
		clients.Wait()
		close(stop)
		if err := <-followed; err != nil {
			t.Fatalf("cycle %d: the reader under load: %v", cycle, err)
		}
		for _, n := range sent {
			commands += n
		}
	}
	t.Logf("%d commands, %d frames, %d generations", commands, r.frames, r.moves)
	if commands < 200*cycles || r.frames < commands/20 {
		t.Errorf("%d commands and %d frames in %d cycles: the load did not run", commands, r.frames, cycles)
	}
}

// runRandom sends random commands until the connection breaks and returns how many were answered.
func runRandom(addr string, seed uint64) int {
	c, err := wire.Dial(addr)
	if err != nil {
		return 0
	}
	defer c.Close()
	g := oracle.NewGenerator(seed, time.Now().UnixMilli(), oracle.Options{})
	for n := 0; ; {
		const pipeline = 8
		var buf []byte
		for sent := 0; sent < pipeline; {
			if step := g.Next(); !step.MayWait() {
				buf = wire.AppendCommand(buf, step.Args...)
				sent++
			}
		}
		if _, err := c.Write(buf); err != nil {
			return n
		}
		for range pipeline {
			if _, err := c.ReadReply(); err != nil {
				return n
			}
			n++
		}
	}
}

// TestFeedOfEveryShard compares what the streams of the shards show with what ALL shows: the same ops, each
// in the stream of its key's shard and in order, and those without a key in every one.
func TestFeedOfEveryShard(t *testing.T) {
	b := subject(t, "has no feed")
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d", seed)
	const shards = 4
	s := process.Start(t, b, process.Config{Args: []string{"--shards", fmt.Sprint(shards)}})
	drive(t, s, seed, 2000)
	c := s.Conn(t)
	read := func(stream string) (out []string) {
		at, err := position(c, "OLDEST", stream)
		if err != nil {
			t.Fatal(err)
		}
		r := &consumer{stream: stream, at: at, ledger: newLedger(), seen: func(f frame) { out = append(out, fmt.Sprintf("%d %q", f.db, f.args)) }}
		if err := r.catchUp(c); err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := read("ALL")
	next := make([][]string, shards)
	for i := range next {
		next[i] = read(fmt.Sprint(i))
	}
	if len(all) < 200 {
		t.Fatalf("ALL shows %d frames only", len(all))
	}
	for n, f := range all {
		holders := 0
		for i := range next {
			if len(next[i]) > 0 && next[i][0] == f {
				next[i] = next[i][1:]
				holders++
			}
		}
		if holders != 1 && holders != shards {
			t.Fatalf("frame %d of ALL, %.300s, is next in %d streams", n, f, holders)
		}
	}
	for i, rest := range next {
		if len(rest) > 0 {
			t.Errorf("stream %d has %d frames that ALL has not, first %.300s", i, len(rest), rest[0])
		}
	}
}

// TestBlockedReader checks that a reader that waits is woken by a write at once, and costs nothing when it hangs up.
func TestBlockedReader(t *testing.T) {
	b := subject(t, "has no feed")
	s := process.Start(t, b, process.Config{})
	c, writer := s.Conn(t), s.Conn(t)
	at, err := position(c, "TAIL", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	r := &consumer{stream: "ALL", at: at, ledger: newLedger()}
	for range 20 {
		woken := make(chan error, 1)
		go func() {
			_, err := r.poll(c, 20_000)
			woken <- err
		}()
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		do(t, writer, "SET", "k", "v")
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 500*time.Millisecond {
			t.Errorf("a waiting reader was woken after %v", d)
		}
	}
	if r.frames != 20 {
		t.Errorf("the reader has %d frames", r.frames)
	}
	// Waiting readers that hang up are gone at once.
	for range 50 {
		w, err := wire.Dial(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Send("CHANGES", "SINCE", "ALL", fmt.Sprint(r.at.generation), fmt.Sprint(r.at.offset), "BLOCK", "0"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // let it arrive
		w.Close()
	}
	deadline := time.Now().Add(3 * time.Second)
	for {
		info := string(do(t, writer, "INFO", "clients").Text)
		if strings.Contains(info, "connected_clients:2\r\n") && strings.Contains(info, "blocked_clients:0\r\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("readers that hung up are still there:\n%s", info)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
