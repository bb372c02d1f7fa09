package server

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
)

// keys is how many names of keys there are.
const keys = 300

// randomWrites are commands that make keys of every kind of value that Redis 7.0
// has, with and without an expiry, in several databases.
func randomWrites(rng *rand.Rand, n int) (cmds [][]string) {
	text := func() string {
		switch rng.IntN(5) {
		case 0:
			return ""
		case 1:
			return strconv.Itoa(rng.IntN(2_000_000) - 1_000_000)
		case 2:
			b := make([]byte, rng.IntN(100))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			return string(b)
		case 3:
			return strings.Repeat("x", rng.IntN(3000))
		}
		return fmt.Sprint("v", rng.IntN(50))
	}
	score := func() string {
		scores := []string{ // -0 is 0 to us, as it is to a Redis unless the set is large
			"inf", "-inf", "0", "1e300", "5e-324", "0.1", strconv.Itoa(rng.IntN(1e6)),
			strconv.FormatFloat(rng.NormFloat64()*math.Pow(10, float64(rng.IntN(45)-22)), 'g', -1, 64),
		}
		return scores[rng.IntN(len(scores))]
	}
	many := func(parts ...func() string) (args []string) {
		for range 1 + rng.IntN(20) {
			for _, part := range parts {
				args = append(args, part())
			}
		}
		return args
	}
	number := func() string { return strconv.Itoa(rng.IntN(1000)) }
	for range n {
		key := fmt.Sprint("k", rng.IntN(keys))
		var cmd []string
		switch rng.IntN(14) {
		case 0:
			cmd = []string{"SELECT", strconv.Itoa(rng.IntN(4))}
		case 1:
			cmd = []string{"SET", key, text()}
		case 2:
			cmd = []string{"APPEND", key, text()}
		case 3:
			cmd = append([]string{"RPUSH", key}, many(text)...)
		case 4:
			cmd = append([]string{"SADD", key}, many(text)...)
		case 5:
			cmd = append([]string{"SADD", key}, many(number)...)
		case 6:
			cmd = append([]string{"ZADD", key}, many(score, text)...)
		case 7:
			cmd = append([]string{"HSET", key}, many(text, text)...)
		case 8:
			cmd = []string{"PEXPIREAT", key, strconv.FormatInt(10_000_000_000_000+rng.Int64N(10_000_000_000), 10)}
		case 9:
			cmd = []string{"DEL", key}
		case 10:
			cmd = []string{"COPY", key, fmt.Sprint("k", rng.IntN(keys)), "REPLACE"}
		case 11:
			cmd = []string{"INCR", key}
		case 12:
			cmd = append([]string{"XADD", key, fmt.Sprintf("%d-%d", len(cmds)+1, rng.IntN(3))}, many(text, text)...)
		case 13:
			cmd = []string{"XDEL", key, fmt.Sprint(rng.IntN(n), "-1")}
		}
		cmds = append(cmds, cmd)
	}
	return cmds
}

// TestDebugDigestIsRedis: for the same keys DEBUG DIGEST and DEBUG DIGEST-VALUE
// answer what redis-server answers.
func TestDebugDigestIsRedis(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	ours := start(t, "--enable-debug-command", "yes").conn()
	server := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no", "--enable-debug-command", "yes"}})
	redis := &conn{server.Conn(t), t}
	for range 10 {
		cmds := randomWrites(rng, 500)
		want, err := redis.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cmds {
			if want[i].String() != got[i].String() {
				t.Fatalf("%q: got %s, want %s", cmds[i], got[i], want[i])
			}
		}
		ours.expect("DEBUG DIGEST", redis.do("DEBUG DIGEST").String())
		line := "DEBUG DIGEST-VALUE"
		for i := range keys + 1 {
			line += fmt.Sprint(" k", i)
		}
		theirs, mine := redis.do(line), ours.do(line)
		for i, want := range theirs.Elems {
			if got := mine.Elems[i]; got.String() != want.String() {
				t.Fatalf("k%d, %s: got %s, want %s", i, redis.do(fmt.Sprint("TYPE k", i)), got, want)
			}
		}
	}
	if n, _ := redis.do("DBSIZE").Int(); n < 50 {
		t.Errorf("the database had %d keys", n)
	}
}

