package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/internal/transfer"
	"kevy/tests/keyspace"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// TestRDBThereAndBack lets redis-server save keys of every type, imports the
// file, compares the store with redis-server's keyspace, exports it and lets
// redis-server load that: the digest is the one of the beginning. KEVY_RDB_KEYS
// is the number of keys (10,000); the log has time and memory of each step.
func TestRDBThereAndBack(t *testing.T) {
	keys := int(number(t, "KEVY_RDB_KEYS", 10_000))
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d, %d keys", seed, keys)
	dir := t.TempDir()
	inMemory := []string{"--appendonly", "no", "--enable-debug-command", "yes"}

	first := process.Start(t, process.Oracle(t), process.Config{Dir: filepath.Join(dir, "first"), Args: inMemory})
	c := first.Conn(t)
	c.SetDeadline(time.Now().Add(10 * time.Minute))
	fillRedis(t, c, rand.New(rand.NewPCG(seed, 1)), keys)
	want := digest(t, c)
	var before keyspace.Dump
	if keys <= 100_000 {
		before = dump(t, first)
	}
	do(t, c, "SAVE")
	first.Kill()
	file := filepath.Join(first.Dir, "dump.rdb")
	loaded := loadOnRedis(t, file, want, inMemory)

	store, exported := filepath.Join(dir, "store"), filepath.Join(dir, "exported.rdb")
	var im transfer.ImportReport
	usage := transferRun(t, &im, "import", file, "--dir", store)
	t.Logf("import: %s", usage)
	if im.Keys != int64(keys) || !im.NewStore || im.RDBVersion != 10 || !strings.HasPrefix(im.Writer, "redis 7.0") {
		t.Errorf("import: %+v", im)
	}
	if before != nil {
		s := process.Start(t, process.Subject(t), process.Config{Dir: store})
		sameContent(t, "the imported store", before, dump(t, s))
		s.Stop(t)
	}
	var ex transfer.ExportReport
	usage = transferRun(t, &ex, "export", exported, "--dir", store)
	t.Logf("export: %s", usage)
	if ex.Keys != int64(keys) || ex.RDBVersion != 10 {
		t.Errorf("export: %+v", ex)
	}
	again := loadOnRedis(t, exported, want, inMemory)
	t.Logf("redis-server loads its own file: %s", loaded)
	t.Logf("redis-server loads the exported: %s", again)

	// And once more from there, so that what redis-server packed is read too.
	var im2 transfer.ImportReport
	store2 := filepath.Join(dir, "store2")
	transferRun(t, &im2, "import", exported, "--dir", store2)
	if im2.Keys != im.Keys || im2.Expiring != im.Expiring {
		t.Errorf("the second import: %+v, the first: %+v", im2, im)
	}
}

