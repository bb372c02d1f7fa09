package cases

import (
	"errors"
	"math/rand/v2"
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

// subject is the server under test, where only ours has what is tested.
func subject(t *testing.T, why string) process.Binary {
	t.Helper()
	b := process.Subject(t)
	if b.Redis {
		t.Skipf("a redis-server stands in, which %s", why)
	}
	return b
}

// do runs a command that must not fail.
func do(t testing.TB, c *wire.Conn, args ...string) wire.Reply {
	t.Helper()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	r, err := c.Do(args...)
	if err != nil || r.IsError("") {
		t.Fatalf("%.200q: %s, %v", args, r, err)
	}
	return r
}

// pipeline runs commands that must not fail, in one write.
func pipeline(t testing.TB, c *wire.Conn, cmds ...[]string) []wire.Reply {
	t.Helper()
	c.SetDeadline(time.Now().Add(60 * time.Second))
	replies, err := c.Pipeline(cmds...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range replies {
		if r.IsError("") {
			t.Fatalf("%.200q: %s", cmds[i], r)
		}
	}
	return replies
}

// refused launches a server that must not start, and checks its exit code and what it says.
func refused(t *testing.T, b process.Binary, cfg process.Config, says ...string) {
	t.Helper()
	s, err := process.Launch(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s.WaitReady(20*time.Second) == nil {
		s.Kill()
		t.Fatalf("the server runs, though it should have refused to start:\n%s", s.Log())
	}
	exit := s.WaitExit(10 * time.Second)
	var code *exec.ExitError
	if !errors.As(exit, &code) || code.ExitCode() != 1 {
		t.Errorf("it ends with %v, want exit code 1\n%s", exit, s.Log())
	}
	for _, text := range says {
		if !strings.Contains(s.Log(), text) {
			t.Errorf("the server does not say %q:\n%s", text, s.Log())
		}
	}
}

// random makes a generator and prints what repeats it.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("KEVY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// incrFile is the newest incr file of a data directory.
func incrFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no incr file in %s: %v", dir, err)
	}
	return files[len(files)-1]
}

// copyDir copies a data directory.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// redisDir makes a data directory as redis-server writes it, with the given text in its incr file.
func redisDir(t *testing.T, incr string) string {
	t.Helper()
	dir := t.TempDir()
	aof := filepath.Join(dir, "appendonlydir")
	if err := os.MkdirAll(aof, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"appendonly.aof.manifest":   "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n",
		"appendonly.aof.1.base.aof": "",
		"appendonly.aof.1.incr.aof": incr,
	} {
		if err := os.WriteFile(filepath.Join(aof, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