// TestDebugReload: the keyspace that comes back from a new base, or from the log,
// is the one that was there, and the store goes on.
func TestDebugReload(t *testing.T) {
	for name, settings := range map[string][]string{"files": nil, "memory": {"--appendonly", "no"}} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			in := start(t, append(settings, "--enable-debug-command", "yes")...)
			c := in.conn()
			ways := []string{"DEBUG RELOAD", "DEBUG RELOAD NOFLUSH MERGE", "debug reload nosave noflush merge", "DEBUG LOADAOF", "DEBUG RELOAD NOSAVE"}
			if name == "memory" {
				ways = ways[:2]
			}
			for i := range 3 * len(ways) {
				if _, err := c.Pipeline(randomWrites(rng, 300)...); err != nil {
					t.Fatal(err)
				}
				c.do("SELECT 0")
				c.do(fmt.Sprint("SET marker ", i, " PX 3600000"))
				// What Redis 7.0 lacks, and its digest does not show.
				c.do(fmt.Sprint("HSET fields f 1 g ", i))
				c.do(fmt.Sprint("HPEXPIREAT fields 33177117420", i+100, " FIELDS 1 f"))
				c.do("XGROUP CREATE stream group 0 MKSTREAM")
				c.do(fmt.Sprint("XADD stream ", i+1, "-1 a b"))
				c.do("XREADGROUP GROUP group someone COUNT 1 STREAMS stream >")
				c.do(fmt.Sprint("PFADD estimate ", i))
				looks := []string{"HPEXPIRETIME fields FIELDS 2 f g", "XPENDING stream group", "PFCOUNT estimate", "OBJECT ENCODING fields"}
				var before []string
				for _, look := range looks {
					before = append(before, c.do(look).String())
				}
				size, digest := c.do("DBSIZE").String(), c.do("DEBUG DIGEST").String()
				c.expect(ways[i%len(ways)], "+OK")
				c.expect("DEBUG DIGEST", digest)
				c.expect("DBSIZE", size)
				for i, look := range looks {
					c.expect(look, before[i])
				}
				c.expect("GET marker", strconv.Quote(strconv.Itoa(i)))
			}
			if name == "memory" {
				c.expect("DEBUG LOADAOF", "-ERR Error trying to load the AOF files, check server logs.")
				return
			}
			if n := strings.Count(in.log.String(), "log rewritten"); n < 6 {
				t.Errorf("%d rewrites", n)
			}
		})
	}
}

// TestDebugReloadWhileOthersWrite: a reload is one moment between the commands of
// others, and what they were answered is there after the next start.
func TestDebugReloadWhileOthersWrite(t *testing.T) {
	in := start(t, "--enable-debug-command", "yes")
	stop := make(chan struct{})
	counts := make(chan int)
	for w := range 4 {
		c := in.conn()
		go func() {
			n := 0
			for ; ; n++ {
				select {
				case <-stop:
					counts <- n
					return
				default:
				}
				if got := c.do(fmt.Sprint("INCR n", w)).String(); got != fmt.Sprint(":", n+1) {
					t.Errorf("INCR %d: %s", n, got)
				}
			}
		}()
	}
	c := in.conn()
	c.do("WATCH n0")
	for i := range 20 {
		c.expect([]string{"DEBUG RELOAD", "DEBUG LOADAOF"}[i%2], "+OK")
		c.expect("BGREWRITEAOF", "+Background append only file rewriting started")
	}
	close(stop)
	sum := 0
	for range 4 {
		sum += <-counts
	}
	if sum < 20 {
		t.Errorf("only %d commands ran beside the reloads", sum)
	}
	c.expect("DEBUG LOADAOF", "+OK")
}

