package clients

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"kevy/tests/process"
)

// TestDigestInPython runs the program of docs/feed.md as it stands there, but for
// the port, on keys of all types that it knows: what is published is enough to
// come to the server's digest.
func TestDigestInPython(t *testing.T) {
	python := pythonWithRedis(t)
	text, err := os.ReadFile("../../docs/feed.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(text), "\n```python\n")
	code, _, closed := strings.Cut(code, "\n```\n")
	const port = "port=6379"
	if !found || !closed || strings.Count(code, port) != 1 {
		t.Fatal("docs/feed.md has no such program")
	}
	s := process.Start(t, process.Subject(t), process.Config{})
	c := s.Conn(t)
	keys := 0
	for i := range 300 {
		k, n := fmt.Sprintf("key:%d", i), strconv.Itoa(i)
		for _, args := range [][]string{
			{"SET", k, n, "PXAT", strconv.Itoa(33177117420000 + i)}, {"SET", k, "\x00\xff\r\n" + n}, {"RPUSH", k, n, "", "a", "a"}, {"SADD", k, n, "x", "\xff"},
			{"ZADD", k, "-0", "a", n + ".5", "b", "inf", "c", "-inf", "d"}, {"HSET", k, "f", n, "g", "", "", "h"},
		}[i%6 : i%6+1] {
			if r, err := c.Do(args...); err != nil || strings.HasPrefix(r.String(), "-") {
				t.Fatalf("%q: %v %v", args, r, err)
			}
		}
		if i%12 == 5 {
			if r, err := c.Do("HPEXPIREAT", k, strconv.Itoa(33177117420000+i), "FIELDS", "2", "g", ""); err != nil || r.String() != "[:1, :1]" {
				t.Fatal(r, err)
			}
		}
		keys++
	}
	cmd := exec.Command(python, "-c", strings.Replace(code, port, "port="+strconv.Itoa(s.Port), 1))
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintf("True %d\n", keys); err != nil || string(out) != want {
		t.Errorf("it says %q, %v; want %q", out, err, want)
	}
}
