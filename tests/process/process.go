// Package process runs the servers of the tests as real processes: the kevy-server of this tree, and
// redis-server where it serves as the oracle. It ends only what it started.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kevy/tests/wire"
)

const (
	// startTimeout is how long a server may take until it answers PING; it covers the load of a log.
	startTimeout = 60 * time.Second
	// stopTimeout is how long a clean close may take.
	stopTimeout = 60 * time.Second
	// maxLogBytes is how much of a server's output is kept.
	maxLogBytes = 1 << 20
)

// Binary is a server program.
type Binary struct {
	Path string
	// Redis says that it is a redis-server: it takes no subcommand and knows no CHANGES.
	Redis bool
}

var (
	buildOnce sync.Once
	built     string
	buildErr  error
)

// Subject is the server under test: the program that KEVY_TEST_SERVER names, or cmd/kevy-server of this
// tree, built once for the process. A redis-server may stand in for it, to try the tests themselves.
func Subject(t testing.TB) Binary {
	t.Helper()
	if p := os.Getenv("KEVY_TEST_SERVER"); p != "" {
		path, err := exec.LookPath(p)
		if err != nil {
			t.Fatalf("KEVY_TEST_SERVER: %v", err)
		}
		return Binary{Path: path, Redis: strings.Contains(filepath.Base(path), "redis-server")}
	}
	buildOnce.Do(func() { built, buildErr = Build() })
	if buildErr != nil {
		t.Fatal(buildErr)
	}
	return Binary{Path: built}
}

// Build builds cmd/kevy-server into a directory for temporary files that belongs to this tree, and returns
// the path. Test binaries that run at once build one after the other, and all but the first find it up to date.
func Build() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if err := lookAtSources(root); err != nil {
		return "", err
	}
	h := fnv.New64a()
	h.Write([]byte(root))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("kevy-test-%d-%x", os.Getuid(), h.Sum64()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	// go build replaces the file rather than write into it, so a server that runs from it goes on.
	out := filepath.Join(dir, "kevy-server")
	args := []string{"build", "-o", out, "./cmd/kevy-server"}
	if raceEnabled {
		out += "-race"
		args = []string{"build", "-race", "-o", out, "./cmd/kevy-server"}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/kevy-server: %w\n%s", err, text)
	}
	return out, nil
}

// lookAtSources asks for the state of every Go file of the module. go test keeps the result of a test and
// repeats it while nothing that the test looked at has changed; what a server is built from, by a go command
// of its own, would not count otherwise.
func lookAtSources(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if !d.IsDir() && (filepath.Ext(path) == ".go" || d.Name() == "go.sum") && !strings.HasSuffix(path, "_test.go") {
			_, err = os.Stat(path)
		}
		return err
	})
}

// Root is the directory of go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}

// RequireTools is the variable that turns a missing tool from a skipped test into a failed one.
const RequireTools = "KEVY_REQUIRE_TOOLS"

// Tool finds a program that a test needs. Without it the test is skipped, or fails where RequireTools is set.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv(RequireTools) != "" {
		t.Fatalf("%s is not installed, and %s is set", name, RequireTools)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

// Oracle is the redis-server that KEVY_ORACLE names, or the installed one.
func Oracle(t testing.TB) Binary {
	t.Helper()
	name := os.Getenv("KEVY_ORACLE")
	if name == "" {
		name = "redis-server"
	}
	return Binary{Path: Tool(t, name), Redis: true}
}

// Config is how a server is started.
type Config struct {
	// Dir is the data directory; a temporary one if empty.
	Dir string
	// File is a configuration file, if any.
	File string
	// Args are further settings, as --name value.
	Args []string
	// Prefix is a command that runs the server's command, such as strace with its options.
	Prefix []string
	// Env is added to the environment.
	Env []string
	// Limits are set on the process before it starts.
	Limits []Limit
}

// Limit is a resource limit as the shell's ulimit knows it, such as {"-n", 64}.
type Limit struct {
	Flag  string
	Value int64
}

// Server is a running server.
type Server struct {
	Binary
	Dir  string
	Port int
	cmd  *exec.Cmd
	log  *outputLog
	done chan struct{}
	err  error
}

// Start starts a server and waits until it answers. It is killed at the end of the test if it still runs.
func Start(t testing.TB, b Binary, cfg Config) *Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	var s *Server
	var err error
	// The free port may be taken by another process between its choice and its use.
	for range 5 {
		if s, err = Launch(b, cfg); err != nil {
			t.Fatal(err)
		}
		if err = s.WaitReady(startTimeout); err == nil {
			break
		}
		s.Kill()
		if !strings.Contains(strings.ToLower(s.Log()), "address already in use") && !strings.Contains(s.Log(), "taken") {
			break
		}
	}
	if err != nil {
		t.Fatalf("%s does not start: %v\n%s", filepath.Base(b.Path), err, s.Log())
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("output of %s on port %d:\n%s", filepath.Base(b.Path), s.Port, tail(s.Log(), 4000))
		}
	})
	return s
}

// Launch starts a server and does not wait for it.
func Launch(b Binary, cfg Config) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	return LaunchOn(b, cfg, port)
}

// LaunchOn is Launch on a port that the caller chose.
func LaunchOn(b Binary, cfg Config, port int) (*Server, error) {
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	argv := append([]string{}, cfg.Prefix...)
	if len(cfg.Limits) > 0 {
		script := ""
		for _, l := range cfg.Limits {
			script += fmt.Sprintf("ulimit %s %d && ", l.Flag, l.Value)
		}
		argv = append(argv, "bash", "-c", script+`exec "$0" "$@"`)
	}
	argv = append(argv, b.Args(port, cfg.Dir, cfg.File)...)
	argv = append(argv, cfg.Args...)
	return launch(b, cfg, port, argv)
}

