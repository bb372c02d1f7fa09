package zset_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	stdstrings "strings"
	"testing"
	"time"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/set"
	"kevy/internal/command/zset"
)

// scored is an element of the models.
type scored struct {
	member string
	score  float64
}

func inOrder(scores map[string]float64) []scored {
	out := make([]scored, 0, len(scores))
	for m, s := range scores {
		out = append(out, scored{m, s})
	}
	slices.SortFunc(out, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.score, b.score), bytes.Compare([]byte(a.member), []byte(b.member)))
	})
	return out
}

// elements returns the strings of a flat array.
func elements(t *testing.T, reply string) []string {
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

// withScores is what a reply WITHSCORES holds.
func withScores(elems []scored) []string {
	var out []string
	for _, e := range elems {
		out = append(out, e.member, strconv.FormatFloat(e.score, 'f', -1, 64))
	}
	return out
}

func without(elems []scored) []string {
	var out []string
	for _, e := range elems {
		out = append(out, e.member)
	}
	return out
}

func upTo(rng *rand.Rand, bits int) int { return rng.IntN(1 << rng.IntN(bits)) }

// TestRanges holds every way to ask for a range, on sorted sets of both
// encodings, to a model.
func TestRanges(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		r := commandtest.NewRunner(zset.Commands())
		scores, lex := map[string]float64{}, map[string]float64{}
		for range 1 + upTo(rng, 11) {
			m, s := "m"+strconv.Itoa(rng.IntN(2000)), float64(rng.IntN(100))
			scores[m], lex[m] = s, 0
			r.Do("ZADD", "z", strconv.Itoa(int(s)), m)
			r.Do("ZADD", "x", "0", m)
		}
		byScore, byLex := inOrder(scores), inOrder(lex)
		for range 100 {
			elems, key := byScore, "z"
			var in func(scored) bool
			var low, high, by string
			n := len(byScore)
			switch rng.IntN(3) {
			case 0:
				a, b := rng.IntN(3*n+2)-n-1, rng.IntN(3*n+2)-n-1
				low, high = strconv.Itoa(a), strconv.Itoa(b)
			case 1:
				by = "BYSCORE"
				a, b := rng.IntN(110)-5, rng.IntN(110)-5
				low, high = strconv.Itoa(a), strconv.Itoa(b)
				exA, exB := rng.IntN(2) == 0, rng.IntN(2) == 0
				if exA {
					low = "(" + low
				}
				if exB {
					high = "(" + high
				}
				in = func(e scored) bool {
					return (e.score > float64(a) || !exA && e.score == float64(a)) && (e.score < float64(b) || !exB && e.score == float64(b))
				}
			default:
				by, elems, key = "BYLEX", byLex, "x"
				a, b := "m"+strconv.Itoa(rng.IntN(2000)), "m"+strconv.Itoa(rng.IntN(2000))
				exA, exB := rng.IntN(2) == 0, rng.IntN(2) == 0
				low, high = "["+a, "["+b
				if exA {
					low = "(" + a
				}
				if exB {
					high = "(" + b
				}
				in = func(e scored) bool {
					return (e.member > a || !exA && e.member == a) && (e.member < b || !exB && e.member == b)
				}
			}
			var want []scored
			reverse := rng.IntN(2) == 0
			if in == nil {
				if reverse {
					elems = slices.Clone(elems)
					slices.Reverse(elems)
				}
				a, _ := strconv.Atoi(low)
				b, _ := strconv.Atoi(high)
				if a < 0 {
					a = max(a+n, 0)
				}
				if b < 0 {
					b += n
				}
				for i := a; i <= b && i < n; i++ {
					want = append(want, elems[i])
				}
			} else {
				for _, e := range elems {
					if in(e) {
						want = append(want, e)
					}
				}
				if got := r.Do(map[string]string{"BYSCORE": "ZCOUNT", "BYLEX": "ZLEXCOUNT"}[by], key, low, high); got != fmt.Sprintf(":%d\r\n", len(want)) {
					t.Fatalf("seed %d: %s count %s %s: %q, want %d", seed, by, low, high, got, len(want))
				}
			}
			args := []string{"ZRANGE", key, low, high}
			if by != "" {
				if reverse {
					slices.Reverse(want)
					args[2], args[3] = high, low
				}
				args = append(args, by)
				if rng.IntN(2) == 0 {
					offset, limit := upTo(rng, 9), upTo(rng, 9)-1
					args = append(args, "LIMIT", strconv.Itoa(offset), strconv.Itoa(limit))
					want = want[min(offset, len(want)):]
					if limit >= 0 {
						want = want[:min(limit, len(want))]
					}
				}
			}
			if reverse {
				args = append(args, "REV")
			}
			texts := without(want)
			if by != "BYLEX" && rng.IntN(2) == 0 {
				args = append(args, "WITHSCORES")
				texts = withScores(want)
			}
			if got := elements(t, r.Do(args...)); !slices.Equal(got, texts) {
				t.Fatalf("seed %d: %q of %v:\n got  %q\n want %q", seed, args, elems, got, texts)
			}
			stored := elements(t, func() string {
				cmd := append([]string{"ZRANGESTORE", "d"}, args[1:]...)
				if cmd[len(cmd)-1] == "WITHSCORES" {
					cmd = cmd[:len(cmd)-1]
				}
				r.Do(cmd...)
				return r.Do("ZRANGE", "d", "0", "-1", "WITHSCORES")
			}())
			set := map[string]float64{}
			for _, e := range want {
				set[e.member] = e.score
			}
			if want := withScores(inOrder(set)); !slices.Equal(stored, want) {
				t.Fatalf("seed %d: %q stored:\n got  %q\n want %q", seed, args, stored, want)
			}
		}
	}
}

