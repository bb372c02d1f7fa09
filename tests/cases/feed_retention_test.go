package cases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/process"
)

// TestSlowConsumer has three consumers, of which one stops reading while values are written over and over:
// memory and disk stay within the configured bytes, the two that read miss nothing, and the third alone is
// told to begin again.
func TestSlowConsumer(t *testing.T) {
	t.Parallel()
	b := subject(t, "has no feed")
	const (
		backlog   = 1 << 20
		retention = 16 << 20
		keys      = 1000
		value     = 1 << 10
		perSecond = 8_000
		seconds   = 6
		writes    = seconds * perSecond
	)
	s := process.Start(t, b, process.Config{Args: []string{"--feed-backlog-bytes", strconv.Itoa(backlog), "--feed-retention-bytes", strconv.Itoa(retention),
		"--auto-aof-rewrite-min-size", "2mb"}})
	c := s.Conn(t)
	var cmds [][]string
	for i := range keys {
		cmds = append(cmds, []string{"SET", "k" + strconv.Itoa(i), strings.Repeat("x", value)})
	}
	pipeline(t, c, cmds...)
	start := position(t, c, "TAIL", "ALL")
	before := residentBytes(t, s.PID())

	stop := make(chan struct{})
	var wg sync.WaitGroup
	type consumer struct {
		at     cursor
		frames int
		err    error
	}
	readers := []*consumer{{at: start}, {at: start}}
	for i, r := range readers {
		conn := s.Conn(t)
		options := [][]string{{"COUNT", "1000", "BLOCK", "20"}, {"COUNT", "1000", "BLOCK", "20", "DURABLE"}}[i]
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				next, frames, err := since(conn, "ALL", r.at, options...)
				if err != nil {
					r.err = err
					return
				}
				for j, f := range frames {
					if f.offset != r.at.offset+int64(j) {
						r.err = fmt.Errorf("frame %d where %d was due", f.offset, r.at.offset+int64(j))
						return
					}
				}
				r.at, r.frames = next, r.frames+len(frames)
				if r.frames == writes {
					return
				}
				select {
				case <-stop:
					if len(frames) == 0 {
						return
					}
				default:
				}
			}
		}()
	}
	slow := s.Conn(t)
	if _, frames, err := since(slow, "ALL", start, "BLOCK", "1"); err != nil || len(frames) != 0 {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
	most, mostOnDisk := int64(0), int64(0)
	const batch = 500
	began := time.Now()
	for n := 0; n < writes; n += batch {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / perSecond)))
		cmds = cmds[:0]
		for i := range batch {
			cmds = append(cmds, []string{"SET", "k" + strconv.Itoa((n+i)%keys), fmt.Sprintf("%0*d", value, n+i)})
		}
		pipeline(t, c, cmds...)
		if n%(4*batch) == 0 {
			most = max(most, residentBytes(t, s.PID()))
			mostOnDisk = max(mostOnDisk, directoryBytes(t, s.Dir))
		}
	}
	time.AfterFunc(10*time.Second, func() { close(stop) })
	wg.Wait()
	for i, r := range readers {
		if r.err != nil || r.frames != writes {
			t.Errorf("consumer %d read %d frames of %d, %v", i, r.frames, writes, r.err)
		}
	}
	_, _, err := since(slow, "ALL", start)
	var re *resync
	if !errors.As(err, &re) || re.reason() != "evicted" {
		t.Fatalf("the consumer that did not read: %v", err)
	}
	// What it is told is where it can go on.
	words := strings.Fields(re.text)
	if len(words) != 6 {
		t.Fatalf("resync: %q", re.text)
	}
	oldest := position(t, c, "OLDEST", "ALL")
	if fmt.Sprint(oldest.args()) != fmt.Sprint(words[3:5]) || oldest.offset <= start.offset {
		t.Errorf("resync says that %v is the oldest, OLDEST says %v", words[3:5], oldest)
	}
	if _, frames, err := caughtUp(slow, "ALL", oldest); err != nil || len(frames) == 0 {
		t.Errorf("from the oldest on: %d frames, %v", len(frames), err)
	}
	// The data twice while a rewrite runs, the log until the next rewrite, what is kept for readers, and what
	// comes in the two seconds that may pass until a rewrite is begun and what it replaces is let go.
	const entry = value + 100
	const limit = 3*keys*entry + (2 << 20) + retention + 2*perSecond*entry
	if mostOnDisk > limit {
		t.Errorf("%.1f MiB on disk, with %.1f MiB configured", float64(mostOnDisk)/(1<<20), float64(limit)/(1<<20))
	}
	if written := int64(writes * entry); written < limit*5/4 {
		t.Errorf("%d bytes were written, which shows nothing of a limit of %d", written, limit)
	}
	if grown := most - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	t.Logf("%d MiB of writes; %.1f MiB on disk at most, memory grew by %.1f MiB", writes*value>>20, float64(mostOnDisk)/(1<<20), float64(most-before)/(1<<20))
}

// residentBytes is the memory that a process occupies.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	text := readFile(t, fmt.Sprintf("/proc/%d/status", pid))
	_, rest, ok := strings.Cut(text, "VmRSS:")
	if !ok {
		t.Skip("no VmRSS in /proc")
	}
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// directoryBytes is what the files under a directory hold. Files come and go meanwhile.
func directoryBytes(t *testing.T, dir string) int64 {
	t.Helper()
	total := int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}
