package cases

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/keyspace"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// fieldTTLMs is how long the fields live that expire during the test, at most.
const fieldTTLMs = 20

// fieldCommand makes a command on hashes whose fields expire.
func fieldCommand(rng *rand.Rand) []string {
	key := func() string { return "h" + strconv.Itoa(rng.IntN(12)) }
	number := func(n int) string { return strconv.Itoa(rng.IntN(n)) }
	far := func() string { return strconv.FormatInt(4_000_000_000_000+rng.Int64N(50), 10) }
	soon := func() string { return strconv.Itoa(1 + rng.IntN(fieldTTLMs)) }
	value := func() string {
		if rng.IntN(60) == 0 {
			return strings.Repeat("v", 70) // the hash becomes a table
		}
		return number(1000)
	}
	// counted is FIELDS with some fields, along with values or not.
	counted := func(values bool) []string {
		n := 1 + rng.IntN(4)
		out := []string{"FIELDS", strconv.Itoa(n)}
		for range n {
			out = append(out, "f"+number(20))
			if values {
				out = append(out, value())
			}
		}
		return out
	}
	switch rng.IntN(20) {
	case 0, 1, 2, 3:
		return append([]string{"HSET", key()}, counted(true)[2:]...)
	case 4:
		return append([]string{"HSETEX", key(), "PX", soon()}, counted(true)...)
	case 5:
		return append([]string{"HSETEX", key(), "PXAT", far()}, counted(true)...)
	case 6:
		return append([]string{"HSETEX", key(), "KEEPTTL"}, counted(true)...)
	case 7:
		return append([]string{"HPEXPIRE", key(), soon()}, counted(false)...)
	case 8, 9:
		return append([]string{"HPEXPIREAT", key(), far()}, counted(false)...)
	case 10:
		return append([]string{"HPEXPIREAT", key(), far(), []string{"NX", "XX", "GT", "LT"}[rng.IntN(4)]}, counted(false)...)
	case 11:
		return append([]string{"HPERSIST", key()}, counted(false)...)
	case 12:
		return append([]string{"HGETEX", key(), "PX", soon()}, counted(false)...)
	case 13:
		return append([]string{[]string{"HGETDEL", "HGETEX"}[rng.IntN(2)], key()}, counted(false)...)
	case 14:
		return []string{"HINCRBY", key(), "f" + number(20), number(9)}
	case 15:
		return []string{"HINCRBYFLOAT", key(), "f" + number(20), "0.5"}
	case 16:
		return []string{"COPY", key(), key(), "REPLACE"}
	case 17:
		return []string{"RENAME", key(), key()}
	case 18:
		return []string{[]string{"DEL", "PERSIST"}[rng.IntN(2)], key()}
	}
	return []string{"PEXPIREAT", key(), far()}
}

// TestFieldExpiryHistory changes hashes whose fields expire, and holds the server to the state that it showed:
// after a kill -9, after a load of the log written anew, and at a consumer of the feed, with one shard and with
// many.
func TestFieldExpiryHistory(t *testing.T) {
	b := subject(t, "has no field expiry")
	seed := random(t).Uint64()
	rounds := 8
	if testing.Short() {
		rounds = 4
	}
	for _, shards := range []string{"1", "16"} {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := process.Config{Args: []string{"--shards", shards, "--enable-debug-command", "yes"}}
		s := process.Start(t, b, cfg)
		cfg.Dir = s.Dir
		c := s.Conn(t)
		consumer := process.Start(t, b, process.Config{Args: []string{"--appendonly", "no"}}).Conn(t)
		at := position(t, c, "TAIL", "ALL")
		read := func(c *wire.Conn) keyspace.Dump {
			t.Helper()
			c.SetDeadline(time.Now().Add(time.Minute))
			d, err := keyspace.Read(c, 1)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		same := func(what string, want, got keyspace.Dump) {
			t.Helper()
			if diff := keyspace.Diff(want, got, keyspace.Options{}, 5); len(diff) > 0 {
				t.Fatalf("%s shards: %s differs: %q", shards, what, diff)
			}
		}
		frames, expiring, expired := 0, 0, 0
		for range rounds {
			var cmds [][]string
			for range 60 {
				if cmd := fieldCommand(rng); rng.IntN(6) == 0 {
					cmds = append(cmds, []string{"MULTI"}, cmd, fieldCommand(rng), fieldCommand(rng), []string{"EXEC"})
				} else {
					cmds = append(cmds, cmd)
				}
			}
			replies, err := c.Pipeline(cmds...)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range replies {
				if r.IsError("") && !strings.Contains(r.String(), "no such key") && !strings.Contains(r.String(), "are the same") && !strings.Contains(r.String(), "not a") {
					t.Fatalf("%q: %s", cmds[i], r)
				}
			}
			// What expires soon is gone before anything is compared.
			time.Sleep((fieldTTLMs + 5) * time.Millisecond)
			want := read(c)
			for _, v := range want {
				for _, ms := range v.TimesMs {
					if ms > 0 {
						expiring++
					}
				}
			}
			_, news, err := caughtUp(c, "ALL", at, "META")
			if err != nil {
				t.Fatal(err)
			}
			cmds = cmds[:0]
			for _, f := range news {
				if f.args[0] == "HDEL" && f.cause == "expired" {
					expired++
				}
				// The consumer must not be ahead of the frames by its own clock.
				cmds = append(cmds, notSoon(f.args))
			}
			frames += len(news)
			pipeline(t, consumer, cmds...)
			same("a consumer of the feed", want, read(consumer))

			do(t, c, "DBSIZE") // a reply that has seen all is written, so a kill takes back none of it
			s.Kill()
			s = process.Start(t, b, cfg)
			c = s.Conn(t)
			same("a replay of the log", want, read(c))
			// The feed goes on in another generation.
			at = position(t, c, "TAIL", "ALL")
			if rng.IntN(3) == 0 {
				do(t, c, "BGREWRITEAOF")
				for deadline := time.Now().Add(time.Minute); !strings.Contains(do(t, c, "INFO", "persistence").String(), "aof_rewrite_in_progress:0"); {
					if time.Now().After(deadline) {
						t.Fatal("the rewrite does not end")
					}
					time.Sleep(time.Millisecond)
				}
				s.Stop(t)
				s = process.Start(t, b, cfg)
				c = s.Conn(t)
				same("a load of the rewritten log", want, read(c))
				at = position(t, c, "TAIL", "ALL")
			}
		}
		t.Logf("%s shards: %d frames, %d deadlines seen, %d ops of expiry", shards, frames, expiring, expired)
		if expiring < 10*rounds || expired < rounds {
			t.Errorf("%s shards: %d fields had a deadline, %d ops were expiry's: too little was tried", shards, expiring, expired)
		}
	}
}

// notSoon returns a frame's command with a deadline that is near put off: the consumer applies it late, and its
// own clock must decide nothing.
func notSoon(args []string) []string {
	if args[0] != "HPEXPIREAT" || args[2] >= "4" && len(args[2]) == 13 || len(args[2]) > 13 {
		return args
	}
	args = slices.Clone(args)
	args[2] = strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	return args
}
