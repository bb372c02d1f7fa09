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

// queue is a job queue and how its program is called. Of steps is at least how
// many it must print.
type queue struct {
	name    string
	steps   int
	command func(t *testing.T) []string
}

var queues = []queue{
	{"BullMQ", 15, func(t *testing.T) []string { return nodeProgram(t, "bullmq.mjs") }},
	{"Bull", 13, func(t *testing.T) []string { return nodeProgram(t, "bull.mjs") }},
	{"asynq", 11, asynqProgram},
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

// asynqProgram builds the module beneath this package; a look at its sources makes
// go test run again what was run with others.
func asynqProgram(t *testing.T) []string {
	t.Helper()
	sources, err := filepath.Glob("asynq/*")
	if err != nil || len(sources) < 5 {
		t.Fatalf("%q, %v", sources, err)
	}
	for _, s := range sources {
		if _, err := os.ReadFile(s); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "asynq")
	cmd := exec.Command(process.Tool(t, "go"), "build", "-o", path, ".")
	cmd.Dir = "asynq"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []string{path}
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
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
