package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// smallDisk mounts a tmpfs of that many bytes, or reports that this is not allowed.
func smallDisk(t *testing.T, bytes int) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(bytes)); err != nil {
		t.Logf("no tmpfs can be mounted (%v)", err)
		return "", false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir, true
}

// bigValue fills a disk quickly; i makes it unlike any other.
func bigValue(i int) string { return strings.Repeat(fmt.Sprintf("%08d", i), 8<<10) }

// fillUntilRefused writes until a write is refused and returns how many were acknowledged, the refusal, and
// the number of the refused one.
func fillUntilRefused(t *testing.T, c *wire.Conn, from int) (int, wire.Reply) {
	t.Helper()
	for i := from; i < from+2000; i++ {
		c.SetDeadline(time.Now().Add(30 * time.Second))
		r, err := c.Do("SET", fmt.Sprintf("k%d", i), bigValue(i))
		if err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
		if r.IsError("") {
			return i, r
		}
	}
	t.Fatal("the disk does not get full")
	return 0, wire.Reply{}
}

// checkWritten makes sure that all acknowledged writes are there, and refused ones whole or not at all.
func checkWritten(t *testing.T, c *wire.Conn, acked map[int]bool, upTo int) {
	t.Helper()
	for i := range upTo {
		r := do(t, c, "GET", fmt.Sprintf("k%d", i))
		switch {
		case r.IsNil() && acked[i]:
			t.Errorf("acknowledged write %d is gone", i)
		case !r.IsNil() && string(r.Text) != bigValue(i):
			t.Errorf("write %d has another value", i)
		}
	}
}

// TestFullDisk fills the disk: writes are refused, reads are answered, and when there is room again writes
// go on, in the same process and with nothing acknowledged lost.
func TestFullDisk(t *testing.T) {
	for _, policy := range []string{"everysec", "always"} {
		t.Run(policy, func(t *testing.T) {
			b := process.Subject(t)
			if b.Redis && policy == "always" {
				t.Skip("a redis-server stands in, which ends when it cannot write under always")
			}
			dir, ok := smallDisk(t, 24<<20)
			if !ok {
				t.Skip("needs a small disk; TestFileSizeLimit covers the refusal")
			}
			ballast := filepath.Join(dir, "ballast")
			if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			data := filepath.Join(dir, "data")
			args := []string{"--appendfsync", policy, "--auto-aof-rewrite-percentage", "0"}
			s := process.Start(t, b, process.Config{Dir: data, Args: args})
			c := s.Conn(t)
			n, refusal := fillUntilRefused(t, c, 0)
			acked := map[int]bool{}
			for i := range n {
				acked[i] = true
			}
			if !refusal.IsError("MISCONF") {
				t.Errorf("a full disk is answered with %s", refusal)
			}
			for i := range 20 {
				if r, err := c.Do("SET", fmt.Sprintf("k%d", n+1+i), bigValue(n+1+i)); err != nil {
					t.Fatal(err)
				} else if !r.IsError("MISCONF") {
					t.Errorf("with a full disk a write is answered with %s", r)
				}
			}
			upTo := n + 21
			start := time.Now()
			for i := 0; i < n; i += 10 {
				if r := do(t, c, "GET", fmt.Sprintf("k%d", i)); string(r.Text) != bigValue(i) {
					t.Errorf("with a full disk GET k%d is wrong", i)
				}
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("with a full disk reads took %v", d)
			}
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(20 * time.Second)
			for {
				r, err := c.Do("SET", fmt.Sprintf("k%d", upTo), bigValue(upTo))
				if err != nil {
					t.Fatal(err)
				}
				if !r.IsError("") {
					acked[upTo] = true
					upTo++
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("with room again a write is still answered with %s\n%s", r, s.Log())
				}
				time.Sleep(50 * time.Millisecond)
			}
			for range 10 {
				do(t, c, "SET", fmt.Sprintf("k%d", upTo), bigValue(upTo))
				acked[upTo] = true
				upTo++
			}
			checkWritten(t, c, acked, upTo)
			s.Kill()
			again := process.Start(t, b, process.Config{Dir: data, Args: args})
			checkWritten(t, again.Conn(t), acked, upTo)
		})
	}
}

// TestFileSizeLimit does the same as far as it goes with a limit on the size of files, which needs no rights.
func TestFileSizeLimit(t *testing.T) {
	b := subject(t, "ends by the signal of the limit")
	dir := t.TempDir()
	s := process.Start(t, b, process.Config{Dir: dir, Args: []string{"--appendfsync", "always"},
		Limits: []process.Limit{{Flag: "-f", Value: 4096}}}) // KiB
	c := s.Conn(t)
	n, refusal := fillUntilRefused(t, c, 0)
	if !refusal.IsError("MISCONF") {
		t.Errorf("a file that may not grow is answered with %s", refusal)
	}
	acked := map[int]bool{}
	for i := range n {
		acked[i] = true
	}
	checkWritten(t, c, acked, n)
	s.Kill()
	again := process.Start(t, b, process.Config{Dir: dir})
	checkWritten(t, again.Conn(t), acked, n)
}
