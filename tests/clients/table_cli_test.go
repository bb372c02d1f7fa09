package clients

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"kevy/tests/process"
)

// useRedisCLI is the row of redis-cli: commands on its command line and typed ones.
func useRedisCLI(u *usage) {
	const limit = time.Minute
	options := func(password string) []string {
		words := []string{"-" + strconv.Itoa(u.protocol), "-h", u.host, "-p", strconv.Itoa(u.port), "--user", tableUser, "--pass", password, "--no-auth-warning", "--show-pushes", "yes"}
		if u.tls != nil {
			words = append(words, "--tls", "--cacert", u.ca, "--cert", u.pair.Cert, "--key", u.pair.Key)
		}
		return words
	}
	cli := program{process.Tool(u.T, "redis-cli"), options(tablePassword)}
	says := func(want string, words ...string) {
		u.Helper()
		got := cli.run(u.T, limit, nil, words...)
		u.check(fmt.Sprintf("%q", words), strings.TrimRight(got.out+got.err, "\n"), want)
	}
	begins := func(want string, words ...string) {
		u.Helper()
		got := cli.run(u.T, limit, nil, words...)
		if !strings.HasPrefix(got.out, want) {
			u.Fatalf("after %q: %q prints %q %q, want %q", u.finished, words, got.out, got.err, want)
		}
	}

	says(tableUser, "ACL", "WHOAMI")
	wrong := program{cli.path, options("wrong")}
	if got := wrong.run(u.T, limit, nil, "PING"); !strings.Contains(got.out+got.err, "WRONGPASS") {
		u.Errorf("a wrong password: %q %q", got.out, got.err)
	}
	begins("NOPERM", "GET", "other")
	begins("NOPERM", "FLUSHALL")
	u.step(stepConnect)

	got := cli.run(u.T, limit, []byte(strings.Repeat("INCR app:n\r\n", 5000)+"LPUSH app:n x\r\n"), "--pipe")
	if !strings.Contains(got.out, "errors: 1, replies: 5001\n") {
		u.Errorf("--pipe: %q %q", got.out, got.err)
	}
	says("5000", "GET", "app:n")
	u.step(stepPipeline)

	session := u.talk(cli)
	session.says("OK", "MULTI")
	session.says("QUEUED", "SET app:a 1")
	session.says("QUEUED", "INCR app:a")
	session.says("OK", "EXEC")
	session.reads("2")
	session.says("OK", "WATCH app:a")
	says("OK", "SET", "app:a", "theirs")
	session.says("OK", "MULTI")
	session.says("QUEUED", "SET app:a mine")
	session.send("EXEC") // nil is an empty line
	session.says("OK", "MULTI")
	session.says("NOPERM", "SET other mine")
	session.says("EXECABORT", "EXEC")
	says("theirs", "GET", "app:a")
	u.step(stepTransaction)

	for _, verb := range []string{"SUBSCRIBE app:channel", "PSUBSCRIBE app:*", "SSUBSCRIBE app:channel"} {
		listener := u.talk(cli, strings.Fields(verb)...)
		listener.reads(strings.ToLower(strings.Fields(verb)[0]))
		listener.reads(strings.Fields(verb)[1])
		listener.reads("1")
		publish := "PUBLISH"
		if verb[0] == 'S' && verb[1] == 'S' {
			publish = "SPUBLISH"
		}
		says("1", publish, "app:channel", "hello")
		for line := ""; line != "hello"; {
			line = listener.read()
		}
		listener.end()
	}
	u.step(stepPubSub)

	tracker := u.talk(cli)
	if u.protocol == 3 {
		tracker.says("OK", "CLIENT TRACKING ON")
		tracker.says("theirs", "GET app:a")
		says("OK", "SET", "app:a", "newer")
		tracker.says("invalidate", "PING") // it shows pushes before the reply
		tracker.reads("app:a")
		tracker.reads("PONG")
	} else {
		listener := u.talk(cli)
		listener.send("CLIENT ID")
		id := listener.read()
		listener.says("subscribe", "SUBSCRIBE __redis__:invalidate")
		listener.reads("__redis__:invalidate")
		listener.reads("1")
		tracker.says("OK", "CLIENT TRACKING ON REDIRECT "+id)
		tracker.says("theirs", "GET app:a")
		says("OK", "SET", "app:a", "newer")
		listener.reads("message")
		listener.reads("__redis__:invalidate")
		listener.reads("app:a")
		listener.end()
	}
	tracker.end()
	says("OK", "SET", "app:a", "theirs")
	u.step(stepCaching)

	sum := strings.TrimSpace(cli.run(u.T, limit, nil, "SCRIPT", "LOAD", "return 1").out)
	begins("NOSCRIPT", "EVALSHA", strings.Repeat("0", 40), "0")
	says("1", "EVALSHA", sum, "0")
	says("5", "EVAL", countScript, "1", "app:count", "5")
	says("10", "EVAL", countScript, "1", "app:count", "5")
	begins("ERR value is not an integer or out of range script: ", "EVAL", countScript, "1", "app:a", "1")
	u.step(stepScript)

	waiter := u.talk(cli, "BLPOP", "app:queue", "60")
	u.eventually("BLPOP", func() error {
		return blockedClients(strings.ReplaceAll(strings.ReplaceAll(cli.run(u.T, limit, nil, "INFO", "clients").out, "\r", ""), "\n", "\r\n"))
	})
	says("1", "RPUSH", "app:queue", "job")
	waiter.reads("app:queue")
	waiter.reads("job")
	waiter.end()
	says("", "BLPOP", "app:queue", "0.02")
	u.step(stepBlocking)

	value := bigValue()
	if got := cli.run(u.T, limit, value, "-x", "SET", "app:big"); got.out != "OK\n" {
		u.Fatalf("SET of 8 MiB: %q %q", got.out, got.err)
	}
	u.check("8 MiB are the same", cli.run(u.T, limit, nil, "GET", "app:big").out == string(value)+"\n", true)
	u.step(stepValues)

	session.send("CLIENT ID")
	id := session.read()
	says("1", "CLIENT", "KILL", "ID", id)
	// It says that the connection is gone and makes another one for the same command.
	u.eventually("after CLIENT KILL", func() error {
		session.send("SET app:kept v")
		if line := session.read(); line != "OK" {
			return fmt.Errorf("it prints %q", line)
		}
		return nil
	})
	u.restart()
	u.eventually("after a restart", func() error {
		session.send("GET app:kept")
		if line := session.read(); line != "v" {
			return fmt.Errorf("it prints %q", line)
		}
		return nil
	})
	session.end()
	u.step(stepReconnect)
}

