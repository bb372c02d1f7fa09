package hash_test

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
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

func TestSpecs(t *testing.T) { commandtest.Specs(t, hash.Commands()) }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, hash.Commands(), list.Commands(), stringfamily.Commands(), generic.Commands())
}

func TestAllocations(t *testing.T) {
	for _, size := range []int{3, 2000} {
		r := commandtest.NewRunner(hash.Commands())
		fill(t, r, size)
		for _, c := range []struct {
			command string
			allocs  float64
		}{
			{"HSET h 1 value", 0},
			{"HMSET h 1 value 2 other", 0},
			{"HSETNX h 1 value", 0},
			{"HGET h 1", 0},
			{"HMGET h 1 nosuch 2", 0},
			{"HGETALL h", 0},
			{"HKEYS h", 0},
			{"HVALS h", 0},
			{"HLEN h", 0},
			{"HEXISTS h 1", 0},
			{"HSTRLEN h 1", 0},
			{"HDEL h nosuch", 0},
			{"HINCRBY h n 12345", 0},
			{"HRANDFIELD h", 0},
			{"HRANDFIELD h -100 WITHVALUES", 0},
			{"HRANDFIELD h 1000000", 0},
			{"HTTL h FIELDS 2 1 nosuch", 0},
			{"HPERSIST h FIELDS 2 1 nosuch", 0},
			{"HGETDEL h FIELDS 1 nosuch", 0},
			{"HPEXPIREAT h 33177117420000 FIELDS 2 1 nosuch", 0},
			{"HEXPIRE h 1000 GT FIELDS 2 1 2", 1},
			{"HGETEX h FIELDS 2 1 nosuch", 0},
			{"HGETEX h EX 1000 FIELDS 2 1 nosuch", 0},
			{"HSETEX h FXX EX 1000 FIELDS 2 1 a 2 b", 6},
			{"HSETEX h KEEPTTL FIELDS 2 2 a 3 b", 2},
			{"HINCRBY h n 12345", 0},
			{"HLEN h", 0},
		} {
			if got := r.Allocs(strings.Fields(c.command)...); got > c.allocs {
				t.Errorf("%s of %d fields allocates %v times, want %v", c.command, size, got, c.allocs)
			}
		}
	}
}

// fill gives h the fields 0 to n-1, whose values are v and the field, and n, a
// number.
func fill(t *testing.T, r *commandtest.Runner, n int) {
	t.Helper()
	for i := range n {
		f := strconv.Itoa(i)
		if got := r.Do("HSET", "h", f, "v"+f); got != ":1\r\n" {
			t.Fatalf("HSET: %q", got)
		}
	}
	r.Do("HSET", "h", "n", "0")
}

// reply runs a command and returns its elements, arrays in it flattened.
func reply(t *testing.T, r *commandtest.Runner, args ...string) []string {
	t.Helper()
	var out []string
	var walk func(wire.Reply)
	walk = func(x wire.Reply) {
		if x.Scalar() {
			out = append(out, string(x.Text))
		}
		for _, e := range x.Elems {
			walk(e)
		}
	}
	text := r.Do(args...)
	x, err := wire.Read(bufio.NewReader(strings.NewReader(text)))
	if err != nil || x.Kind == wire.Error {
		t.Fatalf("%v: %q, %v", args, text, err)
	}
	walk(x)
	return out
}

