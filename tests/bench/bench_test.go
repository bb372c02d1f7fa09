package main

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

// TestMeasureFeed runs what is measured of the feed on next to nothing.
func TestMeasureFeed(t *testing.T) {
	process.Tool(t, "redis-server")
	process.Tool(t, "redis-benchmark")
	var out bytes.Buffer
	path, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := plan{runs: 1, commands: 10_000, seconds: 1, out: &out, kevy: process.Binary{Path: path}, redis: process.Binary{Path: "redis-server", Redis: true}}
	if err := p.feed(); err != nil {
		t.Fatal(err)
	}
	if len(p.results) != 13 {
		t.Errorf("%d results for programs", len(p.results))
	}
	for _, want := range []string{"writers' p99, ms", "one raw reader, from memory", "from disk", "SUBSCRIBE", "keyspace events", "XADD + XREAD", "one replica"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// TestMeasureRewriters runs what is measured of rewrites on next to nothing.
func TestMeasureRewriters(t *testing.T) {
	process.Tool(t, "redis-server")
	var out bytes.Buffer
	p := plan{runs: 1, keys: 2000, seconds: 1, out: &out}
	if err := p.measureWriters(t); err != nil {
		t.Fatal(err)
	}
	if len(p.results) != 2 || !strings.Contains(out.String(), "rewrites: longest, ms") {
		t.Errorf("%d results for programs and\n%s", len(p.results), out.String())
	}
}

func (p *plan) measureWriters(t *testing.T) error {
	path, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	p.kevy, p.redis = process.Binary{Path: path}, process.Binary{Path: "redis-server", Redis: true}
	return p.rewriters()
}

// TestMeasure runs the whole program on next to nothing.
func TestMeasure(t *testing.T) {
	process.Tool(t, "redis-server")
	process.Tool(t, "redis-benchmark")
	var out bytes.Buffer
	p := plan{runs: 2, commands: 1000, keys: 500, pairs: 1, seconds: 1, idleConnections: 50, subscribers: 5, messages: 50, out: &out}
	if err := p.measure([]func() error{p.speed, p.memory, p.feedCost, p.consumer, p.fanOut, p.connections, p.eval}); err != nil {
		t.Fatal(err)
	}
	if len(p.results) < 30 {
		t.Errorf("only %d results for programs", len(p.results))
	}
	for _, want := range []string{"SET, pipeline 1: commands/s", "GET, pipeline 16: commands/s", "ZADD, pipeline 16: commands/s", "ZRANGE 100, pipeline 16: commands/s", "server CPU, µs a command", "memory a key, bytes, 500 keys", "ratio of each pair", "one consumer of ALL", "behind by", "PUBLISH to 5, pipeline 16: messages/s", "an idle connection of 50, bytes", "SET, pipeline 1, beside them", "EVALSHA next job, pipeline 16: commands/s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestParseRate(t *testing.T) {
	const printed = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"123456.78\",\"0.1\"\n"
	if rate, err := parseRate([]byte(printed), "SET"); err != nil || rate != 123456.78 {
		t.Errorf("got %v, %v", rate, err)
	}
	for _, bad := range []string{"", "\"GET\",\"1\"\n", "\"SET\"\n", "\"SET\",\"x\"\n", "\"SET"} {
		if rate, err := parseRate([]byte(bad), "SET"); err == nil {
			t.Errorf("%q: got %v", bad, rate)
		}
	}
}

func TestProcessFigures(t *testing.T) {
	before, err := cpuSeconds(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
	}
	after, err := cpuSeconds(os.Getpid())
	if err != nil || after <= before || after-before > 10 {
		t.Errorf("CPU time goes from %v to %v s, %v", before, after, err)
	}
	if n, err := residentBytes(os.Getpid()); err != nil || n < 1<<20 || n > 1<<32 {
		t.Errorf("%d bytes are resident, %v", n, err)
	}
}

func TestMedianAndSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   string
	}{
		{[]float64{3}, "3.0"},
		{[]float64{3, 1, 2}, "2.0 (1.0–3.0)"},
		{[]float64{4, 1, 2, 9}, "3.0 (1.0–9.0)"},
	} {
		if got := spread("%.1f", test.values); got != test.want {
			t.Errorf("%v: got %q, want %q", test.values, got, test.want)
		}
	}
}

func TestConsumerSkips(t *testing.T) {
	const values = "*2\r\n:1\r\n*3\r\n$3\r\nSET\r\n$2\r\na\n\r\n$-1\r\n*0\r\n:7\r\n"
	c := &consumer{in: bufio.NewReader(strings.NewReader(values + "-ERR no\r\n"))}
	for i := range 3 {
		if err := c.skip(); err != nil {
			t.Fatalf("value %d: %v", i, err)
		}
	}
	if err := c.skip(); err == nil || err.Error() != "ERR no" {
		t.Errorf("an error reply: %v", err)
	}
	if err := c.skip(); err == nil {
		t.Error("the end is no error")
	}
}
