package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/internal/transfer"
	"kevy/tests/process"
)

// TestExportMemory writes 300,000 keys of every type, of which the server holds
// some 200 MiB, and lets the program export them: its peak is far below that, for
// a log without a base and for a base.
func TestExportMemory(t *testing.T) {
	const keys, limitMiB = 300_000, 110
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d", seed)
	dir := t.TempDir()
	store, file := filepath.Join(dir, "store"), filepath.Join(dir, "dump.rdb")
	args := []string{"--auto-aof-rewrite-percentage", "0"}
	s := process.Start(t, process.Subject(t), process.Config{Dir: store, Args: args})
	c := s.Conn(t)
	c.SetDeadline(time.Now().Add(10 * time.Minute))
	fillRedis(t, c, rand.New(rand.NewPCG(seed, 1)), keys)
	for i := range 600 {
		batch := make([][]string, 100)
		for j := range batch {
			n := 100*i + j
			batch[j] = []string{"SET", "key:" + strconv.Itoa(5*n), strings.Repeat(strconv.Itoa(n), 300)}
		}
		if _, err := c.Pipeline(batch...); err != nil {
			t.Fatal(err)
		}
	}
	held := peakMiB(t, s.PID())
	for _, what := range []string{"a log", "a base"} {
		if what == "a base" {
			s = process.Start(t, process.Subject(t), process.Config{Dir: store, Args: args})
			do(t, s.Conn(t), "BGREWRITEAOF")
			for deadline := time.Now().Add(time.Minute); !strings.Contains(string(do(t, s.Conn(t), "INFO", "persistence").Text), "aof_rewrite_in_progress:0"); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the rewrite does not end")
				}
			}
		}
		s.Stop(t)
		r, peak := exportPeak(t, store, file)
		t.Logf("%s: export of %d keys, %d MiB: peak memory %d MiB; the server had %d MiB", what, r.Keys, r.Bytes>>20, peak, held)
		if r.Keys < keys*9/10 || held < 2*limitMiB {
			t.Fatalf("%d keys are exported, and the server had %d MiB", r.Keys, held)
		}
		if peak > limitMiB {
			t.Errorf("%s: the peak is %d MiB, more than %d", what, peak, limitMiB)
		}
	}
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMiB returns the largest amount of memory that a process has had.
func peakMiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := peakLine.FindSubmatch(status)
	if err != nil || found == nil {
		t.Fatalf("no figure of the peak: %v", err)
	}
	kib, _ := strconv.Atoi(string(found[1]))
	return kib >> 10
}

// exportPeak runs kevy-server export and follows its peak until it ends.
func exportPeak(t *testing.T, store, file string) (r transfer.ExportReport, peak int) {
	t.Helper()
	cmd := exec.Command(process.Subject(t).Path, "export", file, "--dir", store, "--json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			return r, peak
		case <-time.After(2 * time.Millisecond):
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
			if found := peakLine.FindSubmatch(status); err == nil && found != nil {
				kib, _ := strconv.Atoi(string(found[1]))
				peak = kib >> 10
			}
		}
	}
}
