package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// program is a client program with the arguments that lead it to a server.
type program struct {
	path string
	args []string
}

// tool finds a Redis tool.
func tool(t *testing.T, name string, s *process.Server) program {
	t.Helper()
	return program{process.Tool(t, name), []string{"-h", "127.0.0.1", "-p", strconv.Itoa(s.Port)}}
}

// outcome is how a program ended.
type outcome struct {
	out, err string
	code     int // -1: by a signal, or by our time limit
}

// run runs the program with input, for a time at most.
func (p program) run(t *testing.T, limit time.Duration, input []byte, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, append(append([]string{}, p.args...), args...)...)
	cmd.Dir = t.TempDir()
	// An INT ends the tools that have no end of their own.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = bytes.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		t.Fatalf("%s %q: %v", filepath.Base(p.path), args, err)
	}
	return outcome{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// prints runs the program and checks all that it prints.
func (p program) prints(t *testing.T, want string, args ...string) {
	t.Helper()
	if got := p.run(t, 20*time.Second, nil, args...); got.out != want || got.code != 0 || got.err != "" {
		t.Errorf("%q: code %d, prints %q %q; want %q", args, got.code, got.out, got.err, want)
	}
}

// says runs the program and checks that it ends well and says each of the texts.
func (p program) says(t *testing.T, limit time.Duration, args []string, texts ...string) {
	t.Helper()
	got := p.run(t, limit, nil, args...)
	if got.code != 0 {
		t.Errorf("%q: code %d\n%s%s", args, got.code, got.out, got.err)
	}
	for _, text := range texts {
		if !strings.Contains(got.out, text) {
			t.Errorf("%q does not say %q:\n%s%s", args, text, got.out, got.err)
		}
	}
}

// TestRedisCLICommands runs commands one by one, in each form of output.
func TestRedisCLICommands(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	cli := tool(t, "redis-cli", s)
	cli.prints(t, "PONG\n", "PING")
	cli.prints(t, "OK\n", "SET", "k", "a value")
	cli.prints(t, "a value\n", "GET", "k")
	cli.prints(t, "\"a value\"\n", "--no-raw", "GET", "k")
	cli.prints(t, "(nil)\n", "--no-raw", "GET", "missing")
	cli.prints(t, "2\n", "HSET", "h", "f", "v", "g", "w")
	cli.prints(t, "1) \"f\"\n2) \"v\"\n3) \"g\"\n4) \"w\"\n", "--no-raw", "HGETALL", "h")
	cli.prints(t, "1# \"f\" => \"v\"\n2# \"g\" => \"w\"\n", "-3", "--no-raw", "HGETALL", "h")
	cli.prints(t, "\"f\",\"v\",\"g\",\"w\"\n", "--csv", "HGETALL", "h")
	cli.prints(t, "\"f\",\"v\",\"g\",\"w\"\n", "-3", "--csv", "HGETALL", "h")
	cli.prints(t, "{\"f\":\"v\",\"g\":\"w\"}\n", "-3", "--json", "HGETALL", "h")
	cli.prints(t, "\"a value\",NULL\n", "--csv", "MGET", "k", "missing")
	cli.prints(t, "2\n", "ZADD", "z", "1.5", "m", "inf", "top")
	cli.prints(t, "(double) 1.5\n", "-3", "--no-raw", "ZSCORE", "z", "m")
	cli.prints(t, "1) 1) \"m\"\n   2) (double) 1.5\n2) 1) \"top\"\n   2) (double) inf\n", "-3", "--no-raw", "ZRANGE", "z", "0", "-1", "WITHSCORES")
	cli.prints(t, "(empty array)\n", "--no-raw", "LRANGE", "missing", "0", "-1")
	cli.prints(t, "(error) WRONGTYPE Operation against a key holding the wrong kind of value\n", "--no-raw", "LPUSH", "k", "x")
	cli.prints(t, "(error) ERR unknown command 'NOSUCH', with args beginning with: 'a' \n", "--no-raw", "NOSUCH", "a")
	if got := cli.run(t, 20*time.Second, nil, "-e", "LPUSH", "k", "x"); got.code != 1 || !strings.Contains(got.out+got.err, "WRONGTYPE") {
		t.Errorf("-e: code %d, %q %q", got.code, got.out, got.err)
	}
	cli.prints(t, "1\n2\n3\n", "-r", "3", "-i", "0.01", "INCR", "n")
	cli.prints(t, "OK\n", "-n", "3", "SET", "in3", "v")
	cli.prints(t, "(integer) 1\n", "--no-raw", "-n", "3", "DBSIZE")
	if got := cli.run(t, 20*time.Second, []byte("from stdin"), "-x", "SET", "x"); got.out != "OK\n" {
		t.Errorf("-x: %q", got.out)
	}
	cli.prints(t, "from stdin\n", "GET", "x")
	url := program{path: cli.path, args: []string{"-u", fmt.Sprintf("redis://127.0.0.1:%d/3", s.Port)}}
	url.prints(t, "v\n", "GET", "in3")

	typed := "SET \"a key\" \"a\\x00b\"\nGET \"a key\"\n\nGET missing\nNOSUCH\nSELECT 3\nDBSIZE\nMULTI\nINCR a\nINCR b\nEXEC\n" +
		"MULTI\nDISCARD\nGET 'unbalanced\nHELLO 3\nHGETALL nothing\nECHO end\n"
	printed := "OK\n\"a\\x00b\"\n(nil)\n(error) ERR unknown command 'NOSUCH', with args beginning with: \n\nOK\n(integer) 1\n" +
		"OK\nQUEUED\nQUEUED\n1) (integer) 1\n2) (integer) 1\nOK\nOK\nInvalid argument(s)\n"
	got := cli.run(t, 20*time.Second, []byte(typed), "--no-raw")
	if squeeze(got.out+got.err) != squeeze(got.out) || !strings.HasPrefix(squeeze(got.out), squeeze(printed)) || !strings.Contains(got.out, "\"proto\" => (integer) 3") || !strings.HasSuffix(got.out, "(empty hash)\n\"end\"\n") {
		t.Errorf("typed commands print\n%s%s\nwant\n%s…", got.out, got.err, printed)
	}
}

// squeeze drops empty lines, which versions of redis-cli print or not.
func squeeze(text string) string {
	for strings.Contains(text, "\n\n") {
		text = strings.ReplaceAll(text, "\n\n", "\n")
	}
	return text
}

// TestRedisCLIModes runs the modes in which redis-cli is a tool of its own.
func TestRedisCLIModes(t *testing.T) {
	s := process.Start(t, process.Subject(t), process.Config{})
	cli := tool(t, "redis-cli", s)
	const keys = 100_000
	t.Run("pipe", func(t *testing.T) {
		var load []byte
		for i := range keys {
			load = wire.AppendStrings(load, "SET", fmt.Sprintf("key:%d", i), strings.Repeat("v", i%50))
		}
		for _, cmd := range [][]string{{"RPUSH", "biglist", "a", "b", "c"}, {"SADD", "bigset", "a", "b"}, {"HSET", "bighash", "f", "v"}, {"ZADD", "bigzset", "1", "m"}} {
			load = wire.AppendStrings(load, cmd...)
		}
		got := cli.run(t, time.Minute, load, "--pipe")
		if got.code != 0 || !strings.Contains(got.out, fmt.Sprintf("errors: 0, replies: %d\n", keys+4)) {
			t.Fatalf("code %d\n%s%s", got.code, got.out, got.err)
		}
		// Errors are counted, and do not end it; inline commands are commands.
		got = cli.run(t, time.Minute, append(wire.AppendStrings(nil, "LPUSH", "key:1", "x"), "NOSUCH\r\nPING\r\n"...), "--pipe")
		if !strings.Contains(got.out, "errors: 2, replies: 3\n") {
			t.Errorf("with errors: %s%s", got.out, got.err)
		}
	})
	t.Run("scan", func(t *testing.T) {
		for _, tc := range []struct {
			args []string
			keys int
		}{
			{nil, keys + 4}, {[]string{"--pattern", "key:99*"}, 1111}, {[]string{"--pattern", "big*"}, 4}, {[]string{"--pattern", "key:[1-3]"}, 3},
		} {
			got := cli.run(t, time.Minute, nil, append([]string{"--scan"}, tc.args...)...)
			seen := map[string]bool{}
			for _, line := range strings.Fields(got.out) {
				seen[line] = true
			}
			if len(seen) != tc.keys || got.code != 0 {
				t.Errorf("%v: %d keys, want %d; code %d", tc.args, len(seen), tc.keys, got.code)
			}
		}
	})
	t.Run("bigkeys", func(t *testing.T) {
		cli.says(t, time.Minute, []string{"--bigkeys"}, fmt.Sprintf("Sampled %d keys", keys+4), "Biggest   list found '\"biglist\"' has 3 items",
			"Biggest    set found '\"bigset\"' has 2 members", "Biggest   hash found '\"bighash\"' has 1 fields", "Biggest   zset found '\"bigzset\"' has 1 members", "Biggest string found", "has 49 bytes")
	})
	t.Run("memkeys", func(t *testing.T) {
		cli.says(t, time.Minute, []string{"--memkeys"}, fmt.Sprintf("Sampled %d keys", keys+4), "Biggest string found", "Biggest   list found '\"biglist\"' has")
		cli.says(t, time.Minute, []string{"--memkeys-samples", "0"}, fmt.Sprintf("Sampled %d keys", keys+4))
	})
	t.Run("hotkeys", func(t *testing.T) {
		// Without an LFU policy Redis refuses it, too.
		if got := cli.run(t, time.Minute, nil, "--hotkeys"); got.code == 0 || !strings.Contains(got.out+got.err, "LFU maxmemory policy is not selected") {
			t.Errorf("code %d\n%s%s", got.code, got.out, got.err)
		}
	})
	t.Run("latency", func(t *testing.T) {
		// With its output in a pipe it measures for a second and ends.
		got := cli.run(t, 20*time.Second, nil, "--latency")
		fields := strings.Fields(got.out)
		if len(fields) != 4 || got.code != 0 {
			t.Fatalf("code %d, prints %q", got.code, got.out)
		}
		if n, err := strconv.Atoi(fields[3]); err != nil || n < 10 {
			t.Errorf("%s samples", fields[3])
		}
	})
	t.Run("stat", func(t *testing.T) {
		// It has no end, and keeps what it prints for a pipe unless told otherwise.
		lines := program{process.Tool(t, "stdbuf"), append([]string{"-oL", cli.path}, cli.args...)}
		got := lines.run(t, 2*time.Second, nil, "--stat", "-i", "0.2")
		printed := strings.Split(strings.TrimSpace(got.out), "\n")
		if len(printed) < 5 || !strings.Contains(printed[0], "data") || !strings.Contains(printed[1], "keys") {
			t.Fatalf("prints %q %q", got.out, got.err)
		}
		for _, line := range printed[2:] {
			fields := strings.Fields(line)
			if len(fields) < 5 || fields[0] != strconv.Itoa(keys+4) || fields[1] == "0" || fields[1] == "0B" {
				t.Errorf("a line of it is %q", line)
			}
		}
	})
	t.Run("what is not there", func(t *testing.T) {
		// The modes for what the server does not do end at once and say so, and write no file.
		for _, args := range [][]string{{"--rdb", "dump.rdb"}, {"--functions-rdb", "functions.rdb"}, {"--replica"}} {
			start := time.Now()
			got := cli.run(t, 20*time.Second, nil, args...)
			if got.code != 1 || !strings.Contains(got.out+got.err, "ERR unknown command") || time.Since(start) > 5*time.Second {
				t.Errorf("%v: code %d after %v\n%s%s", args, got.code, time.Since(start), got.out, got.err)
			}
		}
		if r, err := s.Conn(t).Do("DBSIZE"); err != nil || r.String() != fmt.Sprintf(":%d", keys+4) {
			t.Errorf("DBSIZE: %s, %v", r, err)
		}
	})
}
