package all

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"kevy/internal/command/commandtest"
)

var (
	codeSpan = regexp.MustCompile("`([^`]*)`")
	madeID   = regexp.MustCompile(`\b1[0-9]{12}-[0-9]+\b`)
	absolute = regexp.MustCompile(`\b1[0-9]{12}\b`)
)

// TestOpsPage holds docs/ops.md to what the commands record.
func TestOpsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/ops.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	inTable := false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "| given | command | ops |":
			inTable = true
			continue
		case !strings.HasPrefix(line, "|"):
			inTable = false
		}
		if !inTable || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 3 {
			t.Fatalf("a row of %d cells: %s", len(cells), line)
		}
		given, cmd, want := spans(cells[0]), spans(cells[1]), spans(cells[2])
		got, err := commandtest.Ops(given, cmd[0], Data())
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		for i := range got {
			got[i] = madeID.ReplaceAllString(got[i], "<id>")
			got[i] = absolute.ReplaceAllString(got[i], "<ms>")
		}
		if strings.Join(got, "` `") != strings.Join(want, "` `") {
			t.Errorf("%s\n got `%s`", line, strings.Join(got, "` `"))
		}
		rows++
	}
	if rows < 80 {
		t.Errorf("only %d rows were checked", rows)
	}
}

func spans(cell string) (out []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}
