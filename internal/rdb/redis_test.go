package rdb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kevy/internal/ds"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// startRedis starts a redis-server and returns a function that runs a command on
// it, which must not fail.
func startRedis(t *testing.T, settings ...string) (*wire.Conn, func(args ...string) wire.Reply) {
	t.Helper()
	s := process.Start(t, process.Oracle(t), process.Config{Args: append([]string{"--appendonly", "no", "--enable-debug-command", "yes"}, settings...)})
	c := s.Conn(t)
	return c, func(args ...string) wire.Reply {
		t.Helper()
		c.SetDeadline(time.Now().Add(30 * time.Second))
		r, err := c.Do(args...)
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == wire.Error {
			t.Fatalf("%.100q: %s", args, r)
		}
		return r
	}
}

// TestRedisTakesPayloads restores random values on redis-server, sees that they
// are the same there and are encoded as here, and takes them back from there.
func TestRedisTakesPayloads(t *testing.T) {
	_, do := startRedis(t)
	rng := seededRand(t)
	limits := ds.DefaultLimits()
	for i := range 600 {
		want := randomValue(rng, kinds[i%len(kinds)])
		do("RESTORE", "k", "0", string(AppendPayload(nil, want)), "REPLACE")
		if want.Object != nil {
			if e := string(do("OBJECT", "ENCODING", "k").Text); e != want.Object.Encoding() {
				// A set of integers and others that lost the others is what stays apart:
				// here it has been converted, there it is built anew.
				if !(want.Object.Encoding() == "hashtable" || want.Object.Encoding() == "skiplist") {
					t.Fatalf("a %s is a %s there", want.Object.Encoding(), e)
				}
			}
		}
		got, err := ParsePayload(do("DUMP", "k").Text, &limits)
		if err != nil {
			t.Fatal(err)
		}
		if digestOf(got, 0) != digestOf(want, 0) {
			t.Fatalf("a %s came back from redis-server as another value", encodingOf(want))
		}
		if n := do("DBSIZE"); n.String() != ":1" {
			t.Fatalf("there are %s keys", n)
		}
	}
}

// TestRedisStreams takes streams that commands made on redis-server, and what it
// tells of them is the same when they come back.
func TestRedisStreams(t *testing.T) {
	_, do := startRedis(t, "--stream-node-max-entries", "5")
	limits := ds.DefaultLimits()
	add := ""
	for i := range 23 {
		add += fmt.Sprintf("XADD k %d-%d f %d g v;", 5+i/4, 1+i, i)
	}
	for _, script := range []string{
		"XADD k 1-1 f v", "XADD k 1-1 f v;XDEL k 1-1", add,
		"XADD k 18446744073709551615-18446744073709551615 f v",
		"XADD k 0-1 f v;XADD k 18446744073709551615-5 g w",
		add + "XDEL k 5-1 6-6 6-7;XTRIM k MAXLEN 17;XADD k 100-0 a 1 b 2 c 3;XSETID k 200-5 ENTRIESADDED 500 MAXDELETEDID 150-1",
		"XGROUP CREATE k g $ MKSTREAM;XGROUP CREATECONSUMER k g idle",
		add + "XGROUP CREATE k g 0;XGROUP CREATE k other 6-6 ENTRIESREAD 6;XGROUP CREATE k third $;" +
			"XREADGROUP GROUP g one COUNT 5 STREAMS k >;XREADGROUP GROUP g two COUNT 3 STREAMS k >;XACK k g 5-2;XDEL k 5-1 6-7;" +
			"XCLAIM k g three 0 5-3 RETRYCOUNT 7 TIME 1600000000000;XREADGROUP GROUP other one STREAMS k >;XREADGROUP GROUP other one NOACK STREAMS k >",
	} {
		do("FLUSHALL")
		for _, cmd := range strings.Split(strings.TrimSuffix(script, ";"), ";") {
			do(strings.Fields(cmd)...)
		}
		tell := func() string {
			// How the radix tree has its nodes depends on deletions and is nobody's value.
			text := do("XINFO", "STREAM", "k", "FULL", "COUNT", "0").String()
			_, text, _ = strings.Cut(text, "last-generated-id")
			return text + string(do("DEBUG", "DIGEST-VALUE", "k").Elems[0].Text)
		}
		before := tell()
		v, err := ParsePayload(do("DUMP", "k").Text, &limits)
		if err != nil {
			t.Fatalf("%.60s: %v", script, err)
		}
		do("RESTORE", "k", "0", string(AppendPayload(nil, v)), "REPLACE")
		if after := tell(); after != before {
			t.Errorf("%.60s:\n was %s\n is  %s", script, before, after)
		}
		if replayed(t, v, 0) != digestOf(v, 0) {
			t.Errorf("%.60s: the ops make another stream", script)
		}
	}
}

// TestRedisPayloads takes values that commands made on redis-server.
func TestRedisPayloads(t *testing.T) {
	_, do := startRedis(t)
	_, other := startRedis(t, strings.Fields("--rdbcompression no --list-max-listpack-size 3 --hash-max-listpack-entries 4 --zset-max-listpack-value 3 --set-max-intset-entries 2")...)
	long := strings.Repeat("abc", 3000)
	for _, script := range []string{
		"SET k v", "SET k 1", "SET k -30000", "SET k 2000000000", "SET k 9000000000", "SET k -1", "SET k " + long, "APPEND k x",
		"RPUSH k a b 1 -5 300 70000 9000000000 " + long, "RPUSH k " + strings.Repeat("elem ", 3000),
		"SADD k 1 2 3", "SADD k 1 70000", "SADD k 1 9000000000", "SADD k a b c", "SADD k " + long,
		"ZADD k 1 a 2 b -inf c inf d 0.1 e 1e300 f", "ZADD k 1 " + long,
		"HSET k f v g 1 h " + long, "HSET k f v g 1", "HSET k a 1 b 2 c 3 d 4 e 5",
	} {
		for _, server := range []func(...string) wire.Reply{do, other} {
			server("FLUSHALL")
			server(strings.Fields(script)...)
			limits := ds.DefaultLimits()
			v, err := ParsePayload(server("DUMP", "k").Text, &limits)
			if err != nil {
				t.Fatalf("%.60s: %v", script, err)
			}
			before := string(server("DEBUG", "DIGEST-VALUE", "k").Elems[0].Text)
			server("RESTORE", "k", "0", string(AppendPayload(nil, v)), "REPLACE")
			if after := string(server("DEBUG", "DIGEST-VALUE", "k").Elems[0].Text); after != before {
				t.Errorf("%.60s: the digest is %s, was %s", script, after, before)
			}
		}
	}
}
