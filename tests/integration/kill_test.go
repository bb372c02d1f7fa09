package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/tests/keyspace"
	"kevy/tests/process"
	"kevy/tests/wire"
)

func number(t *testing.T, variable string, def uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return def
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// TestKill kills the server with SIGKILL under load, again and again, and checks after each restart that
// nothing acknowledged is missing, that each worker's writes came back in order and MULTI whole, and that
// the feed told no reader two stories.
func TestKill(t *testing.T) {
	cycles := int(number(t, "KEVY_KILL_CYCLES", 6))
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	for i, policy := range []string{"always", "everysec", "no"} {
		n := cycles
		if policy == "no" {
			n = (cycles + 3) / 4
		}
		t.Run(policy, func(t *testing.T) {
			t.Logf("KEVY_SEED=%d KEVY_KILL_CYCLES=%d", seed, cycles)
			k := newKiller(t, policy, seed+uint64(i))
			for cycle := range n {
				if !k.cycle(t, cycle) {
					break
				}
			}
			k.report(t, n)
		})
	}
}

// killer is a data directory, what must be in it, and the readers that live through its crashes.
type killer struct {
	binary  process.Binary
	policy  string
	dir     string
	rng     *rand.Rand
	load    *load
	ledger  *ledger
	visible *consumer // sees what is committed; may have to resync after a crash
	durable *consumer // sees what is durable; never has to
	resyncs int
	cleans  int
}

func newKiller(t *testing.T, policy string, seed uint64) *killer {
	k := &killer{binary: process.Subject(t), policy: policy, dir: t.TempDir(),
		rng: rand.New(rand.NewPCG(seed, 1)), load: newLoad(seed, 12), ledger: newLedger()}
	if k.binary.Redis {
		return k // it has no feed
	}
	mirror := func() *wire.Conn {
		s := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}})
		return s.Conn(t)
	}
	k.visible = &consumer{stream: "ALL", ledger: k.ledger, mirror: mirror()}
	k.durable = &consumer{stream: "ALL", ledger: k.ledger, mirror: mirror(), durable: true}
	return k
}

// config keeps so little log that it is given up and read from disk within the test, and so much that a reader which
// goes on at once is not left behind: where a second of load becomes durable at a time, that is several seconds of it.
func (k *killer) config() process.Config {
	cfg := process.Config{Dir: k.dir, Args: []string{"--appendfsync", k.policy}}
	if !k.binary.Redis {
		retention := "16mb"
		if k.policy != "always" {
			retention = "128mb"
		}
		cfg.Args = append(cfg.Args, "--feed-retention-bytes", retention, "--feed-backlog-bytes", "1mb")
	}
	return cfg
}

func (k *killer) start(t *testing.T) *process.Server {
	// Now and then the server is killed while it opens, too.
	if k.rng.IntN(4) == 0 {
		if s, err := process.Launch(k.binary, k.config()); err == nil {
			time.Sleep(time.Duration(k.rng.IntN(60)) * time.Millisecond)
			s.Kill()
		}
	}
	return process.Start(t, k.binary, k.config())
}

// cycle starts the server, verifies, loads it and ends it. It reports whether to go on.
func (k *killer) cycle(t *testing.T, cycle int) bool {
	s := k.start(t)
	c, err := wire.Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := keyspace.Read(c, databases)
	if err != nil {
		t.Errorf("cycle %d: %v", cycle, err)
		return false
	}
	if err := k.load.verify(d); err != nil {
		t.Errorf("cycle %d: %v", cycle, err)
		return false
	}
	if err := k.verifyFeed(c, d, cycle); err != nil {
		t.Errorf("cycle %d: the feed after the restart: %v", cycle, err)
		return false
	}
	stop := make(chan struct{})
	errs := make(chan error, 3)
	readers := 0
	for _, r := range []*consumer{k.visible, k.durable} {
		if r != nil {
			readers++
			go func() { errs <- r.follow(s.Addr(), stop) }()
		}
	}
	k.load.run(s.Addr())
	clean := k.rng.IntN(5) == 0 && cycle > 0
	span := time.Duration(50+k.rng.IntN(400)) * time.Millisecond
	rewriteAfter := time.Duration(k.rng.Int64N(int64(2 * span)))
	if rewriteAfter < span {
		time.Sleep(rewriteAfter)
		if r, err := c.Do("BGREWRITEAOF"); err != nil || r.IsError("") && !strings.Contains(string(r.Text), "in progress") {
			t.Errorf("cycle %d: BGREWRITEAOF: %s, %v", cycle, r, err)
		}
		span -= rewriteAfter
	}
	time.Sleep(span)
	ok := true
	if clean {
		if err := k.load.end(); err != nil {
			t.Errorf("cycle %d: %v", cycle, err)
			ok = false
		}
		k.cleans++
		ok = k.stopClean(t, s, cycle) && ok
	} else {
		s.Kill()
		if err := k.load.wait(); err != nil {
			t.Errorf("cycle %d: %v", cycle, err)
			ok = false
		}
	}
	close(stop)
	for range readers {
		if err := <-errs; err != nil {
			t.Errorf("cycle %d: a reader under load: %v", cycle, err)
			ok = false
		}
	}
	return ok
}

