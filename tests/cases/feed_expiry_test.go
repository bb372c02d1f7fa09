package cases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// TestExpiryInTheFeed lets keys of each type expire in every way there is: the feed shows one DEL for each,
// with the cause expired, after everything that was done to the key, and causes of its own for what users do.
func TestExpiryInTheFeed(t *testing.T) {
	b := subject(t, "has no feed")
	s := process.Start(t, b, process.Config{Args: []string{"--shards", "4", "--enable-debug-command", "yes"}})
	c := s.Conn(t)
	make := map[string][]string{"string": {"SET", "k", "v"}, "list": {"RPUSH", "k", "a", "b"}, "set": {"SADD", "k", "a", "b"},
		"hash": {"HSET", "k", "f", "v"}, "zset": {"ZADD", "k", "1", "m"}}
	// causes are what a stream shows of key k: "DEL expired" and so on, SETs and the like by verb and cause.
	causes := func(t *testing.T, at cursor, options ...string) []string {
		t.Helper()
		_, frames, err := caughtUp(c, "ALL", at, append([]string{"META"}, options...)...)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range frames {
			out = append(out, f.args[0]+" "+f.cause)
		}
		return out
	}
	t.Run("active", func(t *testing.T) {
		for kind, create := range make {
			at := position(t, c, "TAIL", "ALL")
			do(t, c, create...)
			do(t, c, "PEXPIRE", "k", "20")
			deadline := time.Now().Add(3 * time.Second)
			for !slices.Contains(causes(t, at), "DEL expired") {
				if time.Now().After(deadline) {
					t.Fatalf("a %s that nobody reads: %q", kind, causes(t, at))
				}
				time.Sleep(2 * time.Millisecond)
			}
			if got := causes(t, at); len(got) != 3 || got[0] != create[0]+" user" || got[1] != "PEXPIREAT user" {
				t.Errorf("%s: %q", kind, got)
			}
		}
	})
	t.Run("lazy", func(t *testing.T) {
		// Whatever looks at an expired key first makes it go, once.
		do(t, c, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
		defer do(t, c, "DEBUG", "SET-ACTIVE-EXPIRE", "1")
		for _, look := range [][]string{{"GET", "k"}, {"EXISTS", "k"}, {"TYPE", "k"}, {"TTL", "k"}, {"STRLEN", "k"}, {"MGET", "x", "k"}, {"DEL", "k"}, {"UNLINK", "k"},
			{"PERSIST", "k"}, {"EXPIRE", "k", "100"}, {"RENAMENX", "x", "k"}, {"GETDEL", "k"}, {"SETRANGE", "k", "0", ""}, {"TOUCH", "k"}, {"OBJECT", "ENCODING", "k"},
			{"MOVE", "k", "1"}, {"COPY", "k", "y"}, {"LPUSHX", "k", "v"}, {"SMEMBERS", "k"}, {"SUNION", "x", "k"}, {"ZCARD", "k"}, {"HGETALL", "k"}} {
			do(t, c, "SET", "x", "1")
			if look[0] == "SUNION" {
				do(t, c, "DEL", "x")
			}
			at := position(t, c, "TAIL", "ALL")
			do(t, c, "SET", "k", "v", "PX", "3")
			time.Sleep(8 * time.Millisecond)
			if got := causes(t, at); len(got) != 1 {
				t.Fatalf("before anybody looks: %q", got)
			}
			for range 2 {
				if _, err := c.Do(look...); err != nil {
					t.Fatal(err)
				}
			}
			got := causes(t, at)
			// RENAMENX goes through: its frames follow.
			if len(got) < 2 || got[0] != "SET user" || got[1] != "DEL expired" || len(got) > 2 && look[0] != "RENAMENX" {
				t.Errorf("%q: %q", look, got)
			}
		}
		// What is written over an expired key begins anew.
		for _, write := range [][]string{{"SET", "k", "w"}, {"APPEND", "k", "w"}, {"INCR", "k"}, {"SETNX", "k", "w"}, {"RPUSH", "k", "w"}, {"SADD", "k", "w"}, {"HSET", "k", "f", "w"}, {"ZADD", "k", "1", "w"}} {
			at := position(t, c, "TAIL", "ALL")
			do(t, c, "SET", "k", "v", "PX", "3")
			time.Sleep(8 * time.Millisecond)
			do(t, c, write...)
			got := causes(t, at)
			if len(got) != 3 && !(len(got) == 2 && write[0] == "SET") || got[len(got)-1] == "DEL expired" {
				t.Errorf("%q: %q", write, got)
			}
			if do(t, c, "TTL", "k").String() != ":-1" {
				t.Errorf("%q: the old expiry stays", write)
			}
		}
	})
	t.Run("users", func(t *testing.T) {
		for _, remove := range [][][]string{
			{{"DEL", "k"}}, {{"EXPIRE", "k", "-1"}}, {{"PEXPIREAT", "k", "1"}}, {{"GETEX", "k", "PXAT", "1"}}, {{"GETDEL", "k"}},
			{{"DEL", "l"}, {"RPUSH", "l", "a"}, {"LPOP", "l"}},
		} {
			at := position(t, c, "TAIL", "ALL")
			do(t, c, "SET", "k", "v")
			for _, cmd := range remove {
				do(t, c, cmd...)
			}
			for _, cause := range causes(t, at) {
				if !strings.HasSuffix(cause, " user") {
					t.Errorf("%q: %q", remove, causes(t, at))
				}
			}
			if do(t, c, "EXISTS", "k", "l").String() != ":0" && remove[0][0] != "DEL" {
				t.Errorf("%q leaves the key", remove)
			}
		}
	})
	t.Run("many at once", func(t *testing.T) {
		// Keys in three databases expire while many read them: one DEL each, in its database and after its SET.
		at := position(t, c, "TAIL", "ALL")
		const keys = 300
		var wg sync.WaitGroup
		for g := range 6 {
			conn, err := wire.Dial(s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			do(t, conn, "SELECT", strconv.Itoa(g%3))
			for i := range keys {
				do(t, conn, "SET", fmt.Sprintf("e:%d", i), "v", "PX", strconv.Itoa(30+i%50))
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				end := time.Now().Add(150 * time.Millisecond)
				for i := 0; time.Now().Before(end); i++ {
					if _, err := conn.Do("GET", fmt.Sprintf("e:%d", i%keys)); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		wg.Wait()
		time.Sleep(100 * time.Millisecond)
		_, frames, err := caughtUp(c, "ALL", at, "META", "DB", "*")
		if err != nil {
			t.Fatal(err)
		}
		alive := map[string]bool{}
		expired := 0
		for _, f := range frames {
			k := fmt.Sprint(f.db, " ", f.args[1])
			switch {
			case f.args[0] == "SET":
				alive[k] = true
			case f.args[0] == "DEL" && f.cause == "expired" && alive[k]:
				delete(alive, k)
				expired++
			default:
				t.Errorf("%s %v (%s) while the key is there: %v", k, f, f.cause, alive[k])
			}
		}
		if len(alive) > 0 || expired < 3*keys {
			t.Errorf("%d keys expired, %d never went: %v", expired, len(alive), alive)
		}
		// Without META and in a shard's stream it is a DEL like any other.
		shards := 0
		for shard := range 4 {
			_, frames, err := caughtUp(c, strconv.Itoa(shard), position(t, c, "OLDEST", strconv.Itoa(shard)), "PREFIX", "e:")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				if len(f.args) == 2 && f.args[0] == "DEL" {
					shards++
				}
			}
		}
		if shards < keys {
			t.Errorf("the streams of the shards show %d DEL of database 0, want at least %d", shards, keys)
		}
	})
	t.Run("fields of a hash", func(t *testing.T) {
		cfg := process.Config{Args: []string{"--enable-debug-command", "yes"}}
		s := process.Start(t, b, cfg)
		c := s.Conn(t)
		// shown is causes with the fields that an HDEL names, sorted.
		shown := func(at cursor) (out []string) {
			t.Helper()
			_, frames, err := caughtUp(c, "ALL", at, "META")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				line := f.args[0] + " " + f.cause
				if f.args[0] == "HDEL" {
					fields := slices.Clone(f.args[2:])
					slices.Sort(fields)
					line += " " + strings.Join(fields, ",")
				}
				out = append(out, line)
			}
			return out
		}
		eventually := func(at cursor, want ...string) {
			t.Helper()
			deadline := time.Now().Add(3 * time.Second)
			for !slices.Equal(shown(at), want) {
				if time.Now().After(deadline) {
					t.Fatalf("got  %q\nwant %q", shown(at), want)
				}
				time.Sleep(2 * time.Millisecond)
			}
		}
		at := position(t, c, "TAIL", "ALL")
		do(t, c, "HSET", "h", "a", "1", "b", "2", "c", "3")
		do(t, c, "HPEXPIRE", "h", "20", "FIELDS", "2", "a", "b")
		eventually(at, "HSET user", "HPEXPIREAT user", "HDEL expired a,b")
		at = position(t, c, "TAIL", "ALL")
		do(t, c, "EXPIRE", "h", "1000")
		do(t, c, "HPEXPIRE", "h", "20", "FIELDS", "1", "c")
		// The key goes with its last field, and a consumer knows by the HDEL.
		eventually(at, "PEXPIREAT user", "HPEXPIREAT user", "HDEL expired c")
		if got := do(t, c, "EXISTS", "h").String(); got != ":0" {
			t.Errorf("EXISTS h: %s", got)
		}

		do(t, c, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
		time.Sleep(60 * time.Millisecond) // a round of the cycle that had begun is over
		for _, look := range [][]string{{"HGET", "h", "keep"}, {"HLEN", "h"}, {"EXISTS", "h"}, {"TYPE", "h"}, {"HGETALL", "h"}, {"HSCAN", "h", "0"},
			{"HINCRBY", "h", "a", "1"}, {"HSETEX", "h", "FXX", "FIELDS", "1", "a", "1"}, {"COPY", "h", "h2", "REPLACE"}} {
			do(t, c, "DEL", "h", "h2")
			at = position(t, c, "TAIL", "ALL")
			do(t, c, "HSET", "h", "a", "1", "b", "1", "keep", "1")
			do(t, c, "HPEXPIRE", "h", "3", "FIELDS", "2", "a", "b")
			time.Sleep(8 * time.Millisecond)
			if got := shown(at); len(got) != 2 {
				t.Fatalf("before anybody looks: %q", got)
			}
			if _, err := c.Do(look...); err != nil {
				t.Fatal(err)
			}
			if got := shown(at); len(got) < 3 || got[2] != "HDEL expired a,b" || len(got) > 3 && look[0] != "HINCRBY" && look[0] != "COPY" {
				t.Errorf("%q: %q", look, got)
			}
		}
		do(t, c, "DEBUG", "SET-ACTIVE-EXPIRE", "1")

		// What users remove is theirs.
		at = position(t, c, "TAIL", "ALL")
		do(t, c, "HSET", "u", "a", "1", "b", "1", "c", "1", "d", "1", "e", "1")
		do(t, c, "HDEL", "u", "a")
		do(t, c, "HEXPIRE", "u", "0", "FIELDS", "1", "b")
		do(t, c, "HGETEX", "u", "PXAT", "1", "FIELDS", "1", "c")
		do(t, c, "HGETDEL", "u", "FIELDS", "1", "d")
		do(t, c, "HSETEX", "u", "EX", "0", "FIELDS", "1", "e", "2")
		eventually(at, "HSET user", "HDEL user a", "HDEL user b", "HDEL user c", "HDEL user d", "HDEL user e")

		do(t, c, "HSETEX", "down", "PX", "100", "FIELDS", "1", "f", "v")
		do(t, c, "HSETEX", "down", "EX", "1000", "FIELDS", "1", "g", "v")
		at = position(t, c, "TAIL", "ALL")
		s.Stop(t)
		time.Sleep(120 * time.Millisecond)
		cfg.Dir = s.Dir
		s = process.Start(t, b, cfg)
		c = s.Conn(t)
		eventually(at, "HDEL expired f")
		if got := do(t, c, "INFO", "stats").String(); !strings.Contains(got, "expired_subkeys:1\\r\\n") {
			t.Errorf("INFO stats: %s", got)
		}
		if got := do(t, c, "INFO", "keyspace").String(); !strings.Contains(got, ",subexpiry=1\\r\\n") {
			t.Errorf("INFO keyspace: %s", got)
		}
	})
	t.Run("while the server is down", func(t *testing.T) {
		for _, clean := range []bool{true, false} {
			do(t, c, "SET", "down", "v", "PX", "100")
			do(t, c, "SET", "stays", "v", "EX", "1000")
			at := position(t, c, "TAIL", "ALL")
			if clean {
				s.Stop(t)
			} else {
				s.Kill()
			}
			time.Sleep(120 * time.Millisecond)
			s = process.Start(t, b, process.Config{Dir: s.Dir})
			c = s.Conn(t)
			deadline := time.Now().Add(3 * time.Second)
			for !slices.Equal(causes(t, at), []string{"DEL expired"}) {
				if time.Now().After(deadline) {
					t.Fatalf("after a restart (clean %v): %q", clean, causes(t, at))
				}
				time.Sleep(2 * time.Millisecond)
			}
			if got := do(t, c, "MGET", "down", "stays").String(); got != `[$nil, "v"]` {
				t.Errorf("after a restart: %s", got)
			}
		}
	})
}
