package hostile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

const (
	mib = 1 << 20
	// answerWithin is how long another client may wait while a hostile one is at work.
	answerWithin = 100 * time.Millisecond
	// slackBytes is what the server may take beyond what clients have in flight.
	slackBytes = 64 * mib
	// returnWithin is how long memory may take to come back.
	returnWithin = 30 * time.Second
)

// watch looks at a server from the side while something hostile is done to it: it asks every few
// milliseconds and follows the memory.
type watch struct {
	server, control *process.Server
	base            int64         // resident bytes before
	within          time.Duration // in which others are to be answered
	stop            chan struct{}
	done            sync.WaitGroup

	worst  time.Duration // beyond what the control took; valid after end
	probes int
	late   int // probes beyond within
	err    error
}

// newWatch starts a server with a thousand keys and begins to watch it.
func newWatch(t *testing.T, cfg process.Config) *watch {
	t.Helper()
	return newWatchWithin(t, cfg, answerWithin)
}

// newWatchWithin is newWatch for what may keep others waiting for some time.
func newWatchWithin(t *testing.T, cfg process.Config, within time.Duration) *watch {
	t.Helper()
	b := process.Subject(t)
	w := &watch{
		within: within,
		server: process.Start(t, b, cfg),
		// An idle server of the same kind, asked at the same moments, shows what this machine adds.
		control: process.Start(t, b, process.Config{Args: []string{"--appendonly", "no"}}),
		stop:    make(chan struct{}),
	}
	c := w.server.Conn(t)
	for i := range 1000 {
		if r, err := c.Do("SET", fmt.Sprintf("key%d", i), "value"); err != nil || r.IsError("") {
			t.Fatalf("SET: %s, %v", r, err)
		}
	}
	c.Close()
	time.Sleep(200 * time.Millisecond)
	w.base = w.memory(t, "VmRSS")
	// The peak is counted from here.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", w.server.PID()), []byte("5"), 0); err != nil {
		t.Logf("the peak counts from the start of the process: %v", err)
	}
	probe, control := w.server.Conn(t), w.control.Conn(t)
	w.done.Add(1)
	go func() {
		defer w.done.Done()
		w.err = w.probe(probe, control)
	}()
	return w
}

func (w *watch) probe(probe, control *wire.Conn) error {
	for i := 0; ; i++ {
		select {
		case <-w.stop:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
		args := []string{"PING"}
		if i%2 == 1 {
			args = []string{"GET", "key1"}
		}
		took := make(chan time.Duration, 1)
		go func() {
			start := time.Now()
			control.SetDeadline(start.Add(30 * time.Second))
			control.Do("PING")
			took <- time.Since(start)
		}()
		start := time.Now()
		probe.SetDeadline(start.Add(30 * time.Second))
		r, err := probe.Do(args...)
		d := time.Since(start)
		c := <-took
		if err != nil || r.IsError("") {
			return fmt.Errorf("another client's %s: %s, %v", args[0], r, err)
		}
		w.worst = max(w.worst, d-c)
		w.probes++
		if d-c > w.within {
			w.late++
		}
	}
}

// memory reads a line of the process's status, in bytes.
func (w *watch) memory(t testing.TB, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.server.PID()))
	if err != nil {
		t.Fatalf("the server has ended: %v\n%s", err, w.server.Log())
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s in the status of the process", field)
	return 0
}

// end checks what was seen meanwhile. inFlight is how many bytes clients could rightly have had in the server.
func (w *watch) end(t *testing.T, inFlight int64) {
	t.Helper()
	close(w.stop)
	w.done.Wait()
	peak := w.memory(t, "VmHWM") - w.base
	t.Logf("others were answered within %v (%d probes); memory rose by %d MiB at the peak, with %d MiB in flight", w.worst.Round(time.Millisecond), w.probes, peak/mib, inFlight/mib)
	if w.err != nil {
		t.Error(w.err)
	}
	if w.probes == 0 {
		t.Error("nobody else was asked meanwhile")
	}
	// One in a hundred may be the doing of whatever else runs on this machine.
	if w.late > max(1, w.probes/100) {
		t.Errorf("%d of %d times another client waited more than %v longer than on an idle server, at worst %v", w.late, w.probes, w.within, w.worst)
	}
	if !w.server.Redis && peak > inFlight+slackBytes {
		t.Errorf("memory rose by %d MiB, more than the %d MiB in flight and %d MiB", peak/mib, inFlight/mib, int64(slackBytes/mib))
	}
}

// returned waits until the memory has come back.
func (w *watch) returned(t *testing.T) {
	t.Helper()
	start := time.Now()
	for {
		now := w.memory(t, "VmRSS") - w.base
		if now <= slackBytes {
			t.Logf("%v later memory stands %d MiB above where it was", time.Since(start).Round(100*time.Millisecond), now/mib)
			return
		}
		if time.Since(start) > returnWithin {
			t.Errorf("%v later memory still stands %d MiB above where it was", returnWithin, now/mib)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// alive makes sure that the same process still serves new clients.
func (w *watch) alive(t *testing.T) {
	t.Helper()
	c, err := wire.Dial(w.server.Addr())
	if err != nil {
		t.Fatalf("no new client is accepted: %v", err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if r, err := c.Do("GET", "key999"); err != nil || string(r.Text) != "value" {
		t.Errorf("GET key999: %s, %v", r, err)
	}
	if r, err := c.Do("SET", "key1", "value"); err != nil || string(r.Text) != "OK" {
		t.Errorf("SET: %s, %v", r, err)
	}
}
