package config

import (
	"slices"
	"strings"
	"testing"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// givenToOracle are the settings on the oracle's command line, whose defaults
// it does not show.
var givenToOracle = []string{"bind", "port", "dir", "appendonly", "save", "aof-use-rdb-preamble"}

// otherValues are the settings that CONFIG SET treats in another way.
var otherValues = map[string]string{
	"appendonly":                "start only",
	"bind":                      "redis-server would listen elsewhere",
	"port":                      "redis-server would listen elsewhere",
	"activedefrag":              "depends on how redis-server was built",
	"requirepass":               "redis-server would want it from then on",
	"cluster-announce-hostname": "unchecked, as there is no cluster",
	"cluster-port":              "needs a cluster",
	"maxclients":                "depends on the limits of the process",
	"oom-score-adj":             "depends on the rights of the process",
}

func oracle(t *testing.T) *wire.Conn {
	return process.Start(t, process.Oracle(t), process.Config{}).Conn(t)
}

func do(t *testing.T, c *wire.Conn, args ...string) wire.Reply {
	t.Helper()
	r, err := c.Do(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return r
}

func TestNamesAndDefaultsAreRedis(t *testing.T) {
	redis := do(t, oracle(t), "CONFIG", "GET", "*").Strings()
	if len(redis) < 300 {
		t.Fatalf("redis-server names %d settings", len(redis)/2)
	}
	c := New()
	for i := 0; i < len(redis); i += 2 {
		name, def := redis[i], redis[i+1]
		s := c.Lookup(name)
		if s == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if s.Default != def && !slices.Contains(givenToOracle, name) {
			t.Errorf("%s defaults to %q, in redis-server to %q", name, s.Default, def)
		}
	}
}

// otherPairs are single values that redis-server takes and this registry does
// not, or the other way about.
var otherPairs = map[Pair]string{
	{"maxmemory", "9223372036854775808"}:                  "sizes are signed",
	{"cluster-link-sendbuf-limit", "9223372036854775808"}: "sizes are signed",
	{"maxmemory-clients", "9223372036854775808"}:          "redis-server takes it for a negative percentage",
	{"oom-score-adj-values", "900  1"}:                    "redis-server takes an empty word for 0",
	{"save", "1 "}:                                        "redis-server takes an empty word for 0",
	{"latency-tracking-info-percentiles", "0x10"}:         "no number is hexadecimal here",
}

// TestSetAnswersAsRedis gives every setting that both servers can change a row
// of values, good and bad, and compares what CONFIG SET and CONFIG GET answer.
func TestSetAnswersAsRedis(t *testing.T) {
	values := []string{
		"0", "1", "2", "100", "1024", "1048576", "9223372036854775807", "-1", "-2147483649", "4294967296", "+1", "01", "1.5", "0x10", " 1", "1 ",
		"9223372036854775808", "1kb", "2Mb", "1k", "1m", "1g", "1gb", "1b", "1tb", "1 kb", "x",
		"yes", "NO", "Yes", "true", "no ", "a b", "always", "EVERYSEC", "noeviction", "allkeys-lru", "debug",
		"KEA", "Ex", "AKE", "g$", "KEg$lshzxetd", "AmK", "Kx ", "lKl", "d",
		"900 1", "900 1 300 10", "900", "0 1", "1 -1", "900  1",
		"normal 1 2 3", "normal 1mb 2 3 pubsub 4 5 6", "REPLICA 0 0 0", "master 1 2 3", "normal x 2 3", "normal 1 2 -3", "slave 1 2 x",
		"1 2 3", "1 2", "-2000 0 2000", "-2001 0 0", "101", "now force", "default", "save now", "nosave later", "%", "5%", "101%", "x%",
	}
	redis, c, compared := oracle(t), New(), 0
	for _, s := range c.Settings() {
		_, other := otherValues[s.Name]
		former := do(t, redis, "CONFIG", "GET", s.Name).Strings()
		// redis-server loads its certificates anew at every TLS setting.
		if other || s.Group == "Redis: TLS" || s.Group == "TLS" || !s.Runtime || s.Effect == DefaultOnly || len(former) == 0 {
			continue
		}
		for _, v := range values {
			if otherPairs[Pair{s.Name, v}] != "" {
				continue
			}
			compareSet(t, redis, c, s.Name, v)
			compared++
		}
		do(t, redis, "CONFIG", "SET", s.Name, former[1])
	}
	if compared < 5000 {
		t.Errorf("%d values compared", compared)
	}
}

func compareSet(t *testing.T, redis *wire.Conn, c *Config, name, value string) {
	t.Helper()
	want := do(t, redis, "CONFIG", "SET", name, value)
	got := "+OK"
	if err := set(c, name, value); err != nil {
		got = "-" + err.Error()
	}
	if wantText := lineOf(want); got != wantText {
		t.Errorf("CONFIG SET %s %q: got %s\n want %s", name, value, got, wantText)
	}
	shown := do(t, redis, "CONFIG", "GET", name).Strings()
	if text := c.Lookup(name).Text(); len(shown) != 2 || text != shown[1] {
		t.Errorf("after CONFIG SET %s %q: shows %q, redis-server %q", name, value, text, shown)
	}
}

// TestCommandsAnswerAsRedis compares whole CONFIG SET commands.
func TestCommandsAnswerAsRedis(t *testing.T) {
	redis, c := oracle(t), New()
	for _, words := range []string{
		"nosuch 1", "NoSuch 1", "timeout 1 nosuch 2", "nosuch 2 timeout x", "timeout x nosuch 2", "TIMEOUT x",
		"databases 3", "DATABASES x", "timeout 1 databases 3", "databases 3 nosuch 1", "nosuch 1 databases 3",
		"dir /tmp", "DIR /tmp", "dbfilename a", "timeout 3 TIMEOUT 4", "timeout 3 timeout 3", "timeout x timeout y",
		"busy-reply-threshold 6 lua-time-limit 7", "lua-time-limit x", "hash-max-ziplist-entries x", "timeout 9 maxmemory 10mb",
		"maxmemory 11mb maxmemory-policy bogus", "logfile x", "tcp-backlog 3",
	} {
		args := strings.Fields(words)
		want := lineOf(do(t, redis, append([]string{"CONFIG", "SET"}, args...)...))
		got := "+OK"
		if err := set(c, args...); err != nil {
			got = "-" + err.Error()
		}
		if got != want {
			t.Errorf("CONFIG SET %s: got %s\n want %s", words, got, want)
		}
	}
	for _, pattern := range []string{"maxmemory", "timeout", "MAXMEMORY", "lua-time-limit", "hash-max-*-entries", "ti[m]eout", "T?MEOUT", "nosuch*"} {
		want := map[string]string{}
		r := do(t, redis, "CONFIG", "GET", pattern).Strings()
		for i := 0; i+1 < len(r); i += 2 {
			want[r[i]] = r[i+1]
		}
		got := c.Get(pattern)
		if len(got) != len(want) {
			t.Errorf("CONFIG GET %s: got %v, want %v", pattern, got, want)
		}
		for _, p := range got {
			if v, ok := want[p.Name]; !ok || v != p.Value {
				t.Errorf("CONFIG GET %s: got %v, want %v", pattern, got, want)
			}
		}
	}
}

func lineOf(r wire.Reply) string {
	switch r.Kind {
	case wire.Error:
		return "-" + string(r.Text)
	case wire.Simple:
		return "+" + string(r.Text)
	}
	return r.String()
}
