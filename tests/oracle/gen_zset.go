package oracle

import "strings"

var zsetFamily = family{
	keys: map[byte][]string{
		'z': {"z0", "z1", "z2", "{tag}z"},
		'x': {"x0", "{tag}x"}, // of one score, for the ranges of members
	},
	makers: []maker{
		{"ZADD", 12, makeZadd, true, true},
		{"ZINCRBY", 3, func(g *Generator) [][]byte { return join("ZINCRBY", g.key('z'), g.score(), g.field()) }, true, true},
		{"ZREM", 4, func(g *Generator) [][]byte {
			if g.p(4) {
				return join("ZREM", g.key('z'), many("m", 0, 200))
			}
			return join("ZREM", g.key('z'), g.times(1, 4, g.field))
		}, true, true},
		{"ZSCORE", 2, func(g *Generator) [][]byte { return join("ZSCORE", g.key('z'), g.field()) }, true, true},
		{"ZMSCORE", 2, func(g *Generator) [][]byte { return join("ZMSCORE", g.key('z'), g.times(1, 4, g.field)) }, true, true},
		{"ZCARD", 1, func(g *Generator) [][]byte { return join("ZCARD", g.key('z')) }, true, true},
		{"ZCOUNT", 2, func(g *Generator) [][]byte { return join("ZCOUNT", g.key('z'), g.bound(), g.bound()) }, true, true},
		{"ZLEXCOUNT", 2, func(g *Generator) [][]byte { return join("ZLEXCOUNT", g.key('x'), g.lexBound(), g.lexBound()) }, true, true},
		{"ZRANK", 2, func(g *Generator) [][]byte { return join("ZRANK", g.key('z'), g.field()) }, true, true},
		{"ZREVRANK", 2, func(g *Generator) [][]byte { return join("ZREVRANK", g.key('z'), g.field()) }, true, true},
		{"ZRANGE", 6, makeZrange, true, true},
		{"ZRANGESTORE", 3, makeZrangestore, true, true},
		{"ZREVRANGE", 2, func(g *Generator) [][]byte {
			return join("ZREVRANGE", g.key('z'), g.integer(), g.integer(), g.maybe(50, "WITHSCORES"))
		}, true, true},
		{"ZRANGEBYSCORE", 3, func(g *Generator) [][]byte {
			return join("ZRANGEBYSCORE", g.key('z'), g.bound(), g.bound(), g.maybe(50, "WITHSCORES"), g.limit())
		}, true, true},
		{"ZREVRANGEBYSCORE", 2, func(g *Generator) [][]byte {
			return join("ZREVRANGEBYSCORE", g.key('z'), g.bound(), g.bound(), g.maybe(50, "WITHSCORES"), g.limit())
		}, true, true},
		{"ZRANGEBYLEX", 2, func(g *Generator) [][]byte {
			return join("ZRANGEBYLEX", g.key('x'), g.lexBound(), g.lexBound(), g.limit())
		}, true, true},
		{"ZREVRANGEBYLEX", 2, func(g *Generator) [][]byte {
			return join("ZREVRANGEBYLEX", g.key('x'), g.lexBound(), g.lexBound(), g.limit())
		}, true, true},
		{"ZREMRANGEBYRANK", 1, func(g *Generator) [][]byte { return join("ZREMRANGEBYRANK", g.key('z'), g.integer(), g.integer()) }, true, true},
		{"ZREMRANGEBYSCORE", 1, func(g *Generator) [][]byte { return join("ZREMRANGEBYSCORE", g.key('z'), g.bound(), g.bound()) }, true, true},
		{"ZREMRANGEBYLEX", 1, func(g *Generator) [][]byte { return join("ZREMRANGEBYLEX", g.key('x'), g.lexBound(), g.lexBound()) }, true, true},
		{"ZPOPMIN", 2, func(g *Generator) [][]byte { return join("ZPOPMIN", g.key('z'), g.maybe(50, g.count())) }, true, true},
		{"ZPOPMAX", 2, func(g *Generator) [][]byte { return join("ZPOPMAX", g.key('z'), g.maybe(50, g.count())) }, true, true},
		{"ZMPOP", 2, func(g *Generator) [][]byte {
			return join("ZMPOP", g.numbered('z'), g.oneOf("MIN", "MAX", "min", "MID"), g.maybe(40, "COUNT", g.count()))
		}, true, true},
		{"ZRANDMEMBER", 2, func(g *Generator) [][]byte { return join("ZRANDMEMBER", g.key('z'), g.randomCount("WITHSCORES")) }, true, true},
		{"ZUNION", 2, func(g *Generator) [][]byte {
			return join("ZUNION", g.setKeys(), g.weights(), g.aggregate(), g.maybe(50, "WITHSCORES"))
		}, true, true},
		{"ZINTER", 2, func(g *Generator) [][]byte {
			return join("ZINTER", g.setKeys(), g.weights(), g.aggregate(), g.maybe(50, "WITHSCORES"))
		}, true, true},
		{"ZDIFF", 2, func(g *Generator) [][]byte { return join("ZDIFF", g.setKeys(), g.maybe(50, "WITHSCORES")) }, true, true},
		{"ZUNIONSTORE", 3, func(g *Generator) [][]byte {
			return join("ZUNIONSTORE", g.key('z'), g.setKeys(), g.weights(), g.aggregate())
		}, true, true},
		{"ZINTERSTORE", 2, func(g *Generator) [][]byte {
			return join("ZINTERSTORE", g.key('z'), g.setKeys(), g.weights(), g.aggregate())
		}, true, true},
		{"ZDIFFSTORE", 2, func(g *Generator) [][]byte { return join("ZDIFFSTORE", g.key('z'), g.setKeys()) }, true, true},
		{"ZINTERCARD", 2, func(g *Generator) [][]byte {
			return join("ZINTERCARD", g.setKeys(), g.maybe(40, "LIMIT", g.count()))
		}, true, true},
		{"ZSCAN", 2, func(g *Generator) [][]byte { return join("ZSCAN", g.key('z'), g.cursor(), g.scanOptions(false)) }, false, true},
	},
	newer: []maker{
		{"ZRANK", 2, func(g *Generator) [][]byte { return join("ZRANK", g.key('z'), g.field(), "WITHSCORE") }, true, true},
		{"ZREVRANK", 2, func(g *Generator) [][]byte { return join("ZREVRANK", g.key('z'), g.field(), "WITHSCORE") }, true, true},
	},
	modes: map[string]mode{
		"ZADD": scores, "ZINCRBY": scores, "ZSCORE": scores, "ZMSCORE": scores, "ZRANGE": scores, "ZREVRANGE": scores,
		"ZRANGEBYSCORE": scores, "ZREVRANGEBYSCORE": scores, "ZPOPMIN": scores, "ZPOPMAX": scores, "ZMPOP": scores,
		"ZUNION": scores, "ZINTER": scores, "ZDIFF": scores, "ZRANK": scores, "ZREVRANK": scores,
		"ZRANDMEMBER": random, "ZSCAN": shape,
	},
	specials: map[string]special{
		"ZRANDMEMBER": {run: pickRandomly, queued: true}, "ZSCAN": {run: scanToTheEnd, queued: true},
		"ZRANGEBYLEX": {run: rangeByLex}, "ZREVRANGEBYLEX": {run: rangeByLex}, "ZLEXCOUNT": {run: rangeByLex}, "ZREMRANGEBYLEX": {run: rangeByLex},
		"ZRANGE": {run: rangeByLex, when: byLex}, "ZRANGESTORE": {run: rangeByLex, when: byLex},
	},
	avoid: map[string]func(*Generator, [][]byte) bool{
		"ZRANDMEMBER": manyPicks, "ZRANK": withScore, "ZREVRANK": withScore,
	},
}