// TestRandomFields takes as many distinct fields as are asked for, all fields
// equally often, whatever the way they are picked.
func TestRandomFields(t *testing.T) {
	for _, c := range []struct {
		fields, count, rounds int
	}{
		{10, 1, 4000},
		{10, 3, 4000},
		{10, 9, 4000},
		{10, -7, 4000},
		{1000, 10, 4000},  // drawn
		{1000, 400, 200},  // walked
		{1000, -10, 4000}, // drawn, with repeats
	} {
		t.Run(fmt.Sprintf("%d of %d", c.count, c.fields), func(t *testing.T) {
			r := commandtest.NewRunner(hash.Commands())
			fill(t, r, c.fields-1)
			want := max(c.count, -c.count)
			taken := make(map[string]int)
			for range c.rounds {
				pairs := reply(t, r, "HRANDFIELD", "h", strconv.Itoa(c.count), "WITHVALUES")
				if len(pairs) != 2*want {
					t.Fatalf("%d fields, want %d", len(pairs)/2, want)
				}
				seen := make(map[string]bool)
				for i := 0; i < len(pairs); i += 2 {
					field, value := pairs[i], pairs[i+1]
					if value != "v"+field && (field != "n" || value != "0") {
						t.Fatalf("field %q has the value %q", field, value)
					}
					if seen[field] && c.count > 0 {
						t.Fatalf("%q comes twice", field)
					}
					seen[field] = true
					taken[field]++
				}
			}
			if len(taken) != c.fields {
				t.Errorf("%d of %d fields were ever taken", len(taken), c.fields)
			}
			mean := float64(c.rounds*want) / float64(c.fields)
			spread := 7 * math.Sqrt(mean)
			for field, n := range taken {
				if math.Abs(float64(n)-mean) > spread {
					t.Errorf("%q was taken %d times, want %.0f ± %.0f", field, n, mean, spread)
				}
			}
		})
	}
}

func TestRepeatedFieldsAreBounded(t *testing.T) {
	r := commandtest.NewRunner(hash.Commands())
	r.Do("HSET", "h", "f", "v")
	const refused = "-ERR value is out of range\r\n"
	if got := r.Do("HRANDFIELD", "h", "-4611686018427387903", "WITHVALUES"); got != refused {
		t.Errorf("the largest count with values: %.60q", got)
	}
	if got := r.Do("HRANDFIELD", "h", "-9223372036854775807"); got != refused {
		t.Errorf("the largest count: %.60q", got)
	}
	if got := reply(t, r, "HRANDFIELD", "h", "-1000"); len(got) != 1000 {
		t.Errorf("%d fields, want 1000", len(got))
	}
	if got := r.Do("HRANDFIELD", "missing", "-9223372036854775807"); got != "*0\r\n" {
		t.Errorf("of a missing key: %.60q", got)
	}
}

// TestScanWhileChanging walks over a large hash whose fields come and go: one
// that stays is seen.
func TestScanWhileChanging(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	r := commandtest.NewRunner(hash.Commands())
	const stay = 1000
	fill(t, r, stay)
	seen := make(map[string]bool)
	calls := 0
	for cursor := "0"; ; {
		found := reply(t, r, "HSCAN", "h", cursor, "COUNT", "10")
		cursor = found[0]
		for i := 1; i+1 < len(found); i += 2 {
			seen[found[i]] = true
		}
		if cursor == "0" {
			break
		}
		if calls++; calls > 100*stay {
			t.Fatalf("no end (seed %d)", seed)
		}
		for range rng.IntN(60) {
			f := strconv.Itoa(stay + rng.IntN(3*stay))
			if rng.IntN(2) == 0 {
				r.Do("HSET", "h", f, "v")
			} else {
				r.Do("HDEL", "h", f)
			}
		}
	}
	if calls < 20 {
		t.Errorf("only %d calls", calls)
	}
	for i := range stay {
		if !seen[strconv.Itoa(i)] {
			t.Errorf("field %d was not seen (seed %d)", i, seed)
		}
	}
}

func TestScanOptions(t *testing.T) {
	r := commandtest.NewRunner(hash.Commands())
	fill(t, r, 1000)
	for _, c := range []struct {
		options []string
		found   int
	}{
		{[]string{"MATCH", "v*"}, 0},
		{[]string{"MATCH", "99?"}, 20},
		{[]string{"NOVALUES", "MATCH", "99?"}, 10},
		{nil, 2002},
		{[]string{"NOVALUES"}, 1001},
	} {
		n := 0
		for cursor := "0"; ; {
			found := reply(t, r, append([]string{"HSCAN", "h", cursor, "COUNT", "100"}, c.options...)...)
			n += len(found) - 1
			if cursor = found[0]; cursor == "0" {
				break
			}
		}
		if n != c.found {
			t.Errorf("%v: %d elements, want %d", c.options, n, c.found)
		}
	}
}
