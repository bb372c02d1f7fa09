package all

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/resp"
)

// TestScansReturnWhatStays holds the promise of SSCAN, HSCAN and ZSCAN: an element
// that is there from the first call to the last is returned, whatever comes and
// goes meanwhile, while the table grows and shrinks. SCAN's is held where it is.
func TestScansReturnWhatStays(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, kind := range []struct {
		scan, remove string
		add          func(name string) []string
		pair         int
	}{
		{"SSCAN", "SREM", func(name string) []string { return []string{"SADD", "k", name} }, 1},
		{"HSCAN", "HDEL", func(name string) []string { return []string{"HSET", "k", name, "v"} }, 2},
		{"ZSCAN", "ZREM", func(name string) []string { return []string{"ZADD", "k", "1", name} }, 2},
	} {
		for _, stay := range []int{3, 60, 2000} {
			for _, count := range []string{"1", "10", "500"} {
				r := commandtest.NewRunner(Data())
				for i := range stay {
					r.Do(kind.add(fmt.Sprint("stay", i))...)
				}
				seen := map[string]bool{}
				var passing []string
				for cursor, calls := "0", 0; ; calls++ {
					reply := r.Do(kind.scan, "k", cursor, "COUNT", count)
					page, err := resp.ReadReply(bufio.NewReader(strings.NewReader(reply)))
					if err != nil || len(page.Elems) != 2 {
						t.Fatalf("%s: %q, %v", kind.scan, reply, err)
					}
					for i := 0; i < len(page.Elems[1].Elems); i += kind.pair {
						seen[string(page.Elems[1].Elems[i].Str)] = true
					}
					cursor = string(page.Elems[0].Str)
					if n, err := strconv.ParseUint(cursor, 10, 64); err != nil || n >= 1<<53 {
						t.Fatalf("%s: the cursor %q is not one that a client can count in", kind.scan, cursor)
					}
					if cursor == "0" {
						break
					}
					if calls > 20*stay+1000 {
						t.Fatalf("%s does not end", kind.scan)
					}
					// The table grows at first, shrinks later, and so on.
					for range rng.IntN(80) {
						if calls%200 < 100 {
							name := fmt.Sprint("pass", rng.IntN(1e6))
							r.Do(kind.add(name)...)
							passing = append(passing, name)
						} else if n := len(passing); n > 0 {
							r.Do(kind.remove, "k", passing[n-1])
							passing = passing[:n-1]
						}
					}
				}
				for i := range stay {
					if name := fmt.Sprint("stay", i); !seen[name] {
						t.Errorf("%s COUNT %s: of %d elements that stay, %s was not returned", kind.scan, count, stay, name)
					}
				}
			}
		}
	}
}
