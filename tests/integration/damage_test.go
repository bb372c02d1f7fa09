package integration

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kevy/tests/process"
)

// copyDir copies a data directory.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
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

// writeKeys writes k0, k1, … one at a time, so that each is a block of its own.
func writeKeys(t *testing.T, s *process.Server, n int) {
	t.Helper()
	c := s.Conn(t)
	for i := range n {
		do(t, c, "SET", fmt.Sprintf("k%d", i), strings.Repeat("v", 50))
	}
}

// present says which of k0 … k(n-1) exist.
func present(t *testing.T, s *process.Server, n int) []bool {
	t.Helper()
	c := s.Conn(t)
	out := make([]bool, n)
	for i := range out {
		v, err := do(t, c, "EXISTS", fmt.Sprintf("k%d", i)).Int()
		if err != nil {
			t.Fatal(err)
		}
		out[i] = v == 1
	}
	return out
}

// TestDamageInTheMiddle flips a byte of a block that is known to have been durable: the start must refuse,
// say what is wrong, and go on either way it is told to.
func TestDamageInTheMiddle(t *testing.T) {
	b := subject(t, "has no checksums in its log")
	const keys = 200
	for _, end := range []string{"clean close", "kill -9"} {
		t.Run(end, func(t *testing.T) {
			s := process.Start(t, b, process.Config{Args: []string{"--appendfsync", "always"}})
			writeKeys(t, s, keys)
			if end == "clean close" {
				s.Stop(t)
			} else {
				s.Kill()
			}
			file := incrFile(t, s.Dir)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(data, []byte(fmt.Sprintf("k%d\r\n", keys/2)))
			if at < 0 {
				t.Fatalf("no k%d in %s", keys/2, file)
			}
			data[at] ^= 0x20
			if err := os.WriteFile(file, data, 0o644); err != nil {
				t.Fatal(err)
			}
			refused, err := process.Launch(b, process.Config{Dir: s.Dir})
			if err != nil {
				t.Fatal(err)
			}
			expectExit(t, refused, filepath.Base(file), "offset", "--recover", "truncate", "skip")
			if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, data) {
				t.Errorf("the refused start has changed the file: %v", err)
			}

			truncated := process.Start(t, b, process.Config{Dir: copyDir(t, s.Dir), Args: []string{"--recover", "truncate"}})
			for i, there := range present(t, truncated, keys) {
				if there != (i < keys/2) {
					t.Errorf("after --recover truncate: k%d present is %v", i, there)
				}
			}
			skipped := process.Start(t, b, process.Config{Dir: copyDir(t, s.Dir), Args: []string{"--recover", "skip"}})
			for i, there := range present(t, skipped, keys) {
				if there != (i != keys/2) {
					t.Errorf("after --recover skip: k%d present is %v", i, there)
				}
			}
			// What was repaired needs no flag any more, and takes writes that stay.
			for _, repaired := range []*process.Server{truncated, skipped} {
				do(t, repaired.Conn(t), "SET", "after", "repair")
				repaired.Kill()
				again := process.Start(t, b, process.Config{Dir: repaired.Dir})
				if r := do(t, again.Conn(t), "GET", "after"); string(r.Text) != "repair" {
					t.Errorf("a write after the repair is %s", r)
				}
				again.Kill()
			}
		})
	}
}

// TestTornTail appends the beginning of a block, as a killed process may leave it: it is cut and kept aside,
// and what is written afterwards stays.
func TestTornTail(t *testing.T) {
	b := subject(t, "cuts its log otherwise")
	s := process.Start(t, b, process.Config{Args: []string{"--appendfsync", "always"}})
	writeKeys(t, s, 20)
	s.Kill()
	file := incrFile(t, s.Dir)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndex(data, []byte("#kevy "))
	if last < 0 {
		t.Fatal("no block in the log")
	}
	for _, torn := range []struct {
		name string
		tail []byte
	}{
		{"half a header", data[last : last+10]},
		{"half a payload", data[last : last+(len(data)-last)*3/4]},
		{"zeros", make([]byte, 3000)},
		{"text", []byte("*3\r\n$3\r\nSE")},
	} {
		t.Run(torn.name, func(t *testing.T) {
			dir := copyDir(t, s.Dir)
			if err := os.WriteFile(incrFile(t, dir), append(append([]byte{}, data...), torn.tail...), 0o644); err != nil {
				t.Fatal(err)
			}
			again := process.Start(t, b, process.Config{Dir: dir})
			for i, there := range present(t, again, 20) {
				if !there {
					t.Errorf("k%d is gone", i)
				}
			}
			do(t, again.Conn(t), "SET", "after", "the cut")
			kept := false
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					if text, err := os.ReadFile(path); err == nil && bytes.Equal(text, torn.tail) {
						kept = true
					}
				}
				return err
			})
			if err != nil || !kept {
				t.Errorf("what was cut is in no file of its own: %v\n%s", err, again.Log())
			}
			again.Kill()
			third := process.Start(t, b, process.Config{Dir: dir})
			if r := do(t, third.Conn(t), "GET", "after"); string(r.Text) != "the cut" {
				t.Errorf("a write after the cut is %s", r)
			}
		})
	}
}

// redisDir makes a data directory as redis-server writes it, with the given commands in its incr file.
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

// TestCutInsideExec takes a log that another server left cut inside EXEC: the transaction does not count, and
// a write acknowledged after the start must not land in it.
func TestCutInsideExec(t *testing.T) {
	b := subject(t, "loses the write")
	dir := redisDir(t, "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$5\r\nhello\r\n*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$3\r\nbar\r\n$5\r\nworld\r\n*1\r\n$4\r\nEX")
	s := process.Start(t, b, process.Config{Dir: dir, Args: []string{"--appendfsync", "always"}})
	c := s.Conn(t)
	if r := do(t, c, "GET", "foo"); string(r.Text) != "hello" {
		t.Errorf("GET foo: %s", r)
	}
	if r := do(t, c, "EXISTS", "bar"); string(r.Text) != "0" {
		t.Errorf("EXISTS bar: %s", r)
	}
	do(t, c, "SET", "new", "1")
	s.Kill()
	again := process.Start(t, b, process.Config{Dir: dir})
	c = again.Conn(t)
	if r := do(t, c, "GET", "new"); string(r.Text) != "1" {
		t.Errorf("GET new: %s", r)
	}
	if r := do(t, c, "EXISTS", "bar"); string(r.Text) != "0" {
		t.Errorf("EXISTS bar: %s", r)
	}
}

func TestLogThatCannotBeLoaded(t *testing.T) {
	b := process.Subject(t)
	launch := func(dir string) *process.Server {
		s, err := process.Launch(b, process.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	missing := redisDir(t, "")
	if err := os.Remove(filepath.Join(missing, "appendonlydir", "appendonly.aof.1.base.aof")); err != nil {
		t.Fatal(err)
	}
	expectExit(t, launch(missing), "appendonly.aof.1.base.aof")
	unknown := redisDir(t, "*2\r\n$9\r\nNOSUCHCMD\r\n$1\r\na\r\n")
	expectExit(t, launch(unknown), "NOSUCHCMD")
}
