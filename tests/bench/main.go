// Command bench measures kevy-server beside redis-server, in turn and in one
// run, so that the ratios hold whatever the machine: rate and server CPU per
// command, memory per key, what the feed costs, how a consumer keeps up, what
// followers cost and get, what subscribers of a channel cost, what idle
// connections weigh, and what scripts cost.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"kevy/tests/process"
)

// plan is how much is measured.
type plan struct {
	runs        int // of each speed; medians are printed
	commands    int // a run at pipeline 16; a fifth of it at pipeline 1
	keys        int // for memory per key
	idleSeconds int // between load and measuring memory
	pairs       int // of runs with the feed on and off
	seconds     int // of a run at a fixed rate
	// idleConnections are opened and left alone; settleSeconds is for how long
	// before they are weighed.
	idleConnections, settleSeconds int
	// subscribers get messages each in a run of pub/sub.
	subscribers, messages int
	kevy, redis           process.Binary
	out                   io.Writer
	results               []result
}

// result is one line of what was measured, for programs to read.
type result struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Kevy  float64 `json:"kevy"`
	Redis float64 `json:"redis,omitempty"`
	// Ratio is kevy's figure through the other's.
	Ratio float64 `json:"ratio,omitempty"`
}

func main() {
	p := plan{out: os.Stdout, settleSeconds: settleSeconds}
	flag.IntVar(&p.runs, "runs", 5, "runs of each speed")
	flag.IntVar(&p.commands, "commands", 2_000_000, "commands of a run at pipeline 16")
	flag.IntVar(&p.keys, "keys", 1_000_000, "keys for memory per key")
	flag.IntVar(&p.idleSeconds, "idle", 10, "seconds between load and measuring memory")
	flag.IntVar(&p.pairs, "pairs", 9, "pairs of runs with the feed on and off")
	flag.IntVar(&p.seconds, "seconds", 5, "seconds of a run at a fixed rate")
	flag.IntVar(&p.idleConnections, "connections", 10_000, "idle connections")
	flag.IntVar(&p.subscribers, "subscribers", 100, "subscribers of a channel")
	flag.IntVar(&p.messages, "messages", 20_000, "messages that are published to them in a run")
	pubsubAlone := flag.Bool("pubsub", false, "measure pub/sub alone")
	connectionsAlone := flag.Bool("idle-connections", false, "measure idle connections alone")
	feedAlone := flag.Bool("feed", false, "measure the feed alone")
	evalAlone := flag.Bool("eval", false, "measure scripts alone")
	rewritesAlone := flag.Bool("rewrites", false, "measure writers beside rewrites of the log alone")
	asJSON := flag.Bool("json", false, "print the results as JSON, and the table to the standard error")
	flag.Parse()
	if *asJSON {
		p.out = os.Stderr
	}
	parts := []func() error{p.speed, p.memory, p.feedCost, p.consumer, p.feed, p.fanOut, p.connections, p.eval}
	if *feedAlone {
		parts = []func() error{p.feed}
	}
	if *connectionsAlone {
		parts = []func() error{p.connections}
	}
	if *pubsubAlone {
		parts = []func() error{p.fanOut}
	}
	if *evalAlone {
		parts = []func() error{p.eval}
	}
	if *rewritesAlone {
		parts = []func() error{p.rewriters}
	}
	err := p.measure(parts)
	if err == nil && *asJSON {
		err = json.NewEncoder(os.Stdout).Encode(p.results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (p *plan) measure(parts []func() error) error {
	if p.runs < 1 || p.commands < 1000 || p.keys < 1 || p.pairs < 1 || p.seconds < 1 || p.idleSeconds < 0 || p.idleConnections < 1 || p.subscribers < 1 || p.messages < 1 {
		return errors.New("-runs, -keys, -pairs, -seconds, -connections, -subscribers and -messages must be at least 1, -commands 1000, -idle 0")
	}
	path, err := process.Build()
	if err != nil {
		return err
	}
	p.kevy, p.redis = process.Binary{Path: path}, process.Binary{Path: "redis-server", Redis: true}
	fmt.Fprintf(p.out, "%d cores, %s. AOF everysec on both, feed on, values of 64 bytes under keys of 16, 50 connections.\n", runtime.NumCPU(), runtime.Version())
	for _, part := range parts {
		fmt.Fprintln(p.out)
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// loads are those of speed. SET and GET are the ones with the longest runs: they
// are what most servers do most.
func (p *plan) loads() []load {
	loads := []load{
		{command: "SET", pipeline: 1, commands: p.commands / 5}, {command: "GET", pipeline: 1, commands: p.commands / 5},
		{command: "SET", pipeline: 16, commands: p.commands}, {command: "GET", pipeline: 16, commands: p.commands},
	}
	elements, members := []string{"RPUSH", "bench:list"}, []string{"ZADD", "bench:zset"}
	for i := range 1000 {
		elements = append(elements, fmt.Sprintf("element:%012d", i))
		members = append(members, fmt.Sprint(i), fmt.Sprintf("member:%012d", i))
	}
	value := strings.Repeat("x", 64)
	mset := []string{"MSET"}
	for i := range 10 {
		mset = append(mset, fmt.Sprintf("mset:%d:__rand_int__", i), value)
	}
	for _, l := range []load{
		{command: "INCR"}, {command: "LPUSH"}, {command: "LPOP"}, {command: "SADD"}, {command: "HSET"}, {command: "ZADD"},
		{command: "XADD", args: []string{"XADD", "bench:stream", "*", "field", value}},
		{command: "MSET 10", args: mset},
		{command: "LRANGE 100", args: []string{"LRANGE", "bench:list", "0", "99"}, prepare: [][]string{{"DEL", "bench:list"}, elements}},
		{command: "ZRANGE 100", args: []string{"ZRANGE", "bench:zset", "0", "99"}, prepare: [][]string{members}},
	} {
		l.pipeline, l.commands = 16, p.commands/4
		loads = append(loads, l)
	}
	return loads
}

func (p *plan) speed() error { return p.compare(p.loads()) }

// compare alternates the two servers; each measures all loads on a fresh store.
func (p *plan) compare(loads []load) error {
	kevy, redis := make([]series, len(loads)), make([]series, len(loads))
	for run := range p.runs {
		servers := []struct {
			binary process.Binary
			out    []series
		}{{p.kevy, kevy}, {p.redis, redis}}
		if run%2 == 1 {
			servers[0], servers[1] = servers[1], servers[0]
		}
		for _, s := range servers {
			if err := measureLoads(s.binary, loads, s.out); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(p.out, "%-34s %21s %21s %7s   medians of %d, lowest to highest\n", "", "kevy-server", "redis-server", "ratio", p.runs)
	for i, l := range loads {
		name := l.name()
		row(p.out, name+": commands/s", "%.0f", kevy[i].rates, redis[i].rates)
		row(p.out, "  server CPU, µs a command", "%.2f", kevy[i].cpuMicros, redis[i].cpuMicros)
		p.keep(name, "commands/s", kevy[i].rates, redis[i].rates)
		p.keep(name, "server CPU µs/command", kevy[i].cpuMicros, redis[i].cpuMicros)
	}
	return nil
}

// measureLoads starts a server and runs the loads on it. Rewrites are off, so
// that none falls into one run and not into another.
func measureLoads(b process.Binary, loads []load, out []series) error {
	return withServer(b, []string{"--auto-aof-rewrite-percentage", "0"}, func(s *process.Server) error {
		for i, l := range loads {
			m, err := l.run(s)
			if err != nil {
				return err
			}
			out[i].add(m)
		}
		return nil
	})
}

func (p *plan) memory() error {
	var bytesPerKey [2][]float64
	for i, b := range []process.Binary{p.kevy, p.redis} {
		err := withServer(b, nil, func(s *process.Server) error {
			n, err := memoryPerKey(s, p.keys, p.idleSeconds)
			bytesPerKey[i] = append(bytesPerKey[i], n)
			return err
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(p.out, "%-34s %21s %21s %7s\n", "", "kevy-server", "redis-server", "ratio")
	row(p.out, fmt.Sprintf("memory a key, bytes, %d keys", p.keys), "%.0f", bytesPerKey[0], bytesPerKey[1])
	p.keep(fmt.Sprintf("memory, %d keys", p.keys), "bytes/key", bytesPerKey[0], bytesPerKey[1])
	return nil
}

// feedCost alternates the feed on and off.
func (p *plan) feedCost() error {
	l := load{command: "SET", pipeline: 16, commands: p.commands}
	var on, off series
	for pair := range p.pairs {
		order := []struct {
			feed string
			out  *series
		}{{"yes", &on}, {"no", &off}}
		if pair%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		for _, o := range order {
			err := withServer(p.kevy, []string{"--auto-aof-rewrite-percentage", "0", "--feed", o.feed}, func(s *process.Server) error {
				m, err := l.run(s)
				o.out.add(m)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(p.out, "%-34s %21s %21s %7s   medians of %d, lowest to highest\n", "", "feed on", "feed off", "ratio", p.pairs)
	row(p.out, "SET, pipeline 16: CPU, µs", "%.2f", on.cpuMicros, off.cpuMicros)
	ratios := make([]float64, p.pairs)
	for i := range ratios {
		ratios[i] = on.cpuMicros[i] / off.cpuMicros[i]
	}
	fmt.Fprintf(p.out, "  ratio of each pair: %s\n", spread("%.3f", ratios))
	p.results = append(p.results, result{Name: "feed on / feed off, SET, pipeline 16", Unit: "server CPU", Kevy: median(on.cpuMicros), Ratio: median(ratios)})
	return nil
}

func (p *plan) consumer() error {
	return withServer(p.kevy, nil, func(s *process.Server) error {
		r, err := followLoad(s, load{command: "SET", pipeline: 64, commands: 2 * p.commands})
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "one consumer of ALL: %.0f SET/s at pipeline 64; read %.0f frames/s meanwhile; behind by %d frames at the end, caught up %.2f s later\n",
			r.commandsPerSecond, r.framesPerSecond, r.behind, r.caughtUp.Seconds())
		p.results = append(p.results, result{Name: "one consumer of ALL", Unit: "frames/s", Kevy: r.framesPerSecond, Ratio: r.framesPerSecond / r.commandsPerSecond},
			result{Name: "one consumer of ALL, behind at the end", Unit: "frames", Kevy: float64(r.behind)})
		return nil
	})
}

// keep notes a pair of figures for the JSON.
func (p *plan) keep(name, unit string, kevy, redis []float64) {
	a, b := median(kevy), median(redis)
	p.results = append(p.results, result{Name: name, Unit: unit, Kevy: a, Redis: b, Ratio: a / b})
}
