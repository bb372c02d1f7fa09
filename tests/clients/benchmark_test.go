package clients

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

// benchmarks is the default list of redis-benchmark but for XADD.
var benchmarks = []string{"ping_inline", "ping_mbulk", "set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd", "zpopmin",
	"lrange_100", "lrange_300", "lrange_500", "lrange_600", "mset"}

// TestRedisBenchmark runs each benchmark with and without pipelining, over both protocols and from threads:
// each gives its line, and none an error.
func TestRedisBenchmark(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	bench := tool(t, "redis-benchmark", s)
	line := regexp.MustCompile(`(?m)(?:^|\r)([^:\r\n]+): ([0-9.]+) requests per second`)
	for _, tc := range []struct {
		args  string
		tests []string
	}{
		{"-n 1000", benchmarks}, {"-n 3000 -P 16", benchmarks}, {"-n 1000 -3 -r 1000", benchmarks}, {"-n 3000 -P 16 --threads 2", benchmarks},
		{"-n 1000 --threads 2", []string{"set", "get", "lpush", "mset"}}, {"-n 500 -k 0", []string{"ping_inline", "set", "lpop"}}, {"-n 500 --dbnum 9 -d 5000", []string{"set", "get", "hset", "mset"}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			got := bench.run(t, 2*time.Minute, nil, append([]string{"-q", "-t", strings.Join(tc.tests, ",")}, strings.Fields(tc.args)...)...)
			want := len(tc.tests)
			if slices.Contains(tc.tests, "lrange_100") {
				want++ // its list is filled first
			}
			if lines := line.FindAllStringSubmatch(got.out, -1); len(lines) != want {
				t.Errorf("%d results, want %d:\n%s", len(lines), want, got.out)
			} else {
				for _, l := range lines {
					if rate, err := strconv.ParseFloat(l[2], 64); err != nil || rate <= 0 {
						t.Errorf("%s", l[0])
					}
				}
			}
			if text := got.out + got.err; got.code != 0 || strings.Contains(strings.ToLower(text), "error") {
				t.Errorf("code %d:\n%s", got.code, text)
			}
			c := s.Conn(t)
			if r, err := c.Do("FLUSHALL"); err != nil || r.String() != "+OK" {
				t.Fatalf("FLUSHALL: %s, %v", r, err)
			}
		})
	}
	// A command of one's own, and its effect.
	got := bench.run(t, time.Minute, nil, "-q", "-n", "3000", "-r", "100000", "-P", "8", "SET", "key__rand_int__", "value")
	if got.code != 0 || !line.MatchString(got.out) {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.err)
	}
	r, err := s.Conn(t).Do("DBSIZE")
	if n, nerr := r.Int(); err != nil || nerr != nil || n < 2500 || n > 3000 {
		t.Errorf("3000 random keys are %s, %v", r, err)
	}
	// It ends with the first error, so that none above is passed over.
	if got := bench.run(t, time.Minute, nil, "-q", "-n", "100", "NOSUCH"); got.code == 0 || !strings.Contains(got.out+got.err, "ERR unknown command") {
		t.Errorf("an unknown command: code %d, %q %q", got.code, got.out, got.err)
	}
}
