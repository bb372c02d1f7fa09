package server

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kevy/internal/config"
	"kevy/internal/engine"
	"kevy/tests/process"
	"kevy/tests/script"
	"kevy/tests/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("kevy/tests/process.init.func1.1"))
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// instance is a server in this process.
type instance struct {
	*Server
	t    testing.TB
	addr string
	log  *safeLog
	done chan error // what serve returned
}

// setup changes a server before it serves.
type setup struct {
	file     string                          // of settings
	settings []string                        // as on the command line
	options  func(*engine.Options)           // of the store
	server   func(*Server)                   // after all else
	listener func(net.Listener) net.Listener // between redcon and the socket
}

func start(t testing.TB, settings ...string) *instance {
	return startWith(t, setup{settings: settings})
}

// startFile starts a server with a file of settings.
func startFile(t testing.TB, file string) *instance {
	return startWith(t, setup{file: file})
}

func startWith(t testing.TB, with setup) *instance {
	t.Helper()
	args := append([]string{"--port", "0", "--dir", t.TempDir()}, with.settings...)
	if with.file != "" {
		args = append([]string{with.file}, args...)
	}
	cfg, err := config.Load(args, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := &instance{t: t, log: &safeLog{}, done: make(chan error, 1)}
	log := slog.New(slog.NewTextHandler(in.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	listeners, err := listenAll(cfg)
	if err != nil {
		t.Fatal(err)
	}
	options := engineOptions(cfg, log)
	if with.options != nil {
		with.options(&options)
	}
	store, err := engine.Open(options)
	if err != nil {
		listeners.close()
		t.Fatal(err)
	}
	if in.Server, err = newServer(cfg, log, store); err == nil {
		err = in.watchConfig()
	}
	if err != nil {
		t.Fatal(err)
	}
	if with.server != nil {
		with.server(in.Server)
	}
	if len(listeners[byTCP]) > 0 {
		in.addr = listeners[byTCP][0].Addr().String()
	}
	if with.listener != nil {
		for _, group := range listeners {
			for i := range group {
				group[i] = with.listener(group[i])
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		in.done <- in.serve(ctx, listeners, func(string) {})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-in.done:
		case <-time.After(patience):
			t.Error("the server does not stop")
			return
		}
		_ = store.Close()
		if t.Failed() {
			t.Log(in.log.String())
		}
	})
	return in
}

func (in *instance) dial() net.Conn {
	in.t.Helper()
	c, err := net.DialTimeout("tcp", in.addr, patience)
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// conn is a connection on which replies are checked.
type conn struct {
	*wire.Conn
	t testing.TB
}

func (in *instance) conn() *conn { return &conn{wire.NewConn(in.dial()), in.t} }

// do sends a command, split at blanks, and returns its reply.
func (c *conn) do(line string) wire.Reply {
	c.t.Helper()
	r, err := c.Do(strings.Fields(line)...)
	if err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
	return r
}

func (c *conn) expect(line, want string) {
	c.t.Helper()
	if got := c.do(line).String(); got != want {
		c.t.Errorf("%s: got %s, want %s", line, got, want)
	}
}

// ended fails unless the server closes the connection without another byte.
func (c *conn) ended() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if b, err := c.Reader().ReadByte(); err == nil {
		c.t.Errorf("the connection yields %q", b)
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Error("the connection stays")
	}
}

// eventually fails unless ok comes true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// safeLog collects log lines of several goroutines.
type safeLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// scriptFiles are the scripts of the commands that need a server.
func scriptFiles(t *testing.T) []string {
	var files []string
	for dir, atLeast := range map[string]int{"../command/connection": 7, "../command/admin": 11, "../command/pubsub": 4, "../command/acl": 2, "../exec": 5} {
		found, err := script.Find(dir, "testdata/*.txt")
		if err != nil || len(found) < atLeast {
			t.Fatalf("%d scripts in %s: %v", len(found), dir, err)
		}
		files = append(files, found...)
	}
	return files
}

func TestScripts(t *testing.T) {
	in := start(t, "--enable-debug-command", "yes")
	for _, file := range scriptFiles(t) {
		t.Run(strings.TrimPrefix(file, "../"), func(t *testing.T) {
			script.Run(t, file, script.Target{Dial: func() (net.Conn, error) { return net.Dial("tcp", in.addr) }})
		})
	}
}

// TestScriptsOnRedis holds the scripts themselves to redis-server.
func TestScriptsOnRedis(t *testing.T) {
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--enable-debug-command", "yes"}})
	for _, file := range scriptFiles(t) {
		t.Run(strings.TrimPrefix(file, "../"), func(t *testing.T) {
			script.Run(t, file, script.Target{Dial: oracle.Dial, Oracle: true})
		})
	}
}