// TestRemovals pops and removes ranges until nothing is left.
func TestRemovals(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 40 {
		r := commandtest.NewRunner(zset.Commands())
		scores := map[string]float64{}
		for range 1 + upTo(rng, 12) {
			m, s := "m"+strconv.Itoa(rng.IntN(4000)), float64(rng.IntN(50))
			scores[m] = s
			r.Do("ZADD", "z", strconv.Itoa(int(s)), m)
		}
		left := inOrder(scores)
		for len(left) > 0 {
			n := 1 + upTo(rng, 10)
			first, end := 0, min(n, len(left))
			var args []string
			var popped []scored
			switch rng.IntN(4) {
			case 0:
				args = []string{"ZPOPMIN", "z", strconv.Itoa(n)}
				popped = left[:end]
			case 1:
				args = []string{"ZPOPMAX", "z", strconv.Itoa(n)}
				first, end = len(left)-end, len(left)
				popped = slices.Clone(left[first:])
				slices.Reverse(popped)
			case 2:
				first = rng.IntN(len(left))
				end = min(len(left), first+n)
				args = []string{"ZREMRANGEBYRANK", "z", strconv.Itoa(first), strconv.Itoa(first + n - 1)}
			default:
				low := left[rng.IntN(len(left))].score
				high := low + float64(rng.IntN(5))
				first = slices.IndexFunc(left, func(e scored) bool { return e.score >= low })
				end = first
				for end < len(left) && left[end].score <= high {
					end++
				}
				args = []string{"ZREMRANGEBYSCORE", "z", fmt.Sprint(low), fmt.Sprint(high)}
			}
			reply := r.Do(args...)
			if popped != nil {
				if got := elements(t, reply); !slices.Equal(got, withScores(popped)) {
					t.Fatalf("seed %d: %q: %q, want %q", seed, args, got, withScores(popped))
				}
			} else if reply != fmt.Sprintf(":%d\r\n", end-first) {
				t.Fatalf("seed %d: %q: %q, want %d", seed, args, reply, end-first)
			}
			left = slices.Delete(slices.Clone(left), first, end)
			if got := elements(t, r.Do("ZRANGE", "z", "0", "-1", "WITHSCORES")); !slices.Equal(got, withScores(left)) {
				t.Fatalf("seed %d: after %q: %q, want %q", seed, args, got, withScores(left))
			}
		}
	}
}

