package queues

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/tests/process"
)

// queue is a job queue and how its program is called.
type queue struct {
	name string
	// steps is how many its flow must have at least.
	steps int
	// atStake is how many jobs the queue may run again for each kill of any server:
	// those that are handled at the time, if it forgets them when their completion
	// cannot be recorded at once.
	atStake int
	// flowOnly says that its jobs may be lost when any server is killed: what a worker
	// pops it has, or nobody has.
	flowOnly bool
	command  func(t *testing.T) []string
}

var queues = []queue{
	{name: "BullMQ", steps: 15, command: func(t *testing.T) []string { return nodeProgram(t, "bullmq.mjs") }},
	{name: "Bull", steps: 13, command: func(t *testing.T) []string { return nodeProgram(t, "bull.mjs") }},
	// Three workers with four handlers each. What asynq tries later to record a
	// completion has a context that it has cancelled by then.
	{name: "asynq", steps: 11, atStake: 12, command: asynqProgram},
	{name: "Celery", steps: 7, flowOnly: true, command: celeryProgram},
	{name: "Sidekiq", steps: 5, flowOnly: true, command: sidekiqProgram},
}

func nodeProgram(t *testing.T, name string) []string {
	t.Helper()
	dir := t.TempDir()
	node := process.Node(t, "testdata/node", dir)
	for _, file := range []string{"steps.mjs", name} {
		data, err := os.ReadFile(filepath.Join("testdata", "node", file))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return []string{node, filepath.Join(dir, name)}
}

// asynqProgram builds the module beneath this package.
func asynqProgram(t *testing.T) []string {
	t.Helper()
	look(t, "asynq/*", 5)
	path := filepath.Join(t.TempDir(), "asynq")
	cmd := exec.Command(process.Tool(t, "go"), "build", "-o", path, ".")
	cmd.Dir = "asynq"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []string{path}
}

func celeryProgram(t *testing.T) []string {
	t.Helper()
	look(t, "testdata/celery/*.py", 2)
	// Debian's own interpreter is the one that Debian's package belongs to.
	const python = "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import celery, redis").CombinedOutput(); err != nil {
		if os.Getenv(process.RequireTools) != "" {
			t.Fatalf("python3-celery is not installed, and %s is set: %v\n%s", process.RequireTools, err, out)
		}
		t.Skip("python3-celery is not installed")
	}
	return []string{python, "-B", full(t, "testdata/celery/steps.py")}
}

func sidekiqProgram(t *testing.T) []string {
	t.Helper()
	look(t, "testdata/sidekiq/*.rb", 2)
	process.Tool(t, "sidekiq")
	return []string{process.Tool(t, "ruby"), full(t, "testdata/sidekiq/steps.rb")}
}

// look reads files, so that go test runs again what was run with others.
func look(t *testing.T, pattern string, atLeast int) {
	t.Helper()
	sources, err := filepath.Glob(pattern)
	if err != nil || len(sources) < atLeast {
		t.Fatalf("%q, %v", sources, err)
	}
	for _, s := range sources {
		if _, err := os.ReadFile(s); err != nil {
			t.Fatal(err)
		}
	}
}

func full(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// program is one that runs, with the processes that it has started.
type program struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string // what it prints, closed at its end
	errors *bytes.Buffer
}

// start starts a queue's program. It and its children are killed at the end of the
// test.
func start(t *testing.T, command []string, mode string, port int) *program {
	t.Helper()
	p := &program{cmd: exec.Command(command[0], append(command[1:], mode, fmt.Sprint(port))...), lines: make(chan string, 1000), errors: &bytes.Buffer{}}
	p.cmd.Dir = t.TempDir()
	p.cmd.Stderr = p.errors
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		for range p.lines {
		}
		<-ended
		if t.Failed() {
			text := p.errors.String()
			t.Logf("%s\n%s", strings.Join(p.cmd.Args, " "), text[max(0, len(text)-8000):])
		}
	})
	return p
}

// next is the next line, if one comes.
func (p *program) next(t *testing.T, patience time.Duration) (line string, ok bool) {
	t.Helper()
	select {
	case line, ok = <-p.lines:
		return line, ok
	case <-time.After(patience):
		t.Fatalf("it prints nothing for %v", patience)
		return "", false
	}
}
