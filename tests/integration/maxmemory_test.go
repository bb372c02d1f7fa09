package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// infoNumber returns a field of INFO.
func infoNumber(t *testing.T, c *wire.Conn, field string) int64 {
	t.Helper()
	for line := range strings.Lines(string(do(t, c, "INFO").Text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("INFO has no %s", field)
	return 0
}

// evictedShare fills a server with keys of known age, makes it evict two fifths of
// them, and returns which part of those was of the two fifths that should go.
func evictedShare(t *testing.T, b process.Binary, policy string, rank []int) float64 {
	t.Helper()
	s := process.Start(t, b, process.Config{Dir: t.TempDir(), Args: []string{
		"--appendonly", "no", "--maxmemory-policy", policy, "--maxmemory-eviction-tenacity", "100", "--lfu-decay-time", "0",
	}})
	defer s.Stop(t)
	c := s.Conn(t)
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	do(t, c, "SET", "model", strings.Repeat("x", 100))
	payload := string(do(t, c, "DUMP", "model").Text)
	do(t, c, "DEL", "model")
	before := infoNumber(t, c, "used_memory")
	var fill [][]string
	for i, r := range rank { // the lower, the sooner it should go
		cmd := []string{"RESTORE", fmt.Sprint("key:", i), strconv.Itoa(1_000_000 + 1000*r), payload}
		switch {
		case strings.HasSuffix(policy, "lru"):
			cmd = append(cmd, "IDLETIME", strconv.Itoa(len(rank)-r))
		case strings.HasSuffix(policy, "lfu"):
			cmd = append(cmd, "FREQ", strconv.Itoa(r*255/len(rank)))
		}
		fill = append(fill, cmd)
	}
	if _, err := c.Pipeline(fill...); err != nil {
		t.Fatal(err)
	}
	used := infoNumber(t, c, "used_memory")
	do(t, c, "CONFIG", "SET", "maxmemory", strconv.FormatInt(used-(used-before)*2/5, 10))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		do(t, c, "SET", "needs", "room", "KEEPTTL")
		if infoNumber(t, c, "evicted_keys") > int64(len(rank)/4) && infoNumber(t, c, "current_eviction_exceeded_time") == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d keys evicted", infoNumber(t, c, "evicted_keys"))
		}
	}
	do(t, c, "CONFIG", "SET", "maxmemory", "0")
	gone, right := 0, 0
	for i, r := range rank {
		n, err := do(t, c, "EXISTS", fmt.Sprint("key:", i)).Int()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			gone++
			if r < len(rank)*2/5 {
				right++
			}
		}
	}
	if gone < len(rank)/4 || gone > len(rank)*3/5 {
		t.Fatalf("%d of %d keys are gone", gone, len(rank))
	}
	return float64(right) / float64(gone)
}

// What is evicted is as old, as seldom used or as close to its end as what redis-server
// evicts of the same keys.
func TestEvictionIsAsGoodAsRedis(t *testing.T) {
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d", seed)
	oracle := process.Oracle(t)
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-lfu", "volatile-ttl"} {
		t.Run(policy, func(t *testing.T) {
			rank := rand.New(rand.NewPCG(seed, 1)).Perm(4000)
			want := evictedShare(t, oracle, policy, rank)
			got := evictedShare(t, process.Subject(t), policy, rank)
			t.Logf("of what went, %.1f %% was of the part that should go; of redis-server's, %.1f %%", 100*got, 100*want)
			// Both choose by chance.
			if got < want-0.04 {
				t.Errorf("%.3f of what went was right, of redis-server's %.3f", got, want)
			}
		})
	}
}

// Where there is no room, the same commands are refused that redis-server refuses.
func TestOOMRefusesWhatRedisRefuses(t *testing.T) {
	var conns [2]*wire.Conn
	for i, b := range []process.Binary{process.Oracle(t), process.Subject(t)} {
		s := process.Start(t, b, process.Config{Dir: t.TempDir(), Args: []string{"--appendonly", "no"}})
		defer s.Stop(t)
		conns[i] = s.Conn(t)
		conns[i].SetDeadline(time.Now().Add(5 * time.Minute))
		do(t, conns[i], "CONFIG", "SET", "maxmemory", "1")
	}
	asked, refused := 0, 0
	for _, spec := range do(t, conns[0], "COMMAND").Elems {
		name := string(spec.Elems[0].Text)
		arity, err := spec.Elems[1].Int()
		if err != nil {
			t.Fatal(err)
		}
		writes := slices.ContainsFunc(spec.Elems[2].Elems, func(f wire.Reply) bool { return string(f.Text) == "write" || string(f.Text) == "denyoom" })
		if !writes || do(t, conns[1], "COMMAND", "INFO", name).Elems[0].Elems == nil {
			continue
		}
		// They are admitted, or not, before anybody looks at their arguments.
		args := []string{name}
		for len(args) < int(max(arity, -arity)) {
			args = append(args, "x")
		}
		var oom [2]bool
		for i, c := range conns {
			r, err := c.Do(args...)
			if err != nil {
				t.Fatal(name, err)
			}
			oom[i] = r.IsError("OOM")
			if oom[i] && string(r.Text) != "OOM command not allowed when used memory > 'maxmemory'." {
				t.Errorf("%s: %s", name, r.Text)
			}
		}
		asked++
		if oom[0] {
			refused++
		}
		if oom[0] != oom[1] {
			t.Errorf("%s: redis-server refuses: %v, kevy: %v", name, oom[0], oom[1])
		}
	}
	t.Logf("%d commands, %d of them refused", asked, refused)
	if asked < 90 || refused < 50 {
		t.Errorf("only %d commands, %d of them refused", asked, refused)
	}
}
