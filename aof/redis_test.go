package aof

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/internal/vfs"
)

// redisServer is a stock redis-server on a data directory.
type redisServer struct {
	t    *testing.T
	cmd  *exec.Cmd
	conn net.Conn
	in   *bufio.Reader
	out  bytes.Buffer
}

func startRedis(t *testing.T, dir string, settings ...string) *redisServer {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	socket := filepath.Join(t.TempDir(), "redis.sock")
	r := &redisServer{t: t}
	r.cmd = exec.Command(binary, append([]string{"--port", "0", "--unixsocket", socket, "--dir", dir,
		"--appendonly", "yes", "--save", "", "--appendfsync", "no", "--aof-use-rdb-preamble", "no"}, settings...)...)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if r.conn, err = net.Dial("unix", socket); err == nil {
			r.in = bufio.NewReader(r.conn)
			if reply := r.do("PING"); reply == "+PONG" {
				return r
			}
			r.conn.Close()
		}
		if time.Now().After(deadline) {
			r.kill()
			t.Fatalf("redis-server does not serve %s:\n%s", dir, r.out.String())
		}
	}
}

// do sends a command and returns the reply: its line, or the content of a bulk.
func (r *redisServer) do(args ...string) string {
	r.t.Helper()
	if _, err := r.conn.Write(appendCommand(nil, args...)); err != nil {
		r.t.Fatal(err)
	}
	return r.reply()
}

func (r *redisServer) reply() string {
	r.t.Helper()
	line, err := r.in.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line[0] != '$' && line[0] != '*' || line == "$-1" {
		return line
	}
	var n int
	if _, err := fmt.Sscanf(line[1:], "%d", &n); err != nil {
		r.t.Fatal(err)
	}
	if line[0] == '*' {
		for range n {
			r.reply()
		}
		return line
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(r.in, b); err != nil {
		r.t.Fatal(err)
	}
	return string(b[:n])
}

// kill ends the server as kill -9 does. Its log is in the kernel by then, as
// every reply waits for that.
func (r *redisServer) kill() {
	if r.cmd == nil {
		return
	}
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) // with the child that rewrites
	_ = r.cmd.Wait()
	r.cmd = nil
	if r.conn != nil {
		r.conn.Close()
	}
}

// diskOptions are those of a log in a directory of the machine.
func diskOptions(dir string) Options {
	return Options{FS: vfs.OS(), Dir: dir, Policy: PolicyEverySec, BlockBytes: 2 << 10, SegmentBytes: 16 << 10,
		FileHeader: func(dst []byte) []byte {
			for i := range 17 {
				dst = fmt.Appendf(dst, "#kevy-pos %d %d %d\r\n", i, 3565158400000000+i, i*i)
			}
			return dst
		}}
}

