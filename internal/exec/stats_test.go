package exec

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kevy/aof"
	"kevy/internal/command"
)

func (r *rig) stats(name string) CommandStats { return r.x.Stats().Command(r.x.Table().Named(name)) }

func TestCommandStats(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	for _, line := range []string{
		"SET k v", "LPUSH k x", "GET k", "GET nosuch", "GET", "nosuch", "box OPEN it", "box OPEN", "box shut",
		"MULTI", "INCR k", "GET k", "EXEC", "MULTI", "SET", "EXEC", "EXEC now",
	} {
		c.do(line)
	}
	for _, want := range []struct {
		name                    string
		calls, rejected, failed int64
	}{
		{"set", 1, 1, 0}, {"lpush", 1, 0, 1}, {"get", 3, 1, 0}, {"incr", 1, 0, 1}, {"multi", 2, 0, 0}, {"exec", 2, 1, 1},
		{"box", 0, 0, 0}, {"box|open", 1, 1, 0},
	} {
		st := r.stats(want.name)
		if st.Calls != want.calls || st.Rejected != want.rejected || st.Failed != want.failed {
			t.Errorf("%s: %+v, want %+v", want.name, st, want)
		}
	}
	if n := r.x.Stats().Commands(); n != 11 {
		t.Errorf("%d commands were counted", n)
	}
	byCode, total := r.x.Stats().Errors()
	if got := fmt.Sprint(byCode); got != "[{ERR 6} {EXECABORT 2} {WRONGTYPE 1}]" || total != 9 {
		t.Errorf("errors %s, %d together", got, total)
	}
	if hits, misses := r.x.Stats().KeyspaceHits(), r.x.Stats().KeyspaceMisses(); hits != 2 || misses != 1 {
		t.Errorf("%d hits and %d misses", hits, misses)
	}
	r.x.Stats().Reset()
	if byCode, total := r.x.Stats().Errors(); r.x.Stats().Commands() != 0 || len(byCode) != 0 || total != 0 || r.stats("set").Rejected != 0 {
		t.Error("Reset left something")
	}
}

// TestTime: the time of a batch goes to the commands that were in it.
func TestTime(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	c.send("SLEEP")
	c.send("SLEEP")
	c.settle()
	if st := r.stats("sleep"); st.Calls != 2 || st.Microseconds < 40_000 || st.Microseconds > 10_000_000 {
		t.Errorf("%+v", st)
	}
	time.Sleep(30 * time.Millisecond) // between batches nothing is measured
	c.do("GET k")
	if st := r.stats("get"); st.Microseconds > 25_000 {
		t.Errorf("%+v", st)
	}
}

// TestManyCommandsInABatch: more different ones than a session can tell apart
// before it merges.
func TestManyCommandsInABatch(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	lines := []string{
		"SET k 1", "GET k", "INCR k", "DECR k", "APPEND k 2", "STRLEN k", "EXISTS k", "TYPE k", "TTL k", "PERSIST k", "DEL k", "SADD k a",
		"SREM k a", "HSET k a b", "HDEL k a", "RPUSH k a", "RPOP k", "ZADD k 1 a", "ZREM k a", "TOUCH k", "LPUSH k", "PING",
	}
	if len(lines) <= 2*maxTallies {
		t.Fatal("too few commands")
	}
	for range 3 {
		for _, line := range lines {
			c.send(line)
		}
	}
	c.settle()
	for _, line := range lines {
		name, _, _ := strings.Cut(strings.ToLower(line), " ")
		if st := r.stats(name); st.Calls+st.Rejected != 3 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

func TestErrorKindsAreBounded(t *testing.T) {
	st := newStats(command.NewTable())
	const kinds = 3 * maxErrorKinds
	for i := range kinds {
		st.CountError([]byte(fmt.Sprintf("CODE%d", i)))
	}
	byCode, total := st.Errors()
	if len(byCode) != maxErrorKinds+1 || total != kinds {
		t.Errorf("%d kinds, %d errors", len(byCode), total)
	}
	for _, e := range byCode {
		if e.Code == otherErrors && e.Count != kinds-maxErrorKinds {
			t.Errorf("%d errors of other kinds", e.Count)
		}
	}
}

func TestErrorCode(t *testing.T) {
	for reply, want := range map[string]string{
		"-ERR x\r\n": "ERR", "-WRONGTYPE y\r\n": "WRONGTYPE", "-x\r\n": "ERR", "-": "ERR", "- x": "",
		"-" + strings.Repeat("A", 31) + " x": strings.Repeat("A", 31), "-" + strings.Repeat("A", 32) + " x": "ERR",
	} {
		if got := string(errorCode([]byte(reply))); got != want {
			t.Errorf("%q: %q, want %q", reply, got, want)
		}
	}
}

// TestStatsAllocateNothing: counting is on every command's path.
func TestStatsAllocateNothing(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	set, get := [][]byte{[]byte("SET"), []byte("k"), []byte("v")}, [][]byte{[]byte("GET"), []byte("k")}
	wrong := [][]byte{[]byte("LPUSH"), []byte("k"), []byte("v")}
	run := func() {
		r.x.Do(c.es, set)
		r.x.Do(c.es, get)
		r.x.Do(c.es, wrong)
		c.es.MergeStats()
		c.w.Reset()
		c.es.writes = c.es.writes[:0]
	}
	run()
	if n := testing.AllocsPerRun(200, run); n > 0.5 {
		t.Errorf("%.1f allocations", n)
	}
}
