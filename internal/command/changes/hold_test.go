package changes_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestHold(t *testing.T) {
	dial := serve(t)
	for _, proto := range []string{"2", "3"} {
		c := dial()
		do(t, c, "HELLO "+proto)
		do(t, c, "MSET a 1 b 2 c 3")
		g := generation(t, c, "ALL")
		next := string(do(t, c, "CHANGES TAIL ALL").Elems[1].Text)
		check(t, c, g, "CHANGES HOLD LIST", "[]")
		check(t, c, g, "CHANGES HOLD SET search:eu ALL $G 1 EPOCH 4", "+OK")
		check(t, c, g, "CHANGES HOLD SET search:eu ALL $G 2 EPOCH 3", "-HOLDSTALE 4")
		check(t, c, g, "CHANGES HOLD SET search:eu ALL $G 2", "-HOLDSTALE 4")
		check(t, c, g, "changes hold set search:eu all $G 2 epoch 5", "+OK")
		shard := generation(t, c, "1")
		check(t, c, shard, "CHANGES HOLD SET search:eu 1 $G 0 EPOCH 5", "+OK")
		list := do(t, c, "CHANGES HOLD LIST").String()
		pattern := regexp.MustCompile(`"name", "search:eu", "stream", "ALL", "at", \[:` + g + `, :2\], "epoch", :5, "moved-ms", :1[0-9]{12}, ` +
			`"lag-frames", :([0-9]+), "lag-bytes", :[1-9][0-9]*, "lag-seconds", [,"0-9.]+, "broken", ([$]nil|_)`)
		found := pattern.FindStringSubmatch(strings.NewReplacer("=>", ",", ": ", ", ").Replace(list))
		if found == nil {
			t.Errorf("HOLD LIST: %s", list)
		} else if want := next; found[1] != fmt.Sprint(atoi(t, want)-2) {
			t.Errorf("HOLD LIST: %s frames behind, and %s is next", found[1], next)
		}
		if info := do(t, c, "CHANGES INFO 1").String(); strings.Count(info, `"search:eu"`) != 1 {
			t.Errorf("CHANGES INFO: %s", info)
		}
		check(t, c, g, "CHANGES HOLD DEL search:eu 1", ":1")
		check(t, c, g, "CHANGES HOLD DEL search:eu", ":1")
		check(t, c, g, "CHANGES HOLD DEL search:eu", ":0")
		for line, want := range map[string]string{
			"CHANGES HOLD SET c ALL $G 999999":     "-ERR feed cursor ahead of stream",
			"CHANGES HOLD SET c 9 $G 0":            "-ERR no such stream '9'",
			"CHANGES HOLD SET c ALL $G x":          "-ERR value is not an integer or out of range",
			"CHANGES HOLD SET c ALL $G 0 EPOCH x":  "-ERR value is not an integer or out of range",
			"CHANGES HOLD SET c ALL $G 0 EPOCH -1": "-ERR value is not an integer or out of range",
			"CHANGES HOLD SET c ALL $G 0 EPOC 1":   "-ERR syntax error",
			"CHANGES HOLD DEL c 9":                 "-ERR no such stream '9'",
			"CHANGES HOLD":                         "-ERR wrong number of arguments for 'changes|hold' command",
			"CHANGES WAIT ALL $G 0 -1":             "-ERR timeout is negative",
			"CHANGES WAIT ALL $G 0 x":              "-ERR value is not an integer or out of range",
			"CHANGES WAIT ALL $G 0 1 HOLD":         "-ERR syntax error",
			"CHANGES WAIT ALL $G 0 1 HOLE c":       "-ERR syntax error",
			"CHANGES WAIT ALL $G 0 1 HOLD c d":     "-ERR syntax error",
			"CHANGES WAIT ALL $G 0 1 HOLD c":       "-ERR no such hold 'c' on stream ALL",
			"CHANGES AT ALL x":                     "-ERR value is not an integer or out of range",
			"CHANGES AT 9 0":                       "-ERR no such stream '9'",
		} {
			check(t, c, g, line, want)
		}
		for _, line := range []string{"CHANGES HOLD LIST c", "CHANGES HOLD SET c ALL " + g, "CHANGES HOLD DROP c"} {
			if r := do(t, c, line).String(); !strings.HasPrefix(r, "-ERR CHANGES HOLD is followed by SET ") {
				t.Errorf("%s: %s", line, r)
			}
		}
		do(t, c, "MULTI")
		if r := do(t, c, "CHANGES HOLD LIST").String(); !strings.Contains(r, "not allowed in transactions") && !strings.Contains(r, "not allowed") {
			t.Errorf("in MULTI: %s", r)
		}
		do(t, c, "DISCARD")
	}
	memory := serve(t, "--appendonly", "no")()
	g := generation(t, memory, "ALL")
	check(t, memory, g, "CHANGES HOLD SET c ALL $G 0", "-ERR HOLD needs a log")
	check(t, memory, g, "CHANGES WAIT ALL $G 0 5 HOLD c", "-ERR HOLD needs a log")
	check(t, memory, g, "CHANGES AT ALL 0", "[:$G, :0]")
}

