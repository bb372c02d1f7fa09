package changes_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"kevy/internal/config"
	"kevy/internal/server"
	"kevy/tests/wire"
)

// serve starts a server in process and returns what dials it.
func serve(t *testing.T, args ...string) func() *wire.Conn {
	t.Helper()
	cfg, err := config.Load(append([]string{"--port", "0", "--dir", t.TempDir(), "--shards", "4"}, args...), strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, cfg, slog.New(slog.DiscardHandler), func(a string) { addr <- a })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-addr:
		return func() *wire.Conn {
			c, err := wire.Dial(a)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return nil
}

func do(t *testing.T, c *wire.Conn, line string) wire.Reply {
	t.Helper()
	r, err := c.Do(strings.Fields(line)...)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r
}

var unixMs = regexp.MustCompile(`:1[0-9]{12}\b`)

// check sends a line in which $G stands for the generation and compares the
// reply, in which $G stands for it as well and T for a time.
func check(t *testing.T, c *wire.Conn, gen, line, want string) {
	t.Helper()
	got := do(t, c, strings.ReplaceAll(line, "$G", gen)).String()
	got = unixMs.ReplaceAllString(strings.ReplaceAll(got, gen, "$G"), ":T")
	if got != want {
		t.Errorf("%s\n got %s\nwant %s", line, got, want)
	}
}

// generation returns the current generation of a stream.
func generation(t *testing.T, c *wire.Conn, stream string) string {
	t.Helper()
	return string(do(t, c, "CHANGES TAIL "+stream).Elems[0].Text)
}

func TestReading(t *testing.T) {
	dial := serve(t)
	for _, proto := range []string{"2", "3"} {
		c := dial()
		do(t, c, "HELLO "+proto)
		do(t, c, "FLUSHALL")
		g := generation(t, c, "ALL")
		check(t, c, g, "CHANGES SHARDS", ":4")
		check(t, c, g, "CHANGES TAIL all", "[:$G, :0]")
		check(t, c, g, "CHANGES SINCE ALL $G 0", "[:$G, :0, []]")
		for _, line := range []string{"SET user:1 a", "MSET user:2 b other c", "DEL nosuch", "INCR n", "SET gone x PXAT 1", "GET gone"} {
			do(t, c, line)
		}
		check(t, c, g, "CHANGES SINCE ALL $G 0",
			`[:$G, :6, [[:0, ["SET", "user:1", "a"]], [:1, ["SET", "user:2", "b"]], [:2, ["SET", "other", "c"]], `+
				`[:3, ["SET", "n", "1", "KEEPTTL"]], [:4, ["SET", "gone", "x", "PXAT", "1"]], [:5, ["DEL", "gone"]]]]`)
		// A commit is never split: COUNT rounds up.
		check(t, c, g, "CHANGES SINCE ALL $G 0 COUNT 2", `[:$G, :3, [[:0, ["SET", "user:1", "a"]], [:1, ["SET", "user:2", "b"]], [:2, ["SET", "other", "c"]]]]`)
		check(t, c, g, "CHANGES SINCE ALL $G 2 COUNT 1", `[:$G, :3, [[:2, ["SET", "other", "c"]]]]`)
		check(t, c, g, "CHANGES SINCE ALL $G 0 BYTES 1", `[:$G, :1, [[:0, ["SET", "user:1", "a"]]]]`)
		check(t, c, g, "CHANGES SINCE ALL $G 0 PREFIX user:", `[:$G, :6, [[:0, ["SET", "user:1", "a"]], [:1, ["SET", "user:2", "b"]]]]`)
		check(t, c, g, "CHANGES SINCE ALL $G 0 MATCH *r:2 PREFIX oth", `[:$G, :6, [[:1, ["SET", "user:2", "b"]], [:2, ["SET", "other", "c"]]]]`)
		check(t, c, g, "CHANGES SINCE ALL $G 0 REGEX user: ^2 REGEX oth er", `[:$G, :6, [[:1, ["SET", "user:2", "b"]], [:2, ["SET", "other", "c"]]]]`)
		check(t, c, g, "CHANGES SINCE ALL $G 0 VALUE EXACT b PREFIX user: value regex ^[cx] MATCH other PREFIX user:2 PREFIX user",
			`[:$G, :6, [[:1, ["SET", "user:2", "b"]], [:2, ["SET", "other", "c"]]]]`)
		check(t, c, g, "CHANGES SINCE ALL $G 0 VALUE PREFIX 1", `[:$G, :6, [[:3, ["SET", "n", "1", "KEEPTTL"]], [:5, ["DEL", "gone"]]]]`)
		check(t, c, g, "CHANGES SINCE ALL $G 5 PREFIX nothing", `[:$G, :6, []]`)
		check(t, c, g, "CHANGES SINCE ALL $G 6", `[:$G, :6, []]`)
		check(t, c, g, "CHANGES GET ALL $G 2", `[:1, :2, [[:1, ["SET", "user:2", "b"]], [:2, ["SET", "other", "c"]]]]`)
		meta := do(t, c, "CHANGES SINCE ALL "+g+" 4 META")
		if len(meta.Elems) != 4 || len(meta.Elems[2].Elems) != 2 {
			t.Fatalf("META: %s", meta)
		}
		facts := meta.Elems[2].Elems[1].Elems[2].String()
		if !regexp.MustCompile(`^\[:\d+, :\d{13}, :0, :5, :5, "expired"\]$`).MatchString(facts) {
			t.Errorf("the facts of an expired key are %s", facts)
		}
		if lsn := meta.Elems[2].Elems[1].Elems[2].Elems[0].String(); lsn != meta.Elems[3].String() {
			t.Errorf("complete-lsn is %s, the last frame's %s", meta.Elems[3], lsn)
		}
		// Another database is seen under DB only.
		do(t, c, "SELECT 3")
		do(t, c, "SET elsewhere v")
		check(t, c, g, "CHANGES SINCE ALL $G 6", `[:$G, :7, [[:6, ["SET", "elsewhere", "v"]]]]`)
		check(t, c, g, "CHANGES SINCE ALL $G 6 DB 0", `[:$G, :7, []]`)
		do(t, c, "SELECT 0")
		check(t, c, g, "CHANGES SINCE ALL $G 6", `[:$G, :7, []]`)
		if r := do(t, c, "CHANGES SINCE ALL "+g+" 6 DB * META"); len(r.Elems) != 4 || len(r.Elems[2].Elems) != 1 {
			t.Errorf("DB *: %s", r)
		}
		do(t, c, "SWAPDB 3 4")
		check(t, c, g, "CHANGES SINCE ALL $G 7", `[:$G, :8, []]`)
		if r := do(t, c, "CHANGES SINCE ALL "+g+" 7 DB 3"); !strings.HasPrefix(r.String(), "-FEEDRESYNC ") || !strings.HasSuffix(r.String(), " swapdb") {
			t.Errorf("SWAPDB of the reader's database: %s", r)
		}
		// FLUSHALL is the last frame of its generation.
		do(t, c, "FLUSHALL")
		check(t, c, g, "CHANGES SINCE ALL $G 8", `[:$G, :9, [[:8, ["FLUSHALL"]]]]`)
		next := generation(t, c, "ALL")
		if r := do(t, c, "CHANGES SINCE ALL "+g+" 9").String(); r != "[:"+next+", :0, []]" || next == g {
			t.Errorf("at the end of a generation: %s, the next one is %s", r, next)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	dial := serve(t)
	c := dial()
	do(t, c, "SET k v")
	g := generation(t, c, "ALL")
	for line, want := range map[string]string{
		"CHANGES SINCE ALL $G 2":                              "-ERR feed cursor ahead of stream",
		"CHANGES SINCE ALL 7 0":                               "-FEEDRESYNC $G 1 $G 0 generation",
		"CHANGES SINCE x $G 0":                                "-ERR no such stream 'x'",
		"CHANGES SINCE 4 $G 0":                                "-ERR no such stream '4'",
		"CHANGES TAIL -1":                                     "-ERR no such stream '-1'",
		"CHANGES SINCE ALL $G x":                              "-ERR value is not an integer or out of range",
		"CHANGES SINCE ALL $G -1":                             "-ERR value is not an integer or out of range",
		"CHANGES SINCE ALL $G 0 COUNT":                        "-ERR syntax error",
		"CHANGES SINCE ALL $G 0 COUNT x":                      "-ERR value is not an integer or out of range",
		"CHANGES SINCE ALL $G 0 NOSUCH":                       "-ERR syntax error",
		"CHANGES SINCE ALL $G 0 VALUE":                        "-ERR syntax error",
		"CHANGES SINCE ALL $G 0 VALUE EXACT":                  "-ERR syntax error",
		"CHANGES SINCE ALL $G 0 VALUE LIKE x":                 "-ERR invalid filter: VALUE takes EXACT, PREFIX or REGEX",
		"CHANGES SINCE ALL $G 0 VALUE REGEX":                  "-ERR syntax error",
		"CHANGES SINCE ALL $G 0 VALUE REGEX a(":               "-ERR invalid filter: VALUE REGEX: missing closing ) at \\\"a(\\\"; the syntax is RE2's, as in Go",
		"CHANGES SINCE ALL $G 0 REGEX p":                      "-ERR syntax error",
		"CHANGES SINCE ALL $G 0 REGEX p [ COUNT x":            "-ERR value is not an integer or out of range",
		"CHANGES SINCE ALL $G 0 REGEX p \\x{100}":             `[:$G, :1, []]`,
		"CHANGES SINCE ALL $G 0 REGEX p \\x{100} BYTEMODE":    `-ERR invalid filter: REGEX: \"\\\\x{100}\" is no byte, and BYTEMODE matches bytes`,
		"CHANGES SINCE ALL $G 0 BYTEMODE REGEX k ^$ BYTEMODE": `[:$G, :1, [[:0, ["SET", "k", "v"]]]]`,
		"CHANGES SINCE ALL $G 0 BYTEMODE VALUE REGEX ^\\x76$": `[:$G, :1, [[:0, ["SET", "k", "v"]]]]`,
		"CHANGES SINCE ALL $G 0 VALUE REGEX \xff":             "-ERR invalid filter: VALUE REGEX is not UTF-8: bytes are matched with BYTEMODE",
		"CHANGES SINCE ALL $G 0 REGEX k x{500}x{500}":         "-ERR invalid filter: REGEX compiles to 1002 steps, at most 1000 are allowed: repeat less",
		"CHANGES SINCE ALL $G 0 DB *":                         "-ERR invalid filter: DB * needs META, which says each frame's database",
		"CHANGES SINCE ALL $G 0 DB 16":                        "-ERR DB index is out of range",
		"CHANGES SINCE ALL $G 0 BLOCK -1":                     "-ERR timeout is negative",
		"CHANGES SINCE ALL $G":                                "-ERR wrong number of arguments for 'changes|since' command",
		"CHANGES NOSUCH":                                      "-ERR unknown subcommand 'NOSUCH'. Try CHANGES HELP.",
		"CHANGES GET ALL $G 1":                                "-FEEDNOTFOUND $G 1",
		"CHANGES GET ALL 7 0":                                 "-FEEDRESYNC $G 1 $G 0 generation",
		"FEED.READ ALL $G 0":                                  "-ERR no such stream 'ALL'",
		"FEED.TAIL 9":                                         "-ERR no such stream '9'",
		"CHANGES LAST":                                        "",
		"CHANGES SINCE ALL $G 0 COUNT 100000":                 `[:$G, :1, [[:0, ["SET", "k", "v"]]]]`,
	} {
		if want != "" {
			check(t, c, g, line, want)
		}
	}
	for _, kind := range [][]string{
		{"PREFIX"}, {"MATCH"}, {"REGEX", "p"}, {"VALUE", "EXACT"}, {"VALUE", "PREFIX"}, {"VALUE", "REGEX"},
	} {
		args := []string{"CHANGES", "SINCE", "ALL", g, "0"}
		blank := append(append(args[:5:5], kind...), "")
		if r, err := c.Do(blank...); err != nil || !strings.HasPrefix(r.String(), "-ERR invalid filter: ") || !strings.HasSuffix(r.String(), " must not be empty") {
			t.Errorf("a blank %v: %v %v", kind, r, err)
		}
		for i := range 17 {
			args = append(append(args, kind...), fmt.Sprint(i))
		}
		if r, err := c.Do(args...); err != nil || !strings.HasPrefix(r.String(), "-ERR invalid filter: more than 16 ") {
			t.Errorf("17 of %v: %v %v", kind, r, err)
		}
	}
	off := serve(t, "--feed", "no")()
	for _, line := range []string{"CHANGES TAIL ALL", "CHANGES SINCE ALL 1 0", "CHANGES INFO", "FEED.SHARDS"} {
		check(t, off, "none", line, "-ERR feed is disabled")
	}
	memory := serve(t, "--appendonly", "no")()
	g = generation(t, memory, "ALL")
	check(t, memory, g, "CHANGES SINCE ALL $G 0 DURABLE", "-ERR DURABLE needs a log")
	do(t, memory, "SET k v")
	check(t, memory, g, "CHANGES SINCE ALL $G 0", `[:$G, :1, [[:0, ["SET", "k", "v"]]]]`)
}

func TestLastAndShardStreams(t *testing.T) {
	c := serve(t)()
	check(t, c, "none", "CHANGES LAST", "[]")
	do(t, c, "MULTI")
	for i := range 40 {
		do(t, c, fmt.Sprintf("SET key:%d v", i))
	}
	do(t, c, "EXEC")
	last := do(t, c, "CHANGES LAST")
	if len(last.Elems) != 5 {
		t.Fatalf("a commit on every shard was in %s", last)
	}
	total := 0
	for _, e := range last.Elems {
		stream, g := string(e.Elems[0].Text), string(e.Elems[1].Text)
		r := do(t, c, fmt.Sprintf("CHANGES SINCE %s %s 0 META", stream, g))
		n := len(r.Elems[2].Elems)
		if next, _ := e.Elems[2].Int(); int(next) != n {
			t.Errorf("stream %s has %d frames, LAST says %d", stream, n, next)
		}
		if stream != "ALL" {
			total += n
			// The commit's borders are this stream's own.
			first, last := r.Elems[2].Elems[0].Elems[2].Elems[3], r.Elems[2].Elems[0].Elems[2].Elems[4]
			if first.String() != ":0" || last.String() != fmt.Sprintf(":%d", n-1) {
				t.Errorf("stream %s: the commit is %s to %s of %d", stream, first, last, n)
			}
			strict := do(t, c, fmt.Sprintf("FEED.READ %s %s 0", stream, g))
			if len(strict.Elems[2].Elems) != n {
				t.Errorf("FEED.READ %s: %s", stream, strict)
			}
			wrong := do(t, c, fmt.Sprintf("FEED.READ %s 7 0", stream))
			if want := fmt.Sprintf("-FEEDRESYNC %s %d", g, n); wrong.String() != want {
				t.Errorf("FEED.READ of another generation: %s, want %s", wrong, want)
			}
		}
	}
	if total != 40 {
		t.Errorf("the shard streams hold %d of 40 frames", total)
	}
	do(t, c, "EXPIRE key:1 100")
	check(t, c, "none", "PREFIX.STATS key:1", "[:11, :1]")
	info := do(t, c, "CHANGES INFO")
	if s := info.String(); !strings.Contains(s, `"next", :41`) || !strings.Contains(s, `"lineage", []`) {
		t.Errorf("CHANGES INFO: %s", s)
	}
}

func TestBlockingReader(t *testing.T) {
	dial := serve(t)
	reader, writer := dial(), dial()
	g := generation(t, writer, "ALL")
	began := time.Now()
	check(t, reader, g, "CHANGES SINCE ALL $G 0 BLOCK 50", "[:$G, :0, []]")
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("BLOCK 50 took %v", took)
	}
	if err := reader.Send("CHANGES", "SINCE", "ALL", g, "0", "BLOCK", "0", "PREFIX", "wanted"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		return strings.Contains(string(do(t, writer, "INFO clients").Text), "blocked_clients:1\r\n")
	})
	do(t, writer, "SET other v")
	do(t, writer, "SET wanted v")
	r, err := reader.ReadReply()
	if want := fmt.Sprintf(`[:%s, :2, [[:1, ["SET", "wanted", "v"]]]]`, g); err != nil || r.String() != want {
		t.Errorf("the blocked reader got %s %v, want %s", r, err, want)
	}
	// Inside MULTI nothing waits.
	do(t, reader, "MULTI")
	do(t, reader, "CHANGES SINCE ALL "+g+" 2 BLOCK 0")
	check(t, reader, g, "EXEC", "[[:$G, :2, []]]")
	// What stands before a blocking read in a pipeline is answered first.
	if _, err := reader.Write(wire.AppendStrings(wire.AppendStrings(nil, "PING"), "CHANGES", "SINCE", "ALL", g, "2", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	if r, err := reader.ReadReply(); err != nil || r.String() != "+PONG" {
		t.Errorf("before a blocking read: %v %v", r, err)
	}
	// A reader that hangs up is noticed at once, also with bytes unread.
	if err := reader.Send("PING"); err != nil {
		t.Fatal(err)
	}
	reader.Close()
	waitFor(t, func() bool {
		info := string(do(t, writer, "INFO clients").Text)
		return strings.Contains(info, "blocked_clients:0\r\n") && strings.Contains(info, "connected_clients:1\r\n")
	})
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within two seconds")
		}
	}
}

// TestSubscribersFilter: a subscription has the filters of SINCE.
func TestSubscribersFilter(t *testing.T) {
	dial := serve(t)
	reader, writer := dial(), dial()
	do(t, reader, "HELLO 3")
	g := generation(t, writer, "ALL")
	check(t, reader, g, "CHANGES SUBSCRIBE ALL TAIL REGEX user: ^[0-9] VALUE REGEX ^p.id$ VALUE EXACT \xff BYTEMODE VALUE PREFIX no", `push["changes-subscribe", "ALL", :$G, :0]`)
	for _, line := range []string{"SET user:x paid", "SET user:1 open", "SET user:1 paid", "SET user:2 \xff", "SET user:3 nothing", "SET order:1 paid", "DEL user:x", "DEL user:1"} {
		do(t, writer, line)
	}
	var got []string
	for len(got) < 4 {
		r, err := reader.ReadReply()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Elems[4].Elems {
			got = append(got, f.Elems[0].String())
		}
	}
	if want := ":2 :3 :4 :7"; strings.Join(got, " ") != want {
		t.Errorf("the frames %v were pushed, want %s", got, want)
	}
	other := dial()
	do(t, other, "HELLO 3")
	check(t, other, g, "CHANGES SUBSCRIBE ALL TAIL REGEX p [", `-ERR invalid filter: REGEX: missing closing ] at \"[\"; the syntax is RE2's, as in Go`)
}
