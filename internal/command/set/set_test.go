package set_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	stdstrings "strings"
	"testing"
	"time"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/list"
	"kevy/internal/command/set"
	"kevy/internal/command/strings"
	"kevy/internal/command/zset"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, set.Commands()) }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, set.Commands(), zset.Commands(), strings.Commands(), generic.Commands(), list.Commands())
}

// numbers returns the command's words with n members behind them, of which
// those of a set that is no array of integers have a letter.
func numbers(n int, letter string, words ...string) []string {
	for i := range n {
		words = append(words, letter+strconv.Itoa(i))
	}
	return words
}

func TestLargeResultsAreSeveralOps(t *testing.T) {
	for _, letter := range []string{"", "m"} {
		given := []string{stdstrings.Join(numbers(300, letter, "SADD", "a"), " ")}
		for _, c := range []struct {
			ops int
			cmd string
		}{
			{3, "SUNIONSTORE d a"},
			{4, "SINTERSTORE d a a"}, // and a DEL
			{4, "SDIFFSTORE d a nope"},
			{2, "SPOP d 129"},
			{1, "SPOP d 1000"}, // DEL
			{0, "SPOP d 1000"},
			{4, "SUNIONSTORE a a"},
			{3, "SPOP a 299"},
			{1, "SPOP a 9"},
		} {
			ops, err := commandtest.Ops(given, c.cmd, set.Commands())
			if err != nil || len(ops) != c.ops {
				t.Errorf("%q members: %s: %d ops, want %d; %v", letter, c.cmd, len(ops), c.ops, err)
			}
			given = append(given, c.cmd)
		}
	}
}

func TestRepeatedMembersAreBounded(t *testing.T) {
	k := commandtest.NewRunner(set.Commands())
	k.Do("SADD", "s", "a")
	const want = "-ERR value is out of range\r\n"
	if got := k.Do("SRANDMEMBER", "s", "-9223372036854775807"); got != want {
		t.Errorf("%.80q", got)
	}
	if got := k.Do("SRANDMEMBER", "s", "-3"); got != "*3\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n" {
		t.Errorf("%.80q", got)
	}
}

// members returns the elements of a reply that is an array of strings.
func members(t *testing.T, reply string) []string {
	t.Helper()
	lines := stdstrings.Split(stdstrings.TrimSuffix(reply, "\r\n"), "\r\n")
	var out []string
	for i := 2; i < len(lines); i += 2 {
		out = append(out, lines[i])
	}
	if lines[0] != "*"+strconv.Itoa(len(out)) {
		t.Fatalf("%q", reply)
	}
	return out
}

// TestRandomMembers draws from sets of both encodings, by each of the ways to
// draw, and holds that members are distinct and that all get their share.
func TestRandomMembers(t *testing.T) {
	const size = 60
	for _, letter := range []string{"", "m"} {
		k := commandtest.NewRunner(set.Commands())
		k.Do(numbers(size, letter, "SADD", "s")...)
		for _, cmd := range []string{"SRANDMEMBER", "SPOP"} {
			for _, n := range []int{1, 5, 19, 20, 40, 59} {
				drawn := map[string]int{}
				rounds := max(300, 3000/n)
				for range rounds {
					from := "s"
					if cmd == "SPOP" {
						k.Do("SUNIONSTORE", "t", "s")
						from = "t"
					}
					got := members(t, k.Do(cmd, from, strconv.Itoa(n)))
					slices.Sort(got)
					if len(slices.Compact(got)) != n {
						t.Fatalf("%s %d of %q: %q", cmd, n, letter, got)
					}
					for _, m := range got {
						drawn[m]++
					}
					if want := ":" + strconv.Itoa(size-n) + "\r\n"; cmd == "SPOP" && k.Do("SCARD", "t") != want {
						t.Fatalf("SPOP %d left %q", n, k.Do("SCARD", "t"))
					}
				}
				if len(drawn) != size {
					t.Errorf("%s %d of %q: only %d members ever", cmd, n, letter, len(drawn))
				}
				// Beyond what chance does, short of what a bias would.
				mean := float64(rounds*n) / size
				low, high := 0.7*mean-6*math.Sqrt(mean), 1.4*mean+8*math.Sqrt(mean)
				for m, got := range drawn {
					if float64(got) < low || float64(got) > high {
						t.Errorf("%s %d of %q: %s was drawn %d times, the mean is %.0f", cmd, n, letter, m, got, mean)
					}
				}
			}
		}
	}
}

