package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// maxGeneration keeps generations whole in clients whose numbers are doubles.
const maxGeneration = 1 << 53

// TestFlushAllLineage follows a reader over FLUSHALL: it gets everything up to and with FLUSHALL in the old
// generation, is moved to the start of the next one, and an old cursor stays good over both kinds of restart.
func TestFlushAllLineage(t *testing.T) {
	b := subject(t, "has no feed")
	const shards = 4
	s := process.Start(t, b, process.Config{Args: []string{"--shards", strconv.Itoa(shards), "--appendfsync", "always"}})
	c := s.Conn(t)
	streams := []string{"0", "1", "2", "3", "ALL"}
	start := map[string]cursor{}
	for i, stream := range streams {
		at, err := position(c, "TAIL", stream)
		if err != nil {
			t.Fatal(err)
		}
		start[stream] = at
		if at.generation <= 0 || at.generation >= maxGeneration {
			t.Errorf("stream %s has generation %d", stream, at.generation)
		}
		// Every stream has a number of its own, so that a cursor in the wrong stream is refused.
		if want := start["0"].generation + int64(i); at.generation != want {
			t.Errorf("stream %s has generation %d, want %d", stream, at.generation, want)
		}
	}
	for i := range 20 {
		do(t, c, "SET", fmt.Sprintf("a%d", i), "1")
	}
	do(t, c, "FLUSHALL")
	for i := range 10 {
		do(t, c, "SET", fmt.Sprintf("b%d", i), "2")
	}
	// Two in one commit are one bump.
	for _, cmd := range []string{"MULTI", "FLUSHALL", "FLUSHALL", "EXEC"} {
		do(t, c, cmd)
	}
	do(t, c, "SET", "c", "3")

	check := func(t *testing.T, c *wire.Conn, when string) {
		t.Helper()
		for _, stream := range streams {
			r := &consumer{stream: stream, at: start[stream], ledger: newLedger()}
			var seen []string
			generations := []int64{r.at.generation}
			for {
				frames, moved, err := readFrames(r, c)
				if err != nil {
					t.Fatalf("%s, stream %s at %s: %v", when, stream, r.at, err)
				}
				seen = append(seen, frames...)
				if g := r.at.generation; g != generations[len(generations)-1] {
					// The first two ended with a FLUSHALL, a third one with a crash.
					if last := seen[len(seen)-1]; len(generations) < 3 && last != "FLUSHALL" {
						t.Errorf("%s, stream %s: a generation ends with %s", when, stream, last)
					}
					generations = append(generations, g)
				}
				if !moved {
					break
				}
			}
			if len(generations) < 3 || generations[1] <= generations[0] || generations[2] <= generations[1] {
				t.Errorf("%s, stream %s: generations %v", when, stream, generations)
			}
			if stream == "ALL" {
				text := strings.Join(seen, " ")
				if strings.Count(text, "SET") != 31 || !strings.HasSuffix(text, "FLUSHALL SET") {
					t.Errorf("%s: the reader of ALL saw %s", when, text)
				}
			}
		}
	}
	check(t, c, "live")
	tail, err := position(c, "TAIL", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	s.Stop(t)
	s = process.Start(t, b, process.Config{Dir: s.Dir})
	c = s.Conn(t)
	if now, err := position(c, "TAIL", "ALL"); err != nil || now != tail {
		t.Errorf("the tail is %s after a clean close, was %s, %v", now, tail, err)
	}
	check(t, c, "after a clean close")
	s.Kill()
	s = process.Start(t, b, process.Config{Dir: s.Dir})
	c = s.Conn(t)
	if now, err := position(c, "TAIL", "ALL"); err != nil || now.generation <= tail.generation || now.offset != 0 {
		t.Errorf("the tail is %s after kill -9, was %s, %v", now, tail, err)
	}
	check(t, c, "after kill -9")
	if n := do(t, c, "DBSIZE"); string(n.Text) != "1" {
		t.Errorf("DBSIZE is %s", n)
	}
}

// readFrames polls once and returns the verbs of what came.
func readFrames(r *consumer, c *wire.Conn) (verbs []string, moved bool, err error) {
	reply, err := c.Do("CHANGES", "SINCE", r.stream, strconv.FormatInt(r.at.generation, 10), strconv.FormatInt(r.at.offset, 10), "COUNT", "500", "META", "DB", "*")
	if err != nil {
		return nil, false, err
	}
	if len(reply.Elems) == 4 {
		for _, f := range reply.Elems[2].Elems {
			verbs = append(verbs, string(f.Elems[1].Elems[0].Text))
		}
	}
	moved, err = r.poll(c, 0)
	return verbs, moved, err
}

// TestCursorsThatCannotBeServed checks the errors for cursors that this history does not have.
func TestCursorsThatCannotBeServed(t *testing.T) {
	b := subject(t, "has no feed")
	s := process.Start(t, b, process.Config{})
	c := s.Conn(t)
	do(t, c, "SET", "k", "v")
	tail, err := position(c, "TAIL", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	shard, err := position(c, "TAIL", "0")
	if err != nil {
		t.Fatal(err)
	}
	text := func(args ...string) string {
		t.Helper()
		r, err := c.Do(args...)
		if err != nil {
			t.Fatal(err)
		}
		return r.String()
	}
	g, o := strconv.FormatInt(tail.generation, 10), strconv.FormatInt(tail.offset, 10)
	resync := fmt.Sprintf("-FEEDRESYNC %s %s ", g, o)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"CHANGES", "SINCE", "ALL", g, strconv.FormatInt(tail.offset+1, 10)}, "-ERR feed cursor ahead of stream"},
		{[]string{"CHANGES", "SINCE", "ALL", g, "9007199254740991"}, "-ERR feed cursor ahead of stream"},
		{[]string{"CHANGES", "SINCE", "ALL", "1", "0"}, resync},
		{[]string{"CHANGES", "SINCE", "ALL", strconv.FormatInt(shard.generation, 10), "0"}, resync},
		{[]string{"CHANGES", "SINCE", "nosuch", g, "0"}, "-ERR no such stream 'nosuch'"},
		{[]string{"CHANGES", "SINCE", "99", g, "0"}, "-ERR no such stream '99'"},
		{[]string{"CHANGES", "GET", "ALL", g, o}, fmt.Sprintf("-FEEDNOTFOUND %s %s", g, o)},
		{[]string{"CHANGES", "SINCE", "ALL", g, "0", "DB", "*"}, "-ERR invalid filter: "},
		{[]string{"FEED.READ", "0", "1", "0"}, fmt.Sprintf("-FEEDRESYNC %d %d", shard.generation, shard.offset)},
	} {
		if got := text(tc.args...); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%v: %s, want %s…", tc.args, got, tc.want)
		}
	}
	for _, bad := range [][]string{{"CHANGES", "SINCE", "ALL", g}, {"CHANGES", "SINCE", "ALL", "x", "0"}, {"CHANGES", "SINCE", "ALL", g, "-1"}, {"CHANGES", "NOSUCH"}} {
		if got := text(bad...); !strings.HasPrefix(got, "-ERR") {
			t.Errorf("%v: %s", bad, got)
		}
	}
	unknown := text("CHANGES", "SINCE", "ALL", "1", "0")
	if !strings.HasSuffix(unknown, " generation") {
		t.Errorf("an unknown generation: %s", unknown)
	}
}
