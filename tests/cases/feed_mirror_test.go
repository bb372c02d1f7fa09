package cases

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/keyspace"
	"kevy/tests/process"
)

// TestMirrors keeps copies of parts of a store by their filters, under all that touches more than one key:
// FLUSHALL, FLUSHDB, SWAPDB, RENAME, MOVE, COPY, DEL, MSET, transactions, expiry. Each must end equal.
func TestMirrors(t *testing.T) {
	b := subject(t, "has no feed")
	rng := random(t)
	s := process.Start(t, b, process.Config{Args: []string{"--shards", "4", "--feed-backlog-bytes", "64kb"}})
	c := s.Conn(t)
	everything := func(keyspace.Key) bool { return true }
	has := func(prefixes ...string) func(keyspace.Key) bool {
		return func(k keyspace.Key) bool {
			for _, p := range prefixes {
				if strings.HasPrefix(k.Name, p) {
					return true
				}
			}
			return false
		}
	}
	const tiny = "1" // a frame a call, so that commits and filters meet in every way
	mirrors := []*mirror{
		newMirror(t, mirror{name: "database 0", stream: "ALL", db: 0, of: everything}),
		newMirror(t, mirror{name: "user: in database 0", stream: "ALL", db: 0, options: []string{"PREFIX", "user:", "COUNT", tiny}, of: has("user:")}),
		newMirror(t, mirror{name: "user: and order: in database 1", stream: "ALL", db: 1, options: []string{"DB", "1", "PREFIX", "user:", "PREFIX", "order:"}, of: has("user:", "order:")}),
		newMirror(t, mirror{name: "*r:1* in database 2", stream: "ALL", db: 2, options: []string{"DB", "2", "MATCH", "*r:1*", "COUNT", tiny},
			of: func(k keyspace.Key) bool { return strings.Contains(k.Name, "r:1") }}),
		newMirror(t, mirror{name: "all databases", stream: "ALL", db: -1, options: []string{"DB", "*", "META"}, of: everything}),
		newMirror(t, mirror{name: "user: in all databases", stream: "ALL", db: -1, options: []string{"DB", "*", "META", "PREFIX", "user:", "BYTES", "100"}, of: has("user:")}),
	}
	for _, m := range mirrors {
		m.begin(t, c)
	}
	rounds, held := 60, 0
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		conn := s.Conn(t)
		db := rng.IntN(3)
		cmds := [][]string{{"SELECT", strconv.Itoa(db)}}
		for range 40 {
			next := mirrored(rng)
			if rng.IntN(5) == 0 {
				cmds = append(cmds, []string{"MULTI"}, next, mirrored(rng), mirrored(rng), []string{"EXEC"})
			} else {
				cmds = append(cmds, next)
			}
		}
		replies, err := conn.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range replies {
			// Renaming what is not there is refused, and so are commands on another type.
			if r.IsError("") && !r.IsError("WRONGTYPE") && !strings.Contains(r.String(), "no such key") && !strings.Contains(r.String(), "not an integer") && !strings.Contains(r.String(), "are the same") {
				t.Fatalf("%q: %s", cmds[i], r)
			}
		}
		conn.Close()
		// Half of the rounds are followed while keys still expire.
		if rng.IntN(2) == 0 {
			time.Sleep(mirroredTTL)
		}
		for _, m := range mirrors {
			held += m.check(t, c)
		}
	}
	for _, m := range mirrors {
		if m.frames == 0 {
			t.Errorf("the mirror %s was sent nothing", m.name)
		}
		if m.db >= 0 && m.restarts == 0 && !testing.Short() {
			t.Errorf("the mirror %s never met SWAPDB", m.name)
		}
		t.Logf("%s: %d frames, began %d times again", m.name, m.frames, m.restarts)
	}
	if held < 10*rounds {
		t.Errorf("the mirrors held %d keys in %d rounds: the test shows little", held, rounds)
	}
}

// mirroredTTL is how long the keys live that expire during the test.
const mirroredTTL = 20 * time.Millisecond

// mirrored makes a command of the kinds that feeds of single keys get wrong.
func mirrored(rng *rand.Rand) []string {
	key := func() string {
		return []string{"user:", "order:", "other:"}[rng.IntN(3)] + strconv.Itoa(rng.IntN(15))
	}
	value := strconv.Itoa(rng.IntN(1000))
	switch rng.IntN(24) {
	case 0:
		if rng.IntN(4) == 0 {
			return []string{"FLUSHALL"}
		}
		return []string{"INCR", "counter"}
	case 1:
		if rng.IntN(3) == 0 {
			return []string{"FLUSHDB"}
		}
		return []string{"UNLINK", key(), key()}
	case 2:
		if rng.IntN(6) == 0 {
			return []string{"SWAPDB", strconv.Itoa(rng.IntN(3)), strconv.Itoa(rng.IntN(3))}
		}
		return []string{"PERSIST", key()}
	case 3, 4:
		return []string{"RENAME", key(), key()}
	case 5:
		return []string{"RENAMENX", key(), key()}
	case 6, 7:
		return []string{"MOVE", key(), strconv.Itoa(3 + rng.IntN(2))}
	case 8:
		return []string{"COPY", key(), key(), "DB", strconv.Itoa(rng.IntN(3)), "REPLACE"}
	case 9, 10:
		return []string{"DEL", key(), key(), key()}
	case 11, 12, 13:
		return []string{"MSET", key(), value, key(), value, key(), value}
	case 14:
		return []string{"MSETNX", key(), value, key(), value}
	case 15:
		return []string{"SET", key(), value, "PX", strconv.FormatInt(mirroredTTL.Milliseconds(), 10)}
	case 16:
		return []string{"PEXPIRE", key(), strconv.Itoa(1 + rng.IntN(int(mirroredTTL.Milliseconds())))}
	case 17:
		return []string{"EXPIRE", key(), "1000"}
	case 18:
		return []string{"SADD", "set:" + key(), value, "x" + value}
	case 19:
		return []string{"SUNIONSTORE", key(), "set:" + key(), "set:" + key()}
	case 20:
		return []string{"HSET", "user:hash", "f" + value, value}
	case 21:
		return []string{"RENAME", "user:hash", fmt.Sprintf("order:hash%d", rng.IntN(3))}
	case 22:
		return []string{"RPUSH", "user:list", value}
	}
	return []string{"LMOVE", "user:list", "order:list", "LEFT", "RIGHT"}
}
