package oracle

import (
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// roundSteps is how many commands run between two empty keyspaces.
const roundSteps = 4000

// maxReports is how many different differences are reduced and printed before the run stops.
const maxReports = 8

func number(t *testing.T, variable string, def uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return def
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// TestRandomCommands runs KEVY_ORACLE_COMMANDS commands, of all or of KEVY_ORACLE_NAMES, from KEVY_SEED on
// redis-server and on the server, and after each round holds the server's log and feed to its keyspace.
func TestRandomCommands(t *testing.T) {
	def := uint64(200_000)
	if testing.Short() {
		def = 20_000
	}
	total := number(t, "KEVY_ORACLE_COMMANDS", def)
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_ORACLE_COMMANDS=%d", seed, total)
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: withUserFile(t, oracleArgs)})
	subject := process.Subject(t)
	var pair *Pair
	if subject.Redis {
		server := process.Start(t, subject, process.Config{Args: withUserFile(t, serverArgs)})
		pair = newPair(t, oracle.Dial, server.Dial)
	} else {
		h := newHistory(t, process.Config{Args: withUserFile(t, serverArgs)}, process.Oracle(t))
		pair = newPair(t, oracle.Dial, h.Dial)
		pair.Begin, pair.After = h.begin, h.check
		defer func() { h.enough(pair.rounds) }()
	}
	opt := Options{Conns: conns}
	if list := os.Getenv("KEVY_ORACLE_NAMES"); list != "" {
		opt.Names = strings.Split(list, ",")
	}
	runRounds(t, pair, seed, total, opt)
	t.Logf("%d commands waited, %d of them not to the end of their round; %d connections were ended", pair.Waited, pair.Ended, pair.Closed)
	if pair.rounds >= 5 && pair.Ended < 4*pair.rounds && opt.Names == nil && !t.Failed() {
		t.Errorf("only %d waits were over in %d rounds", pair.Ended, pair.rounds)
	}
	for _, a := range pair.allow {
		t.Logf("allow.txt:%d used %d times: %s", a.line, a.hits, a.reason)
		if total >= 1_000_000 && a.hits == 0 && opt.Names == nil {
			t.Errorf("allow.txt:%d allows what does not happen", a.line)
		}
	}
	if opt.Names == nil {
		checkCoverage(t, pair, total, Names(false))
	} else {
		t.Logf("calls %v, errors %v", pair.Calls, pair.Errors)
	}
}

// TestShardCounts runs the same commands on a server of one shard and on one of sixteen, those that
// redis-server 7.0 lacks included.
func TestShardCounts(t *testing.T) {
	subject := process.Subject(t)
	if subject.Redis {
		t.Skip("redis-server has no shards")
	}
	def := uint64(40_000)
	if testing.Short() {
		def = 8_000
	}
	total := number(t, "KEVY_ORACLE_COMMANDS", def)
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_ORACLE_COMMANDS=%d", seed, total)
	many := newHistory(t, process.Config{Args: withUserFile(t, append([]string{"--shards", "16"}, serverArgs...))}, subject)
	one := process.Start(t, subject, process.Config{Args: withUserFile(t, append([]string{"--shards", "1"}, serverArgs...))})
	pair := newPair(t, many.Dial, one.Dial)
	pair.allow = nil
	pair.Begin, pair.After = many.begin, many.check
	defer func() { many.enough(pair.rounds) }()
	runRounds(t, pair, seed, total, Options{Conns: conns, Newer: true})
	checkCoverage(t, pair, total, Names(true))
}

// conns is how many connections take turns.
const conns = 6

// What the servers are started with.
var (
	oracleArgs = []string{"--appendonly", "no", "--enable-debug-command", "yes"}
	serverArgs = []string{"--enable-debug-command", "yes"}
)

// withUserFile adds a file of users to what a server is started with.
func withUserFile(t *testing.T, args []string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]string{"--aclfile", path}, args...)
}

func newPair(t *testing.T, oracle, server func() (net.Conn, error)) *Pair {
	t.Helper()
	pair, err := NewPair(oracle, server, conns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pair.Close)
	return pair
}

// runRounds runs total commands, and reduces and reports what differs.
func runRounds(t *testing.T, pair *Pair, seed, total uint64, opt Options) {
	reported := map[string]bool{}
	for done := uint64(0); done < total && len(reported) < maxReports; pair.rounds++ {
		g := NewGenerator(seed, time.Now().UnixMilli(), opt)
		steps := make([]Step, min(roundSteps, total-done))
		at := 0
		if len(steps) == roundSteps {
			at = copy(steps, g.Malformed(pair.rounds%2 == 1))
		}
		for ; at < len(steps); at++ {
			steps[at] = g.Next()
		}
		done += uint64(len(steps))
		diff, err := pair.Run(steps, 1000)
		if err != nil {
			t.Fatalf("KEVY_SEED=%d: %v", seed, err)
		}
		if diff != nil && !reported[diff.What] {
			reported[diff.What] = true
			short, last := pair.Shrink(steps, diff, 40*time.Second)
			var b strings.Builder
			for _, s := range short {
				b.WriteString(s.String() + "\n")
			}
			t.Errorf("KEVY_SEED=%d KEVY_ORACLE_COMMANDS=%d: the servers differ (%s) after\n%s  oracle: %s\n  server: %s",
				seed, roundSteps, last.What, b.String(), clip(last.Want), clip(last.Got))
		}
		seed++
	}
}

