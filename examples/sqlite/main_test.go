package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"modernc.org/sqlite"

	"kevy/changes"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// The test binary is the consumer too: so it can be killed.
const (
	childAddr = "KEVY_EXAMPLE_ADDR"
	childDB   = "KEVY_EXAMPLE_DB"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(childAddr); addr != "" {
		sqlite.RegisterConnectionHook(dieAtACommit)
		if err := follow(context.Background(), addr, os.Getenv(childDB), slog.New(slog.DiscardHandler)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// dieAtACommit kills the process, one commit of the database in twenty, within the
// next two milliseconds: before it is done, or just behind it.
func dieAtACommit(conn sqlite.ExecQuerierContext, _ string) error {
	conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
		if rand.IntN(20) == 0 {
			go func() {
				time.Sleep(rand.N(2 * time.Millisecond))
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}()
		}
		return 0
	})
	return nil
}

// buildServer builds the server of the tree that this example stands in.
func buildServer(t *testing.T) process.Binary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kevy-server")
	if out, err := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", path, "./cmd/kevy-server").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return process.Binary{Path: path}
}

// consumer is a child process that follows the server.
type consumer struct {
	cmd  *exec.Cmd
	text bytes.Buffer
	done chan error
}

func startConsumer(t *testing.T, addr, db string) *consumer {
	t.Helper()
	c := &consumer{cmd: exec.Command(os.Args[0]), done: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), childAddr+"="+addr, childDB+"="+db)
	c.cmd.Stderr = &c.text
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.done <- c.cmd.Wait() }()
	t.Cleanup(func() { c.cmd.Process.Kill() })
	return c
}

// kill ends the consumer with SIGKILL, unless that has happened already. It must
// not have ended in another way.
func (c *consumer) kill(t *testing.T) {
	t.Helper()
	c.cmd.Process.Kill()
	c.wait(t)
}

// wait waits for the consumer to be killed.
func (c *consumer) wait(t *testing.T) {
	t.Helper()
	err := <-c.done
	if exit, ok := err.(*exec.ExitError); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the consumer ended by itself: %v\n%s", err, c.text.String())
	}
}

