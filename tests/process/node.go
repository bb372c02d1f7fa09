package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// RequireNode is the variable that turns tests that are skipped where node, npm or
// its registry is missing into failed ones. CI installs none of them.
const RequireNode = "KEVY_REQUIRE_NODE"

// minNode is the oldest version of node that the libraries run on.
const minNode = 20

// Node finds node, and puts the libraries that lockDir, a directory with
// package.json and package-lock.json, asks for where a program in dir finds them:
// from the user's cache if they were there before. Without node or libraries the
// test is skipped, or fails where RequireNode is set.
func Node(t testing.TB, lockDir, dir string) string {
	t.Helper()
	missing := func(format string, args ...any) {
		t.Helper()
		if os.Getenv(RequireNode) != "" {
			t.Fatalf(format+", and "+RequireNode+" is set", args...)
		}
		t.Skipf(format, args...)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		missing("node is not installed")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		missing("npm is not installed")
	}
	version, err := exec.Command(node, "-p", "process.versions.node").Output()
	major, _, _ := strings.Cut(string(version), ".")
	if n, _ := strconv.Atoi(major); err != nil || n < minNode {
		missing("node is of version %s, older than %d", strings.TrimSpace(string(version)), minNode)
	}
	lock, err := os.ReadFile(filepath.Join(lockDir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.Sum256(lock)
	there := filepath.Join(cache, "kevy-tests", "node-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(there); errors.Is(err, fs.ErrNotExist) {
		if out, err := install(npm, lockDir, there); err != nil {
			missing("npm cannot install the libraries: %v\n%s", err, out)
		}
	}
	if err := os.Symlink(filepath.Join(there, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return node
}

// install makes a directory with the libraries, all of it or nothing.
func install(npm, lockDir, there string) (out []byte, err error) {
	if err := os.MkdirAll(filepath.Dir(there), 0o755); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(there), "install")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join(lockDir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(temp, name), data, 0o644)
		}
		if err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=30000")
	cmd.Dir = temp
	if out, err := cmd.CombinedOutput(); err != nil {
		return out, err
	}
	if err := os.Rename(temp, there); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return nil, nil
}
