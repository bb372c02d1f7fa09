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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
		"-", "--port", "0", "--dir", dir, "--pidfile", "kevy.pid", "--logfile", "kevy.log", "--maxmemory", "1gb")
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
	for _, want := range []string{"ready to accept connections", "address=" + addr, "this setting has no effect", "setting=maxmemory", "signal=terminated", "msg=closed"} {
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

func TestSecondSignalEndsAtOnce(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := start(t, nil, []string{"KEVY_TEST_ENDLESS_CLOSE=1"}, os.Args[0])
		p.until(t, "started")
		for _, after := range []string{"closing", "ended before the close was complete"} {
			if err := p.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			p.until(t, after)
		}
		if status := p.end(t); status != 128+int(s) {
			t.Errorf("%v: status %d", s, status)
		}
	}
}
