package cases

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// TestResumeAfterKill reads, kills the server with SIGKILL after acknowledged writes, and goes on: every
// acknowledged write comes, once and in order, or the answer is a resync; never silence.
func TestResumeAfterKill(t *testing.T) {
	b := subject(t, "has no feed")
	for _, policy := range []string{"always", "everysec", "no"} {
		t.Run(policy, func(t *testing.T) {
			args := []string{"--appendfsync", policy, "--shards", "4"}
			s := process.Start(t, b, process.Config{Args: args})
			c := s.Conn(t)
			streams := []string{"ALL", "0", "1", "2", "3"}
			type reader struct {
				stream  string
				options []string
				at      cursor
				seen    []string
				err     error
			}
			var readers []*reader
			for _, stream := range streams {
				start := position(t, c, "TAIL", stream)
				for _, options := range [][]string{nil, {"DURABLE"}} {
					// One that never read, one that reads half, one that reads to the tail.
					for range 3 {
						readers = append(readers, &reader{stream: stream, options: options, at: start})
					}
				}
			}
			n := 0
			write := func(count int) {
				var cmds [][]string
				for range count {
					cmds = append(cmds, []string{"SET", "key:" + strconv.Itoa(n), "value"})
					n++
				}
				pipeline(t, c, cmds...)
			}
			for round := range 4 {
				write(100)
				for i, r := range readers {
					var frames []frame
					switch i % 3 {
					case 1:
						r.at, frames, r.err = since(c, r.stream, r.at, append([]string{"COUNT", "40"}, r.options...)...)
					case 2:
						r.at, frames, r.err = caughtUp(c, r.stream, r.at, r.options...)
					}
					if r.err != nil {
						t.Fatalf("round %d, %s %v: %v", round, r.stream, r.options, r.err)
					}
					r.seen = append(r.seen, texts(frames)...)
				}
				write(1 + 50*round)
				s.Kill()
				s = process.Start(t, b, process.Config{Dir: s.Dir, Args: args})
				c = s.Conn(t)
			}
			// What each stream must have shown is split by where its keys are.
			everything := map[string]int{}
			for _, r := range readers {
				start := time.Now()
				var frames []frame
				r.at, frames, r.err = caughtUp(c, r.stream, r.at, append([]string{"BLOCK", "1"}, r.options...)...)
				r.seen = append(r.seen, texts(frames)...)
				var re *resync
				if errors.As(r.err, &re) {
					// Nothing that was acknowledged is lost by a kill, so nobody saw what is gone.
					t.Errorf("%s %v: %v", r.stream, r.options, re)
					continue
				}
				if r.err != nil || time.Since(start) > 10*time.Second {
					t.Fatalf("%s %v: %v after %v", r.stream, r.options, r.err, time.Since(start))
				}
				last := -1
				for _, text := range r.seen {
					var k int
					if _, err := fmt.Sscanf(text, "SET key:%d value", &k); err != nil || k <= last {
						t.Fatalf("%s %v: %q follows key %d", r.stream, r.options, text, last)
					}
					last = k
				}
				if before, ok := everything[r.stream]; ok && before != len(r.seen) {
					t.Errorf("%s %v: %d frames, another reader of it saw %d", r.stream, r.options, len(r.seen), before)
				}
				everything[r.stream] = len(r.seen)
			}
			if sum := everything["0"] + everything["1"] + everything["2"] + everything["3"]; everything["ALL"] != n || sum != n {
				t.Errorf("%d writes were acknowledged; ALL showed %d, the shards %d", n, everything["ALL"], sum)
			}
		})
	}
}