// checkCoverage makes sure that a long run has really tried every command, and most of them with and without success.
func checkCoverage(t *testing.T, pair *Pair, done uint64, names []string) {
	if done < 200_000 || t.Failed() {
		return
	}
	// Settings have no file; there is no cluster; no script runs that could be
	// killed, and no event of LATENCY is recorded. Of the others one call in twelve works, of 180 and more.
	neverWorks := map[string]bool{
		"CONFIG REWRITE": true, "SCRIPT KILL": true, "FUNCTION KILL": true, "LATENCY GRAPH": true,
		"ASKING": true, "READONLY": true, "READWRITE": true,
	}
	// Any arguments do, or those that do not are not made. Generator.Malformed sees to the others.
	neverFails := map[string]bool{
		"COMMAND DOCS": true, "COMMAND INFO": true, "DEBUG SLEEP": true, "INFO": true, "LATENCY HISTOGRAM": true, "LATENCY RESET": true,
		"PUBSUB NUMSUB": true, "PUBSUB SHARDNUMSUB": true, "UNSUBSCRIBE": true, "PUNSUBSCRIBE": true, "SUNSUBSCRIBE": true,
	}
	var lines []string
	for _, n := range names {
		calls, errors := pair.Calls[n], pair.Errors[n]
		lines = append(lines, n+" "+strconv.Itoa(calls)+"/"+strconv.Itoa(errors))
		if calls < 20 {
			t.Errorf("%s was called %d times in %d commands", n, calls, done)
		}
		if errors == 0 && !neverFails[n] {
			t.Errorf("%s never failed in %d calls", n, calls)
		}
		if errors == calls && !neverWorks[n] {
			t.Errorf("%s never worked in %d calls", n, calls)
		}
	}
	sort.Strings(lines)
	t.Logf("calls/errors: %s", strings.Join(lines, ", "))
	const atLeast = 150
	if len(lines) < atLeast {
		t.Errorf("the generator knows %d commands, fewer than %d", len(lines), atLeast)
	}
}

// TestFindsAndShrinks plants a difference and checks that it is found and reduced to what matters.
func TestFindsAndShrinks(t *testing.T) {
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}})
	// The second server turns to another encoding earlier, which only the comparison of keyspaces or
	// OBJECT ENCODING can show.
	other := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no", "--set-max-intset-entries", "3"}})
	pair, err := NewPair(oracle.Dial, other.Dial, conns)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	g := NewGenerator(7, time.Now().UnixMilli(), Options{Conns: conns})
	steps := make([]Step, roundSteps)
	for i := range steps {
		steps[i] = g.Next()
	}
	diff, err := pair.Run(steps, 200)
	if err != nil {
		t.Fatal(err)
	}
	if diff == nil {
		t.Fatal("the planted difference was not found")
	}
	short, last := pair.Shrink(steps, diff, 60*time.Second)
	if len(short) > 6 {
		t.Errorf("reduced to %d steps only: %v", len(short), short)
	}
	if !strings.Contains(last.Want+last.Got, "intset") {
		t.Errorf("the reduced steps show something else: %s", last)
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		m         mode
		want, got string
		ok        bool
	}{
		{exact, `"a"`, `"a"`, true},
		{exact, `"a"`, `"b"`, false},
		{exact, `$nil`, `*nil`, false},
		{unordered, `["a", "b"]`, `["b", "a"]`, true},
		{unordered, `["a", "b"]`, `["b", "b"]`, false},
		{unorderedPairs, `["a", "1", "b", "2"]`, `["b", "1", "a", "2"]`, false},
		{unorderedPairs, `map{"a": "1", "b": "2"}`, `map{"b": "2", "a": "1"}`, true},
		{scores, `"0.10000000000000001"`, `"0.1"`, true},
		{scores, `"0.10000000000000001"`, `"0.2"`, false},
		{scores, `["1.0", "2"]`, `["1", "2"]`, false},
		{scores, `["a", ,0.10000000000000001]`, `["a", ,0.1]`, true},
		{clock, ":1000000", ":1000900", true},
		{clock, ":1000000", ":1000", false},
		{clock, ":-1", ":5", false},
		{clock, "[:1000000, :-2]", "[:1000900, :-2]", true},
		{clock, "[:1000000, :-2]", "[:1000000, :-1]", false},
		{clock, "[:1000000]", "[:1000000, :-1]", false},
		{random, `["a"]`, `["b"]`, true},
		{random, `["a"]`, `["b", "c"]`, false},
		{shape, ":1", ":2", true},
		{shape, ":1", `"2"`, false},
		{random, "-ERR a", "-ERR b", false},
	} {
		want, _, err := wire.Parse(c.want)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := wire.Parse(c.got)
		if err != nil {
			t.Fatal(err)
		}
		if same(c.m, want, got) != c.ok {
			t.Errorf("mode %d: %s and %s: %v", c.m, c.want, c.got, !c.ok)
		}
	}
}

func TestAllowList(t *testing.T) {
	list, err := parseAllow("command ZRANK z .*\noracle -ERR .*\nserver :\\d+\nreason because\n")
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Reply{Kind: wire.Error, Text: []byte("ERR x")}
	got := wire.Reply{Kind: wire.Int, Text: []byte("5")}
	if !list.allows(cmd("ZRANK", "z", "a"), want, got) || list[0].hits != 1 {
		t.Error("the entry does not match")
	}
	if list.allows(cmd("ZRANK", "y", "a"), want, got) || list.allows(cmd("ZRANK", "z", "a"), got, want) {
		t.Error("the entry matches what it should not")
	}
	for _, bad := range []string{"command a\n", "command a\nreason b\n", "nonsense a\n", "command (\n"} {
		if _, err := parseAllow(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
