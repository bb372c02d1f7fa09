// Package conformance runs Redis's own tests, fetched from Debian, against the server of this tree, and compares
// what passes with what redis-server passes (baseline) but for what testdata/not-passing*.txt names, both ways.
package conformance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kevy/tests/process"
)

const (
	// profilesVar names the profiles to run, divided by spaces.
	profilesVar = "KEVY_CONFORMANCE_PROFILES"
	// unitsVar names the units to run, divided by spaces; all of the profile if empty.
	unitsVar = "KEVY_CONFORMANCE_UNITS"
	// fetchNoMirror is fetch.sh's exit code for a machine that no Debian mirror serves.
	fetchNoMirror = 3
	// unitTimeout is how long one try of a unit may take.
	unitTimeout = 10 * time.Minute
	// readTimeout is how long a reply may take; one that does not come costs the test.
	readTimeout = 10 * time.Second
	// harnessBelow is how far below its base port the harness listens.
	harnessBelow = 32
	// minShare is the share of the baseline, in percent, that must pass at least, so that a run of nothing does not.
	minShare = 90
)

// TestRedisTests has a subtest a profile, and in it one a unit. Each unit has a server of its own.
func TestRedisTests(t *testing.T) {
	source := fetch(t)
	profiles := strings.Fields(os.Getenv(profilesVar))
	if len(profiles) == 0 {
		profiles = []string{"core"}
	}
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) { runProfile(t, source, profile) })
	}
}