// Command starts a program that is no server of keys, such as a pipe, and does not wait for it.
// Of cfg the directory, which must exist, and the environment count.
func Command(cfg Config, argv ...string) (*Server, error) {
	return launch(Binary{Path: argv[0]}, cfg, 0, argv)
}

func launch(b Binary, cfg Config, port int, argv []string) (*Server, error) {
	s := &Server{Binary: b, Dir: cfg.Dir, Port: port, log: &outputLog{}, done: make(chan struct{})}
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Env = append(os.Environ(), cfg.Env...)
	s.cmd.Dir = cfg.Dir
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	// The server dies with the test binary, even if that is killed.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := start(s.cmd); err != nil {
		return nil, err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	return s, nil
}

// Args is the command line of a server without further settings; file is a configuration file, if not empty.
func (b Binary) Args(port int, dir, file string) []string {
	argv := []string{b.Path}
	if !b.Redis {
		argv = append(argv, "serve")
	}
	if file != "" {
		argv = append(argv, file)
	}
	argv = append(argv, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir)
	if b.Redis {
		argv = append(argv, "--save", "", "--appendonly", "yes", "--aof-use-rdb-preamble", "no")
	}
	return argv
}

// Pdeathsig is sent when the thread that forked ends, so all forks come from one goroutine that keeps its thread.
var starter = sync.OnceValue(func() chan func() {
	ch := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range ch {
			f()
		}
	}()
	return ch
})

func start(cmd *exec.Cmd) error {
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}

// CombinedOutput is the command's method of that name, for a program that ends on SIGTERM: it is sent if the test
// binary is killed.
func CombinedOutput(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := start(cmd); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	return out.Bytes(), err
}

// FreePort finds a TCP port on loopback that is free now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Addr is host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.Port) }

// PID is the process id; of the prefix command, if there is one that stays.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Log is what the server has printed.
func (s *Server) Log() string { return s.log.String() }

// Dial connects to the server.
func (s *Server) Dial() (net.Conn, error) { return net.DialTimeout("tcp", s.Addr(), 10*time.Second) }

// Conn connects to the server; the connection is closed at the end of the test.
func (s *Server) Conn(t testing.TB) *wire.Conn {
	t.Helper()
	c, err := wire.Dial(s.Addr())
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(s.Log(), 4000))
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// WaitReady waits until the server answers PING with PONG.
func (s *Server) WaitReady(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		select {
		case <-s.done:
			return fmt.Errorf("it ended: %v", s.err)
		default:
		}
		if c, err := net.DialTimeout("tcp", s.Addr(), time.Second); err == nil {
			c.SetDeadline(time.Now().Add(5 * time.Second))
			r, err := wire.NewConn(c).Do("PING")
			c.Close()
			if err == nil && r.Kind == wire.Simple {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no PONG within %v", timeout)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Running reports whether the process has not ended.
func (s *Server) Running() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// WaitExit waits for the process to end and returns its exit error.
func (s *Server) WaitExit(timeout time.Duration) error {
	select {
	case <-s.done:
		return s.err
	case <-time.After(timeout):
		return context.DeadlineExceeded
	}
}

// Kill ends the process with SIGKILL and waits.
func (s *Server) Kill() {
	if s.Running() {
		s.cmd.Process.Kill()
	}
	<-s.done
}

// Signal sends a signal to the process.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// Stop ends the process with SIGTERM, a clean close, and fails the test if it does not end well.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.Close(stopTimeout); err != nil {
		t.Fatal(err)
	}
}

// signalAgain is how long a redis-server is left with a signal before it gets another.
const signalAgain = 200 * time.Millisecond

// Close ends the process with SIGTERM, a clean close. A redis-server that writes its first log, as a replica
// does behind its synchronization, forgets the signal, so it is told again; ours must not be, as it ends at
// once then.
func (s *Server) Close(timeout time.Duration) error {
	err := s.Signal(syscall.SIGTERM)
	if err == nil {
		err = s.awaitClose(timeout)
	}
	if err == nil {
		return nil
	}
	shown := 4000
	if errors.Is(err, context.DeadlineExceeded) && !s.Redis {
		// Its goroutines say where it hangs.
		shown = maxLogBytes
		_ = s.Signal(syscall.SIGQUIT)
		_ = s.WaitExit(10 * time.Second)
	}
	return fmt.Errorf("close of %s: %w\n%s", filepath.Base(s.Path), err, tail(s.Log(), shown))
}

func (s *Server) awaitClose(timeout time.Duration) error {
	if !s.Redis {
		return s.WaitExit(timeout)
	}
	for deadline := time.Now().Add(timeout); ; {
		left := time.Until(deadline)
		if left <= signalAgain {
			return s.WaitExit(left)
		}
		if err := s.WaitExit(signalAgain); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err := s.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
}

func tail(s string, n int) string {
	if len(s) > n {
		return "… " + s[len(s)-n:]
	}
	return s
}

// outputLog keeps the last maxLogBytes that were written.
type outputLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *outputLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(p)
	if over := l.buf.Len() - maxLogBytes; over > 0 {
		l.buf.Next(over)
	}
	return len(p), nil
}

func (l *outputLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
