package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kevy/internal/changejson"
	"kevy/tests/keyspace"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// execute runs a command line in this process.
func execute(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	root := newRoot(strings.NewReader(""), &out, &errs)
	root.SetArgs(withSubcommand(root, args))
	err = root.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

// output is what a command has printed so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func TestChangesHelp(t *testing.T) {
	for line, want := range map[string]string{
		"changes":                 "kevy-server changes pipe --to redis://replica:6379 --snapshot",
		"changes --help":          "Available Commands:",
		"changes tail --help":     "--from WHERE",
		"changes snapshot --help": "redis-cli --pipe",
		"changes info --help":     "-h, --host string",
		"changes hold --help":     "hold set search ALL",
		"changes hold set --help": "--epoch int",
		"changes pipe --help":     "kafka",
		"changes chaos --help":    "--redeliver float",
	} {
		out, _, err := execute(t.Context(), strings.Fields(line)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v; %q is not in\n%s", line, err, want, out)
		}
		if strings.Contains(line, "chaos") && strings.Contains(out, "--password") {
			t.Errorf("%s offers a log-in that is the consumer's affair", line)
		}
	}
}

func TestChangesErrorsSayWhatToDo(t *testing.T) {
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dead := fmt.Sprint(" -p ", port)
	file := filepath.Join(t.TempDir(), "not.pem")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"changes tial":                                              `there is no "changes tial"`,
		"changes hold drop":                                         `there are set, del and list`,
		"changes info" + dead:                                       "start one (kevy-server), or name another with -h and -p",
		"changes tail --from never":                                 "--from takes tail, oldest, a cursor as generation:offset, or a time",
		"changes tail --format xml":                                 "there are json, debezium",
		"changes tail --db x":                                       "--db takes the number of a database, or *",
		"changes tail --addr nowhere":                               "--addr takes host:port",
		"changes tail --cacert " + file:                             "need --tls",
		"changes tail --tls --cacert " + file:                       "holds no certificate",
		"changes tail --tls --cert x":                               "--cert and --key go together",
		"changes hold set a ALL 5":                                  "write generation:offset",
		"changes pipe":                                              "say where to with --to URL, which begins with one of file, http",
		"changes pipe --to gopher://x":                              "a target is a URL that begins with one of",
		"changes pipe --to redis://x --set a":                       "--set takes NAME=VALUE",
		"changes pipe --to redis://x --set a=b":                     `redis targets have no option "a"`,
		"changes pipe --to redis://x --rewrite a":                   "write OLD=NEW",
		"changes pipe --to redis://x --on-resync go":                "--on-resync takes stop or snapshot",
		"changes pipe --to redis://x --batch-bytes 5tb":             "--batch-bytes takes a size",
		"changes pipe --to redis://x --batch-commits 0":             "at least 1",
		"changes pipe --to redis://x --loglevel loud":               "--loglevel takes debug, info, warn or error",
		"changes pipe --to redis://x --every-shard" + dead:          "no server at",
		"changes pipe --to stdout: --format xml":                    "there is no format",
		"changes pipe --to stdout: --cursor-file /dev/null/x":       "or name another with --cursor-file",
		"changes chaos":                                             "--to host:port",
		"changes tail" + dead:                                       "start one (kevy-server), or name another with -h and -p",
		"changes snapshot" + dead:                                   "start one (kevy-server), or name another with -h and -p",
		"changes tail user:":                                        "(keys that begin so: --prefix user:); see kevy-server changes tail --help",
		"changes tail --prefx a":                                    "unknown flag: --prefx; see kevy-server changes tail --help",
		"changes hold set a ALL":                                    "see kevy-server changes hold set --help",
		"changes tail --prefix=":                                    "--prefix has nothing to look for",
		"changes pipe --to redis://localhost":                       "--to is the server that is read",
		"changes pipe -p 7 --to redis://127.0.0.1:7/2 --db 2":       "--to is the server that is read",
		"changes pipe --to redis://localhost:6379 --rewrite =copy:": "--to is the server that is read",
		"changes chaos --to x:1 --drop 2":                           "it goes from 0 to 1",
		"changes chaos --to x:1 --listen nowhere":                   "--listen:",
	} {
		if _, _, err := execute(t.Context(), strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	// A password in a URL is not repeated.
	if _, _, err := execute(t.Context(), "changes", "pipe", "--to", "redis://u:geheim@h:bad"); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("a URL with a password: %v", err)
	}
}

