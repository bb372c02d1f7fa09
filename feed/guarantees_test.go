package feed

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every row of the table of guarantees in docs/feed.md names its tests, and those
// are there.
func TestGuaranteesNameTheirTests(t *testing.T) {
	text, err := os.ReadFile("../docs/feed.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n## Guarantees\n")
	if !ok {
		t.Fatal("docs/feed.md has no guarantees")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var (
		group   = regexp.MustCompile("^((?:`Test[A-Za-z0-9]+`(?:, )?)+) \\(([a-z/]+)\\)$")
		named   = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
		sources = map[string]string{}
		rows    = map[string]int{}
	)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 3 || cells[0] == "| Guarantee" || cells[0] == "| ---" {
			continue
		}
		row := strings.TrimPrefix(cells[0], "| ")
		for part := range strings.SplitSeq(strings.TrimSuffix(cells[2], " |"), "; ") {
			m := group.FindStringSubmatch(part)
			if m == nil {
				t.Errorf("%s: %q is no list of tests with their directory", row, part)
				continue
			}
			for _, name := range named.FindAllStringSubmatch(m[1], -1) {
				rows[row]++
				if !strings.Contains(testsOf(t, sources, m[2]), "\nfunc "+name[1]+"(t *testing.T) {") {
					t.Errorf("%s: there is no %s in %s", row, name[1], m[2])
				}
			}
		}
	}
	for _, row := range []string{"ordered", "unique", "atomic", "resumable", "bookmarkable", "durable on request", "retained", "one history, one name"} {
		if rows[row] == 0 {
			t.Errorf("%s has no test", row)
		}
	}
	if len(rows) < 14 {
		t.Errorf("only %d rows were read", len(rows))
	}
}

// testsOf returns the test files of a directory as one text.
func testsOf(t *testing.T, known map[string]string, dir string) string {
	t.Helper()
	if text, ok := known[dir]; ok {
		return text
	}
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", dir, err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	known[dir] = all.String()
	return known[dir]
}