// fetch returns the directory of Redis's tests. A machine without a Debian mirror cannot have them, which is no fault
// of its: the test is skipped.
func fetch(t *testing.T) string {
	for _, tool := range []string{"bash", "tclsh", "gcc", "redis-cli", "redis-benchmark"} {
		process.Tool(t, tool)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cmd := exec.Command("./fetch.sh", filepath.Join(cache, "kevy", "redis-tests"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == fetchNoMirror {
		t.Skip(strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		process.Tool(t, "dpkg-source")
		t.Fatalf("fetch.sh: %v\n%s", err, stderr.String())
	}
	dir := strings.TrimSpace(string(out))
	t.Logf("the tests of %s", filepath.Base(dir))
	return dir
}

// ledgerFile is the ledger of a profile.
func ledgerFile(profile string) string {
	if profile == "core" {
		return "testdata/not-passing.txt"
	}
	return "testdata/not-passing-" + profile + ".txt"
}

// unitsFile lists the units of a profile.
func unitsFile(profile string) string {
	if profile == "forced" {
		return "units_forced.txt"
	}
	return "units_external.txt"
}

func runProfile(t *testing.T, source, profile string) {
	baseline, err := readBaseline("baseline/redis70." + profile + ".tsv")
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := readLedger(ledgerFile(profile))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(unitsFile(profile))
	if err != nil {
		t.Fatal(err)
	}
	units := strings.Fields(string(text))
	known := map[string]bool{}
	for _, unit := range units {
		known[unit] = true
	}
	for unit := range ledger.rows {
		if !known[unit] {
			t.Errorf("%s: no unit %s", ledgerFile(profile), unit)
		}
	}
	for unit := range ledger.out {
		if !known[unit] {
			t.Errorf("%s: no unit %s", ledgerFile(profile), unit)
		}
	}
	all := true
	if some := strings.Fields(os.Getenv(unitsVar)); len(some) > 0 {
		units, all = some, false
	}

	var passed, wanted atomic.Int64
	server := process.Subject(t)
	t.Run("units", func(t *testing.T) {
		for _, unit := range units {
			if reason, out := ledger.out[unit]; out && all {
				t.Logf("%s is left out: %s", unit, reason)
				continue
			}
			t.Run(strings.TrimPrefix(unit, "unit/"), func(t *testing.T) {
				t.Parallel()
				r := runUnit(t, server, source, profile, unit)
				r.check(t, baseline[unit], ledger.rows[unit], ledgerFile(profile))
				for test, n := range baseline[unit] {
					wanted.Add(int64(n))
					passed.Add(int64(min(n, r.passed[test])))
				}
			})
		}
	})
	whole := int64(0)
	for _, tests := range baseline {
		for _, n := range tests {
			whole += int64(n)
		}
	}
	t.Logf("profile %s: %d tests pass of the %d that redis-server passes in the units that were run", profile, passed.Load(), wanted.Load())
	if all && passed.Load()*100 < minShare*whole {
		t.Errorf("only %d tests passed of the %d of the baseline", passed.Load(), whole)
	}
}

// A result is what came out of a unit.
type result struct {
	unit   string
	passed map[string]int    // by test, how often
	why    map[string]string // by test, how it failed
	line   string            // run_suite.sh's summary
	took   time.Duration
}

// runUnit runs one unit against a server of its own.
func runUnit(t *testing.T, server process.Binary, source, profile, unit string) result {
	dir := t.TempDir()
	harness := filepath.Join(dir, "harness")
	if out, err := exec.Command("./prepare_harness.sh", source, harness).CombinedOutput(); err != nil {
		t.Fatalf("prepare_harness.sh: %v\n%s", err, out)
	}
	s := process.Start(t, server, process.Config{Dir: filepath.Join(dir, "data"), Args: []string{"--enable-debug-command", "yes"}})
	r := result{unit: unit, passed: map[string]int{}, why: map[string]string{}}
	begin := time.Now()
	for range 5 {
		cmd := exec.Command("./run_suite.sh", strconv.Itoa(s.Port), unit)
		cmd.Env = append(os.Environ(), "SUITE=redis70", "PROFILE="+profile, "HARNESS="+harness, "OUT="+filepath.Join(dir, "out"),
			fmt.Sprintf("BASEPORT=%d", harnessPort(t)+harnessBelow),
			fmt.Sprintf("CONF_READ_TIMEOUT_MS=%d", readTimeout.Milliseconds()), fmt.Sprintf("UNIT_TIMEOUT=%d", int(unitTimeout.Seconds())))
		out, err := process.CombinedOutput(cmd)
		if err != nil {
			t.Fatalf("run_suite.sh: %v\n%s", err, out)
		}
		r.line, _, _ = strings.Cut(string(out), "\n")
		// The free port may be taken by another process between its choice and its use.
		if !strings.Contains(lastLines(filepath.Join(dir, "out"), 40), "couldn't open socket: address already in use") {
			break
		}
	}
	r.took = time.Since(begin)
	err := readRows(filepath.Join(dir, "out", "tests.tsv"), 4, func(row []string) error {
		if row[0] == "OK" {
			r.passed[row[2]]++
		} else {
			r.why[row[2]] = row[0] + " " + row[3]
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Running() {
		t.Errorf("the server ended")
	}
	if strings.Contains(s.Log(), "WARNING: DATA RACE") {
		t.Errorf("the race detector has found something:\n%s", s.Log())
	}
	if !strings.Contains(r.line, " timeout=0 ") {
		t.Errorf("the unit did not end by itself: %s\n%s", r.line, lastLines(filepath.Join(dir, "out"), 40))
	}
	return r
}

// harnessPort finds a free port for the harness, which counts upwards from one harnessBelow above it.
func harnessPort(t *testing.T) int {
	for {
		port, err := process.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if port < 60000 {
			return port
		}
	}
}

// check compares the result with the baseline without the ledger, both ways.
func (r result) check(t *testing.T, baseline, excused map[string]int, file string) {
	t.Logf("%s (%v)", r.line, r.took.Round(time.Second))
	v := judge(baseline, excused, r.passed)
	for _, test := range v.fails {
		t.Errorf("fails, though redis-server passes it: %s\n\t%s", test, r.why[test])
	}
	for _, test := range v.passes {
		t.Errorf("passes, though %s says that it does not: %s", file, test)
	}
	for _, test := range v.unknown {
		t.Errorf("is in %s, but not among what redis-server passes: %s", file, test)
	}
}

// lastLines returns the end of the last log of the harness in dir.
func lastLines(dir string, n int) string {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	if len(logs) == 0 {
		return "no log"
	}
	text, _ := os.ReadFile(logs[len(logs)-1])
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
