package engine_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/aof"
	"kevy/internal/command/all"
	"kevy/internal/ds"
	"kevy/internal/engine"
	"kevy/internal/exec"
	"kevy/internal/op"
	"kevy/internal/vfs"
	"kevy/shard"
	"kevy/tests/keyspace"
	"kevy/tests/oracle"
	"kevy/tests/process"
	"kevy/tests/wire"
)

const databases = 16

// settings are those of a store that runs what another server wrote.
func settings(fsys vfs.FS, dir string) engine.Options {
	return engine.Options{
		FS: fsys, Dir: dir, Shards: 4, DBs: databases, Fsync: aof.PolicyNo, FeedMemoryBytes: 1 << 20, FeedDiskBytes: -1,
		Foreign: exec.RunForeign(all.Table()),
	}
}

func open(t *testing.T, opt engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	e.PauseExpiry(true)
	return e
}

func closeStore(t *testing.T, e *engine.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

func allShards(e *engine.Engine) []int {
	out := make([]int, e.Set().Shards())
	for i := range out {
		out[i] = i
	}
	return out
}

// content is what a store holds: for each key the ops that rebuild it, of a hash
// and a set in any order.
type content map[string][]string

func contentOf(set *shard.Set) content {
	out := content{}
	snap := set.Freeze()
	_ = snap.Each(func(db, _ int, e *ds.Entry) error {
		var c op.Commit
		shard.Rebuild(&c, db, 0, e.Key(), e)
		var parts []string
		for rest := c.Bytes(); len(rest) > 0; {
			n, args, err := op.ReadCommand(rest, nil)
			if err != nil {
				return err
			}
			step := 1
			if verb := string(args[0]); verb == "HSET" || verb == "ZADD" {
				step = 2
			}
			for i := 2; i < len(args); i += step {
				parts = append(parts, fmt.Sprintf("%s %q", args[0], args[i:i+step]))
			}
			rest = rest[n:]
		}
		if k := e.Object(); k != nil && (k.Kind() == shard.KindHash || k.Kind() == shard.KindSet) {
			slices.Sort(parts)
		}
		out[fmt.Sprintf("db %d %q", db, e.Key())] = parts
		return nil
	})
	return out
}

// diff lists what differs from want.
func (got content) diff(want content) (lines []string) {
	for k, v := range want {
		if !slices.Equal(got[k], v) {
			lines = append(lines, fmt.Sprintf("%s: %v, want %v", k, got[k], v))
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			lines = append(lines, fmt.Sprintf("%s: unexpected %v", k, v))
		}
	}
	return lines
}

// live returns the keys that have not expired.
func live(e *engine.Engine) content {
	held := allShards(e)
	e.Set().Lock(held)
	defer e.Set().Unlock(held)
	tx := e.NewTx()
	tx.Begin(held, 0, e.NowMs())
	for tx.ExpireDue(1000) > 0 {
	}
	if tx.Commit().Ops() > 0 {
		e.Commit(tx)
	}
	tx.End()
	return contentOf(e.Set())
}

// dumpContent is the content of a store with what another server holds.
func dumpContent(t *testing.T, d keyspace.Dump) content {
	t.Helper()
	set := shard.NewSet(1, databases)
	tx := set.NewTx(&op.LogPosition{})
	tx.BeginReplay([]int{0}, 0)
	for key, v := range d {
		tx.Select(key.DB)
		name := []byte(key.Name)
		parts := make([][]byte, len(v.Parts))
		for i, p := range v.Parts {
			parts[i] = []byte(p)
		}
		switch v.Type {
		case "string":
			tx.Set(name, parts[0], 0)
		case "list":
			_, _ = tx.PushRight(name, parts...)
		case "set":
			_, _ = tx.SAdd(name, parts...)
		case "hash":
			_, _ = tx.HSet(name, parts...)
		case "zset":
			for i := 0; i < len(parts); i += 2 {
				score, err := strconv.ParseFloat(v.Parts[i+1], 64)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = tx.ZAdd(name, shard.Scored{Member: parts[i], Score: score})
			}
		default:
			t.Fatalf("%s has type %s", key, v.Type)
		}
		if v.ExpireAtMs >= 0 {
			tx.ExpireAt(name, v.ExpireAtMs)
		}
	}
	return contentOf(set)
}

func readDump(t *testing.T, s *process.Server) keyspace.Dump {
	t.Helper()
	d, err := keyspace.Read(s.Conn(t), databases)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// commands encodes one command a line, its words separated by blanks.
func commands(lines ...string) string {
	var b []byte
	for _, line := range lines {
		b = wire.AppendStrings(b, strings.Fields(line)...)
	}
	return string(b)
}

// foreignFiles makes the log that a redis-server would have written: a base and
// incr files.
func foreignFiles(t *testing.T, fsys vfs.FS, dir, base string, incr ...string) {
	t.Helper()
	logDir := filepath.Join(dir, "appendonlydir")
	if err := fsys.MkdirAll(logDir); err != nil {
		t.Fatal(err)
	}
	manifest := "file appendonly.aof.1.base.aof seq 1 type b\n"
	write := func(name, text string) {
		if err := vfs.WriteFileAtomic(fsys, filepath.Join(logDir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("appendonly.aof.1.base.aof", base)
	for i, text := range incr {
		name := fmt.Sprintf("appendonly.aof.%d.incr.aof", i+1)
		manifest += fmt.Sprintf("file %s seq %d type i\n", name, i+1)
		write(name, text)
	}
	write("appendonly.aof.manifest", manifest)
}

// pastDeadlines are logs in which a deadline has passed by the time they are
// read: that a key had expired by then must not show in what the commands after
// it do. PERSIST at the end keeps what is there.
var pastDeadlines = []string{
	"SET k v PXAT 1000; APPEND k x",
	"SET k v EXAT 1; APPEND k x",
	"SET k 5 PXAT 1000; INCRBY k 2; INCRBYFLOAT k 0.5",
	"SET k v; PEXPIREAT k 1000; APPEND k x",
	"SET k v; EXPIREAT k 1; APPEND k x",
	"SET k v; PEXPIREAT k 0; APPEND k x",
	"SET k v; PEXPIREAT k -5; APPEND k x",
	"SET k v; EXPIRE k -1; APPEND k x",
	"SET k v; PEXPIRE k 0; APPEND k x",
	"SET k v; GETEX k PXAT 1000; APPEND k x",
	"SET k v; GETEX k EXAT 1; APPEND k x",
	"SET k v PXAT 1000; GETEX k PERSIST; APPEND k x",
	"SET k v PXAT 1000; SET k w KEEPTTL; APPEND k x",
	"SET k v PXAT 1000; SET k w NX; APPEND k x",
	"SET k v PXAT 1000; SETNX k w; APPEND k x",
	"SET k v PXAT 1000; MSETNX k w other w; APPEND k x",
	"SET k v PXAT 1000; SET k w XX KEEPTTL",
	"SET k v PXAT 1000; SET k w XX GET PXAT 2000",
	"SET k v PXAT 1000; GETSET k w",
	"SET k v PXAT 1000; GETDEL k; APPEND k x",
	"SET k v PXAT 1000; DEL k; APPEND k x",
	"SET k v PXAT 1000; RENAME k other; APPEND other x",
	"SET k v; SET other w PXAT 1000; RENAMENX k other; APPEND other x",
	"SET k v PXAT 1000; COPY k other; APPEND other x",
	"SET k v PXAT 1000; SET other w; COPY k other; COPY k other REPLACE",
	"SET k v PXAT 1000; MOVE k 1; SELECT 1; APPEND k x; MOVE k 0; SELECT 0",
	"SET k v PXAT 1000; SWAPDB 0 1; SELECT 1; APPEND k x; SWAPDB 0 1; SELECT 0",
	"SET k v PXAT 1000; PEXPIREAT k 900 LT; APPEND k x",
	"SET k v PXAT 1000; PEXPIREAT k 2000 GT; PEXPIREAT k 500 GT; APPEND k x",
	"SET k v PXAT 1000; PEXPIREAT k 4000000000000 NX; APPEND k x",
	"SET k v PXAT 1000; PEXPIREAT k 4000000000000 XX; APPEND k x",
	"SET k abc PXAT 1000; SETRANGE k 1 X; SETBIT k 100 1; BITOP NOT other k",
	"SET k 1 PXAT 1000; BITFIELD k SET u8 0 65 INCRBY u8 8 3",
	"HSET k f 1; PEXPIREAT k 1000; HINCRBY k f 1; HSET k g 2; HDEL k f; HINCRBYFLOAT k h 1.5; HSETNX k g 3",
	"RPUSH k a b c; PEXPIREAT k 1000; LPOP k; LMOVE k other LEFT RIGHT; RPOPLPUSH k other; RPUSHX k d; LPUSHX other e",
	"RPUSH k a b c d; PEXPIREAT k 1000; LINSERT k AFTER a x; LREM k 1 b; LSET k 0 z; LTRIM k 0 2; LMPOP 1 k LEFT COUNT 1",
	"SADD k 1 2 3; PEXPIREAT k 1000; SREM k 1; SMOVE k other 2; SINTERSTORE third k k; SUNIONSTORE other other k; SDIFFSTORE fourth k third",
	"ZADD k 1 a 2 b 3 c; PEXPIREAT k 1000; ZINCRBY k 5 a; ZADD k XX CH 9 b; ZADD k INCR 1 c; ZREM k c; ZUNIONSTORE other 2 k k WEIGHTS 1 2; ZRANGESTORE third k 0 -1",
	"ZADD k 1 a 2 b 3 c 4 d; PEXPIREAT k 1000; ZPOPMIN k; ZPOPMAX k; ZREMRANGEBYSCORE k 2 2; ZMPOP 1 k MIN; ZADD k 1 z",
	"SET k v PXAT 1000; MULTI; APPEND k x; RENAME k other; EXEC; APPEND other y",
}

// pastLog makes one log of all of them, each with keys of its own.
func pastLog() string {
	var b strings.Builder
	for i, line := range pastDeadlines {
		list := append([]string{"SELECT 0"}, strings.Split(line, ";")...)
		for _, key := range []string{"k", "other", "third", "fourth"} {
			list = append(list, "PERSIST "+key)
		}
		for j, cmd := range list {
			words := strings.Fields(cmd)
			for n, word := range words {
				switch word {
				case "k", "other", "third", "fourth":
					words[n] = fmt.Sprintf("%s%d", word, i)
				}
			}
			list[j] = strings.Join(words, " ")
		}
		b.WriteString(commands(list...))
	}
	return b.String()
}

func TestForeignCommandsKeepPastDeadlines(t *testing.T) {
	mem := vfs.NewMem()
	foreignFiles(t, mem, "data", "", pastLog())
	e := open(t, settings(mem, "data"))
	got := live(e)
	closeStore(t, e)
	for i, line := range pastDeadlines {
		if got[fmt.Sprintf("db 0 \"k%d\"", i)] == nil && got[fmt.Sprintf("db 0 \"other%d\"", i)] == nil {
			t.Errorf("%s: nothing is left", line)
		}
	}
	if redis, ok := findOracle(t); ok {
		dir := t.TempDir()
		foreignFiles(t, vfs.OS(), dir, "", pastLog())
		s := process.Start(t, redis, process.Config{Dir: dir})
		for _, d := range got.diff(dumpContent(t, readDump(t, s))) {
			t.Errorf("unlike redis-server: %s", d)
		}
		s.Kill()
	}
	// Without the PERSIST at the end what is left has expired, and is gone.
	for _, line := range pastDeadlines[:8] {
		mem := vfs.NewMem()
		foreignFiles(t, mem, "data", "", commands(strings.Split(line, ";")...))
		e := open(t, settings(mem, "data"))
		if e.Report().Keys != 1 {
			t.Errorf("%s: %d keys were loaded", line, e.Report().Keys)
		}
		if got := live(e); len(got) > 0 {
			t.Errorf("%s: a key that has expired is there for ever", line)
		}
		closeStore(t, e)
	}
}

// TestForeignTrims: Redis writes an approximate trim into its log as the exact one that it came to, and leaves the LIMIT
// that it was asked for beside it, which a client may not say.
func TestForeignTrims(t *testing.T) {
	var log []string
	for i := range 9 {
		log = append(log, commands(fmt.Sprintf("XADD s %d-1 f v", i+1)))
	}
	log = append(log, commands("XADD s MAXLEN = 6 LIMIT 2 10-1 f v", "XTRIM s MINID = 7-0 LIMIT 0", "XTRIM s MAXLEN = 3 LIMIT 1"))
	mem := vfs.NewMem()
	foreignFiles(t, mem, "data", "", strings.Join(log, ""))
	e := open(t, settings(mem, "data"))
	home := []int{e.Set().ShardOf([]byte("s"))}
	e.Set().Lock(home)
	tx := e.NewTx()
	tx.Begin(home, 0, e.NowMs())
	stream, err := tx.Stream([]byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	if stream.Len() != 3 || stream.FirstID().Ms != 8 {
		t.Errorf("%d entries are left from %v on", stream.Len(), stream.FirstID())
	}
	tx.End()
	e.Set().Unlock(home)
	closeStore(t, e)
	if redis, ok := findOracle(t); ok {
		dir := t.TempDir()
		foreignFiles(t, vfs.OS(), dir, "", strings.Join(log, ""))
		s := process.Start(t, redis, process.Config{Dir: dir})
		if r, err := s.Conn(t).Do("XRANGE", "s", "-", "+"); err != nil || r.String() != `[["8-1", ["f", "v"]], ["9-1", ["f", "v"]], ["10-1", ["f", "v"]]]` {
			t.Errorf("redis-server makes of it %s, %v", r, err)
		}
		s.Kill()
	}
}

// TestForeignFieldExpiry: a log of Redis 7.4 or 8.0 in which fields' deadlines
// have passed by the time it is read.
func TestForeignFieldExpiry(t *testing.T) {
	mem := vfs.NewMem()
	foreignFiles(t, mem, "data", "", commands(
		"SELECT 0",
		"HSET h a 1 b 2 c 3 d 4", "HPEXPIREAT h 1000 FIELDS 3 a b c", "HINCRBY h a 5", "HPERSIST h FIELDS 1 b", "HSET h c 7", "HPEXPIREAT h 0 FIELDS 1 d",
		"HSETEX s PXAT 1000 FIELDS 2 f v g v", "HSETEX s KEEPTTL FIELDS 1 f w", "HINCRBYFLOAT s new 0.5", "HDEL s g",
		"HSETEX t PXAT 4000000000000 FIELDS 1 f v", "HSETEX t KEEPTTL FIELDS 2 f w g x", "HGETEX t PXAT 1000 FIELDS 1 g",
		"HSETEX u EXAT 1 FXX FIELDS 1 f v", "HSETEX u EXAT 1 FNX FIELDS 1 f v", "HGETDEL u FIELDS 1 f",
		"HSET v f 1", "MULTI", "HPEXPIREAT v 1000 FIELDS 1 f", "RENAME v w", "COPY w x", "EXEC", "HPERSIST x FIELDS 1 f",
	))
	e := open(t, settings(mem, "data"))
	for key, fields := range map[string][]string{
		"h": {"a 6 1000", "b 2 0", "c 7 0", "d 4 1"},
		"s": {"f w 1000", "new 0.5 0"},
		"t": {"f w 4000000000000", "g x 1000"},
		"w": {"f 1 1000"}, "x": {"f 1 0"}, "u": nil, "v": nil,
	} {
		var got []string
		held := allShards(e)
		tx := e.NewTx()
		e.Set().Lock(held)
		tx.BeginReplay(held, 0) // so that nothing goes
		h, err := tx.Hash([]byte(key))
		h.EachWithDeadline(func(f, v []byte, at int64) bool {
			got = append(got, fmt.Sprintf("%s %s %d", f, v, at))
			return true
		})
		tx.End()
		e.Set().Unlock(held)
		if slices.Sort(got); err != nil || !slices.Equal(got, fields) {
			t.Errorf("%s: %q, want %q (%v)", key, got, fields, err)
		}
	}
	got := live(e)
	for key, want := range map[string][]string{
		"h": {`HSET ["b" "2"]`, `HSET ["c" "7"]`},
		"s": {`HSET ["new" "0.5"]`},
		"w": nil,
	} {
		if parts := got[fmt.Sprintf("db 0 %q", key)]; !slices.Equal(parts, want) {
			t.Errorf("%s: %q, want %q", key, parts, want)
		}
	}
	closeStore(t, e)
}

// TestForeignPFCount: it reads, and Redis logs it where it has kept in the key
// what it counted.
func TestForeignPFCount(t *testing.T) {
	mem := vfs.NewMem()
	foreignFiles(t, mem, "data", "", commands("SELECT 0", "PFADD h a b", "PFCOUNT h", "MULTI", "SET k v", "PFCOUNT h", "EXEC"))
	e := open(t, settings(mem, "data"))
	got := live(e)
	closeStore(t, e)
	if len(got) != 2 || got[`db 0 "h"`] == nil || got[`db 0 "k"`] == nil {
		t.Errorf("the store holds %v", got)
	}
}

// findOracle returns redis-server if it is there, and must be where the tools are
// required.
func findOracle(t *testing.T) (b process.Binary, ok bool) {
	t.Run("redis-server", func(t *testing.T) {
		b = process.Oracle(t)
		ok = true
	})
	return b, ok
}

// TestForeignRefusals: what cannot be run stops the start, which names the
// command, the file and the place, and leaves the files as they were.
func TestForeignRefusals(t *testing.T) {
	good := commands("SELECT 0", "SET k v")
	at := fmt.Sprintf("at offset %d", len(good))
	for _, tc := range []struct{ name, base, incr, want string }{
		{"a command of a module", "", good + commands("JSON.SET s . 1"), "'JSON.SET'"},
		{"a script", "", good + commands("EVAL return 0"), "'EVAL'"},
		{"a function", "", good + commands("FUNCTION LOAD x"), "without a first line"},
		{"a restore", "", good + commands("RESTORE k 0 x"), "'RESTORE'"},
		{"no command at all", "", good + commands("NONSENSE"), "'NONSENSE'"},
		{"a command that reads", "", good + commands("GET k"), "'GET', which changes nothing"},
		{"a command that reads, in a base", good + commands("SCAN 0"), "", "'SCAN', which changes nothing"},
		{"too few arguments", "", good + commands("SET k"), "wrong number of arguments"},
		{"another type", "", good + commands("RPUSH k a"), "'RPUSH' answered"},
		{"a database that is not there", "", good + commands("SELECT 16"), "set databases to 17 or more"},
		{"a database without a number", "", good + commands("SELECT x"), "it selects database"},
		{"in a base", good + commands("JSON.SET s . 1"), "", "'JSON.SET'"},
		{"in a transaction", "", good + commands("MULTI", "SET a b", "JSON.SET s . 1", "EXEC"), "'JSON.SET'"},
		{"an RDB base", "REDIS0010\xfa", good, "aof-use-rdb-preamble no"},
		{"an RDB file", "", "REDIS0010\xfa", "aof-use-rdb-preamble no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := vfs.NewMem()
			foreignFiles(t, mem, "data", tc.base, tc.incr)
			e, err := engine.Open(settings(mem, "data"))
			if err == nil {
				_ = e.Close()
				t.Fatal("the store opened")
			}
			if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "appendonlydir/appendonly.aof.1.") {
				t.Errorf("%v", err)
			}
			if !strings.Contains(err.Error(), at) && !strings.Contains(tc.want, "rdb") && !strings.Contains(tc.incr, "MULTI") {
				t.Errorf("the place %q is not named: %v", at, err)
			}
			if open := mem.OpenFiles(); len(open) > 0 {
				t.Errorf("files are still open: %v", open)
			}
			for name, want := range map[string]string{"base": tc.base, "incr": tc.incr} {
				if got := readFile(t, mem, "data/appendonlydir/appendonly.aof.1."+name+".aof"); got != want {
					t.Errorf("the %s is %q", name, got)
				}
			}
		})
	}
}

func readFile(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	return string(b)
}

// TestForeignCrashes ends the start that takes over another server's log at each
// of its steps: whatever the disk has kept, the next one finds the same keys.
func TestForeignCrashes(t *testing.T) {
	lines := []string{"SELECT 0", "SET k v PXAT 4000000000000", "APPEND k x", "RPUSH l a b c", "INCR n", "SELECT 3", "SADD s 1 2 3"}
	for i := range 30 {
		lines = append(lines, fmt.Sprintf("INCRBY n %d", i), "LMOVE l l LEFT RIGHT")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	prepare := func() *vfs.Mem {
		mem := vfs.NewMem()
		foreignFiles(t, mem, "data", commands("SELECT 2", "HSET h f v"), commands(lines...), commands("MULTI", "INCR n", "RPUSH l d", "EXEC", "INCR n"))
		return mem
	}
	mem := prepare()
	before := mem.Steps()
	e := open(t, settings(mem, "data"))
	want, steps := e.Set().Digest(), mem.Steps()-before
	if !e.Report().Log.Foreign || steps < 20 {
		t.Fatalf("foreign %v, %d steps", e.Report().Log.Foreign, steps)
	}
	closeStore(t, e)
	for step := range steps {
		for _, power := range []bool{false, true} {
			mem := prepare()
			mem.DieAfter(step, rng.IntN(50))
			// The last steps put away what is not needed, and need not succeed.
			if e, err := engine.Open(settings(mem, "data")); err == nil {
				_ = e.Close()
			} else if !errors.Is(err, vfs.ErrDead) {
				t.Fatal(err)
			}
			left := mem.Kill()
			if power {
				left = mem.PowerCut(rng)
			}
			e := open(t, settings(left, "data"))
			if e.Set().Digest() != want {
				t.Fatalf("after a crash (power %v) at step %d other keys are found", power, step)
			}
			foreign := e.Report().Log.Foreign
			closeStore(t, e)
			e = open(t, settings(left, "data"))
			if e.Set().Digest() != want || e.Report().Log.Foreign || foreign && e.Report().Log.BaseOps == 0 {
				t.Fatalf("after a crash at step %d and a start the log is not all ours", step)
			}
			closeStore(t, e)
		}
	}
}

// TestForeignOnAFullDisk: a start that has no room to take over another server's
// log fails, or not, and the next one that has finds the same keys.
func TestForeignOnAFullDisk(t *testing.T) {
	var want shard.Digest
	failed := 0
	for room := int64(0); room < 3000; room += 50 {
		mem := vfs.NewMem()
		foreignFiles(t, mem, "data", commands("SELECT 2", "HSET h f v"), commands("SET k v PXAT 4000000000000", "APPEND k x", "INCR n"), commands("INCR n", "RPUSH l a b"))
		mem.SetQuota(mem.Used() + room)
		e, err := engine.Open(settings(mem, "data"))
		if err != nil {
			failed++
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("with room for %d bytes: %v", room, err)
			}
			if open := mem.OpenFiles(); len(open) > 0 {
				t.Fatalf("with room for %d bytes files are still open: %v", room, open)
			}
			mem.SetQuota(-1)
			e = open(t, settings(mem, "data"))
		}
		mem.SetQuota(-1)
		e.PauseExpiry(true)
		got := e.Set().Digest()
		if want == (shard.Digest{}) {
			want = got
		}
		if got != want {
			t.Fatalf("with room for %d bytes other keys are found", room)
		}
		closeStore(t, e)
	}
	if failed < 10 {
		t.Errorf("only %d starts failed", failed)
	}
}

// driveRedis runs random commands on a redis-server, on several databases. Streams
// are left to the tests that pass a directory from server to server.
func driveRedis(t *testing.T, s *process.Server, seed uint64, steps int) {
	t.Helper()
	const connections = 3
	conns := make([]*wire.Conn, connections)
	for i := range conns {
		conns[i] = s.Conn(t)
	}
	g := oracle.NewGenerator(seed, time.Now().UnixMilli(), oracle.Options{Conns: connections})
	for range steps {
		step := g.Next()
		if name := step.Args[0]; step.MayWait() || len(name) > 0 && (name[0] == 'X' || name[0] == 'x') {
			continue
		}
		if _, err := conns[step.Conn].Write(wire.AppendCommand(nil, step.Args...)); err != nil {
			t.Fatal(err)
		}
		if _, err := conns[step.Conn].ReadReply(); err != nil {
			t.Fatalf("%.300s: %v", step, err)
		}
	}
	for _, c := range conns {
		_ = c.Close()
	}
}

// everyForm are commands that redis-server logs in their own words.
var everyForm = []string{
	"SET a 1 EX 1000", "SET a 2 KEEPTTL GET", "SETEX b 1000 v", "PSETEX b 1000000 v", "INCR a", "DECRBY a 3", "INCRBYFLOAT f 1.5", "APPEND f 25", "GETSET b w",
	"MSET m1 1 m2 2", "MSETNX m3 3 m4 4", "GETDEL m1", "GETEX m2 EX 5000", "GETEX m2 PERSIST", "SETRANGE f 4 xyz", "SETBIT bits 77 1", "BITOP OR bits2 bits f",
	"BITFIELD bits SET u8 0 255 INCRBY i5 100 3", "EXPIRE f 1000", "EXPIRE f 2000 GT", "PEXPIREAT f 4000000000001 XX", "PERSIST b", "RENAME b b2", "RENAMENX b2 b3",
	"COPY b3 b4 DB 2", "COPY b3 b4", "MOVE b4 3", "RPUSH l a b c d e f g h i", "LPUSH l z y", "LINSERT l BEFORE c x", "LREM l 1 d", "LTRIM l 0 8", "LSET l -1 last",
	"LMOVE l l2 LEFT RIGHT", "RPOPLPUSH l l2", "LMPOP 2 none l LEFT COUNT 2", "LPOP l2 5", "RPOP l", "SADD s 1 2 3 4 5 6 7 8", "SADD s2 4 5 6 a b", "SPOP s", "SPOP s 2",
	"SMOVE s2 s a", "SREM s2 b", "SINTERSTORE si s s2", "SUNIONSTORE su s s2", "SDIFFSTORE sd s s2", "HSET h f 1 g 2", "HSETNX h k 3", "HINCRBY h f 5", "HINCRBYFLOAT h g 0.25",
	"HDEL h k", "HMSET h p q", "ZADD z 1 a 2 b 3 c 4 d 5 e", "ZADD z NX 9 a 9 n", "ZADD z XX GT CH 7 b", "ZADD z INCR 2.5 c", "ZINCRBY z -inf d", "ZPOPMIN z", "ZPOPMAX z 1", "ZMPOP 1 z MAX",
	"ZUNIONSTORE zu 2 z s WEIGHTS 2 3 AGGREGATE MAX", "ZINTERSTORE zi 2 zu z", "ZDIFFSTORE zd 2 zu z", "ZRANGESTORE zr zu 0 2", "ZREMRANGEBYRANK zr 0 0", "ZREMRANGEBYSCORE zu 100 200",
	"ZADD lex 0 a 0 b 0 c", "ZREMRANGEBYLEX lex [a [b", "SWAPDB 2 5", "UNLINK m3", "DEL m4 none", "SET short v PX 30", "RPUSH short2 a", "PEXPIRE short2 30", "TOUCH a", "FLUSHDB",
}

// TestDirectoryOfRedis opens what a redis-server wrote: a base of commands and
// several incr files. It finds the same keys, rewrites the log and finds them
// again.
func TestDirectoryOfRedis(t *testing.T) {
	redis := process.Oracle(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KEVY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("KEVY_SEED=%d", seed)
	dir := t.TempDir()
	s := process.Start(t, redis, process.Config{Dir: dir})
	driveRedis(t, s, seed, 2000)
	c := s.Conn(t)
	for i, db := range []string{"1", "7"} {
		mustDo(t, c, "SELECT", db)
		mustDo(t, c, "FLUSHDB")
		for _, line := range everyForm[:len(everyForm)-i] { // only the first one is flushed
			mustDo(t, c, strings.Fields(line)...)
		}
		if i == 0 {
			mustDo(t, c, "BGREWRITEAOF")
			for !strings.Contains(infoOf(t, c), "aof_rewrite_in_progress:0") || !strings.Contains(infoOf(t, c), "aof_rewrite_scheduled:0") {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	mustDo(t, c, "MULTI")
	mustDo(t, c, "INCR", "a")
	mustDo(t, c, "SELECT", "2")
	mustDo(t, c, "RPUSH", "l", "in a transaction")
	mustDo(t, c, "EXEC")
	s.Stop(t)
	splitIncr(t, dir, 4)

	s = process.Start(t, redis, process.Config{Dir: dir}) // it reads what was split
	want := readDump(t, s)
	s.Stop(t)
	if len(want) < 20 {
		t.Fatalf("only %d keys", len(want))
	}
	// The dump came later than the log ends; what had expired by then is gone in
	// both.
	for round := range 3 {
		e := open(t, settings(vfs.OS(), dir))
		got := live(e)
		for k, v := range want {
			if v.ExpireAtMs >= 0 && v.ExpireAtMs <= e.NowMs() {
				delete(want, k)
			}
		}
		for _, d := range got.diff(dumpContent(t, want)) {
			t.Errorf("round %d: %s", round, d)
		}
		r := e.Report()
		if r.Log.Foreign != (round == 0) || r.Resumed != (round == 2) {
			t.Errorf("round %d: foreign %v, resumed %v (%s)", round, r.Log.Foreign, r.Resumed, r.Reason)
		}
		if round == 1 {
			if err := e.Rewrite(); err != nil {
				t.Error(err)
			}
		}
		if round > 0 {
			closeStore(t, e)
			continue
		}
		// The generation is new, and the past is not joined to it.
		if oldest, err := e.Feed().Oldest(e.Feed().All()); err != nil || oldest.Generation != e.Feed().Tail(e.Feed().All()).Generation {
			t.Errorf("the oldest cursor is %v: %v", oldest, err)
		}
		closeStore(t, e)
		for _, name := range []string{"feed-all.meta", "feed-0.meta"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil { // as after a kill
				t.Fatal(err)
			}
		}
	}
	s = process.Start(t, redis, process.Config{Dir: dir})
	for _, d := range dumpContent(t, readDump(t, s)).diff(dumpContent(t, want)) {
		t.Errorf("redis-server, on what we made of its log: %s", d)
	}
	s.Stop(t)
}

func mustDo(t *testing.T, c *wire.Conn, args ...string) wire.Reply {
	t.Helper()
	r, err := c.Do(args...)
	if err != nil || r.IsError("") {
		t.Fatalf("%q: %v %v", args, r, err)
	}
	return r
}

func infoOf(t *testing.T, c *wire.Conn) string {
	return string(mustDo(t, c, "INFO", "persistence").Text)
}

// splitIncr makes n files of the last incr file, as failed rewrites leave them.
func splitIncr(t *testing.T, dir string, n int) {
	t.Helper()
	logDir := filepath.Join(dir, "appendonlydir")
	path := filepath.Join(logDir, "appendonly.aof.manifest")
	manifest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(manifest)), "\n")
	var name string
	var seq int
	if _, err := fmt.Sscanf(lines[len(lines)-1], "file %s seq %d type i", &name, &seq); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(logDir, name))
	if err != nil {
		t.Fatal(err)
	}
	// Redis selects anew in each file, and a transaction stays in one.
	db, inMulti := "0", false
	part, out := len(data)/n, []byte(nil)
	for files := 1; ; {
		k, args, err := op.ReadCommand(data, nil)
		if len(data) > 0 && err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 || len(out) > part && !inMulti && files < n {
			file := fmt.Sprintf("appendonly.aof.%d.incr.aof", seq)
			if err := os.WriteFile(filepath.Join(logDir, file), out, 0o644); err != nil {
				t.Fatal(err)
			}
			if files > 1 {
				lines = append(lines, fmt.Sprintf("file %s seq %d type i", file, seq))
			}
			if len(data) == 0 {
				break
			}
			files, seq, out = files+1, seq+1, wire.AppendStrings(nil, "SELECT", db)
		}
		switch strings.ToUpper(string(args[0])) {
		case "SELECT":
			db = string(args[1])
		case "MULTI":
			inMulti = true
		case "EXEC":
			inMulti = false
		}
		out, data = append(out, data[:k]...), data[k:]
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRedisTakesOverATornLog cuts our log anywhere, as a kill does, lets a
// redis-server boot from it and write, and opens what it leaves: the keys are
// those that redis-server held.
func TestRedisTakesOverATornLog(t *testing.T) {
	redis := process.Oracle(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KEVY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	whole := t.TempDir()
	e := open(t, settings(vfs.OS(), whole))
	tx, held := e.NewTx(), allShards(e)
	for range 40 {
		e.Set().Lock(held)
		tx.Begin(held, rng.IntN(3), e.NowMs())
		for range 1 + rng.IntN(3) {
			key := fmt.Appendf(nil, "key%d", rng.IntN(10))
			switch kind, found := tx.Kind(key); {
			case !found && rng.IntN(2) == 0, found && kind == shard.KindList:
				_, _ = tx.PushRight(key, []byte("x"), []byte("#kevy 1 2\r\n*1\r\n$4\r\nEXEC\r\n"))
			case !found, kind == shard.KindString:
				tx.Set(key, []byte(strings.Repeat("v", rng.IntN(60))), []int64{0, 4e12}[rng.IntN(2)])
			}
			if rng.IntN(5) == 0 {
				tx.Select(rng.IntN(3))
			}
		}
		lsn := e.Commit(tx)
		tx.End()
		e.Set().Unlock(held)
		if err := e.Wait(lsn); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, e)
	log, err := os.ReadFile(filepath.Join(whole, "appendonlydir", "appendonly.aof.1.incr.aof"))
	if err != nil {
		t.Fatal(err)
	}
	header := strings.Index(string(log), "#kevy 1 0 ")
	header += strings.Index(string(log[header:]), "\n") + 1
	cuts := 6
	if s := os.Getenv("KEVY_CRASH_SCHEDULES"); s != "" {
		cuts, _ = strconv.Atoi(s)
	}
	for range cuts {
		at := header + rng.IntN(len(log)-header)
		dir := t.TempDir()
		logDir := filepath.Join(dir, "appendonlydir")
		if err := os.Mkdir(logDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{
			"appendonly.aof.1.incr.aof": log[:at], "appendonly.aof.manifest": []byte("file appendonly.aof.1.incr.aof seq 1 type i\n"),
		} {
			if err := os.WriteFile(filepath.Join(logDir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := process.Start(t, redis, process.Config{Dir: dir})
		c := s.Conn(t)
		mustDo(t, c, "SELECT", strconv.Itoa(rng.IntN(3)))
		mustDo(t, c, "DEL", "key1")
		mustDo(t, c, "RPUSH", "key1", "of redis")
		mustDo(t, c, "INCR", "counter")
		want := readDump(t, s)
		s.Stop(t)
		e, err := engine.Open(settings(vfs.OS(), dir))
		if err != nil {
			t.Errorf("cut at %d: %v\n%q", at, err, log[max(0, at-200):at])
			continue
		}
		for _, d := range live(e).diff(dumpContent(t, want)) {
			t.Errorf("cut at %d: %s\n%q", at, d, log[max(0, at-200):at])
		}
		if !e.Report().Log.Foreign {
			t.Errorf("cut at %d: what redis-server wrote is not seen\n%q", at, log[max(0, at-200):at])
		}
		closeStore(t, e)
	}
}
