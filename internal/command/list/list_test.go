package list_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/hash"
	"kevy/internal/command/list"
	stringfamily "kevy/internal/command/strings"
	"kevy/tests/wire"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, list.Commands()) }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, list.Commands(), hash.Commands(), stringfamily.Commands(), generic.Commands())
}

func TestAllocations(t *testing.T) {
	for _, size := range []int{50, 20_000} {
		r := commandtest.NewRunner(list.Commands())
		for i := range size {
			r.Do("RPUSH", "l", "element-"+strconv.Itoa(i))
		}
		for _, c := range []struct {
			command string
			allocs  float64
		}{
			{"LLEN l", 0},
			{"LINDEX l 20", 0},
			{"LINDEX l -20", 0},
			{"LRANGE l 3 40", 0},
			{"LPOS l element-30", 0},
			{"LPOS l element-30 RANK -1 COUNT 0", 0},
			{"LSET l 30 element-30", 0},
			{"LTRIM l 0 -1", 0},
			{"LREM l 1 nosuch", 0},
			{"LINSERT l BEFORE nosuch x", 0},
			{"LPOP missing", 0},
			// A new chunk now and then is not counted; LMOVE copies the element.
			{"RPUSH l x", 0},
			{"LPUSH l x", 0},
			{"LPOP l", 0},
			{"RPOP l", 0},
			{"LMOVE l l LEFT RIGHT", 1},
			{"LMPOP 2 missing l LEFT", 0},
		} {
			if got := r.Allocs(strings.Fields(c.command)...); got > c.allocs {
				t.Errorf("%s of %d elements allocates %v times, want %v", c.command, size, got, c.allocs)
			}
		}
	}
}

// model is a list as a slice.
type model []string

func (m model) span(start, stop int) model {
	if start < 0 {
		start = max(start+len(m), 0)
	}
	if stop < 0 {
		stop += len(m)
	}
	stop = min(stop, len(m)-1)
	if start > stop {
		return nil
	}
	return m[start : stop+1]
}

func (m model) at(i int) (int, bool) {
	if i < 0 {
		i += len(m)
	}
	return i, i >= 0 && i < len(m)
}

// rem removes as LREM does.
func (m model) rem(count int, elem string) model {
	keep, limit := model{}, max(count, -count)
	if limit == 0 {
		limit = len(m)
	}
	if count < 0 {
		slices.Reverse(m)
	}
	for _, e := range m {
		if e == elem && limit > 0 {
			limit--
		} else {
			keep = append(keep, e)
		}
	}
	if count < 0 {
		slices.Reverse(keep)
	}
	return keep
}

// positions are the indexes that LPOS finds.
func (m model) positions(elem string, rank, count, maxLen int) (found []int) {
	for k := range m {
		i := k
		if rank < 0 {
			i = len(m) - 1 - k
		}
		if maxLen > 0 && k >= maxLen {
			break
		}
		if m[i] != elem {
			continue
		}
		if rank > 1 {
			rank--
		} else if rank < -1 {
			rank++
		} else if found = append(found, i); len(found) == count {
			break
		}
	}
	return found
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func number(n int) string { return fmt.Sprintf(":%d\r\n", n) }

func array[T any](elems []T, each func(T) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(elems))
	for _, e := range elems {
		b.WriteString(each(e))
	}
	return b.String()
}

