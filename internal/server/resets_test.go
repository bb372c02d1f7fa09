package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

// TestResetStatIsRedis: what CONFIG RESETSTAT puts back in redis-server it puts back
// here, and what it leaves alone there it leaves alone here.
func TestResetStatIsRedis(t *testing.T) {
	in := start(t)
	_, redis, _ := oracle(t)
	numbers := func(c *conn) map[string]float64 {
		out := map[string]float64{}
		for line := range strings.SplitSeq(string(c.do("INFO everything").Text), "\r\n") {
			name, value, _ := strings.Cut(line, ":")
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				out[name] = n
			}
		}
		return out
	}
	before, after := map[string]map[string]float64{}, map[string]map[string]float64{}
	for who, c := range map[string]*conn{"redis": redis, "ours": in.conn()} {
		for i := range 50 {
			c.do(fmt.Sprint("SET k", i, " v"))
			c.do("GET k1")
			c.do("GET none")
			c.do("LPUSH k1 x")
			c.do("HELLO 9")
			c.do("SUBSCRIBE")
		}
		c.do("SET gone v PX 1")
		time.Sleep(10 * time.Millisecond)
		c.do("GET gone")
		before[who] = numbers(c)
		c.expect("CONFIG RESETSTAT", "+OK")
		after[who] = numbers(c)
		if text := string(c.do("INFO commandstats").Text); strings.Contains(text, "cmdstat_set:") || !strings.Contains(text, "cmdstat_config|resetstat:calls=1,") {
			t.Errorf("%s: the commands are %s", who, text)
		}
		if text := string(c.do("INFO errorstats").Text); strings.Contains(text, "errorstat_") {
			t.Errorf("%s: the errors are %s", who, text)
		}
		if text := string(c.do("INFO latencystats").Text); strings.Contains(text, "usec_set:") {
			t.Errorf("%s: the latencies are %s", who, text)
		}
	}
	memory := regexp.MustCompile(`^(used_memory|mem_|allocator_|rss_|instantaneous_)`)
	reset, kept := 0, 0
	for name, was := range before["redis"] {
		// Where there are two or three of something, the commands since then hide what was done.
		if was < 20 && name != "expired_keys" {
			continue
		}
		ours, have := before["ours"][name]
		if !have || ours < was/2 && name != "expired_keys" {
			continue // it measures something else here
		}
		if memory.MatchString(name) {
			continue // the collector runs when it likes
		}
		if after["redis"][name] <= was/2 {
			if reset++; after["ours"][name] > ours/2 {
				t.Errorf("%s was %v, and is %v; in redis-server %v and %v", name, ours, after["ours"][name], was, after["redis"][name])
			}
		} else if kept++; after["ours"][name] < ours/2 {
			t.Errorf("%s was %v, and is %v; in redis-server it stays %v", name, ours, after["ours"][name], was)
		}
	}
	t.Logf("%d fields are put back, %d are not", reset, kept)
	if reset < 6 || kept < 7 {
		t.Errorf("%d fields are put back in redis-server, %d are not", reset, kept)
	}
}

// TestConfigSetOfSeveralIsWhole: of several settings, where the last cannot take
// effect all are as they were, in CONFIG GET and in what they do.
func TestConfigSetOfSeveralIsWhole(t *testing.T) {
	in := start(t, "--timeout", "17")
	c := in.conn()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for i := range 200 {
		c.do(fmt.Sprint("SET key", i, " ", strings.Repeat("v", 100)))
	}
	ask := "CONFIG GET maxmemory maxmemory-policy timeout maxclients port notify-keyspace-events slowlog-log-slower-than"
	was := c.do(ask).String()
	for _, line := range []string{
		"CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru timeout 5 maxclients 1 notify-keyspace-events KEA slowlog-log-slower-than 0 port " + port,
		"CONFIG SET port " + port + " maxmemory 1 maxmemory-policy allkeys-lru maxclients 1",
		"CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru maxclients 1 timeout x",
		"CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru maxclients 1 nosuch x",
		"CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru maxclients 1 maxmemory 2",
		"CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru maxclients 1 databases 20",
	} {
		if r := c.do(line); !r.IsError("ERR") {
			t.Errorf("%s: %s", line, r)
		}
		if is := c.do(ask).String(); is != was {
			t.Errorf("after %s\n the settings are %s\n they were         %s", line, is, was)
		}
		// Another client gets in, nothing is evicted, and writes are taken.
		other := in.conn()
		other.expect("SET more x", "+OK")
		other.expect("DBSIZE", ":201")
		other.Close()
	}
	if n := c.do("SLOWLOG LEN").String(); n != ":0" {
		t.Errorf("%s slow commands", n)
	}
}

// TestFailingScriptsAreWhole: scripts that fail anywhere, by any error, leave what they
// did before that, as in redis-server, and the log says the same.
func TestFailingScriptsAreWhole(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("KEVY_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	c := start(t, "--enable-debug-command", "yes").conn()
	server := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no", "--enable-debug-command", "yes"}})
	redis := &conn{server.Conn(t), t}
	writes := []string{"redis.call('incr', 'n%d')", "redis.call('rpush', 'l%d', 'a', 'b')", "redis.call('sadd', 's%d', ARGV[1])", "redis.call('hset', 'h%d', 'f', ARGV[1])",
		"redis.call('zadd', 'z%d', 1, ARGV[1])", "redis.call('del', 'l%d')", "redis.call('select', %d)", "redis.call('rename', 'n%[1]d', 'm%[1]d')", "redis.call('spop', 'none%d')"}
	fails := []string{"error('on purpose')", "redis.call('incr', 'text')", "redis.call('nosuch')", "return redis.error_reply('MINE x')", "local x = nil + 1", "redis.call('get')",
		"redis.pcall('incr', 'text')", "assert(redis.pcall('lpop', 'text').ok)", "return {err = 'ERR x'}", "nosuch()", "string.rep('x', -1)()"}
	for _, server := range []*conn{c, redis} {
		server.expect("SET text abc", "+OK")
	}
	failed := 0
	for i := range 400 {
		var body []string
		for range 1 + rng.IntN(5) {
			body = append(body, fmt.Sprintf(writes[rng.IntN(len(writes))], rng.IntN(3)))
		}
		body = append(body, fails[rng.IntN(len(fails))])
		script := strings.Join(body, " ")
		var replies []string
		for _, server := range []*conn{c, redis} {
			if err := server.Send("EVAL", script, "0", strconv.Itoa(i%50)); err != nil {
				t.Fatal(err)
			}
			r, err := server.ReadReply()
			if err != nil {
				t.Fatal(err)
			}
			if r.IsError("") {
				failed++
			}
			replies = append(replies, r.String())
		}
		if replies[0] != replies[1] {
			t.Fatalf("%s\n answers %s\n in redis-server %s", script, replies[0], replies[1])
		}
		if i%20 == 0 {
			ours, theirs := c.do("DEBUG DIGEST").String(), redis.do("DEBUG DIGEST").String()
			if ours != theirs {
				t.Fatalf("after %s\n the digest is %s, in redis-server %s", script, ours, theirs)
			}
			c.expect("DEBUG LOADAOF", "+OK")
			if replayed := c.do("DEBUG DIGEST").String(); replayed != ours {
				t.Fatalf("after %s\n the log has %s, the keyspace %s", script, replayed, ours)
			}
		}
	}
	if failed < 400 {
		t.Errorf("%d scripts failed, on both servers", failed)
	}
}
