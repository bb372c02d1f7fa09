package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kevy/tests/keyspace"
	"kevy/tests/oracle"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// drive runs random commands of the oracle's generator on a server, but those that wait, and ignores
// the replies.
func drive(t *testing.T, s *process.Server, seed uint64, steps int) {
	t.Helper()
	const connections = 3
	conns := make([]*wire.Conn, connections)
	for i := range conns {
		conns[i] = s.Conn(t)
	}
	g := oracle.NewGenerator(seed, time.Now().UnixMilli(), oracle.Options{Conns: connections})
	for n := range steps {
		step := g.Next()
		if step.MayWait() {
			continue
		}
		c := conns[step.Conn]
		c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := c.Write(wire.AppendCommand(nil, step.Args...)); err != nil {
			t.Fatalf("step %d, %s: %v", n, step, err)
		}
		if _, err := c.ReadReply(); err != nil {
			t.Fatalf("step %d, %.300s: %v", n, step, err)
		}
		if step.PauseMs > 0 {
			time.Sleep(time.Duration(step.PauseMs) * time.Millisecond)
		}
	}
	for _, c := range conns {
		do(t, c, "RESET")
	}
	// Whatever the last FLUSHALL left, there is a key of each type, with and without an expiry.
	c := conns[0]
	do(t, c, "DEL", "end:x", "end:y")
	for i, cmd := range []string{"SET end:s v", "RPUSH end:l a b", "HSET end:h f v", "SADD end:t 1 2 x", "ZADD end:z 1.5 a -inf b", "XADD end:x 5-1 f v"} {
		do(t, c, strings.Fields(cmd)...)
		if i%2 == int(seed%2) {
			do(t, c, "PEXPIREAT", strings.Fields(cmd)[1], "4000000000123")
		}
	}
	do(t, c, "XGROUP", "CREATE", "end:x", "g", "0")
	do(t, c, "XCLAIM", "end:x", "g", "c", "0", "5-1", "FORCE")
	do(t, c, "XDEL", "end:x", "5-1")
	do(t, c, "COPY", "end:x", "end:y")
}

func dump(t *testing.T, s *process.Server) keyspace.Dump {
	t.Helper()
	c := s.Conn(t)
	c.SetDeadline(time.Now().Add(time.Minute))
	d, err := keyspace.Read(c, databases)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sameContent compares two dumps with types, elements and expiries to the millisecond.
func sameContent(t *testing.T, what string, want, got keyspace.Dump) {
	t.Helper()
	for _, line := range keyspace.Diff(want, got, keyspace.Options{}, 10) {
		t.Errorf("%s: %s", what, line)
	}
	if !t.Failed() && want.Digest() != got.Digest() {
		t.Errorf("%s: the digests differ", what)
	}
}

// checkAOF runs redis-check-aof over the manifest of a directory.
func checkAOF(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command(process.Tool(t, "redis-check-aof"), filepath.Join(dir, "appendonlydir", "appendonly.aof.manifest")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "All AOF files and manifest are valid") {
		t.Errorf("redis-check-aof: %v\n%s", err, out)
	}
}

// rewrite runs BGREWRITEAOF and waits for its end.
func rewrite(t *testing.T, s *process.Server) {
	t.Helper()
	c := s.Conn(t)
	do(t, c, "BGREWRITEAOF")
	deadline := time.Now().Add(30 * time.Second)
	for {
		info := string(do(t, c, "INFO", "persistence").Text)
		if strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the rewrite does not end:\n%s", info)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestDirectoryIsRedis passes one data directory from server to server: ours, redis-server, ours, redis-server,
// each booting from what the one before it left, after a clean close and after kill -9, with and without a
// rewrite, and each writing to it.
func TestDirectoryIsRedis(t *testing.T) {
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d", seed)
	ours, redis := process.Subject(t), process.Oracle(t)
	for _, tc := range []struct {
		name    string
		kill    bool
		rewrite bool
	}{{"clean close", false, false}, {"kill -9", true, false}, {"clean close after rewrite", false, true}, {"kill -9 after rewrite", true, true}} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			before := keyspace.Dump{}
			for turn := range 4 {
				b, cfg := ours, process.Config{Dir: dir}
				if turn%2 == 1 {
					// While an fsync runs, redis-server holds back writes, which a kill would lose.
					b, cfg.Args = redis, []string{"--appendfsync", "no"}
				}
				s := process.Start(t, b, cfg)
				what := fmt.Sprintf("turn %d, %s", turn, filepath.Base(b.Path))
				sameContent(t, what, before, dump(t, s))
				if t.Failed() {
					return
				}
				drive(t, s, seed+uint64(turn), 1500)
				if tc.rewrite {
					rewrite(t, s)
					drive(t, s, seed+uint64(turn)+100, 500)
				}
				if b.Redis {
					// It logs less of a group than it knows (entries read, what the history counts, and in a
					// rewrite pending entries that are gone): what counts is what it reads back itself.
					s.Stop(t)
					s = process.Start(t, b, cfg)
				}
				before = dump(t, s)
				if len(before) < 5 {
					t.Fatalf("%s: only %d keys", what, len(before))
				}
				if tc.kill {
					s.Kill()
				} else {
					s.Stop(t)
				}
				checkAOF(t, dir)
			}
		})
	}
}

// TestRedisBootsFromALiveWorkload kills our server under load: redis-server must boot from what is left, in
// a state that each connection's acknowledged writes allow.
func TestRedisBootsFromALiveWorkload(t *testing.T) {
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d", seed)
	b := process.Subject(t)
	dir := t.TempDir()
	l := newLoad(seed, 8)
	for round := range 3 {
		s := process.Start(t, b, process.Config{Dir: dir})
		if err := l.verify(dump(t, s)); err != nil {
			t.Fatalf("round %d, ours: %v", round, err)
		}
		l.run(s.Addr())
		time.Sleep(300 * time.Millisecond)
		s.Kill()
		if err := l.wait(); err != nil {
			t.Fatal(err)
		}
		r := process.Start(t, process.Oracle(t), process.Config{Dir: dir})
		if err := l.verify(dump(t, r)); err != nil {
			t.Fatalf("round %d, redis-server: %v\n%s", round, err, r.Log())
		}
		// What it wrote must be there when ours boots again.
		l.run(r.Addr())
		time.Sleep(200 * time.Millisecond)
		if err := l.end(); err != nil {
			t.Fatal(err)
		}
		r.Stop(t)
	}
}

// TestFeedAfterRedisWrote checks that what another server wrote ends the generation: its changes are in no
// stream, so a cursor from before must not go on as if nothing had happened.
func TestFeedAfterRedisWrote(t *testing.T) {
	b := subject(t, "has no feed")
	s := process.Start(t, b, process.Config{})
	c := s.Conn(t)
	for i := range 10 {
		do(t, c, "SET", fmt.Sprintf("k%d", i), "v")
	}
	before, err := position(c, "TAIL", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	s.Stop(t)
	r := process.Start(t, process.Oracle(t), process.Config{Dir: s.Dir})
	do(t, r.Conn(t), "INCR", "counter")
	r.Stop(t)
	s = process.Start(t, b, process.Config{Dir: s.Dir})
	c = s.Conn(t)
	if v := do(t, c, "GET", "counter"); string(v.Text) != "1" {
		t.Errorf("GET counter is %s", v)
	}
	after, err := position(c, "TAIL", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	if after.generation <= before.generation {
		t.Errorf("the tail was %s and is %s, though another server has written", before, after)
	}
}