// TestForeignCursors hands a server cursors that it never gave: of the future, of another stream, of another
// server, of a copy of its own directory. Each is an error at once, also when the reader would wait.
func TestForeignCursors(t *testing.T) {
	b := subject(t, "has no feed")
	s := process.Start(t, b, process.Config{})
	c := s.Conn(t)
	for i := range 10 {
		do(t, c, "SET", fmt.Sprintf("k%d", i), "v")
	}
	tail := position(t, c, "TAIL", "ALL")
	other := process.Start(t, b, process.Config{})
	o := other.Conn(t)
	do(t, o, "SET", "k", "v")
	// A copy of a directory that was closed cleanly is another history, whichever of the two is opened first.
	s.Stop(t)
	copied := copyDir(t, s.Dir)
	s = process.Start(t, b, process.Config{Dir: s.Dir})
	c = s.Conn(t)
	if now := position(t, c, "TAIL", "ALL"); now != tail {
		t.Fatalf("the tail is %v after a clean close, was %v", now, tail)
	}
	twin := process.Start(t, b, process.Config{Dir: copied})
	w := twin.Conn(t)
	do(t, c, "SET", "only", "here")
	do(t, w, "SET", "only", "there")
	do(t, w, "SET", "and", "more")
	here := position(t, c, "TAIL", "ALL")
	there := position(t, w, "TAIL", "ALL")
	if here.generation == there.generation {
		t.Error("a directory and its copy go on in one generation")
	}
	const ahead = "ERR feed cursor ahead of stream"
	for _, tc := range []struct {
		name   string
		conn   *wire.Conn
		stream string
		at     cursor
		want   string
	}{
		{"one ahead", c, "ALL", cursor{here.generation, here.offset + 1}, ahead},
		{"far ahead", c, "ALL", cursor{here.generation, 1<<53 - 1}, ahead},
		{"furthest", c, "ALL", cursor{here.generation, 1<<63 - 1}, ahead},
		{"a later generation", c, "ALL", cursor{here.generation + 100, 0}, "FEEDRESYNC"},
		{"the largest generation", c, "ALL", cursor{1<<63 - 1, 0}, "FEEDRESYNC"},
		{"generation 0", c, "ALL", cursor{0, 0}, "FEEDRESYNC"},
		{"of another stream", c, "0", here, "FEEDRESYNC"},
		{"of a shard in ALL", c, "ALL", position(t, c, "TAIL", "0"), "FEEDRESYNC"},
		{"of another server", c, "ALL", position(t, o, "TAIL", "ALL"), "FEEDRESYNC"},
		{"at another server", o, "ALL", here, "FEEDRESYNC"},
		{"of the copy", c, "ALL", there, "FEEDRESYNC"},
		{"at the copy, beyond what was copied", w, "ALL", here, "FEEDRESYNC"},
	} {
		for _, options := range [][]string{nil, {"BLOCK", "10000"}, {"BLOCK", "0", "DURABLE", "PREFIX", "x"}} {
			start := time.Now()
			_, frames, err := since(tc.conn, tc.stream, tc.at, options...)
			if err == nil || err.Error() != tc.want && !strings.HasPrefix(err.Error(), tc.want+" ") {
				t.Errorf("%s %v: %v, %v; want %s", tc.name, options, frames, err, tc.want)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("%s %v: answered after %v", tc.name, options, took)
			}
		}
	}
	// What the copy shares with the original is not lost to its readers.
	if _, frames, err := caughtUp(w, "ALL", cursor{tail.generation, 5}); err != nil || len(frames) != 7 {
		t.Errorf("a cursor of before the copy, at the copy: %q, %v", texts(frames), err)
	}
}

// TestCursorKnowsNoFilter changes the filters of a reader between its calls: a cursor is a place in the
// stream, and what follows it is what the new filter lets through.
func TestCursorKnowsNoFilter(t *testing.T) {
	b := subject(t, "has no feed")
	rng := random(t)
	s := process.Start(t, b, process.Config{Args: []string{"--feed-backlog-bytes", "64kb"}})
	c := s.Conn(t)
	start := position(t, c, "TAIL", "ALL")
	prefixes := []string{"a:", "b:", "c:"}
	var cmds [][]string
	for i := range 2000 {
		key := func() string { return prefixes[rng.IntN(3)] + strconv.Itoa(rng.IntN(50)) }
		switch rng.IntN(4) {
		case 0:
			cmds = append(cmds, []string{"MSET", key(), strconv.Itoa(i), key(), strconv.Itoa(i), key(), strconv.Itoa(i)})
		case 1:
			cmds = append(cmds, []string{"DEL", key(), key()})
		default:
			cmds = append(cmds, []string{"SET", key(), strconv.Itoa(i)})
		}
	}
	pipeline(t, c, cmds...)
	_, all, err := caughtUp(c, "ALL", start, "META", "DB", "*")
	if err != nil || len(all) < 2000 {
		t.Fatalf("%d frames, %v", len(all), err)
	}
	filters := []struct {
		options []string
		passes  func(key string) bool
	}{
		{nil, func(string) bool { return true }},
		{[]string{"PREFIX", "a:"}, func(k string) bool { return k[0] == 'a' }},
		{[]string{"PREFIX", "b:", "PREFIX", "c:"}, func(k string) bool { return k[0] != 'a' }},
		{[]string{"MATCH", "*:1?"}, func(k string) bool { return len(k) == 4 && k[2] == '1' }},
		{[]string{"PREFIX", "a:4", "MATCH", "[bc]:7"}, func(k string) bool { return strings.HasPrefix(k, "a:4") || k == "b:7" || k == "c:7" }},
		{[]string{"MATCH", "a:1*", "PREFIX", "b:2"}, func(k string) bool { return strings.HasPrefix(k, "a:1") || strings.HasPrefix(k, "b:2") }},
	}
	calls := 0
	for range 30 {
		at, i := start, 0
		for {
			f := filters[rng.IntN(len(filters))]
			if rng.IntN(10) == 0 {
				// The cursor outlives the connection, too.
				c.Close()
				c = s.Conn(t)
			}
			options := append([]string{"COUNT", strconv.Itoa(1 + rng.IntN(60)), "META"}, f.options...)
			next, frames, err := since(c, "ALL", at, options...)
			if err != nil {
				t.Fatal(err)
			}
			if next == at && len(frames) == 0 {
				break
			}
			var want []string
			end := i
			for ; end < len(all) && all[end].offset < next.offset; end++ {
				if f.passes(all[end].args[1]) {
					want = append(want, fmt.Sprint(all[end]))
				}
			}
			if got := texts(frames); !slices.Equal(got, want) {
				t.Fatalf("from %v to %v with %v: %q, want %q", at, next, f.options, got, want)
			}
			at, i = next, end
			calls++
		}
		if i != len(all) {
			t.Fatalf("the reader has seen %d of %d frames", i, len(all))
		}
	}
	if calls < 300 {
		t.Errorf("%d calls show little", calls)
	}
}
