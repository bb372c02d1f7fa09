package clients

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kevy/tests/process"
)

// examples are the programs of docs/clients.md, by what each begins with.
var examples = []struct {
	name, language, file string
	// other is what makes it speak the other protocol: a text of it, and what takes
	// its place.
	other [2]string
	run   func(t *testing.T, dir string) []string
}{
	{"redis-cli", "bash", "follow.sh", [2]string{"redis-cli -e --json", "redis-cli -2 -e --json"}, func(t *testing.T, _ string) []string {
		process.Tool(t, "redis-cli")
		return []string{process.Tool(t, "bash"), "follow.sh"}
	}},
	{"go-redis", "go", "main.go", [2]string{"Protocol: 3", "Protocol: 2"}, buildGo},
	{"node-redis", "js", "node-redis.mjs", [2]string{"RESP: 3", "RESP: 2"}, installNode},
	{"ioredis", "js", "ioredis.mjs", [2]string{}, installNode},
	{"redis-py", "python", "follow.py", [2]string{}, func(t *testing.T, _ string) []string {
		return []string{pythonWithRedis(t), "follow.py"}
	}},
}

// TestClientsDocument runs each program of docs/clients.md as it stands there, but
// for the address, in both protocols, through restarts of it and of the server.
func TestClientsDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, part := range strings.Split(string(text), "\n```")[1:] {
		if language, code, found := strings.Cut(part, "\n"); found && language != "" {
			blocks[language] = append(blocks[language], code+"\n")
		}
	}
	for _, e := range examples {
		if len(blocks[e.language]) == 0 {
			t.Fatalf("the document has no program for %s", e.name)
		}
		code := blocks[e.language][0]
		blocks[e.language] = blocks[e.language][1:]
		t.Run(e.name, func(t *testing.T) {
			dir := t.TempDir()
			follows(t, dir, e.file, code, e.run)
		})
		if e.other[0] == "" {
			continue
		}
		if !strings.Contains(code, e.other[0]) {
			t.Errorf("%s: %q is not in the program", e.name, e.other[0])
		}
		t.Run(e.name+" in the other protocol", func(t *testing.T) {
			dir := t.TempDir()
			follows(t, dir, e.file, strings.ReplaceAll(code, e.other[0], e.other[1]), e.run)
		})
	}
	for language, rest := range blocks {
		if len(rest) > 0 {
			t.Errorf("nothing runs %d programs in %s", len(rest), language)
		}
	}
}

func buildGo(t *testing.T, dir string) []string {
	t.Helper()
	path := filepath.Join(dir, "follow")
	cmd := exec.Command(process.Tool(t, "go"), "build", "-o", path, filepath.Join(dir, "main.go"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []string{path}
}

func pythonWithRedis(t *testing.T) string {
	t.Helper()
	// Debian's own interpreter is the one that Debian's python3-redis belongs to.
	for _, path := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(path, "-c", "import redis").Run() == nil {
			return path
		}
	}
	if os.Getenv(process.RequireTools) != "" {
		t.Fatalf("python3-redis is not installed, and %s is set", process.RequireTools)
	}
	t.Skip("python3-redis is not installed")
	return ""
}

// installNode puts the libraries of testdata/node where a program in dir finds them.
func installNode(t *testing.T, dir string) []string {
	t.Helper()
	node := process.Node(t, "testdata/node", dir)
	programs, err := filepath.Glob(filepath.Join(dir, "*.mjs"))
	if err != nil || len(programs) != 1 {
		t.Fatalf("%q, %v", programs, err)
	}
	return []string{node, programs[0]}
}

// follower is a program that runs, and what it prints.
type follower struct {
	t      *testing.T
	cmd    *exec.Cmd
	ended  chan error
	errors bytes.Buffer // read it after the end only

	mu    sync.Mutex
	out   []byte // guarded by mu
	taken int    // guarded by mu
}

func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out = append(f.out, p...)
	return len(p), nil
}