// conversation is a redis-cli that runs: what it is told and what it prints.
type conversation struct {
	*usage
	cancel context.CancelFunc
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string
}

// talk starts a redis-cli that prints each line at once.
func (u *usage) talk(cli program, words ...string) *conversation {
	u.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	c := &conversation{usage: u, cancel: cancel, lines: make(chan string, 100)}
	c.cmd = exec.CommandContext(ctx, process.Tool(u.T, "stdbuf"), append(append([]string{"-oL", cli.path}, cli.args...), words...)...)
	c.cmd.WaitDelay = 5 * time.Second
	c.cmd.Dir = u.TempDir()
	reader, writer := io.Pipe()
	c.cmd.Stdout, c.cmd.Stderr = writer, writer
	in, err := c.cmd.StdinPipe()
	u.must(err)
	c.in = in
	u.must(c.cmd.Start())
	go func() {
		_ = c.cmd.Wait()
		_ = writer.Close()
	}()
	go func() {
		defer close(c.lines)
		for scan := bufio.NewScanner(reader); scan.Scan(); {
			c.lines <- scan.Text()
		}
	}()
	u.Cleanup(c.end)
	return c
}

// end kills it and waits for its end.
func (c *conversation) end() {
	c.cancel()
	for range c.lines {
	}
}

func (c *conversation) send(line string) {
	c.Helper()
	_, err := fmt.Fprintln(c.in, line)
	c.must(err)
}

// read reads a line. Versions of redis-cli differ in which empty ones they print.
func (c *conversation) read() string {
	c.Helper()
	for line := range c.lines {
		if line != "" {
			return line
		}
	}
	c.Fatalf("after %q: redis-cli has ended", c.finished)
	return ""
}

// reads reads a line that begins as told.
func (c *conversation) reads(want string) {
	c.Helper()
	if line := c.read(); !strings.HasPrefix(line, want) {
		c.Fatalf("after %q: redis-cli prints %q, want %q", c.finished, line, want)
	}
}

// says types a line, and reads what is printed.
func (c *conversation) says(want, line string) {
	c.Helper()
	c.send(line)
	c.reads(want)
}
