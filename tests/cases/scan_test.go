package cases

import (
	"fmt"
	"strconv"
	"testing"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// scanned is a collection that a command of the SCAN family walks over.
type scanned struct {
	name        string
	scan        []string // the command up to its cursor
	add, remove []string // the command up to its elements
	score       bool     // an element is added with a score or value before or behind it
	pairs       bool     // the reply has a second text for each element
}

// TestScanWhileItChanges walks over the keyspace and over large collections while others add, remove and
// change elements between the calls: what was there throughout comes at least once, and the walk ends.
func TestScanWhileItChanges(t *testing.T) {
	rng := random(t)
	s := process.Start(t, process.Subject(t), process.Config{Args: []string{"--shards", "4"}})
	c := s.Conn(t)
	for _, kind := range []scanned{
		{name: "keys", scan: []string{"SCAN"}, add: []string{"MSET"}, remove: []string{"DEL"}, score: true},
		{name: "hash", scan: []string{"HSCAN", "h"}, add: []string{"HSET", "h"}, remove: []string{"HDEL", "h"}, score: true, pairs: true},
		{name: "set", scan: []string{"SSCAN", "s"}, add: []string{"SADD", "s"}, remove: []string{"SREM", "s"}},
		{name: "sorted set", scan: []string{"ZSCAN", "z"}, add: []string{"ZADD", "z"}, remove: []string{"ZREM", "z"}, score: true, pairs: true},
	} {
		add := func(names ...string) {
			args := append([]string{}, kind.add...)
			for _, n := range names {
				switch {
				case kind.add[0] == "ZADD":
					args = append(args, strconv.Itoa(rng.IntN(1000)), n)
				case kind.score:
					args = append(args, n, strconv.Itoa(rng.IntN(1000)))
				default:
					args = append(args, n)
				}
			}
			do(t, c, args...)
		}
		remove := func(names ...string) { do(t, c, append(append([]string{}, kind.remove...), names...)...) }
		series := func(prefix string, n int) []string {
			out := make([]string, n)
			for i := range out {
				out[i] = fmt.Sprintf("%s%d", prefix, i)
			}
			return out
		}
		const elements = 1000
		for _, change := range []struct {
			name    string
			between func(call int)
			stays   int // of k0 … k999 those below are never touched
		}{
			{"nothing", func(int) {}, elements},
			{"removes", func(call int) {
				for range 20 {
					remove(fmt.Sprintf("k%d", 100+rng.IntN(900)))
				}
			}, 100},
			{"grows", func(call int) { add(series(fmt.Sprintf("g%d-", call%40), 250)...) }, elements},
			{"grows to ten times and shrinks again", func(call int) {
				switch call % 20 {
				case 5:
					add(series("extra", 10_000)...)
				case 15:
					remove(series("extra", 10_000)...)
				}
			}, elements},
			{"changes values", func(call int) { add(series("k", 50)...) }, elements},
			{"shrinks to a few", func(call int) {
				if call == 3 {
					remove(series("k", elements)[10:]...)
				}
			}, 10},
		} {
			t.Run(kind.name+" "+change.name, func(t *testing.T) {
				do(t, c, "FLUSHALL")
				add(series("k", elements)...)
				seen := map[string]bool{}
				cursor, calls := "0", 0
				for {
					r := do(t, c, append(append([]string{}, kind.scan...), cursor, "COUNT", "10")...)
					if len(r.Elems) != 2 || r.Elems[0].Kind != wire.Bulk {
						t.Fatalf("a reply of another shape: %s", r)
					}
					names := r.Elems[1].Strings()
					if len(names) > 500 {
						t.Errorf("COUNT 10 gives %d elements at once", len(names))
					}
					for i := 0; i < len(names); i++ {
						seen[names[i]] = true
						if kind.pairs {
							i++
						}
					}
					calls++
					if cursor = string(r.Elems[0].Text); cursor == "0" {
						break
					}
					if calls > 10_000 {
						t.Fatal("the walk does not end")
					}
					change.between(calls)
				}
				missed := 0
				for i := range change.stays {
					if !seen[fmt.Sprintf("k%d", i)] {
						missed++
					}
				}
				if missed > 0 {
					t.Errorf("%d of %d elements that were there throughout never came, in %d calls", missed, change.stays, calls)
				}
				if change.name == "nothing" && calls < 20 {
					t.Errorf("COUNT 10 over %d elements took %d calls: it shows nothing", elements, calls)
				}
			})
		}
	}
}