// TestFunctionsThereAndBack lets redis-server save libraries of functions and keys:
// they work in a store that the file was imported into, and, with what was changed
// there, in a redis-server that starts from its export.
func TestFunctionsThereAndBack(t *testing.T) {
	dir := t.TempDir()
	inMemory := []string{"--appendonly", "no"}
	first := process.Start(t, process.Oracle(t), process.Config{Dir: filepath.Join(dir, "first"), Args: inMemory})
	c := first.Conn(t)
	do(t, c, "FUNCTION", "LOAD", "#!lua name=counters\nlocal function add(keys, args) return redis.call('INCRBY', keys[1], args[1]) end\n"+
		"redis.register_function('add', add)\nredis.register_function{function_name='get', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}")
	do(t, c, "FUNCTION", "LOAD", "#!lua name=words\nredis.register_function('hello', function() return 'hello from redis-server' end)")
	do(t, c, "FUNCTION", "LOAD", "#!lua name=unwanted\nredis.register_function('unwanted', function() return 1 end)")
	do(t, c, "SET", "n", "5")
	do(t, c, "SAVE")
	first.Kill()

	store, exported := filepath.Join(dir, "store"), filepath.Join(dir, "exported.rdb")
	var im transfer.ImportReport
	transferRun(t, &im, "import", filepath.Join(first.Dir, "dump.rdb"), "--dir", store)
	slices.Sort(im.Libraries) // redis-server has them in no order
	if im.Keys != 1 || strings.Join(im.Libraries, " ") != "counters unwanted words" {
		t.Errorf("import: %+v", im)
	}
	// From the base of the import, then with a log behind it, then from a base anew.
	for round, want := range []string{"15", "25", "35"} {
		s := process.Start(t, process.Subject(t), process.Config{Dir: store})
		c := s.Conn(t)
		if got := do(t, c, "FCALL", "add", "1", "n", "10").String(); !strings.Contains(got, want) {
			t.Errorf("round %d: FCALL answers %s, want %s", round, got, want)
		}
		switch round {
		case 0:
			do(t, c, "FUNCTION", "DELETE", "unwanted")
			do(t, c, "FUNCTION", "LOAD", "REPLACE", "#!lua name=words\nredis.register_function('hello', function() return 'hello from kevy' end)")
		case 1:
			do(t, c, "BGREWRITEAOF")
			for deadline := time.Now().Add(time.Minute); !strings.Contains(do(t, c, "INFO", "persistence").String(), "aof_rewrite_in_progress:0"); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the rewrite does not end")
				}
			}
		}
		s.Stop(t)
		var ex transfer.ExportReport
		transferRun(t, &ex, "export", exported, "--dir", store)
		if ex.Keys != 1 || strings.Join(ex.Libraries, " ") != "counters words" {
			t.Errorf("round %d: export: %+v", round, ex)
		}
		back := t.TempDir()
		if err := os.Link(exported, filepath.Join(back, "dump.rdb")); err != nil {
			t.Fatal(err)
		}
		second := process.Start(t, process.Oracle(t), process.Config{Dir: back, Args: inMemory})
		c = second.Conn(t)
		for _, step := range [][]string{{"FCALL hello 0", "hello from kevy"}, {"FCALL_RO get 1 n", want}, {"FCALL add 1 n 1", strconv.Itoa(10*round + 16)}} {
			if got := do(t, c, strings.Fields(step[0])...).String(); !strings.Contains(got, step[1]) {
				t.Errorf("round %d: redis-server answers %s to %s, want %s", round, got, step[0], step[1])
			}
		}
		if r, _ := c.Do("FCALL", "unwanted", "0"); r.Kind != wire.Error {
			t.Errorf("round %d: a library that was deleted answers %s", round, r)
		}
		second.Kill()
	}
}

