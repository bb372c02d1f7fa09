// Package levels holds the rule of who may import whom.
package levels

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// A level is a row of the table: its packages import those of lower rows and
// the row's own shared ones only, and nothing of what is banned.
type level struct {
	packages []string // patterns of path.Match below the module's path; "." is its root
	shared   []string
	banned   []string
}

var levels = []level{
	0: {packages: []string{"resp", "internal/vfs", "internal/ds", "internal/glob", "internal/xxh3", "internal/changejson", "internal/backoff", "internal/alarm", "internal/tlsconfig"}},
	1: {packages: []string{"internal/op", "aof", "persist", "changes", "internal/client"}},
	2: {packages: []string{"shard", "feed"}, banned: []string{"net", "os"}},
	3: {packages: []string{"internal/engine", "internal/command"}},
	4: {
		packages: []string{"internal/command/*", "internal/acl", "internal/pubsub", "internal/script", "internal/script/*", "internal/rdb", "internal/config", "internal/metrics"},
		shared:   []string{"kevy/internal/acl", "kevy/internal/config", "kevy/internal/rdb", "kevy/internal/pubsub", "kevy/internal/metrics", "kevy/internal/script/lualib"},
		banned:   []string{"kevy/internal/engine", "net"},
	},
	5: {packages: []string{"internal/command/all", "internal/exec", "internal/repl", "internal/transfer", "internal/feedhttp"}, banned: []string{"kevy/internal/script"}},
	6: {packages: []string{".", "internal/server"}},
	7: {packages: []string{"statestore", "listen", "internal/chaos", "internal/pipe", "internal/pipe/*", "cmd/kevy-server"}, shared: []string{"kevy/internal/chaos", "kevy/internal/pipe", "kevy/internal/pipe/kafka", "kevy/internal/pipe/nats"}},
}

// onlyUsers says which package alone may import a library; the empty name is
// that of tests.
var onlyUsers = map[string]string{
	"github.com/tidwall/btree":   "kevy/internal/ds",
	"github.com/tidwall/redcon":  "kevy/internal/server",
	"github.com/spf13/cobra":     "kevy/cmd/kevy-server",
	"github.com/yuin/gopher-lua": "kevy/internal/script/lualib",
	"github.com/schollz":         "kevy/cmd/kevy-server",
	"github.com/redis/go-redis":  "",
	"github.com/twmb/franz-go":   "kevy/internal/pipe/kafka",
	"github.com/nats-io":         "kevy/internal/pipe/nats",
	"go.uber.org/goleak":         "",
	"github.com/anishathalye":    "",
}

// mustFind is a list that the tree cannot be without, so that a check of
// nothing does not pass.
var mustFind = []string{
	"kevy", "kevy/resp", "kevy/aof", "kevy/feed", "kevy/persist", "kevy/shard", "kevy/internal/vfs", "kevy/internal/ds",
	"kevy/changes", "kevy/internal/op", "kevy/internal/engine", "kevy/internal/command", "kevy/internal/command/all", "kevy/internal/exec",
	"kevy/internal/config", "kevy/internal/server", "kevy/cmd/kevy-server",
}

type listed struct {
	ImportPath string
	Name       string
	Imports    []string // of the package itself, not of its tests
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Name,Imports"}, args...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr.Bytes())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// levelOf gives the row of a package, -1 for one that no row has. A name wins
// over a pattern.
func levelOf(importPath string) int {
	name := strings.TrimPrefix(strings.TrimPrefix(importPath, "kevy"), "/")
	if name == "" {
		name = "."
	}
	found := -1
	for i, l := range levels {
		for _, pattern := range l.packages {
			if pattern == name {
				return i
			}
			if ok, _ := path.Match(pattern, name); ok {
				found = i
			}
		}
	}
	return found
}

// support reports whether a package serves tests or writes files for the tree
// and is part of no program: nothing but such packages and tests imports it.
func support(p listed) bool {
	return strings.HasPrefix(p.ImportPath, "kevy/tests/") || strings.HasSuffix(p.ImportPath, "test") ||
		p.Name == "main" && !strings.HasPrefix(p.ImportPath, "kevy/cmd/")
}

func ours(importPath string) bool {
	return importPath == "kevy" || strings.HasPrefix(importPath, "kevy/")
}

func TestLevels(t *testing.T) {
	packages := list(t, "./...")
	var found, supports []string
	for _, p := range packages {
		if support(p) {
			supports = append(supports, p.ImportPath)
		}
	}
	edges := 0
	for _, p := range packages {
		if slices.Contains(supports, p.ImportPath) {
			continue
		}
		found = append(found, p.ImportPath)
		row := levelOf(p.ImportPath)
		if row < 0 {
			t.Errorf("%s is in no row of the table: say here and in ARCHITECTURE.md who may import it", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains(levels[row].banned, imported) {
				t.Errorf("%s (level %d) imports %s, which its level may not", p.ImportPath, row, imported)
			}
			for library, user := range onlyUsers {
				if strings.HasPrefix(imported, library) && p.ImportPath != user {
					t.Errorf("%s imports %s; only %q may", p.ImportPath, imported, user)
				}
			}
			if !ours(imported) {
				continue
			}
			edges++
			if slices.Contains(supports, imported) {
				t.Errorf("%s imports %s, which is for tests", p.ImportPath, imported)
			} else if other := levelOf(imported); other >= row && !slices.Contains(levels[row].shared, imported) {
				t.Errorf("%s (level %d) imports %s (level %d): only lower ones may be imported", p.ImportPath, row, imported, other)
			}
		}
	}
	for _, name := range mustFind {
		if !slices.Contains(found, name) {
			t.Errorf("%s was not found", name)
		}
	}
	if len(found) < 20 || edges < 50 {
		t.Errorf("%d packages and %d imports among them were found", len(found), edges)
	}
}

// TestLibraryIsSmall holds that a program which embeds the store gets none of
// what only the server needs.
func TestLibraryIsSmall(t *testing.T) {
	deps := list(t, "-deps", "kevy")
	names := make([]string, 0, len(deps))
	for _, p := range deps {
		names = append(names, p.ImportPath)
		for _, library := range []string{"github.com/tidwall/redcon", "github.com/spf13/", "github.com/schollz/", "github.com/yuin/gopher-lua", "github.com/redis/", "kevy/internal/server", "kevy/internal/script", "kevy/tests/", "net/http"} {
			if strings.HasPrefix(p.ImportPath, library) {
				t.Errorf("package kevy pulls in %s", p.ImportPath)
			}
		}
	}
	for _, name := range []string{"kevy/internal/engine", "kevy/aof", "kevy/feed", "github.com/tidwall/btree"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among the %d packages below kevy", name, len(names))
		}
	}
}

// TestConsumersNeedAConnectionOnly holds that a program which reads the feed
// gets package resp and nothing else that is not of the standard library.
func TestConsumersNeedAConnectionOnly(t *testing.T) {
	found := false
	for _, p := range list(t, "-deps", "kevy/changes") {
		found = found || p.ImportPath == "kevy/changes"
		if first, _, _ := strings.Cut(p.ImportPath, "/"); !ours(p.ImportPath) && !strings.Contains(first, ".") {
			continue
		}
		if p.ImportPath != "kevy/changes" && p.ImportPath != "kevy/resp" {
			t.Errorf("package changes pulls in %s", p.ImportPath)
		}
	}
	if !found {
		t.Error("kevy/changes was not found")
	}
}