func makeZadd(g *Generator) [][]byte {
	if g.p(15) {
		a := []string{g.key('x')}
		for range 1 + g.rng.IntN(5) {
			a = append(a, "0", g.field())
		}
		return join("ZADD", a)
	}
	a := []string{g.key('z')}
	if g.p(35) {
		opts := [][]string{g.maybe(25, "NX"), g.maybe(25, "XX"), g.maybe(20, "GT"), g.maybe(20, "LT"), g.maybe(30, "CH"), g.maybe(15, "INCR")}
		for _, o := range opts {
			a = append(a, o...)
		}
	}
	if g.p(3) {
		for _, m := range many("m", g.rng.IntN(100), 60+g.rng.IntN(100)) {
			a = append(a, g.score(), m)
		}
		return join("ZADD", a)
	}
	same := g.score()
	for range 1 + g.rng.IntN(4) {
		s := g.score()
		if g.p(30) {
			s = same
		}
		a = append(a, s, g.field())
	}
	if g.p(3) {
		a = a[:len(a)-1]
	}
	return join("ZADD", a)
}

// bound is a bound of a score range.
func (g *Generator) bound() string {
	switch n := g.rng.IntN(12); {
	case n < 2:
		return "-inf"
	case n < 4:
		return "+inf"
	case n < 7:
		return "(" + g.score()
	}
	return g.score()
}

