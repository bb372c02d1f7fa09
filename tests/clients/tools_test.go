package clients

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// run runs a tool against the server with input, and fails if it fails or takes too long.
func run(t *testing.T, s *process.Server, timeout time.Duration, input []byte, tool string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, process.Tool(t, tool), append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(s.Port)}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v\n%s", tool, args, err, out)
	}
	return string(out)
}

func TestRedisCLI(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	const keys = 10_000
	var load []byte
	for i := range keys {
		load = wire.AppendStrings(load, "SET", fmt.Sprintf("key:%d", i), strings.Repeat("v", i%50))
	}
	for _, cmd := range [][]string{{"RPUSH", "biglist", "a", "b", "c"}, {"SADD", "bigset", "a", "b"}, {"HSET", "bighash", "f", "v"}, {"ZADD", "bigzset", "1", "m"}} {
		load = wire.AppendStrings(load, cmd...)
	}
	out := run(t, s, time.Minute, load, "redis-cli", "--pipe")
	if !strings.Contains(out, fmt.Sprintf("errors: 0, replies: %d", keys+4)) {
		t.Errorf("--pipe:\n%s", out)
	}
	out = run(t, s, time.Minute, nil, "redis-cli", "--scan", "--pattern", "key:99*")
	if n := len(strings.Fields(out)); n != 111 {
		t.Errorf("--scan lists %d keys", n)
	}
	out = run(t, s, time.Minute, nil, "redis-cli", "--bigkeys")
	for _, want := range []string{"Sampled 10004 keys", "Biggest   list found '\"biglist\"' has 3 items", "Biggest    set found '\"bigset\"' has 2 members",
		"Biggest   hash found '\"bighash\"' has 1 fields", "Biggest   zset found '\"bigzset\"' has 1 members", "Biggest string found", "has 49 bytes"} {
		if !strings.Contains(out, want) {
			t.Errorf("--bigkeys does not say %q:\n%s", want, out)
		}
	}
	out = run(t, s, time.Minute, nil, "redis-cli", "--memkeys")
	if !strings.Contains(out, "Sampled 10004 keys") {
		t.Errorf("--memkeys:\n%s", out)
	}
	// With its output in a pipe it measures for a second and ends.
	out = run(t, s, 20*time.Second, nil, "redis-cli", "--latency")
	fields := strings.Fields(out)
	if len(fields) != 4 {
		t.Fatalf("--latency prints %q", out)
	}
	if n, err := strconv.Atoi(fields[3]); err != nil || n < 10 {
		t.Errorf("--latency took %s samples", fields[3])
	}
	// Interactive use, with the errors and nils as it shows them.
	out = run(t, s, time.Minute, []byte("SET \"a key\" \"a\\x00b\"\nGET \"a key\"\nGET missing\nLPUSH \"a key\" x\nNOSUCH\nSELECT 3\nDBSIZE\n"), "redis-cli", "--no-raw")
	want := "OK\n\"a\\x00b\"\n(nil)\n(error) WRONGTYPE Operation against a key holding the wrong kind of value\n" +
		"(error) ERR unknown command 'NOSUCH', with args beginning with: \nOK\n(integer) 0\n"
	if strings.ReplaceAll(out, "\n\n", "\n") != want {
		t.Errorf("typed commands print\n%q, want\n%q", out, want)
	}
	out = run(t, s, time.Minute, []byte("HSET hash3 f v\nHGETALL hash3\nZADD zset3 1.5 m\nZSCORE zset3 m\n"), "redis-cli", "-3", "--no-raw")
	if !strings.Contains(out, "1# \"f\" => \"v\"") || !strings.Contains(out, "(double) 1.5") {
		t.Errorf("RESP3 prints\n%s", out)
	}
	out = run(t, s, time.Minute, nil, "redis-cli", "-r", "3", "-i", "0.01", "INCR", "repeated")
	if strings.Fields(out)[2] != "3" {
		t.Errorf("-r 3 prints %q", out)
	}
}

// TestRedisBenchmark runs the benchmark's default list, except for what is not built yet.
func TestRedisBenchmark(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	const tests = "ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,lrange_300,lrange_500,lrange_600,mset"
	result := regexp.MustCompile(`(?m)(?:^|\r)([^:\r\n]+): ([0-9.]+) requests per second`)
	for _, args := range [][]string{{"-n", "2000"}, {"-n", "5000", "-P", "16"}, {"-n", "2000", "-3", "-r", "1000"}} {
		out := run(t, s, 2*time.Minute, nil, "redis-benchmark", append([]string{"-q", "-t", tests}, args...)...)
		lines := result.FindAllStringSubmatch(out, -1)
		// LRANGE fills its list first, which is a line of its own.
		if want := strings.Count(tests, ",") + 1; len(lines) < want {
			t.Errorf("%v: %d results, want at least %d:\n%s", args, len(lines), want, out)
		}
		if strings.Contains(out, "rror") || strings.Contains(out, "WARNING") {
			t.Errorf("%v:\n%s", args, out)
		}
	}
}
