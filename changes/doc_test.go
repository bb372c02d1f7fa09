package changes_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentIsTrue holds that the code in docs/consumers.md compiles, being
// that of the example, and that the tests and programs which it and the recipes of
// docs/feed.md name are there.
func TestDocumentIsTrue(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tests := func(dir string) (all string) {
		files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests: %v", dir, err)
		}
		for _, f := range files {
			all += read(strings.TrimPrefix(f, "../"))
		}
		return all
	}
	doc := read("docs/consumers.md")
	_, code, ok := strings.Cut(doc, "```go\n")
	code, _, ok2 := strings.Cut(code, "```")
	if !ok || !ok2 {
		t.Fatal("docs/consumers.md has no code")
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	whole := strings.NewReplacer("package changes_test", "package main", "func Example() {", "func main() {")
	if flat(whole.Replace(read("changes/example_test.go"))) != flat(code) {
		t.Error("the code of docs/consumers.md is not that of example_test.go")
	}
	ours, named := tests("changes"), 0
	for _, name := range regexp.MustCompile("`((?:Test|Benchmark)[A-Za-z0-9]+)`").FindAllStringSubmatch(doc, -1) {
		named++
		if !strings.Contains(ours, "\nfunc "+name[1]+"(") {
			t.Errorf("docs/consumers.md names %s, which is not here", name[1])
		}
	}
	for _, dir := range regexp.MustCompile("`(examples/[a-z]+)`").FindAllStringSubmatch(doc, -1) {
		named++
		tests(dir[1])
	}
	for _, recipe := range regexp.MustCompile("`(examples/[a-z]+)` \\(`(Test[A-Za-z]+)`\\)").FindAllStringSubmatch(read("docs/feed.md"), -1) {
		named++
		if !strings.Contains(tests(recipe[1]), "\nfunc "+recipe[2]+"(t *testing.T) {") {
			t.Errorf("docs/feed.md names %s of %s, which is not there", recipe[2], recipe[1])
		}
	}
	if named < 20 {
		t.Errorf("only %d names were found", named)
	}
}
