package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// infoField returns the value of a field of INFO with the sections that are
// asked for.
func (c *conn) infoField(sections, name string) string {
	c.t.Helper()
	for line := range strings.SplitSeq(string(c.do("INFO "+sections).Text), "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return value
		}
	}
	c.t.Errorf("INFO %s has no %s", sections, name)
	return ""
}

func (c *conn) infoInt(sections, name string) int64 {
	c.t.Helper()
	n, err := strconv.ParseInt(c.infoField(sections, name), 10, 64)
	if err != nil {
		c.t.Errorf("%s: %v", name, err)
	}
	return n
}

// infoLines are the headings and the names of fields, in order.
func infoLines(text string) (lines []string) {
	for line := range strings.SplitSeq(text, "\r\n") {
		name, _, _ := strings.Cut(line, ":")
		lines = append(lines, name)
	}
	return lines
}

// TestInfoIsRedis: every section and field of redis-server is there, in its
// order; what is beside them is ours by name. Where redis-server answers a
// number so do we: redis-cli --stat, exporters and Sidekiq read them.
func TestInfoIsRedis(t *testing.T) {
	in := start(t)
	server, redis, _ := oracle(t)
	// An appendonly that is on adds fields.
	redis.expect("CONFIG SET appendonly yes", "+OK")
	eventually(t, "the log of redis-server", func() bool { return redis.infoInt("persistence", "aof_enabled") == 1 })
	ours := in.conn()
	for _, c := range []*conn{redis, ours} {
		c.expect("CONFIG RESETSTAT", "+OK")
		c.do("SET k v EX 1000")
		c.do("INCR k")
	}
	for _, sections := range []string{"", "default", "all", "everything", "server", "clients keyspace", "stats Replication stats", "commandstats errorstats cpu", "memory persistence"} {
		wantText, gotText := string(redis.do("INFO "+sections).Text), string(ours.do("INFO "+sections).Text)
		want := infoLines(wantText)
		got := slices.DeleteFunc(infoLines(gotText), func(line string) bool {
			return line == "expired_subkeys" || // since Redis 7.4
				strings.HasPrefix(line, "kevy_") || strings.HasPrefix(line, "feed_") || strings.HasPrefix(line, "latency_percentiles")
		})
		want = slices.DeleteFunc(want, func(line string) bool { return strings.HasPrefix(line, "latency_percentiles") })
		if i := slices.Index(got, "# Feed"); i >= 0 {
			got = slices.Delete(got, i, i+2) // with the blank line behind it
		}
		if slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line, "cmdstat_") }) {
			// They come in the order of a hash table there.
			slices.Sort(want)
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("INFO %s:\n got  %v\n want %v", sections, got, want)
		}
	}
	values := make(map[string]string)
	for line := range strings.SplitSeq(string(ours.do("INFO all").Text), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		values[name] = value
	}
	numbers := 0
	for line := range strings.SplitSeq(string(redis.do("INFO all").Text), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			continue
		}
		numbers++
		if _, err := strconv.ParseFloat(values[name], 64); err != nil {
			t.Errorf("%s is %q, in redis-server %q", name, values[name], value)
		}
	}
	if numbers < 120 {
		t.Errorf("%d fields of redis-server on port %d are numbers", numbers, server.Port)
	}
}

func TestVersions(t *testing.T) {
	c := start(t).conn()
	// Sidekiq compares it as text, with "7.0.0" and the like.
	if v := c.infoField("server", "redis_version"); v != "7.2.4" || v < "7.0.0" {
		t.Errorf("redis_version is %s", v)
	}
	if v := c.infoField("server", "kevy_version"); v == "" || v[0] < '0' || v[0] > '9' {
		t.Errorf("kevy_version is %s", v)
	}
	id := c.do("CLIENT ID").String()
	c.expect("HELLO", `["server", "redis", "version", "7.2.4", "proto", :2, "id", `+id+`, "mode", "standalone", "role", "master", "modules", []]`)
	c.expect("HELLO 3", `map{"server": "redis", "version": "7.2.4", "proto": :3, "id": `+id+`, "mode": "standalone", "role": "master", "modules": []}`)
}

func TestInfoCounts(t *testing.T) {
	in := start(t)
	c, other := in.conn(), in.conn()
	c.expect("PING", "+PONG")
	other.expect("PING", "+PONG")
	c.expect("CONFIG RESETSTAT", "+OK")
	input, output := c.infoInt("stats", "total_net_input_bytes"), c.infoInt("stats", "total_net_output_bytes")

	// In one batch: what came before INFO is in it, INFO is not.
	replies, err := c.Pipeline([]string{"SET", "k", "v"}, []string{"GET", "k"}, []string{"GET", "no"}, []string{"LPUSH", "k", "x"}, []string{"INFO", "commandstats"})
	if err != nil {
		t.Fatal(err)
	}
	stats := string(replies[4].Text)
	for _, want := range []string{
		"cmdstat_set:calls=1,", "cmdstat_get:calls=2,", "cmdstat_lpush:calls=1,usec=", ",rejected_calls=0,failed_calls=1\r\n",
		"cmdstat_config|resetstat:calls=1,", "cmdstat_info:calls=2,",
	} {
		if !strings.Contains(stats, want) {
			t.Errorf("no %q in %s", want, stats)
		}
	}
	for _, e := range []string{"GET", "nosuch", "HELLO 9"} {
		other.do(e)
	}
	other.do("GET k")
	for field, want := range map[string]int64{
		"total_commands_processed": 10, "total_error_replies": 4, "keyspace_hits": 2, "keyspace_misses": 1, "total_connections_received": 0,
	} {
		// Each INFO is one command.
		if got := c.infoInt("stats", field); got < want || got > want+8 {
			t.Errorf("%s is %d, want about %d", field, got, want)
		}
	}
	if got := string(c.do("INFO errorstats").Text); got != "# Errorstats\r\nerrorstat_ERR:count=2\r\nerrorstat_NOPROTO:count=1\r\nerrorstat_WRONGTYPE:count=1\r\n" {
		t.Errorf("errorstats: %q", got)
	}
	const bulk = 100_000
	if _, err := c.Do("ECHO", strings.Repeat("x", bulk)); err != nil {
		t.Fatal(err)
	}
	if got := c.infoInt("stats", "total_net_input_bytes") - input; got < bulk || got > bulk+2000 {
		t.Errorf("input grew by %d", got)
	}
	if got := c.infoInt("stats", "total_net_output_bytes") - output; got < bulk || got > 3*bulk {
		t.Errorf("output grew by %d", got)
	}
	if reads, writes := c.infoInt("stats", "total_reads_processed"), c.infoInt("stats", "total_writes_processed"); reads < 10 || writes < 10 {
		t.Errorf("%d reads, %d writes", reads, writes)
	}
}

