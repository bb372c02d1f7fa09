package conformance

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// leftOut in place of a test's name in a ledger says that the whole unit is not run.
const leftOut = "*"

// A ledger says which tests of a profile that redis-server passes are not expected to pass, and why.
type ledger struct {
	rows map[string]map[string]int // by unit and test, how often: a name may stand for several tests
	out  map[string]string         // units that are not run, with the reason
}

// readLedger reads rows of unit, test and reason.
func readLedger(path string) (ledger, error) {
	l := ledger{rows: map[string]map[string]int{}, out: map[string]string{}}
	err := readRows(path, 3, func(row []string) error {
		unit, test, reason := row[0], row[1], row[2]
		if reason == "" {
			return fmt.Errorf("%s: %s: no reason", unit, test)
		}
		if test == leftOut {
			l.out[unit] = reason
			return nil
		}
		count(l.rows, unit, test)
		return nil
	})
	for unit := range l.out {
		if l.rows[unit] != nil && err == nil {
			err = fmt.Errorf("%s: %s is left out whole and in part", path, unit)
		}
	}
	return l, err
}

// readBaseline reads which tests redis-server passes: rows of unit and test, a name that stands for n tests n times.
func readBaseline(path string) (map[string]map[string]int, error) {
	tests := map[string]map[string]int{}
	err := readRows(path, 2, func(row []string) error {
		count(tests, row[0], row[1])
		return nil
	})
	return tests, err
}

func count(tests map[string]map[string]int, unit, test string) {
	if tests[unit] == nil {
		tests[unit] = map[string]int{}
	}
	tests[unit][test]++
}

// readRows reads lines of columns divided by tabs; empty ones, and those that begin with a # in front of a space, say nothing.
func readRows(path string, columns int, each func(row []string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line == "#" || strings.HasPrefix(line, "# ") {
			continue
		}
		row := strings.Split(line, "\t")
		if len(row) != columns {
			return fmt.Errorf("%s:%d: %d columns, not %d", path, n, len(row), columns)
		}
		if err := each(row); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return lines.Err()
}

// A verdict is what the ledger has to say to the outcome of a unit, test by test; one that stands for several is in a list that often.
type verdict struct {
	fails   []string // not expected to fail
	passes  []string // expected to fail
	unknown []string // in the ledger, not in the baseline
}

// judge compares what passed with what should: the baseline without the ledger. All three count by the test's name.
func judge(baseline, ledger, passed map[string]int) verdict {
	var v verdict
	add := func(list *[]string, test string, n int) {
		for range n {
			*list = append(*list, test)
		}
	}
	for test, want := range baseline {
		excused := min(ledger[test], want)
		failing := want - min(passed[test], want)
		add(&v.fails, test, failing-excused)
		add(&v.passes, test, excused-failing)
	}
	for test, n := range ledger {
		add(&v.unknown, test, n-baseline[test])
	}
	slices.Sort(v.fails)
	slices.Sort(v.passes)
	slices.Sort(v.unknown)
	return v
}

func TestJudge(t *testing.T) {
	baseline := map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "twice": 2, "thrice": 3}
	ledger := map[string]int{"c": 1, "d": 1, "twice": 1, "thrice": 3, "strange": 1}
	passed := map[string]int{"a": 1, "c": 1, "twice": 0, "thrice": 1, "more": 1}
	v := judge(baseline, ledger, passed)
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"fails", v.fails, []string{"b", "twice"}},
		{"passes", v.passes, []string{"c", "thrice"}},
		{"unknown", v.unknown, []string{"strange"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, not %v", c.what, c.got, c.want)
		}
	}
}