// stopClean ends the server with SIGTERM; the cursors must then go on in their generation.
func (k *killer) stopClean(t *testing.T, s *process.Server, cycle int) bool {
	var before cursor
	if k.visible != nil {
		c, err := wire.Dial(s.Addr())
		if err != nil {
			t.Error(err)
			return false
		}
		defer c.Close()
		if before, err = position(c, "TAIL", "ALL"); err != nil {
			t.Error(err)
			return false
		}
	}
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
		return false
	}
	if err := s.WaitExit(30 * time.Second); err != nil {
		t.Errorf("cycle %d: clean close: %v\n%s", cycle, err, s.Log())
		return false
	}
	if k.visible == nil {
		return true
	}
	again := process.Start(t, k.binary, k.config())
	defer again.Kill()
	c, err := wire.Dial(again.Addr())
	if err != nil {
		t.Error(err)
		return false
	}
	defer c.Close()
	after, err := position(c, "TAIL", "ALL")
	if err != nil || after != before {
		t.Errorf("cycle %d: the tail was %s before a clean close and is %s after it, %v", cycle, before, after, err)
		return false
	}
	return true
}

// verifyFeed lets both readers go on from where they stood when the server died.
func (k *killer) verifyFeed(c *wire.Conn, d keyspace.Dump, cycle int) error {
	if k.visible == nil {
		return nil
	}
	for _, r := range []*consumer{k.visible, k.durable} {
		if cycle == 0 {
			if err := r.restart(c, d); err != nil {
				return err
			}
			continue
		}
		err := r.catchUp(c)
		var re *resync
		switch {
		case errors.As(err, &re) && !r.durable && re.reason() == "lost":
			k.resyncs++
			if err := r.restart(c, d); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("reader at %s (durable %v): %w", r.at, r.durable, err)
		}
		got, err := keyspace.Read(r.mirror, databases)
		if err != nil {
			return err
		}
		r.mirrorDB = 0
		if diff := keyspace.Diff(d, got, keyspace.Options{}, 5); len(diff) > 0 {
			return fmt.Errorf("the mirror of a reader (durable %v) differs: %q", r.durable, diff)
		}
	}
	shards, err := c.Do("CHANGES", "SHARDS")
	if err != nil {
		return err
	}
	n, err := shards.Int()
	if err != nil {
		return err
	}
	// All that is still kept of ALL and of one other stream, for the ledger.
	for _, stream := range []string{"ALL", strconv.FormatInt(k.rng.Int64N(n), 10)} {
		if err := readAll(c, stream, k.ledger); err != nil {
			return err
		}
	}
	return nil
}

func (k *killer) report(t *testing.T, cycles int) {
	units := 0
	for _, w := range k.load.workers {
		units += w.units
	}
	t.Logf("%s: %d cycles (%d of them closed cleanly), %d units acknowledged, %d lost", k.policy, cycles, k.cleans, units, 0)
	if units < cycles*50 {
		t.Errorf("only %d units were acknowledged in %d cycles: the load did not run", units, cycles)
	}
	if k.visible != nil {
		t.Logf("%s: %d frames noted, %d frames read live, %d generations moved through, %d resyncs of the reader that asked for no durability",
			k.policy, k.ledger.count, k.visible.frames+k.durable.frames, k.visible.moves, k.resyncs)
		if k.ledger.count < units/10 {
			t.Errorf("only %d frames were read for %d units", k.ledger.count, units)
		}
	}
}