// A file that is damaged behind the server's back is found, and what is in memory
// stays.
func TestDebugReloadFindsDamage(t *testing.T) {
	in := start(t, "--enable-debug-command", "yes")
	c := in.conn()
	c.do("SET k value")
	digest := c.do("DEBUG DIGEST").String()
	c.expect("DEBUG LOADAOF", "+OK")
	files, err := filepath.Glob(filepath.Join(in.cfg.Dir.Load(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := strings.Replace(string(text), "value", "valve", 1)
	if damaged == string(text) {
		t.Fatal("the value is not in the log")
	}
	if err := os.WriteFile(files[0], []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	c.expect("DEBUG LOADAOF", "-ERR Error trying to load the AOF files, check server logs.")
	c.expect("DEBUG DIGEST", digest)
	c.expect("GET k", `"value"`)
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	c.expect("DEBUG LOADAOF", "+OK")
	c.expect("SET k again", "+OK")
	c.expect("DEBUG RELOAD", "+OK")
	c.expect("GET k", `"again"`)
}

// DEBUG RELOAD inside of a transaction would wait for itself.
func TestDebugReloadInMulti(t *testing.T) {
	c := start(t, "--enable-debug-command", "yes").conn()
	c.do("MULTI")
	c.do("SET k v")
	c.do("DEBUG RELOAD")
	c.do("DEBUG RELOAD NOFLUSH")
	c.do("DEBUG DIGEST-VALUE k missing")
	c.do("DEBUG OBJECT other")
	const refused = "-ERR DEBUG RELOAD and DEBUG LOADAOF cannot run inside a transaction"
	got := c.do("EXEC")
	if len(got.Elems) != 5 || got.Elems[1].String() != refused || got.Elems[2].String() != refused ||
		got.Elems[3].String() != "[+d79ee9fe5d5ad902d7f6620efc3b07b75ddd742f, +0000000000000000000000000000000000000000]" {
		t.Errorf("%s", got)
	}
}

// What a redis-server does not survive, or takes long for, is not in a script.
func TestDebugRefuses(t *testing.T) {
	c := start(t, "--enable-debug-command", "yes").conn()
	for _, name := range []string{"SEGFAULT", "PANIC", "ASSERT", "OOM", "RESTART", "CRASH-AND-RECOVER"} {
		c.expect("DEBUG "+strings.ToLower(name)+" 1", "-ERR DEBUG "+name+" is refused: it would end the server")
	}
	c.expect("DEBUG RELOAD NOFLUSH", "+OK")
	c.expect("DEBUG LOADAOF", "+OK")
	c.expect("DEBUG STRINGMATCH-TEST", "+Apparently Redis did not crash: test passed")
	const tooMuch = "-ERR DEBUG POPULATE makes at most 1073741824 bytes at once"
	c.expect("DEBUG POPULATE 100000000000", tooMuch)
	c.expect("DEBUG POPULATE 9223372036854775807 p 9223372036854775807", tooMuch)
	c.expect("DEBUG POPULATE 1 p 1073741825", tooMuch)
	c.expect("DEBUG POPULATE 10000 p 100", "+OK")
	c.expect("DEBUG RELOAD NOFLUSH", "-ERR Error trying to load the RDB dump, check server logs.")
	c.expect("DBSIZE", ":10000")
}

// A pipeline that sleeps sees the time that has passed.
func TestDebugSleepMovesTheClock(t *testing.T) {
	c := start(t, "--enable-debug-command", "yes").conn()
	replies, err := c.Pipeline([]string{"SET", "k", "v", "PX", "20"}, []string{"DEBUG", "SLEEP", "0.05"}, []string{"GET", "k"})
	if err != nil || !replies[2].IsNil() {
		t.Errorf("%v, %v", replies, err)
	}
	start := time.Now()
	c.expect("DEBUG SLEEP 0.05", "+OK")
	if d := time.Since(start); d < 50*time.Millisecond {
		t.Errorf("it slept %v", d)
	}
}