func run(t *testing.T, dir string, command []string) *follower {
	t.Helper()
	f := &follower{t: t, cmd: exec.Command(command[0], command[1:]...), ended: make(chan error, 1)}
	f.cmd.Dir, f.cmd.Stdout, f.cmd.Stderr = dir, f, &f.errors
	f.cmd.WaitDelay = 5 * time.Second
	// A shell has children; they end together, also if this process does.
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { f.ended <- f.cmd.Wait() }()
	return f
}

func (f *follower) kill() {
	if f.ended != nil {
		_ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGKILL)
		<-f.ended
		f.ended = nil
	}
}

// prints waits until it has printed a text behind what it printed before, and
// none of those that it must not.
func (f *follower) prints(want string, not ...string) {
	f.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		f.mu.Lock()
		text := string(f.out[f.taken:])
		at := strings.Index(text, want)
		if at >= 0 {
			f.taken += at + len(want)
		}
		f.mu.Unlock()
		if at >= 0 {
			for _, n := range not {
				if strings.Contains(text[:at], n) {
					f.t.Errorf("it prints %q before %q", text[:at], want)
				}
			}
			return
		}
		if time.Now().After(deadline) {
			f.kill()
			f.t.Fatalf("it does not print %q, but %q\n%s", want, text, f.errors.String())
		}
	}
}

// follows runs a program that drops what has changed.
func follows(t *testing.T, dir, file, code string, command func(t *testing.T, dir string) []string) {
	const dropAll = "drop everything"
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for old, new := range map[string]string{"localhost:6379": fmt.Sprintf("127.0.0.1:%d", port), "port=6379": fmt.Sprintf("port=%d", port), "redis-cli ": fmt.Sprintf("redis-cli -p %d ", port)} {
		code = strings.ReplaceAll(code, old, new)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(code), 0o755); err != nil {
		t.Fatal(err)
	}
	words := command(t, dir)
	data := process.Config{Dir: t.TempDir()}
	start := func() *process.Server {
		t.Helper()
		s, err := process.LaunchOn(process.Subject(t), data, port)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.WaitReady(30 * time.Second); err != nil {
			s.Kill()
			t.Fatalf("%v\n%s", err, s.Log())
		}
		return s
	}
	s := start()
	defer func() { s.Kill() }()
	do := func(args ...string) string {
		t.Helper()
		r, err := s.Conn(t).Do(args...)
		if err != nil || r.IsError("") {
			t.Fatalf("%q: %s, %v", args, r, err)
		}
		return strings.Join(r.Strings(), " ")
	}
	// saved waits until the program has noted that it has handled everything.
	saved := func() {
		t.Helper()
		want := do("CHANGES", "TAIL", "ALL")
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			got, _ := os.ReadFile(filepath.Join(dir, "cursor"))
			if strings.TrimSpace(string(got)) == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("it has saved %q, not %q", got, want)
			}
		}
	}

	do("SET", "before", "x")
	f := run(t, dir, words)
	defer func() { f.kill() }()
	f.prints(dropAll)
	do("MSET", "user:1", "a", "user:2", "two words")
	do("DEL", "user:1")
	f.prints("user:1", "before")
	f.prints("user:2")
	f.prints("user:1")

	// It is ended, and the server too; it goes on where it was.
	saved()
	f.kill()
	do("SET", "while:away", "x")
	s.Stop(t)
	s = start()
	f = run(t, dir, words)
	f.prints("while:away", dropAll, "user:")

	// The server alone is restarted.
	saved()
	s.Stop(t)
	s = start()
	do("SET", "restarted", "x")
	f.prints("restarted", dropAll)

	// A generation ends, and the next one begins.
	do("FLUSHALL")
	do("SET", "new:generation", "x")
	f.prints("new:generation")

	// A cursor that nobody knows.
	saved()
	f.kill()
	if err := os.WriteFile(filepath.Join(dir, "cursor"), []byte("5 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f = run(t, dir, words)
	f.prints(dropAll)
	do("SET", "last", "x")
	f.prints("last")
}