// Where the copy has other names, or is in another database, a pipe can end in the server that it reads.
func TestPipeIntoItsSource(t *testing.T) {
	for line, want := range map[string]bool{
		"--to redis://localhost":                                true,
		"--to rediss://127.0.0.1:6379 --prefix a":               true,
		"--to redis://127.0.0.1:6380":                           false,
		"--to redis://other":                                    false,
		"--to redis://localhost --rewrite =c:":                  true,
		"--to redis://localhost --rewrite user:=u: --prefix us": false,
		"--to redis://localhost/1 --db 0":                       false,
		"--to redis://localhost/1 --db 1":                       true,
		"--to http://localhost:6379/":                           false,
	} {
		var c connection
		var s selection
		var f pipeFlags
		flags := &cobra.Command{}
		s.add(flags, true)
		flags.Flags().StringVar(&f.to, "to", "", "")
		flags.Flags().StringArrayVar(&f.rewrite, "rewrite", nil, "")
		if err := flags.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		c.host, c.port = "127.0.0.1", 6379
		if err := c.fill(); err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(f.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.comesBack(to, c.addr, &s); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{"user:": "user:", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "^a$": "'^a$'"} {
		if got := shellWord(text); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// A password may be in the environment for another server: one that asks for none takes it.
func TestPasswordThatNobodyAskedFor(t *testing.T) {
	s, c := startSource(t)
	do(t, c, "SET a 1")
	t.Setenv("REDISCLI_AUTH", "geheim")
	for _, args := range [][]string{{"info"}, {"tail", "--no-follow", "--from", "oldest"}, {"snapshot"}, {"hold", "list"}} {
		if _, _, err := execute(t.Context(), append(append([]string{"changes"}, args...), "--addr="+s.Addr())...); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// A server that is a Redis, and no kevy-server, is called so by all that read.
func TestRedisHasNoFeed(t *testing.T) {
	s := process.Start(t, process.Oracle(t), process.Config{})
	for _, sub := range []string{"tail", "snapshot", "info"} {
		if _, _, err := execute(t.Context(), "changes", sub, "--addr="+s.Addr()); err == nil || !strings.Contains(err.Error(), "has no CHANGES, so it is no kevy-server") {
			t.Errorf("%s: %v", sub, err)
		}
	}
}

// What listens there may be something else altogether.
func TestNoRedisThere(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for _, sub := range []string{"tail", "snapshot", "info"} {
		if _, _, err := execute(t.Context(), "changes", sub, "--addr", web.Listener.Addr().String()); err == nil || !strings.Contains(err.Error(), "does not speak the protocol of Redis") {
			t.Errorf("%s: %v", sub, err)
		}
	}
}

func startSource(t *testing.T, args ...string) (*process.Server, *wire.Conn) {
	t.Helper()
	s := process.Start(t, process.Subject(t), process.Config{Args: args})
	return s, s.Conn(t)
}

func do(t *testing.T, c *wire.Conn, line string) wire.Reply {
	t.Helper()
	r, err := c.Do(strings.Fields(line)...)
	if err != nil || r.Kind == wire.Error {
		t.Fatalf("%s: %v %v", line, r, err)
	}
	return r
}

func TestChangesTail(t *testing.T) {
	s, c := startSource(t)
	addr := "--addr=" + s.Addr()
	begin := time.Now()
	for _, line := range []string{"SET user:1 a", "SELECT 1", "MULTI", "HSET user:2 f v", "DEL none", "SET other x", "EXEC"} {
		do(t, c, line)
	}
	stamp := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S* ALL \d+:`)
	tail := func(args ...string) string {
		t.Helper()
		out, stderr, err := execute(t.Context(), append([]string{"changes", "tail", addr}, args...)...)
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, stderr)
		}
		return stamp.ReplaceAllString(out, "@")
	}
	const all = "@0 db0 SET user:1 a\n@1 db1 HSET user:2 f v\n@2 db1 SET other x\n"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--from", "oldest", "--no-follow"}, all},
		{[]string{"--from", "1h", "--no-follow"}, all},
		{[]string{"--from", begin.Add(-time.Second).Format(time.RFC3339Nano), "--no-follow"}, all},
		{[]string{"--from", "tail", "--no-follow"}, ""},
		{[]string{"--from", "oldest", "--count", "1"}, "@0 db0 SET user:1 a\n"},
		{[]string{"--from", "oldest", "--count", "2"}, all}, // a commit is whole
		{[]string{"--from", "oldest", "--no-follow", "--prefix", "user:", "--db", "1"}, "@1 db1 HSET user:2 f v\n"},
		{[]string{"--from", "oldest", "--no-follow", "--match", "o*r", "--regex", "user:=^1$"}, "@0 db0 SET user:1 a\n@2 db1 SET other x\n"},
		{[]string{"--from", "oldest", "--no-follow", "--value", "x"}, "@2 db1 SET other x\n"},
		{[]string{"--from", "oldest", "--no-follow", "--format", "resp", "--prefix", "other"}, "*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n*3\r\n$3\r\nSET\r\n$5\r\nother\r\n$1\r\nx\r\n"},
	} {
		if got := tail(test.args...); got != test.want {
			t.Errorf("%q:\n%q\nwant\n%q", test.args, got, test.want)
		}
	}
	cursor := ""
	for line := range strings.Lines(tail("--from", "oldest", "--no-follow", "--format", "json")) {
		f, err := changejson.ParseFrame([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if f.Offset == 1 {
			cursor = fmt.Sprintf("%d:%d", f.Generation, f.Offset)
		}
	}
	if got := tail("--from", cursor, "--no-follow"); got != strings.SplitN(all, "\n", 2)[1] {
		t.Errorf("from %s: %q", cursor, got)
	}
	if _, _, err := execute(t.Context(), "changes", "tail", addr, "--from", "1:1"); err == nil || !strings.Contains(err.Error(), "(or oldest)") {
		t.Errorf("from an unknown cursor: %v", err)
	}
	// It goes on until it is told to end.
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	out := &output{}
	root := newRoot(strings.NewReader(""), out, io.Discard)
	root.SetArgs(withSubcommand(root, []string{"changes", "tail", addr, "--from", "oldest"}))
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	come := func(want string) {
		t.Helper()
		for stamp.ReplaceAllString(out.String(), "@") != want {
			select {
			case err := <-ended:
				t.Fatalf("it ended: %v; it printed %q, want %q", err, out, want)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	come(all)
	do(t, c, "SET later x")
	come(all + "@3 db1 SET later x\n")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it is told to end: %v", err)
	}
}

// TestChangesLogIn has a redis-server ask for a password: it has no feed, which
// those learn who are let in.
func TestChangesLogIn(t *testing.T) {
	s := process.Start(t, process.Oracle(t), process.Config{})
	do(t, s.Conn(t), "CONFIG SET requirepass geheim")
	addr := "--addr=" + s.Addr()
	const inside = "has no CHANGES, so it is no kevy-server"
	for _, args := range [][]string{{"info"}, {"tail", "--no-follow", "--from", "oldest"}, {"tail"}, {"hold", "list"}} {
		args = append(append([]string{"changes"}, args...), addr)
		if _, _, err := execute(t.Context(), args...); err == nil || !strings.Contains(err.Error(), "log in with --user and --password") {
			t.Errorf("%q without a password: %v", args, err)
		}
		if _, _, err := execute(t.Context(), append(args, "--password", "wrong")...); err == nil || !strings.Contains(err.Error(), "log in with") {
			t.Errorf("%q with a wrong one: %v", args, err)
		}
		for _, name := range []string{"KEVY_PASSWORD", "REDISCLI_AUTH"} {
			t.Setenv(name, "geheim")
			if _, _, err := execute(t.Context(), args...); err == nil || !strings.Contains(err.Error(), inside) {
				t.Errorf("%q with %s: %v", args, name, err)
			}
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestChangesInfoAndHold(t *testing.T) {
	s, c := startSource(t)
	addr := "--addr=" + s.Addr()
	do(t, c, "SET a 1")
	at := do(t, c, "CHANGES OLDEST ALL")
	cursor := string(at.Elems[0].Text) + ":" + string(at.Elems[1].Text)
	for _, step := range []struct{ line, want string }{
		{"hold set search all " + cursor + " --epoch 2", "search holds stream ALL from " + cursor + "\n"},
		{"hold list", "search  ALL     " + cursor},
		{"info", "holds (1)\n"},
		{"info all", "oldest "},
		{"info 3", "stream            3"},
	} {
		out, _, err := execute(t.Context(), append([]string{"changes", addr}, strings.Fields(step.line)...)...)
		if err != nil {
			out, _, err = execute(t.Context(), append(append([]string{"changes"}, strings.Fields(step.line)...), addr)...)
		}
		if err != nil || !strings.Contains(out, step.want) {
			t.Errorf("%s: %v; %q is not in\n%s", step.line, err, step.want, out)
		}
	}
	if _, _, err := execute(t.Context(), "changes", "hold", "set", "search", "ALL", cursor, "--epoch", "1", addr); err == nil || !strings.Contains(err.Error(), "HOLDSTALE") {
		t.Errorf("a lower epoch: %v", err)
	}
	var info struct {
		Stream string
		Next   uint64
		Holds  []struct {
			Name string
			At   [2]uint64
		}
	}
	out, _, err := execute(t.Context(), "changes", "info", "--json", addr)
	if err != nil || json.Unmarshal([]byte(out), &info) != nil || info.Stream != "ALL" || info.Next != 1 || len(info.Holds) != 1 || info.Holds[0].Name != "search" {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err := execute(t.Context(), "changes", "hold", "del", "search", addr); err != nil || out != "search holds nothing any more\n" {
		t.Errorf("%q %v", out, err)
	}
	if out, _, err := execute(t.Context(), "changes", "hold", "set", "here", "all", "tail", addr); err != nil || !regexp.MustCompile(`^here holds stream ALL from \d+:\d+\n$`).MatchString(out) {
		t.Errorf("a hold at the tail: %q, %v", out, err)
	}
	if _, _, err := execute(t.Context(), "changes", "hold", "del", "here", addr); err != nil {
		t.Error(err)
	}
	if _, _, err := execute(t.Context(), "changes", "hold", "del", "search", addr); err == nil || !strings.Contains(err.Error(), `there is no such hold as "search"`) {
		t.Errorf("again: %v", err)
	}
	if out, _, err := execute(t.Context(), "changes", "hold", "list", "--json", addr); err != nil || strings.TrimSpace(out) != "[]" {
		t.Errorf("none: %q %v", out, err)
	}
}

// TestChangesPipeIsKilled kills the pipe's process again and again while writes go
// on: a copy in another server equals its source, and a file has every frame
// once.
func TestChangesPipeIsKilled(t *testing.T) {
	path := serverBinary(t)
	source, c := startSource(t)
	to := process.Start(t, process.Oracle(t), process.Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "changes.jsonl")
	lines := [][]string{
		{"changes", "pipe", "--addr", source.Addr(), "--to", "redis://" + to.Addr(), "--from", "oldest", "--batch-commits", "7"},
		{"changes", "pipe", "--addr", source.Addr(), "--to", "file://" + file, "--from", "oldest", "--set", "rotate-size=20kb", "--batch-commits", "7"},
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		w, err := wire.Dial(source.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		defer w.Close()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			if _, err := w.Pipeline([]string{"RPUSH", fmt.Sprint("l", i%7), fmt.Sprint(i)}, []string{"MULTI"}, []string{"INCR", "n"}, []string{"HSET", "h", fmt.Sprint(i % 50), fmt.Sprint(i)}, []string{"EXEC"}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for round := range 8 {
		pipes := []*program{start(t, nil, nil, path, lines[0]...), start(t, nil, nil, path, lines[1]...)}
		time.Sleep(time.Duration(50+37*round) * time.Millisecond)
		for _, p := range pipes {
			if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			p.end(t)
		}
	}
	close(stop)
	writers.Wait()
	at := do(t, c, "CHANGES TAIL ALL")
	want := "cursor " + string(at.Elems[0].Text) + ":" + string(at.Elems[1].Text)
	pipes := []*program{start(t, nil, nil, path, lines[0]...), start(t, nil, nil, path, lines[1]...)}
	copied := to.Conn(t)
	for deadline := time.Now().Add(waitLimit); string(do(t, copied, "HGET kevy:pipe:default position").Text) != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the copy is at %v, want %s", do(t, copied, "HGETALL kevy:pipe:default"), want)
		}
	}
	next, err := at.Elems[1].Int()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for deadline := time.Now().Add(waitLimit); ; time.Sleep(20 * time.Millisecond) {
		if count = countFrames(t, file); count >= int(next) || time.Now().After(deadline) {
			break
		}
	}
	for _, p := range pipes {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.end(t); code != 0 {
			t.Errorf("a pipe that is stopped ends with %d\n%s", code, p.stderr.String())
		}
	}
	if count = countFrames(t, file); count != int(next) {
		t.Errorf("the files hold %d frames, there are %d", count, next)
	}
	dump := func(c *wire.Conn) keyspace.Dump {
		d, err := keyspace.Read(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		delete(d, keyspace.Key{DB: 0, Name: "kevy:pipe:default"})
		return d
	}
	if diff := keyspace.Diff(dump(c), dump(copied), keyspace.Options{}, 10); len(diff) > 0 {
		t.Errorf("the copy differs:\n%s", strings.Join(diff, "\n"))
	}
}

// countFrames counts the frames in a file and in those put aside, and holds their
// order against it.
func countFrames(t *testing.T, file string) int {
	t.Helper()
	names, err := filepath.Glob(file + ".2*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range append(names, file) {
		data, err := os.ReadFile(name)
		if err != nil {
			return 0 // it is being put aside
		}
		for line := range bytes.Lines(data) {
			f, err := changejson.ParseFrame(line)
			if err != nil {
				continue // a position, or the end of what is being written
			}
			if f.Offset != uint64(n) {
				if len(names) > 0 && f.Offset > uint64(n) {
					return 0 // a file was put aside meanwhile
				}
				t.Fatalf("%s: offset %d where %d is due", filepath.Base(name), f.Offset, n)
			}
			n++
		}
	}
	return n
}

func TestChangesChaos(t *testing.T) {
	path := serverBinary(t)
	s, c := startSource(t)
	do(t, c, "SET a 1")
	p := start(t, nil, []string{"KEVY_SEED=5"}, path, "changes", "chaos", "--listen", "127.0.0.1:0", "--to", s.Addr(), "--drop", "0", "--resync", "0", "--stall", "0", "--redeliver", "1")
	line := p.until(t, "listening on")
	if !strings.HasSuffix(line, "seed 5") {
		t.Errorf("it prints %q", line)
	}
	addr := strings.TrimSuffix(strings.Fields(line)[2], ",")
	through, err := wire.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer through.Close()
	oldest, tail := do(t, through, "CHANGES OLDEST ALL"), do(t, through, "CHANGES TAIL ALL")
	if r := do(t, through, fmt.Sprintf("CHANGES SINCE ALL %s %s", tail.Elems[0].Text, tail.Elems[1].Text)); len(r.Elems) != 3 || len(r.Elems[2].Elems) != 1 || !oldest.Elems[0].Equal(r.Elems[0]) {
		t.Errorf("from the tail, delivered from the oldest: %v", r)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if last := p.until(t, "redeliveries"); !strings.Contains(last, "1 redeliveries") || !strings.HasSuffix(last, "seed 5") {
		t.Errorf("at the end it prints %q", last)
	}
	if code := p.end(t); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	if _, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		t.Error("it still listens")
	}
}

// TestChangesSnapshot loads a snapshot into a redis-server, and follows on from the
// cursor that is said with it.
func TestChangesSnapshot(t *testing.T) {
	s, c := startSource(t)
	addr := "--addr=" + s.Addr()
	for _, line := range []string{"SET user:1 a", "RPUSH l 1 2 3", "SET gone x", "DEL gone", "SELECT 2", "HSET h f v", "SELECT 0"} {
		do(t, c, line)
	}
	out, stderr, err := execute(t.Context(), "changes", "snapshot", addr)
	if err != nil {
		t.Fatal(err, stderr)
	}
	to := process.Start(t, process.Oracle(t), process.Config{})
	loading := to.Conn(t)
	if _, err := loading.Write([]byte(out)); err != nil {
		t.Fatal(err)
	}
	do(t, c, "SET user:2 b")
	follow := regexp.MustCompile(`(\d+) ops; what follows: kevy-server (changes tail --addr \S+ --stream ALL --from \d+:\d+)\n`).FindStringSubmatch(stderr)
	if follow == nil || follow[1] != "3" || !strings.Contains(follow[2], s.Addr()) {
		t.Fatalf("it says %q", stderr)
	}
	out, _, err = execute(t.Context(), append(strings.Fields(follow[2]), "--no-follow", "--format", "resp")...)
	if err != nil || !strings.Contains(out, "user:2") || strings.Contains(out, "user:1") {
		t.Errorf("what follows is %q, %v", out, err)
	}
	if _, err := loading.Write([]byte(out)); err != nil {
		t.Fatal(err)
	}
	copied := to.Conn(t)
	for deadline := time.Now().Add(waitLimit); do(t, copied, "EXISTS user:2").String() != ":1"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what follows does not arrive")
		}
	}
	dump := func(c *wire.Conn) keyspace.Dump {
		d, err := keyspace.Read(c, 3)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if diff := keyspace.Diff(dump(c), dump(copied), keyspace.Options{}, 10); len(diff) > 0 {
		t.Errorf("what was loaded differs:\n%s", strings.Join(diff, "\n"))
	}

	out, _, err = execute(t.Context(), "changes", "snapshot", addr, "--format", "json", "--prefix", "user:")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 4 || !strings.Contains(lines[0], `"event":"snapshot-start"`) || !strings.Contains(lines[3], `"event":"snapshot-end"`) ||
		!strings.Contains(out, `"args":["SET","user:1","a"]`) || !strings.Contains(out, `"args":["SET","user:2","b"]`) {
		t.Errorf("of a prefix: %v\n%s", err, out)
	}
	if _, _, err := execute(t.Context(), "changes", "snapshot", addr, "--prefix", ""); err == nil || !strings.Contains(err.Error(), "nothing to look for") {
		t.Errorf("a blank prefix: %v", err)
	}
}
