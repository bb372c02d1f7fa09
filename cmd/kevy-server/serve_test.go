package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/internal/config"
	"kevy/tests/process"
	"kevy/tests/wire"
)

const waitLimit = 30 * time.Second

// TestMain lets the test's own binary stand for a server that takes for ever to
// close.
func TestMain(m *testing.M) {
	if os.Getenv("KEVY_TEST_ENDLESS_CLOSE") != "" {
		ctx, _ := closeOnSignal(slog.New(slog.NewTextHandler(os.Stdout, nil)))
		fmt.Println("started")
		<-ctx.Done()
		fmt.Println("closing")
		select {}
	}
	os.Exit(m.Run())
}

// program is a running server whose output is read line by line.
type program struct {
	cmd    *exec.Cmd
	lines  *bufio.Reader
	stderr bytes.Buffer
}

func start(t *testing.T, stdin io.Reader, env []string, path string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(path, args...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdin, p.cmd.Stderr = stdin, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(waitLimit, func() { _ = p.cmd.Process.Kill() })
	t.Cleanup(func() {
		watchdog.Stop()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// until reads output up to a line with the text and returns that line.
func (p *program) until(t *testing.T, text string) string {
	t.Helper()
	for {
		line, err := p.lines.ReadString('\n')
		if strings.Contains(line, text) {
			return strings.TrimSpace(line)
		}
		if err != nil {
			t.Fatalf("the output ended without %q: %v\n%s", text, err, p.stderr.String())
		}
	}
}

// end waits for the process and returns its status.
func (p *program) end(t *testing.T) int {
	t.Helper()
	_, _ = io.Copy(io.Discard, p.lines)
	err := p.cmd.Wait()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func serverBinary(t *testing.T) string {
	t.Helper()
	path, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestServe(t *testing.T) {
	path, dir := serverBinary(t), filepath.Join(t.TempDir(), "new", "data")
	p := start(t, strings.NewReader("maxclients 77\n"), nil, path,
		"-", "--port", "0", "--dir", dir, "--pidfile", "kevy.pid", "--logfile", "kevy.log", "--hz", "20")
	addr := strings.TrimPrefix(p.until(t, "listening on "), "listening on ")
	conn, err := wire.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if r, err := conn.Do("PING"); err != nil || string(r.Text) != "PONG" {
		t.Errorf("PING: %v %v", r, err)
	}
	if r, err := conn.Do("CONFIG", "GET", "maxclients"); err != nil || r.String() != `["maxclients", "77"]` {
		t.Errorf("CONFIG GET maxclients: %v %v", r, err)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "kevy.pid"))
	if err != nil || strings.TrimSpace(string(pid)) != strconv.Itoa(p.cmd.Process.Pid) {
		t.Errorf("the pid file holds %q, %v", pid, err)
	}

	// Each of the two refusals says what to do.
	_, port, _ := net.SplitHostPort(addr)
	second := start(t, nil, nil, path, "serve", "--port", port, "--dir", t.TempDir())
	if status := second.end(t); status != 1 || !strings.Contains(second.stderr.String(), "--port") || !strings.Contains(second.stderr.String(), port) {
		t.Errorf("a taken port: status %d, %s", status, second.stderr.String())
	}
	first, err := os.ReadFile(filepath.Join(dir, "kevy.log"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`^[^\n]* msg=starting version=(\S+) `).FindSubmatch(first)
	if version == nil {
		t.Fatalf("the log begins with %s", first)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "MANIFEST"))
	if want := "last-version " + string(version[1]); err != nil || !strings.Contains(string(manifest), want) {
		t.Errorf("%q is not in the manifest, %v: %s", want, err, manifest)
	}
	third := start(t, nil, nil, path, "--port", "0", "--dir", dir)
	if status := third.end(t); status != 1 || !strings.Contains(third.stderr.String(), dir) {
		t.Errorf("a taken directory: status %d, %s", status, third.stderr.String())
	}

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := p.end(t); status != 0 {
		t.Errorf("SIGTERM: status %d, %s", status, p.stderr.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "kevy.pid")); !os.IsNotExist(err) {
		t.Errorf("the pid file stays: %v", err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "kevy.log"))
	for _, want := range []string{"msg=starting", "pid=" + strconv.Itoa(p.cmd.Process.Pid), "dir=" + dir, "appendfsync=everysec", "shards=16", "bind=127.0.0.1", "ready to accept connections", "address=" + addr, "this setting has no effect", "setting=hz", "signal=terminated", "msg=closed"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("%q is not in the log: %v\n%s", want, err, log)
		}
	}
}

func TestBadSettingsStopTheStart(t *testing.T) {
	path, dir := serverBinary(t), t.TempDir()
	file := filepath.Join(dir, "kevy.conf")
	if err := os.WriteFile(file, []byte("port 0\nmaxclient 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, nil, path, file, "--dir", filepath.Join(dir, "data"), "--appendfsync", "often")
	status, text := p.end(t), p.stderr.String()
	for _, want := range []string{file + `:2: unknown setting "maxclient"; did you mean maxclients?`, `--appendfsync: appendfsync "often": argument(s) must be one of the following: everysec, always, no`} {
		if status != 1 || !strings.Contains(text, want) {
			t.Errorf("status %d, %q is not in\n%s", status, want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("a start that was refused made the directory: %v", err)
	}
}

// TestSignals: a first one closes, what comes within a second is the same one
// again, the next ends the process; SIGHUP is none of them.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := start(t, nil, []string{"KEVY_TEST_ENDLESS_CLOSE=1"}, os.Args[0])
		p.until(t, "started")
		send := func(s syscall.Signal) {
			if err := p.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		send(syscall.SIGHUP)
		send(s)
		send(s)
		p.until(t, "closing")
		for range 5 {
			send(s)
		}
		time.Sleep(repeatWindow + 100*time.Millisecond)
		if err := p.cmd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("%v: a repeated signal ended the process: %v", s, err)
		}
		send(s)
		p.until(t, "ended before the close was complete")
		if status := p.end(t); status != 128+int(s) {
			t.Errorf("%v: status %d", s, status)
		}
	}
}

// TestSignalsAfterTheClose sends them from the moment of the close to the end.
func TestSignalsAfterTheClose(t *testing.T) {
	p := start(t, nil, nil, serverBinary(t), "--port", "0", "--dir", t.TempDir())
	p.until(t, "ready to accept connections")
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = p.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}()
	p.until(t, "msg=closed")
	status := p.end(t)
	close(stop)
	<-stopped
	if status != 0 {
		t.Errorf("status %d", status)
	}
}

// refused runs a server that must not start and returns what it says.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	p := start(t, nil, nil, serverBinary(t), args...)
	if status := p.end(t); status != 1 {
		t.Errorf("%q: status %d, %s", args, status, p.stderr.String())
	}
	return p.stderr.String()
}

func TestStartIsRefusedWithAdvice(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--port", "0", "--dir", filepath.Join(file, "data")}, "choose another directory with --dir"},
		{[]string{"--port", "0", "--dir", dir, "--bind", "192.0.2.1"}, "set bind to those it has"},
		{[]string{"--port", "0", "--dir", dir, "--logfile", "missing/kevy.log"}, "choose another with --logfile"},
		{[]string{"srve"}, "kevy-server serve"},
		{[]string{"srve", "--port", "0"}, `"srve" was taken for a configuration file`},
	} {
		if text := refused(t, test.args...); !strings.Contains(text, test.want) {
			t.Errorf("%q: %q is not in\n%s", test.args, test.want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "missing")); !os.IsNotExist(err) {
		t.Errorf("a directory was made for the log: %v", err)
	}
}

// settings loads options and returns a log that writes to the buffer.
func settings(t *testing.T, args ...string) (*config.Config, *slog.Logger, *bytes.Buffer) {
	t.Helper()
	cfg, err := config.Load(args, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	return cfg, slog.New(slog.NewTextHandler(&out, nil)), &out
}

func TestCheckDirectory(t *testing.T) {
	const memoryOnly, snapshot = "level=WARN msg=\"appendonly no: the data is in memory only", "level=WARN msg=\"an RDB file is not read at the start"
	for _, test := range []struct {
		holds, appendOnly string
		refused           bool
		warns             []string
	}{
		{"", "yes", false, nil},
		{"", "no", false, []string{memoryOnly}},
		{"MANIFEST appendonlydir", "yes", false, nil},
		{"MANIFEST", "no", true, nil},
		{"appendonlydir", "no", true, nil},
		{"dump.rdb", "yes", false, []string{snapshot}},
		{"dump.rdb", "no", false, []string{memoryOnly, snapshot}},
		{"dump.rdb MANIFEST", "yes", false, []string{snapshot}},
		{"dump.rdb appendonlydir", "yes", false, nil},
		{"other.rdb", "yes", false, nil},
	} {
		dir := t.TempDir()
		for _, name := range strings.Fields(test.holds) {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, log, out := settings(t, "--dir", dir, "--appendonly", test.appendOnly)
		err := checkDirectory(cfg, log)
		if (err != nil) != test.refused || err != nil && !(strings.Contains(err.Error(), dir) && strings.Contains(err.Error(), "--appendonly yes") && strings.Contains(err.Error(), "--dir")) {
			t.Errorf("%q with appendonly %s: %v", test.holds, test.appendOnly, err)
		}
		if n := strings.Count(out.String(), "\n"); n != len(test.warns) {
			t.Errorf("%q with appendonly %s: %d lines\n%s", test.holds, test.appendOnly, n, out)
		}
		for _, want := range test.warns {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q with appendonly %s: %q is not in\n%s", test.holds, test.appendOnly, want, out)
			}
		}
	}
}

func TestExposure(t *testing.T) {
	for _, test := range []struct{ bind, want string }{
		{"127.0.0.1 ::1 localhost 127.9.9.9 -::1", ""},
		{"0.0.0.0", "0.0.0.0"},
		{"* -::*", "* ::*"},
		{"127.0.0.1 10.0.0.1", "10.0.0.1"},
		{"some.name", "some.name"},
	} {
		if got := strings.Join(beyondLoopback(strings.Fields(test.bind)), " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.bind, got, test.want)
		}
	}
	cfg, log, out := settings(t, "--bind", "*")
	warnOfExposure(cfg, log)
	if text := out.String(); strings.Contains(text, "WARN") || !strings.Contains(text, "are refused") {
		t.Errorf("in protected mode: %s", text)
	}
	if err := cfg.Set([]config.Pair{{Name: "protected-mode", Value: "no"}}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "everyone who reaches these addresses has full access") {
		t.Errorf("out of it: %s", text)
	}
	cfg, log, out = settings(t, "--protected-mode", "no")
	warnOfExposure(cfg, log)
	if out.Len() != 0 {
		t.Errorf("on loopback: %s", out)
	}
}