func TestInstantaneous(t *testing.T) {
	c := start(t).conn()
	deadline := time.Now().Add(patience)
	for {
		for range 50 {
			c.do("SET k 0123456789012345678901234567890123456789")
		}
		ops := c.infoInt("stats", "instantaneous_ops_per_sec")
		in, _ := strconv.ParseFloat(c.infoField("stats", "instantaneous_input_kbps"), 64)
		out, _ := strconv.ParseFloat(c.infoField("stats", "instantaneous_output_kbps"), 64)
		if ops > 100 && in > 1 && out > 0.1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d ops, %.2f and %.2f kbps", ops, in, out)
		}
	}
}

func TestRate(t *testing.T) {
	var r rate
	for i := range 2 * rateSamples {
		r.sample(time.Duration(i+1)*100*time.Millisecond, int64(i+1)*25)
	}
	if n := r.perSecond.Load(); n != 250 {
		t.Errorf("%d a second", n)
	}
	r.sample(10*time.Second, 0) // the counter was reset
	if n := r.perSecond.Load(); n < 200 || n > 250 {
		t.Errorf("%d a second after a reset", n)
	}
	r.sample(10*time.Second, 1<<62) // no time has passed
	r.sample(20*time.Second, 1<<62)
	if n := r.perSecond.Load(); n < 0 {
		t.Errorf("%d a second", n)
	}
}

func TestKeyspaceInfo(t *testing.T) {
	c := start(t, "--enable-debug-command", "yes").conn()
	c.do("DEBUG SET-ACTIVE-EXPIRE 0")
	c.do("SET a v")
	c.do("SET b v EX 1000")
	c.do("SET c v EX 3000")
	var keys, expires, ttl int64
	if _, err := fmt.Sscanf(c.infoField("keyspace", "db0"), "keys=%d,expires=%d,avg_ttl=%d", &keys, &expires, &ttl); err != nil {
		t.Fatal(err)
	}
	if keys != 3 || expires != 2 || ttl < 1_990_000 || ttl > 2_000_000 {
		t.Errorf("%d keys, %d expire, in %d ms", keys, expires, ttl)
	}
	c.do("PERSIST b")
	c.do("PEXPIRE c 1")
	time.Sleep(10 * time.Millisecond)
	c.expect("INFO keyspace", `"# Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\n"`)
	c.expect("DBSIZE", ":3")
	c.do("DEBUG SET-ACTIVE-EXPIRE 1")
	eventually(t, "c goes", func() bool {
		return c.do("INFO keyspace").String() == `"# Keyspace\r\ndb0:keys=2,expires=0,avg_ttl=0\r\n"`
	})
}

func TestHumanBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.00K", 1536: "1.50K", 5 << 20: "5.00M", 1 << 30: "1.00G", 1 << 62: "4096.00P"} {
		if got := humanBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if got := safeName("a#b:c\nd\re"); got != "a_b_c_d_e" {
		t.Errorf("got %s", got)
	}
}

// TestInfoOfScripts: what scripts and functions take is told once they are there, and is
// gone with them.
func TestInfoOfScripts(t *testing.T) {
	c := start(t).conn()
	bytes := func(want func(n int64) bool, fields ...string) {
		t.Helper()
		for _, f := range fields {
			if n := c.infoInt("memory", f); !want(n) {
				t.Errorf("%s is %d", f, n)
			}
		}
	}
	none := func(n int64) bool { return n == 0 }
	some := func(n int64) bool { return n > 100 && n < 1<<20 }
	eval := []string{"used_memory_vm_eval", "used_memory_lua", "used_memory_scripts_eval"}
	functions := []string{"used_memory_vm_functions", "used_memory_functions"}
	both := []string{"used_memory_vm_total", "used_memory_scripts"}
	bytes(none, slices.Concat(eval, functions, both)...)
	c.Do("EVAL", "return 1", "0")
	bytes(some, slices.Concat(eval, both)...)
	bytes(none, functions...)
	c.Do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)")
	bytes(some, slices.Concat(eval, functions, both)...)
	c.do("SCRIPT FLUSH")
	c.do("FUNCTION FLUSH")
	bytes(none, "used_memory_scripts_eval", "used_memory_vm_functions", "used_memory_functions", "used_memory_scripts")
}