// TestSetOperations holds the operations, on sets of all sizes, to a model.
func TestSetOperations(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		k := commandtest.NewRunner(set.Commands())
		letter := []string{"", "m"}[rng.IntN(2)]
		n := 1 + rng.IntN(6)
		args := []string{}
		sets := make([]map[string]bool, n)
		for i := range sets {
			sets[i] = map[string]bool{}
			add := []string{"SADD", "k" + strconv.Itoa(i)}
			span := 1 + rng.IntN(1<<rng.IntN(10))
			for range rng.IntN(1 << rng.IntN(10)) {
				m := letter + strconv.Itoa(rng.IntN(span))
				sets[i][m] = true
				add = append(add, m)
			}
			if len(add) > 2 {
				k.Do(add...)
			}
			args = append(args, add[1])
		}
		count := map[string]int{}
		for _, s := range sets {
			for m := range s {
				count[m]++
			}
		}
		var union, inter, diff []string
		for m, times := range count {
			union = append(union, m)
			if times == n {
				inter = append(inter, m)
			}
			if sets[0][m] && times == 1 {
				diff = append(diff, m)
			}
		}
		for _, c := range []struct {
			name string
			want []string
		}{{"SUNION", union}, {"SINTER", inter}, {"SDIFF", diff}} {
			got := members(t, k.Do(append([]string{c.name}, args...)...))
			k.Do(append([]string{c.name + "STORE", "d"}, args...)...)
			stored := members(t, k.Do("SMEMBERS", "d"))
			slices.Sort(c.want)
			slices.Sort(got)
			slices.Sort(stored)
			if !slices.Equal(got, c.want) || !slices.Equal(stored, c.want) {
				t.Fatalf("seed %d: %s of %v: %q, stored %q, want %q", seed, c.name, sets, got, stored, c.want)
			}
		}
		if got, want := k.Do(append([]string{"SINTERCARD", strconv.Itoa(n)}, args...)...), ":"+strconv.Itoa(len(inter))+"\r\n"; got != want {
			t.Fatalf("seed %d: SINTERCARD: %q, want %q", seed, got, want)
		}
	}
}

// TestScan walks over sets of the sizes around those that are answered whole,
// while other members come and go.
func TestScan(t *testing.T) {
	for _, size := range []int{127, 128, 129, 1000} {
		r := commandtest.NewRunner(set.Commands())
		r.Do(numbers(size, "m", "SADD", "s")...)
		seen := map[string]bool{}
		calls := 0
		for cursor := "0"; cursor != "0" || calls == 0; calls++ {
			reply := r.Do("SSCAN", "s", cursor, "COUNT", "5", "MATCH", "m*")
			lines := stdstrings.SplitN(reply, "\r\n", 4)
			cursor = lines[2]
			for _, m := range members(t, lines[3]) {
				seen[m] = true
			}
			r.Do("SADD", "s", "x"+strconv.Itoa(calls), "y"+strconv.Itoa(calls))
			r.Do("SREM", "s", "x"+strconv.Itoa(calls))
		}
		if len(seen) != size {
			t.Errorf("%d of %d members were returned", len(seen), size)
		}
		if whole := calls == 1; whole != (size <= 128) {
			t.Errorf("a set of %d took %d calls", size, calls)
		}
	}
}

func TestAllocations(t *testing.T) {
	r := commandtest.NewRunner(set.Commands())
	r.Do(numbers(100, "m", "SADD", "s")...)
	r.Do(numbers(100, "", "SADD", "i")...)
	for _, key := range []string{"s", "i"} {
		for _, cmd := range []string{
			"SADD k 7 8", "SREM k 777", "SISMEMBER k 7", "SMISMEMBER k 7 m8", "SCARD k", "SMEMBERS k", "SMOVE k k 7",
		} {
			args := stdstrings.Fields(cmd)
			args[1] = key
			most := 0.0
			if cmd == "SMEMBERS k" {
				most = 1 // integers are put into text
			}
			if n := r.Allocs(args...); n > most {
				t.Errorf("%q: %v allocations", args, n)
			}
		}
	}
}