// fillForRedis writes a log of several segments and a base, with all kinds of
// lines, and returns the keys.
func fillForRedis(t *testing.T, dir string) map[string]string {
	t.Helper()
	l, _ := openLog(t, diskOptions(dir))
	keys := map[string]string{}
	add := func(db int, key, value string) {
		keys[fmt.Sprintf("%d %s", db, key)] = value
	}
	for i := range 600 {
		db, k1, k2 := i%3, fmt.Sprint("key:", i%200), fmt.Sprint("pair:", i)
		v := strings.Repeat(fmt.Sprint("\r\n#kevy ", i), i%7)
		if i%5 == 0 {
			l.set(db, k1, v, k2, "2")
			add(db, k2, "2")
		} else {
			l.set(db, k1, v)
		}
		add(db, k1, v)
		if i%3 == 0 {
			l.mustWrite()
		}
		if i%100 == 50 {
			l.Annotate("#kevy-gen 12345")
		}
		if i == 300 {
			cut, err := l.Cut()
			if err != nil {
				t.Fatal(err)
			}
			w, err := l.BeginBase(cut)
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range keys {
				db, name, _ := strings.Cut(key, " ")
				if err := w.Write(appendCommand(appendCommand(nil, "select", db), "SET", name, value), 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := l.Status().Segments; n < 2 {
		t.Fatalf("only %d segments behind the base", n)
	}
	l.mustClose()
	return keys
}

func checkRedis(t *testing.T, r *redisServer, keys map[string]string) {
	t.Helper()
	size := map[string]int{}
	for key, value := range keys {
		db, name, _ := strings.Cut(key, " ")
		size[db]++
		check(t, "SELECT", r.do("SELECT", db), "+OK")
		check(t, key, r.do("GET", name), value)
	}
	for db, n := range size {
		r.do("SELECT", db)
		check(t, "DBSIZE", r.do("DBSIZE"), fmt.Sprintf(":%d", n))
	}
	r.do("SELECT", "0")
}

func TestRedisReadsTheLog(t *testing.T) {
	dir := t.TempDir()
	keys := fillForRedis(t, dir)
	if checker, err := exec.LookPath("redis-check-aof"); err == nil {
		out, err := exec.Command(checker, filepath.Join(dir, logDirName, manifestName)).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "All AOF files and manifest are valid") {
			t.Fatalf("redis-check-aof: %v\n%s", err, out)
		}
	} else {
		t.Log("redis-check-aof is not installed")
	}
	r := startRedis(t, dir)
	checkRedis(t, r, keys)
}

func TestRedisWritesAndKevyReads(t *testing.T) {
	dir := t.TempDir()
	fillForRedis(t, dir)
	r := startRedis(t, dir)
	check(t, "INCR", r.do("INCR", "counter"), ":1")
	check(t, "MULTI", r.do("MULTI"), "+OK")
	r.do("SELECT", "2")
	r.do("SET", "in", "multi")
	r.do("SET", "also", "1")
	r.do("EXEC")
	check(t, "SET", r.do("CONFIG", "SET", "aof-timestamp-enabled", "yes"), "+OK")
	check(t, "SET", r.do("SET", "late", "1"), "+OK")
	r.kill()

	l, rec := openLog(t, diskOptions(dir))
	check(t, "foreign", l.report.Foreign, true)
	want := []string{"[SELECT 0]", "[INCR counter]", "[SELECT 2]", "[MULTI]", "[SET in multi]", "[SET also 1]", "[EXEC]", "[SET late 1]"}
	var got []string
	for _, c := range rec.foreign {
		got = append(got, strings.Replace(strings.Replace(c, "incr", "INCR", 1), "set ", "SET ", 1))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("foreign commands %v instead of %v", got, want)
	}
	// The log goes on in a new file, and both servers read it.
	last := l.Last()
	check(t, "next LSN", l.set(2, "after", "redis"), last+1)
	l.mustWrite()
	reader, err := l.NewReader(l.OldestLSN())
	if err != nil {
		t.Fatal(err)
	}
	for {
		s, ok, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if s.FirstLSN+uint64(s.Ops) == last+2 {
			check(t, "LSN behind foreign commands", s.FirstLSN, last+1)
		}
	}
	reader.Close()
	l.mustClose()
	r = startRedis(t, dir)
	check(t, "SELECT", r.do("SELECT", "2"), "+OK")
	check(t, "GET", r.do("GET", "after"), "redis")
	check(t, "GET", r.do("GET", "in"), "multi")
	r.kill()
	again, rec := openLog(t, diskOptions(dir))
	check(t, "last op", rec.ops[len(rec.ops)-1], "2 after redis")
	again.mustClose()
}

// What kevy left torn when it was killed, Redis executes as far as it is whole,
// and goes on behind it.
func TestRedisTakesOverATornBlock(t *testing.T) {
	for _, lost := range []int{3, 40, 58, 70, 90} {
		dir := t.TempDir()
		opt := diskOptions(dir)
		l, _ := openLog(t, opt)
		l.set(0, "a", "1")
		l.mustWrite()
		l.set(0, "b", "2")
		l.set(0, "c", "3")
		l.set(1, "d", "4")
		l.mustWrite()
		l.mustClose()
		file := filepath.Join(dir, logDirName, segmentName(1))
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, info.Size()-int64(lost)); err != nil {
			t.Fatal(err)
		}
		r := startRedis(t, dir)
		b, c := r.do("GET", "b"), r.do("GET", "c")
		check(t, "SET", r.do("SET", "e", "5"), "+OK")
		r.kill()

		again, rec := openLog(t, opt)
		checkOps(t, "ours", rec.ops, l.ops[:1])
		foreign := fmt.Sprint(rec.foreign)
		if !strings.HasSuffix(strings.ToUpper(foreign), "[SELECT 0] [SET E 5]]") ||
			strings.Contains(foreign, "SET b 2") != (b == "2") || strings.Contains(foreign, "SET c 3") != (c == "3") {
			t.Fatalf("%d bytes lost, Redis has b = %s, c = %s: foreign commands %s", lost, b, c, foreign)
		}
		check(t, "foreign", again.report.Foreign, true)
		again.mustClose()
	}
}

func TestRedisRewrites(t *testing.T) {
	dir := t.TempDir()
	fillForRedis(t, dir)
	r := startRedis(t, dir)
	r.do("SET", "before", "1")
	rewrite := func() {
		t.Helper()
		r.do("BGREWRITEAOF")
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			info := r.do("INFO", "persistence")
			if strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the rewrite does not end")
			}
		}
	}
	rewrite()
	r.do("SET", "behind", "2")
	r.kill()
	opt := diskOptions(dir)
	opt.KnownDurableLSN = 700
	l, rec := openLog(t, opt)
	check(t, "foreign", l.report.Foreign, true)
	text := strings.ToUpper(fmt.Sprint(rec.foreign))
	if !strings.Contains(text, "[SET BEFORE 1]") || !strings.HasSuffix(text, "[SET BEHIND 2]]") || len(rec.ops) > 0 {
		t.Fatalf("%d ops and %d foreign commands, ending with %s", len(rec.ops), len(rec.foreign), text[max(0, len(text)-100):])
	}
	// No LSN that was ever durable is given out again.
	check(t, "LSN", l.set(0, "x", "1"), 701)
	check(t, "oldest", l.OldestLSN(), 701)
	l.mustClose()
	again, _ := openLog(t, diskOptions(dir))
	check(t, "last", again.Last(), 701)
	again.mustClose()

	r = startRedis(t, dir)
	check(t, "CONFIG", r.do("CONFIG", "SET", "aof-use-rdb-preamble", "yes"), "+OK")
	rewrite()
	r.kill()
	if _, _, err := tryOpenLog(t, diskOptions(dir), RecoverRefuse); !errors.Is(err, ErrRDB) || !strings.Contains(err.Error(), "aof-use-rdb-preamble no") {
		t.Fatalf("a base in RDB format: %v", err)
	}
}

func TestRedisWroteAll(t *testing.T) {
	dir := t.TempDir()
	r := startRedis(t, dir)
	check(t, "SET", r.do("SET", "a", "1"), "+OK")
	r.do("SADD", "s", "x", "y")
	r.kill()
	l, rec := openLog(t, diskOptions(dir))
	check(t, "foreign", l.report.Foreign, true)
	check(t, "commands", strings.ToUpper(fmt.Sprint(rec.foreign)), "[[SELECT 0] [SET A 1] [SADD S X Y]]")
	check(t, "LSN", l.set(0, "b", "2"), 1)
	l.mustClose()
	r = startRedis(t, dir)
	check(t, "GET", r.do("GET", "b"), "2")
	check(t, "SCARD", r.do("SCARD", "s"), ":2")
}