// lexBound is a bound of a range of members.
func (g *Generator) lexBound() string {
	switch n := g.rng.IntN(14); {
	case n < 3:
		return "-"
	case n < 6:
		return "+"
	case n < 7:
		return g.oneOf("", "f1", "[", "(", "-f", "+f", "(\xff")
	case n < 10:
		return "(" + g.field()
	}
	return "[" + g.field()
}

func (g *Generator) limit() []string {
	return g.maybe(35, "LIMIT", g.oneOf("0", "1", "2", "-1", g.integer()), g.oneOf("-1", "0", "1", "3", g.integer()))
}

func makeZrange(g *Generator) [][]byte {
	kind, rest := g.zrangeRest()
	return join("ZRANGE", g.key(kind), rest, g.maybe(40, "WITHSCORES"))
}

func makeZrangestore(g *Generator) [][]byte {
	kind, rest := g.zrangeRest()
	return join("ZRANGESTORE", g.key(kind), g.key(kind), rest)
}

// zrangeRest is what follows the key, and the kind of key that it suits.
func (g *Generator) zrangeRest() (byte, []string) {
	kind := byte('z')
	var out []string
	switch g.rng.IntN(3) {
	case 0:
		out = append(out, g.integer(), g.integer())
	case 1:
		out = append(out, g.bound(), g.bound(), "BYSCORE")
	default:
		kind = 'x'
		out = append(out, g.lexBound(), g.lexBound(), "BYLEX")
	}
	out = append(out, g.maybe(35, "REV")...)
	if g.p(30) {
		out = append(out, g.limit()...)
	}
	return kind, out
}

// setKeys is numkeys and keys of sorted sets, sometimes of sets.
func (g *Generator) setKeys() []string {
	if g.p(20) {
		return g.numbered('t')
	}
	return g.numbered('z')
}

func (g *Generator) weights() []string {
	if !g.p(30) {
		return nil
	}
	out := []string{"WEIGHTS"}
	for range 1 + g.rng.IntN(3) {
		out = append(out, g.oneOf("1", "2", "-1", "0", "0.5", "inf", g.score()))
	}
	return out
}

func (g *Generator) aggregate() []string {
	if !g.p(40) {
		return nil
	}
	return []string{"AGGREGATE", g.oneOf("SUM", "MIN", "MAX", "min", "AVG")}
}

// withScore tells of an option that came with 7.2: for 7.0 it is a wrong number of arguments, which aborts a
// transaction.
func withScore(g *Generator, args [][]byte) bool { return len(args) == 4 && !g.opt.Newer }

func byLex(args [][]byte) bool {
	for _, a := range args {
		if strings.EqualFold(string(a), "BYLEX") {
			return true
		}
	}
	return false
}

// rangeByLex runs a command that reads a sorted set in the order of its members, if all have one score. Where
// scores differ, what Redis answers depends on the random heights of its skip list.
func rangeByLex(p *Pair, s Step, at int) (*Difference, error) {
	key := 1
	if name(s.Args) == "ZRANGESTORE" {
		key = 2
	}
	if key < len(s.Args) {
		one, err := p.oracle.oneScore(string(s.Args[key]), p.state[s.Conn].db)
		if err != nil || !one {
			return nil, err
		}
	}
	_, _, diff, err := p.runOne(s, at)
	return diff, err
}

// oneScore reports whether all members of a sorted set have one score; true for what is none.
func (s *side) oneScore(key string, db int) (bool, error) {
	if err := s.selectDB(db); err != nil {
		return false, err
	}
	r, err := s.admin.Do("ZRANGE", key, "0", "-1", "WITHSCORES")
	if err != nil || r.IsError("") {
		return true, err
	}
	for i := 3; i < len(r.Elems); i += 2 {
		if string(r.Elems[i].Text) != string(r.Elems[1].Text) {
			return false, nil
		}
	}
	return true, nil
}