// fillRedis makes keys of every type in three databases, small ones and, one in
// a thousand, large ones; every eighth expires, long after the test.
func fillRedis(t *testing.T, c *wire.Conn, rng *rand.Rand, keys int) {
	t.Helper()
	var cmds [][]string
	flush := func() {
		replies, err := c.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range replies {
			if r.Kind == wire.Error {
				t.Fatalf("%.100q: %s", cmds[i], r)
			}
		}
		cmds = cmds[:0]
	}
	add := func(args ...string) { cmds = append(cmds, args) }
	text := func() string {
		switch rng.IntN(4) {
		case 0:
			return strconv.FormatInt(int64(rng.Uint64())>>rng.IntN(60), 10)
		case 1:
			return strings.Repeat("some words that repeat, ", 1+rng.IntN(8))
		}
		b := make([]byte, 1+rng.IntN(24))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	for i := range keys {
		if i%(keys/3+1) == 0 {
			add("SELECT", strconv.Itoa(3*(i/(keys/3+1))))
		}
		key := "key:" + strconv.Itoa(i)
		n := 1 + rng.IntN(10)
		if rng.IntN(1000) == 0 {
			n = 2000
		}
		args := []string{"", key}
		switch kind := rng.IntN(20); {
		case kind < 9:
			add("SET", key, text())
		case kind < 11:
			args[0] = "RPUSH"
			for range n {
				args = append(args, text())
			}
			add(args...)
		case kind < 13:
			args[0] = "SADD"
			for range n {
				if kind == 11 {
					args = append(args, strconv.Itoa(rng.IntN(1<<20)))
				} else {
					args = append(args, text())
				}
			}
			add(args...)
		case kind < 15:
			args[0] = "ZADD"
			for range n {
				args = append(args, strconv.FormatFloat(rng.NormFloat64()*100, 'g', 1+rng.IntN(17), 64), text())
			}
			add(args...)
		case kind < 19:
			args[0] = "HSET"
			for range n {
				args = append(args, text(), text())
			}
			add(args...)
		default:
			for j := range n {
				add("XADD", key, fmt.Sprintf("%d-%d", 1000+j/3, j+1), "field", text(), "other", text())
			}
			if rng.IntN(2) == 0 {
				add("XGROUP", "CREATE", key, "group", "0")
				add("XREADGROUP", "GROUP", "group", "consumer", "COUNT", strconv.Itoa(1+n/2), "STREAMS", key, ">")
				add("XACK", key, "group", "1000-1")
				add("XDEL", key, "1000-2")
			}
		}
		if rng.IntN(8) == 0 {
			add("PEXPIREAT", key, strconv.FormatInt(4_000_000_000_000+rng.Int64N(1e9), 10))
		}
		if len(cmds) >= 500 {
			flush()
		}
	}
	add("SELECT", "0")
	flush()
}

func digest(t *testing.T, c *wire.Conn) string {
	t.Helper()
	text := string(do(t, c, "DEBUG", "DIGEST").Text)
	if strings.Trim(text, "0") == "" {
		t.Fatal("the digest is that of nothing")
	}
	return text
}

var loadedIn = regexp.MustCompile(`DB loaded from disk: ([0-9.]+) seconds`)

// loadOnRedis lets redis-server load a file, whose digest it must then have, and
// returns what that took.
func loadOnRedis(t *testing.T, file, want string, args []string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Link(file, filepath.Join(dir, "dump.rdb")); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, process.Oracle(t), process.Config{Dir: dir, Args: args})
	defer s.Kill()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	cpu := cpuSeconds(t, s.PID())
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	var took []string
	// The server writes its log while it answers already.
	for deadline := time.Now().Add(10 * time.Second); took == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		took = loadedIn.FindStringSubmatch(s.Log())
	}
	if peak == nil || took == nil {
		t.Fatalf("no figures of the load:\n%s", s.Log())
	}
	c := s.Conn(t)
	c.SetDeadline(time.Now().Add(10 * time.Minute))
	if got := digest(t, c); got != want {
		t.Errorf("redis-server loads %s: the digest is %s, was %s", filepath.Base(file), got, want)
	}
	kib, _ := strconv.Atoi(string(peak[1]))
	return fmt.Sprintf("%s s (CPU %s s), peak memory %d MiB", took[1], cpu, kib>>10)
}

// cpuSeconds returns the processor time of a process, with two digits.
func cpuSeconds(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// Behind the name, in brackets, the 12th and 13th field count ticks of 10 ms.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return fmt.Sprintf("%.1f", float64(user+system)/100)
}

// transferRun runs kevy-server import or export, reads its report, and returns
// what it took.
func transferRun(t *testing.T, report any, args ...string) string {
	t.Helper()
	cmd := exec.Command(process.Subject(t).Path, append(args, "--json")...)
	start := time.Now()
	out, err := cmd.Output()
	took := time.Since(start)
	if err != nil {
		var stderr []byte
		if exit, ok := err.(*exec.ExitError); ok {
			stderr = exit.Stderr
		}
		t.Fatalf("%v: %v\n%s", args, err, stderr)
	}
	if err := json.Unmarshal(out, report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return fmt.Sprintf("%.1f s (CPU %.1f s), peak memory %d MiB", took.Seconds(), cpu.Seconds(), usage.Maxrss>>10)
}
