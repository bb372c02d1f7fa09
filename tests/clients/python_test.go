package clients

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"kevy/tests/process"
)

// pythonChecks is how many checks the script makes: it cannot pass on fewer.
const pythonChecks = 111

// TestPython runs testdata/client.py, a program that uses redis-py.
func TestPython(t *testing.T) {
	// Debian's own interpreter is the one that Debian's python3-redis belongs to.
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		python = process.Tool(t, "python3")
	}
	if out, err := exec.Command(python, "-c", "import redis").CombinedOutput(); err != nil {
		if os.Getenv(process.RequireTools) != "" {
			t.Fatalf("python3-redis is not installed, and %s is set: %s", process.RequireTools, out)
		}
		t.Skip("python3-redis is not installed")
	}
	s := process.Start(t, process.Subject(t), process.Config{})
	script, err := os.ReadFile("testdata/client.py")
	if err != nil {
		t.Fatal(err)
	}
	got := program{path: python}.run(t, time.Minute, script, "-", strconv.Itoa(s.Port))
	if want := fmt.Sprintf("ok %d\n", pythonChecks); got.code != 0 || got.out != want {
		t.Errorf("code %d, prints %q, want %q\n%s", got.code, got.out, want, got.err)
	}
}