func atoi(t *testing.T, s string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// LAST and WAIT together are read your writes, here and through a consumer.
func TestWait(t *testing.T) {
	dial := serve(t)
	writer, waiter, consumer := dial(), dial(), dial()
	do(t, writer, "SET k v")
	g := generation(t, writer, "ALL")
	check(t, consumer, g, "CHANGES HOLD SET index ALL $G 0", "+OK")
	last := do(t, writer, "CHANGES LAST")
	all := last.Elems[len(last.Elems)-1].Elems
	at := string(all[1].Text) + " " + string(all[2].Text)
	check(t, waiter, g, "CHANGES WAIT ALL "+at+" 10000", ":1")
	began := time.Now()
	check(t, waiter, g, "CHANGES WAIT ALL "+at+" 50 HOLD index", ":0")
	check(t, waiter, g, "CHANGES WAIT ALL $G 2 50", ":0")
	if took := time.Since(began); took < 100*time.Millisecond || took > 5*time.Second {
		t.Errorf("two waits of 50 ms took %v", took)
	}
	blocked := func(n int) {
		t.Helper()
		waitFor(t, func() bool {
			return strings.Contains(string(do(t, writer, "INFO clients").Text), fmt.Sprintf("blocked_clients:%d\r\n", n))
		})
	}
	for _, c := range []struct{ wait, then string }{
		{"CHANGES WAIT ALL " + at + " 0 HOLD index", "CHANGES HOLD SET index ALL " + at},
		{"CHANGES WAIT ALL " + g + " 2 0", "SET k w"},
	} {
		if err := waiter.Send(strings.Fields(c.wait)...); err != nil {
			t.Fatal(err)
		}
		blocked(1)
		do(t, consumer, c.then)
		if r, err := waiter.ReadReply(); err != nil || r.String() != ":1" {
			t.Errorf("%s: %v %v", c.wait, r, err)
		}
		blocked(0)
	}
	// Inside MULTI nothing waits.
	do(t, waiter, "MULTI")
	do(t, waiter, "CHANGES WAIT ALL "+g+" 2 0")
	do(t, waiter, "CHANGES WAIT ALL "+g+" 3 0")
	check(t, waiter, g, "EXEC", "[:1, :0]")
	// One who hangs up is noticed.
	if err := waiter.Send("CHANGES", "WAIT", "ALL", g, "9", "0"); err != nil {
		t.Fatal(err)
	}
	blocked(1)
	waiter.Close()
	blocked(0)
}

func TestAt(t *testing.T) {
	c := serve(t)()
	g := generation(t, c, "ALL")
	for range 3 {
		do(t, c, "SET k v")
		time.Sleep(5 * time.Millisecond)
	}
	frames := do(t, c, "CHANGES SINCE ALL "+g+" 0 META").Elems[2].Elems
	for i, f := range frames {
		ms := string(f.Elems[2].Elems[1].Text)
		first := i
		for first > 0 && string(frames[first-1].Elems[2].Elems[1].Text) == ms {
			first--
		}
		check(t, c, g, "CHANGES AT ALL "+ms, fmt.Sprintf("[:$G, :%d]", first))
	}
	check(t, c, g, "CHANGES AT ALL 0", "[:$G, :0]")
	check(t, c, g, "CHANGES AT all -5", "[:$G, :0]")
	check(t, c, g, "CHANGES AT ALL 9999999999999", "[:$G, :3]")
}
