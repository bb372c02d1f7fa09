package zset_test

import (
	"strconv"
	stdstrings "strings"
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/list"
	"kevy/internal/command/set"
	"kevy/internal/command/strings"
	"kevy/internal/command/zset"
)

func TestSpecs(t *testing.T) {
	family := zset.Commands()
	for _, s := range family {
		if s.Name == "zrank" || s.Name == "zrevrank" {
			if s.Arity != -3 {
				t.Errorf("%s: arity %d", s.Name, s.Arity)
			}
			s.Arity = 3 // as it was before WITHSCORE
		}
	}
	commandtest.Specs(t, family)
}

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, zset.Commands(), set.Commands(), strings.Commands(), generic.Commands(), list.Commands())
}

// pairs returns the command's words with n scores and members behind them.
func pairs(n int, words ...string) []string {
	for i := range n {
		words = append(words, strconv.Itoa(i), "m"+strconv.Itoa(i))
	}
	return words
}

func TestLargeResultsAreSeveralOps(t *testing.T) {
	given := []string{stdstrings.Join(pairs(300, "ZADD", "a"), " ")}
	for _, c := range []struct {
		ops int
		cmd string
	}{
		{3, "ZUNIONSTORE d 1 a"},
		{4, "ZINTERSTORE d 2 a a"}, // and a DEL
		{4, "ZDIFFSTORE d 2 a nope"},
		{4, "ZRANGESTORE d a 0 -1"},
		{2, "ZREMRANGEBYRANK d 10 138"},
		{1, "ZREMRANGEBYSCORE d -inf inf"}, // DEL
		{0, "ZREMRANGEBYSCORE d -inf inf"},
		{4, "ZUNIONSTORE a 1 a"},
		{2, "ZPOPMIN a 129"},
		{1, "ZPOPMAX a 128"},
		{1, "ZMPOP 1 a MIN COUNT 1000"},
		{1, "ZADD a 1 a 2 b 1 b 3 a"},
		{0, "ZADD a NX 9 a 9 b"},
	} {
		ops, err := commandtest.Ops(given, c.cmd, zset.Commands())
		if err != nil || len(ops) != c.ops {
			t.Errorf("%s: %d ops, want %d; %v", c.cmd, len(ops), c.ops, err)
		}
		given = append(given, c.cmd)
	}
}

func TestRepeatedMembersAreBounded(t *testing.T) {
	r := commandtest.NewRunner(zset.Commands())
	r.Do("ZADD", "z", "1", "a")
	const want = "-ERR value is out of range\r\n"
	for _, args := range [][]string{
		{"ZRANDMEMBER", "z", "-9223372036854775807"},
		{"ZRANDMEMBER", "z", "-4611686018427387903", "WITHSCORES"},
	} {
		if got := r.Do(args...); got != want {
			t.Errorf("%q: %.80q", args, got)
		}
	}
}

func TestAllocations(t *testing.T) {
	for _, size := range []int{100, 1000} { // packed and large
		r := commandtest.NewRunner(zset.Commands())
		r.Do(pairs(size, "ZADD", "z")...)
		for _, cmd := range []string{
			"ZADD z 5 m5",
			"ZADD z GT CH 4 m5 4.25 m6 0.30000000000000004 m7",
			"ZINCRBY z 1.5 m5",
			"ZSCORE z m5",
			"ZMSCORE z m5 x",
			"ZRANK z m5",
			"ZCARD z",
			"ZREM z x",
			"ZCOUNT z (3 50",
			"ZRANGE z 0 99",
			"ZRANGE z 0 99 WITHSCORES",
			"ZREVRANGE z 0 99",
			"ZRANGEBYSCORE z 3 90 WITHSCORES LIMIT 5 50",
			"ZRANGEBYLEX z - [a",
			"ZRANDMEMBER z",
			"ZREMRANGEBYSCORE z 5000 6000",
		} {
			if n := r.Allocs(stdstrings.Fields(cmd)...); n > 0 {
				t.Errorf("%d members: %s: %v allocations", size, cmd, n)
			}
		}
	}
}

// BenchmarkCommands runs commands on sorted sets of both encodings.
func BenchmarkCommands(b *testing.B) {
	for _, size := range []int{100, 100_000} {
		r := commandtest.NewRunner(zset.Commands())
		r.Do(pairs(size, "ZADD", "z")...)
		for _, cmd := range []string{
			"ZADD z 5 m5", "ZINCRBY z 1 m5", "ZRANGE z 0 99", "ZRANGE z 0 99 WITHSCORES", "ZRANGEBYSCORE z 10 19", "ZRANK z m50",
		} {
			args := stdstrings.Fields(cmd)
			b.Run(strconv.Itoa(size)+"/"+cmd, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r.Do(args...)
				}
			})
		}
	}
}
