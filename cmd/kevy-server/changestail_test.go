package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kevy/changes"
	"kevy/internal/pipe"
)

func TestStatusLine(t *testing.T) {
	at := changes.Cursor{Generation: 7, Offset: 5}
	for want, s := range map[string]changes.StreamStatus{
		"1,234 frames  40/s  up to date  at 7:5":                     {State: changes.Reading, Cursor: at},
		"1,234 frames  40/s  12,000 frames behind, 1.5s  at 7:5":     {State: changes.Reading, Cursor: at, LagFrames: 12_000, Lag: 1500 * time.Millisecond},
		"1,234 frames  40/s  at 7:5":                                 {State: changes.Reading, Cursor: at, LagFrames: -1},
		"1,234 frames  40/s  connecting: connection refused  at 7:5": {State: changes.Connecting, Cursor: at, LastError: errors.New("connection refused")},
		"1,234 frames  40/s  connecting":                             {State: changes.Connecting},
	} {
		if got := statusText(changes.Status{Streams: []changes.StreamStatus{s}}, 1234, []uint64{10, 10, 10, 10}); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// TestStatusLineMakesRoom has frames and lines of the log between status lines:
// none stands on the line of another.
func TestStatusLineMakesRoom(t *testing.T) {
	var screen bytes.Buffer
	tail := &tail{out: &screen, status: &screen, format: pipe.Text(true)}
	show := func() {
		tail.mu.Lock()
		defer tail.mu.Unlock()
		screen.WriteString(clearLine + "status")
		tail.shown = true
	}
	show()
	c := &changes.Commit{Stream: "ALL", Generation: 7, First: 5, Last: 5, Next: changes.Cursor{Generation: 7, Offset: 6},
		Frames: []changes.Frame{{Offset: 5, Time: time.UnixMilli(1000), Cause: changes.Expired, Args: [][]byte{[]byte("DEL"), []byte("k")}}}}
	if err := tail.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	show()
	fmt.Fprintln(tail.logTo(&screen), "log")
	for line := range strings.Lines(screen.String()) {
		rest := line[strings.LastIndex(line, clearLine)+len(clearLine):]
		if strings.Contains(rest, "status") {
			t.Errorf("the status stays in %q", line)
		}
	}
	if want := "\x1b[31mDEL\x1b[0m k \x1b[33m(expired)\x1b[0m\n"; !strings.Contains(screen.String(), want) {
		t.Errorf("%q is not in %q", want, screen.String())
	}
}
