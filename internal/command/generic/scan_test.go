package generic_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"strconv"
	stdstrings "strings"
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/strings"
	"kevy/resp"
)

// scanPage runs SCAN and returns the next cursor and the keys.
func scanPage(t *testing.T, r *commandtest.Runner, args ...string) (cursor uint64, keys []string) {
	t.Helper()
	reply, err := resp.ReadReply(bufio.NewReader(stdstrings.NewReader(r.Do(append([]string{"SCAN"}, args...)...))))
	if err != nil || len(reply.Elems) != 2 {
		t.Fatalf("SCAN %q: %v, %v", args, reply, err)
	}
	cursor, err = strconv.ParseUint(string(reply.Elems[0].Str), 10, 64)
	if err != nil || cursor >= 1<<53 {
		t.Fatalf("the cursor %q is not one that a client can count in", reply.Elems[0].Str)
	}
	for _, k := range reply.Elems[1].Elems {
		keys = append(keys, string(k.Str))
	}
	return cursor, keys
}

// TestScanReturnsWhatStays holds SCAN's promise: a key that is there from the
// first call to the last is returned, whatever comes and goes meanwhile.
func TestScanReturnsWhatStays(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, count := range []string{"1", "7", "10", "1000"} {
		r := commandtest.NewRunner(strings.Commands(), generic.Commands())
		const stay = 2000
		for i := range stay {
			r.Do("SET", fmt.Sprint("stay", i), "v")
		}
		seen := map[string]bool{}
		var passing []string
		calls := 0
		for cursor := uint64(0); ; {
			var keys []string
			cursor, keys = scanPage(t, r, fmt.Sprint(cursor), "COUNT", count)
			for _, k := range keys {
				seen[k] = true
			}
			if cursor == 0 {
				break
			}
			if calls++; calls > 20*stay {
				t.Fatal("SCAN does not end")
			}
			// The tables grow at first and shrink later.
			for range rng.IntN(60) {
				if calls%300 < 150 {
					key := fmt.Sprint("pass", rng.IntN(1e6))
					r.Do("SET", key, "v")
					passing = append(passing, key)
				} else if len(passing) > 0 {
					r.Do("DEL", passing[len(passing)-1])
					passing = passing[:len(passing)-1]
				}
			}
		}
		for i := range stay {
			if key := fmt.Sprint("stay", i); !seen[key] {
				t.Errorf("COUNT %s: %s was there all the time and was not returned (seed %d)", count, key, seed)
			}
		}
	}
}

// A page holds about COUNT keys, and a small database is one page.
func TestScanPageSize(t *testing.T) {
	r := commandtest.NewRunner(strings.Commands(), generic.Commands())
	for i := range 5 {
		r.Do("SET", fmt.Sprint(i), "v")
	}
	if cursor, keys := scanPage(t, r, "0"); cursor != 0 || len(keys) != 5 {
		t.Errorf("a database of 5 keys: cursor %d, %d keys", cursor, len(keys))
	}
	for i := range 3000 {
		r.Do("SET", fmt.Sprint(i), "v")
	}
	for _, count := range []int{1, 10, 100, 1000} {
		if _, keys := scanPage(t, r, "0", "COUNT", fmt.Sprint(count)); len(keys) < count || len(keys) > count+64 {
			t.Errorf("COUNT %d: %d keys", count, len(keys))
		}
	}
	if cursor, keys := scanPage(t, r, "0", "COUNT", "9223372036854775807"); cursor != 0 || len(keys) != 3000 {
		t.Errorf("the largest COUNT: cursor %d, %d keys", cursor, len(keys))
	}
}

// Any number may come as a cursor.
func TestScanAnyCursor(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	r := commandtest.NewRunner(strings.Commands(), generic.Commands())
	for i := range 1000 {
		r.Do("SET", fmt.Sprint(i), "v")
	}
	for range 2000 {
		cursor := rng.Uint64() >> rng.IntN(64)
		scanPage(t, r, fmt.Sprint(cursor))
	}
}

func TestRandomKeyReachesEveryKey(t *testing.T) {
	r := commandtest.NewRunner(strings.Commands(), generic.Commands())
	const n = 50
	for i := range n {
		r.Do("SET", fmt.Sprint(i), "v")
	}
	seen := map[string]bool{}
	for range 200 * n {
		seen[r.Do("RANDOMKEY")] = true
	}
	if len(seen) != n {
		t.Errorf("%d of %d keys were picked", len(seen), n)
	}
}

func TestHotCommandsDoNotAllocate(t *testing.T) {
	r := commandtest.NewRunner(strings.Commands(), generic.Commands())
	r.Do("SET", "k", "v")
	for _, args := range [][]string{
		{"EXISTS", "k", "missing"}, {"DEL", "missing"}, {"TYPE", "k"}, {"TOUCH", "k"}, {"TTL", "k"}, {"PTTL", "k"},
		{"EXPIREAT", "k", "33177117420"}, {"EXPIREAT", "k", "33177117420", "XX"}, {"EXPIRETIME", "k"}, {"DBSIZE"},
	} {
		r.Do(args...)
		if n := r.Allocs(args...); n != 0 {
			t.Errorf("%q allocates %v times", args, n)
		}
	}
}