// TestExactlyOnce writes while consumer and server are killed again and again.
// In the end the database has what the server has, and each change of each key
// was counted once.
func TestExactlyOnce(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("KEVY_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))

	server := buildServer(t)
	// With an fsync for each write what is durable comes in many small batches.
	cfg := process.Config{Dir: t.TempDir(), Args: []string{"--shards", "4", "--appendfsync", "always"}}
	s := process.Start(t, server, cfg)
	addr, port := s.Addr(), s.Port
	db := filepath.Join(t.TempDir(), "copy.db")
	c := startConsumer(t, addr, db)

	stop := make(chan struct{})
	var writer sync.WaitGroup
	written := 0
	writer.Go(func() { written = write(addr, rand.New(rand.NewPCG(seed, 1)), stop) })
	endWriter := sync.OnceFunc(func() {
		close(stop)
		writer.Wait()
	})
	defer endWriter()
	kills, deaths := 0, 0
	for deadline := time.Now().Add(6 * time.Second); time.Now().Before(deadline); {
		select {
		case err := <-c.done:
			c.done <- err
			c.wait(t)
			c = startConsumer(t, addr, db)
			deaths++
		case <-time.After(time.Duration(rnd.IntN(800)) * time.Millisecond):
			s.Kill()
			next, err := process.LaunchOn(server, cfg, port)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(next.Kill)
			if err := next.WaitReady(30 * time.Second); err != nil {
				t.Fatalf("%v\n%s", err, next.Log())
			}
			s = next
		}
		kills++
	}
	endWriter()
	if deaths < 5 || kills == deaths || written < 200 {
		t.Errorf("%d kills, %d of the consumer, and %d writes are too few to say anything", kills, deaths, written)
	}
	t.Logf("%d writes, %d kills, %d of them of the consumer", written, kills, deaths)

	tail := history(t, addr)
	got, err := open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer got.db.Close()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		at, ok, err := got.cursor(t.Context(), changes.All)
		if err != nil {
			t.Fatal(err)
		}
		if ok && at == tail.at {
			break
		}
		select {
		case err := <-c.done:
			c.done <- err
			c.wait(t)
			c = startConsumer(t, addr, db)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the consumer is at %v, the tail is %v", at, tail.at)
		}
	}
	c.kill(t)

	counts := map[string]int{}
	rows, err := got.db.Query(`SELECT key, n FROM counts`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var n int
		if err := rows.Scan(&key, &n); err != nil {
			t.Fatal(err)
		}
		counts[key] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(counts, tail.counts) {
		t.Errorf("changes of each key:\n got %v\nwant %v", counts, tail.counts)
	}
	conn := s.Conn(t)
	n := 0
	for key := range tail.counts {
		want, err := conn.Do("GET", key)
		if err != nil {
			t.Fatal(err)
		}
		var value []byte
		switch err := got.db.QueryRow(`SELECT value FROM strings WHERE key = ?`, []byte(key)).Scan(&value); {
		case want.IsNil() && err == nil, !want.IsNil() && (err != nil || string(value) != string(want.Text)):
			t.Errorf("%s is %q (%v), the server has %v", key, value, err, want)
		case err == nil:
			n++
		}
	}
	var rowsInAll int
	if err := got.db.QueryRow(`SELECT count(*) FROM strings`).Scan(&rowsInAll); err != nil || rowsInAll != n || n == 0 {
		t.Errorf("%d strings in the database, %v; %d of the server", rowsInAll, err, n)
	}
}

// write writes until it is stopped and returns how often it was answered. The
// server may be gone in the middle of anything.
func write(addr string, rnd *rand.Rand, stop <-chan struct{}) (answered int) {
	var c *wire.Conn
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for {
		select {
		case <-stop:
			return answered
		default:
		}
		time.Sleep(200 * time.Microsecond) // as much as the disk of a test may take
		if c == nil {
			var err error
			if c, err = wire.Dial(addr); err != nil {
				c = nil
				time.Sleep(5 * time.Millisecond)
				continue
			}
		}
		key := func() string { return fmt.Sprint("k", rnd.IntN(20)) }
		args := []string{"INCR", key()}
		switch rnd.IntN(5) {
		case 0:
			args = []string{"SET", key(), fmt.Sprint(rnd.IntN(100))}
		case 1:
			args = []string{"DEL", key(), key()}
		case 2:
			args = []string{"MSET", "k20", fmt.Sprint(rnd.IntN(100)), "k21", "x", "k22", "y"}
		case 3:
			args = []string{"APPEND", "k22", "z"}
		}
		if _, err := c.Do(args...); err != nil {
			c.Close()
			c = nil
			continue
		}
		answered++
	}
}

// source is what the server's whole history says.
type source struct {
	at     changes.Cursor
	counts map[string]int
}

// history reads the feed from its beginning to its tail without a fault.
func history(t *testing.T, addr string) source {
	t.Helper()
	conn, err := wire.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := conn.Do("CHANGES", "TAIL", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	tail, err := changes.ParseCursor(r.Strings()[0] + ":" + r.Strings()[1])
	if err != nil {
		t.Fatal(err)
	}
	all := source{at: tail, counts: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	reader := &counter{source: &all, done: cancel}
	c, err := changes.New(changes.Options{Addr: addr, Start: changes.Oldest}, reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if reader.at != tail {
		t.Fatalf("reading the history ended at %v, the tail is %v", reader.at, tail)
	}
	return all
}

type counter struct {
	*source
	at   changes.Cursor
	done func()
}

func (c *counter) Commit(_ context.Context, commit *changes.Commit) error {
	for i := range commit.Frames {
		c.counts[string(commit.Frames[i].Key())]++
	}
	c.arrive(commit.Next)
	return nil
}

func (c *counter) Progress(_ context.Context, _ string, at changes.Cursor) error {
	c.arrive(at)
	return nil
}

func (c *counter) arrive(at changes.Cursor) {
	c.at = at
	if at == c.source.at {
		c.done()
	}
}