// TestAgainstSlices runs random commands on a list of many chunks and on a
// slice.
func TestAgainstSlices(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	elem := func() string {
		switch n := rng.IntN(100); {
		case n < 2:
			return strings.Repeat("x", rng.IntN(20_000))
		case n < 30:
			return strings.Repeat(strconv.Itoa(rng.IntN(4)), rng.IntN(300))
		}
		return strconv.Itoa(rng.IntN(10))
	}
	r := commandtest.NewRunner(list.Commands())
	var m model
	index := func() int { return rng.IntN(2*len(m)+6) - len(m) - 3 }
	some := func() []string {
		out := make([]string, 1+rng.IntN(30))
		for i := range out {
			out[i] = elem()
		}
		return out
	}
	step := func() (args []string, want string) {
		switch n := rng.IntN(20); n {
		case 0, 1, 2:
			more := some()
			m = append(m, more...)
			return append([]string{"RPUSH", "l"}, more...), number(len(m))
		case 3, 4, 5:
			more := some()
			args = append([]string{"LPUSH", "l"}, more...)
			slices.Reverse(more)
			m = append(slices.Clone(more), m...)
			return args, number(len(m))
		case 6, 7:
			k := min(rng.IntN(40), len(m))
			gone := slices.Clone(m[:k])
			m = m[k:]
			return []string{"LPOP", "l", strconv.Itoa(k)}, array(gone, bulk)
		case 8, 9:
			k := min(rng.IntN(40), len(m))
			gone := slices.Clone(m[len(m)-k:])
			slices.Reverse(gone)
			m = m[:len(m)-k]
			return []string{"RPOP", "l", strconv.Itoa(k)}, array(gone, bulk)
		case 10:
			i, e := index(), elem()
			args, want = []string{"LSET", "l", strconv.Itoa(i), e}, "-ERR index out of range\r\n"
			if at, ok := m.at(i); ok {
				m[at], want = e, "+OK\r\n"
			}
			return args, want
		case 11, 12:
			pivot, e, where := elem(), elem(), []string{"BEFORE", "AFTER"}[rng.IntN(2)]
			args, want = []string{"LINSERT", "l", where, pivot, e}, number(-1)
			if at := slices.Index(m, pivot); at >= 0 {
				if where == "AFTER" {
					at++
				}
				m = slices.Insert(m, at, e)
				want = number(len(m))
			}
			return args, want
		case 13:
			count, e := rng.IntN(20)-10, elem()
			before := len(m)
			m = m.rem(count, e)
			return []string{"LREM", "l", strconv.Itoa(count), e}, number(before - len(m))
		case 14:
			if len(m) < 1500 && rng.IntN(4) > 0 {
				return []string{"LLEN", "l"}, number(len(m))
			}
			start, stop := rng.IntN(300), -1-rng.IntN(300)
			m = slices.Clone(m.span(start, stop))
			return []string{"LTRIM", "l", strconv.Itoa(start), strconv.Itoa(stop)}, "+OK\r\n"
		case 15:
			i := index()
			want = "$-1\r\n"
			if at, ok := m.at(i); ok {
				want = bulk(m[at])
			}
			return []string{"LINDEX", "l", strconv.Itoa(i)}, want
		case 16, 17:
			start, stop := index(), index()
			return []string{"LRANGE", "l", strconv.Itoa(start), strconv.Itoa(stop)}, array(m.span(start, stop), bulk)
		case 18:
			e, rank, count, maxLen := elem(), 1+rng.IntN(4), rng.IntN(6), rng.IntN(len(m)+2)
			if rng.IntN(2) == 0 {
				rank = -rank
			}
			return []string{"LPOS", "l", e, "RANK", strconv.Itoa(rank), "COUNT", strconv.Itoa(count), "MAXLEN", strconv.Itoa(maxLen)},
				array(m.positions(e, rank, count, maxLen), number)
		default:
			args = []string{"LMOVE", "l", "l", []string{"LEFT", "RIGHT"}[rng.IntN(2)], []string{"LEFT", "RIGHT"}[rng.IntN(2)]}
			e := m[0]
			if args[3] == "RIGHT" {
				e = m[len(m)-1]
				m = m[:len(m)-1]
			} else {
				m = m[1:]
			}
			if args[4] == "RIGHT" {
				m = append(m, e)
			} else {
				m = append(model{e}, m...)
			}
			return args, bulk(e)
		}
	}
	longest := 0
	for i := range 15_000 {
		// Chance alone may keep the list short.
		for len(m) < 10 || i == 7_500 && len(m) < 600 {
			m = append(m, "filled")
			r.Do("RPUSH", "l", "filled")
		}
		args, want := step()
		if got := r.Do(args...); got != want {
			t.Fatalf("step %d, %.100q of a list of %d: %.200q, want %.200q (seed %d)", i, args, len(m), got, want, seed)
		}
		longest = max(longest, len(m))
	}
	if got := r.Do("LRANGE", "l", "0", "-1"); got != array(m, bulk) {
		t.Errorf("the list differs at the end (seed %d)", seed)
	}
	if longest < 500 {
		t.Errorf("the list never had more than %d elements (seed %d)", longest, seed)
	}
}

// TestPopsWhole sees that what is popped comes whole where a pop empties
// the list and drops its key.
func TestPopsWhole(t *testing.T) {
	r := commandtest.NewRunner(list.Commands())
	const n = 5000
	args := []string{"RPUSH", "l"}
	for i := range n {
		args = append(args, strconv.Itoa(i)+strings.Repeat("-", i%50))
	}
	r.Do(args...)
	x, err := wire.Read(bufio.NewReader(bytes.NewReader([]byte(r.Do("LMPOP", "1", "l", "RIGHT", "COUNT", "1000000")))))
	if err != nil || len(x.Elems) != 2 {
		t.Fatalf("%v, %v", x, err)
	}
	got := x.Elems[1].Strings()
	slices.Reverse(got)
	if !slices.Equal(got, args[2:]) {
		t.Errorf("%d elements came, not those that were pushed", len(got))
	}
	if got := r.Do("LLEN", "l"); got != ":0\r\n" {
		t.Errorf("LLEN: %q", got)
	}
}