// TestCombinations holds unions, intersections and differences of sorted sets
// and sets of all sizes to a model.
func TestCombinations(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 150 {
		r := commandtest.NewRunner(zset.Commands(), set.Commands())
		n := 1 + rng.IntN(6)
		keys := []string{strconv.Itoa(n)}
		operands := make([]map[string]float64, n)
		for i := range operands {
			operands[i] = map[string]float64{}
			key := "k" + strconv.Itoa(i)
			keys = append(keys, key)
			isSet := rng.IntN(3) == 0
			span := 1 + upTo(rng, 10)
			for range upTo(rng, 10) {
				m, s := strconv.Itoa(rng.IntN(span)), float64(rng.IntN(100))
				if isSet {
					s = 1
					r.Do("SADD", key, m)
				} else {
					r.Do("ZADD", key, fmt.Sprint(s), m)
				}
				operands[i][m] = s
			}
		}
		weights := []string{"WEIGHTS"}
		weight := make([]float64, n)
		for i := range weight {
			weight[i] = float64(rng.IntN(7) - 3)
			weights = append(weights, fmt.Sprint(weight[i]))
		}
		aggregate := []string{"SUM", "MIN", "MAX"}[rng.IntN(3)]
		union, inter, diff := map[string]float64{}, map[string]float64{}, map[string]float64{}
		times := map[string]int{}
		for i, o := range operands {
			for m, s := range o {
				s = s*weight[i] + 0
				times[m]++
				switch old, found := union[m]; {
				case !found:
					union[m] = s
				case aggregate == "SUM":
					union[m] = old + s
				case aggregate == "MIN":
					union[m] = min(old, s)
				default:
					union[m] = max(old, s)
				}
			}
		}
		for m, s := range union {
			if times[m] == n {
				inter[m] = s
			}
			if first, found := operands[0][m]; found && times[m] == 1 {
				diff[m] = first
			}
		}
		options := append(weights, "AGGREGATE", aggregate)
		for _, c := range []struct {
			name    string
			options []string
			want    map[string]float64
		}{{"ZUNION", options, union}, {"ZINTER", options, inter}, {"ZDIFF", nil, diff}} {
			args := append(slices.Clone(keys), c.options...)
			want := withScores(inOrder(c.want))
			got := elements(t, r.Do(append(append([]string{c.name}, args...), "WITHSCORES")...))
			r.Do(append([]string{c.name + "STORE", "d"}, args...)...)
			stored := elements(t, r.Do("ZRANGE", "d", "0", "-1", "WITHSCORES"))
			if !slices.Equal(got, want) || !slices.Equal(stored, want) {
				t.Fatalf("seed %d: %s %q:\n got    %q\n stored %q\n want   %q", seed, c.name, args, got, stored, want)
			}
		}
		if got := r.Do(append([]string{"ZINTERCARD"}, keys...)...); got != fmt.Sprintf(":%d\r\n", len(inter)) {
			t.Fatalf("seed %d: ZINTERCARD: %q, want %d", seed, got, len(inter))
		}
	}
}

// TestRandomMembers draws from sorted sets of both encodings, by each of the
// ways to draw, and holds that members are distinct and that all are drawn.
func TestRandomMembers(t *testing.T) {
	for _, size := range []int{60, 200} {
		r := commandtest.NewRunner(zset.Commands())
		for i := range size {
			r.Do("ZADD", "z", strconv.Itoa(i), "m"+strconv.Itoa(i))
		}
		for _, n := range []int{1, size / 3, size / 2, size - 1} {
			drawn := map[string]int{}
			rounds := 50 * size / n
			for range rounds {
				got := elements(t, r.Do("ZRANDMEMBER", "z", strconv.Itoa(n)))
				slices.Sort(got)
				if len(slices.Compact(got)) != n {
					t.Fatalf("%d of %d: %q", n, size, got)
				}
				for _, m := range got {
					drawn[m]++
				}
			}
			if len(drawn) != size {
				t.Errorf("%d of %d: only %d members ever", n, size, len(drawn))
			}
			for m, times := range drawn { // 50 is the mean
				if times > 120 {
					t.Errorf("%d of %d: %s was drawn %d times", n, size, m, times)
				}
			}
		}
	}
}
