package oracle

import "strconv"

var hashMakers = []maker{
	{"HSET", 9, func(g *Generator) [][]byte { return join("HSET", g.key('h'), g.fieldValues()) }, true, true},
	{"HMSET", 2, func(g *Generator) [][]byte { return join("HMSET", g.key('h'), g.fieldValues()) }, true, true},
	{"HSETNX", 2, func(g *Generator) [][]byte { return join("HSETNX", g.key('h'), g.field(), g.value()) }, true, true},
	{"HGET", 3, func(g *Generator) [][]byte { return join("HGET", g.key('h'), g.field()) }, true, true},
	{"HMGET", 2, func(g *Generator) [][]byte { return join("HMGET", g.key('h'), g.times(1, 4, g.field)) }, true, true},
	{"HGETALL", 2, func(g *Generator) [][]byte { return join("HGETALL", g.key('h')) }, true, true},
	{"HKEYS", 1, func(g *Generator) [][]byte { return join("HKEYS", g.key('h')) }, true, true},
	{"HVALS", 1, func(g *Generator) [][]byte { return join("HVALS", g.key('h')) }, true, true},
	{"HLEN", 1, func(g *Generator) [][]byte { return join("HLEN", g.key('h')) }, true, true},
	{"HSTRLEN", 1, func(g *Generator) [][]byte { return join("HSTRLEN", g.key('h'), g.field()) }, true, true},
	{"HEXISTS", 2, func(g *Generator) [][]byte { return join("HEXISTS", g.key('h'), g.field()) }, true, true},
	{"HDEL", 5, func(g *Generator) [][]byte {
		if g.p(4) {
			return join("HDEL", g.key('h'), many("m", 0, 700))
		}
		return join("HDEL", g.key('h'), g.times(1, 5, g.field))
	}, true, true},
	{"HINCRBY", 3, func(g *Generator) [][]byte { return join("HINCRBY", g.key('h'), g.field(), g.integer()) }, true, true},
	{"HINCRBYFLOAT", 4, func(g *Generator) [][]byte { return join("HINCRBYFLOAT", g.key('h'), g.field(), g.decimal()) }, true, true},
	{"HRANDFIELD", 2, func(g *Generator) [][]byte {
		return join("HRANDFIELD", g.key('h'), g.randomCount("WITHVALUES"))
	}, true, true},
	{"HSCAN", 2, func(g *Generator) [][]byte { return join("HSCAN", g.key('h'), g.cursor(), g.scanOptions(false)) }, false, true},
}

// fieldValues gives fields and values; rarely so many that the hash leaves its packed form.
func (g *Generator) fieldValues() []string {
	if g.p(2) {
		var out []string
		for _, f := range many("m", g.rng.IntN(100), g.oneOfInt(60, 150, 510, 513)+g.rng.IntN(3)) {
			out = append(out, f, strconv.Itoa(g.rng.IntN(1000)))
		}
		return out
	}
	var out []string
	for range 1 + g.rng.IntN(4) {
		out = append(out, g.field(), g.value())
	}
	if g.p(3) {
		out = out[:len(out)-1]
	}
	return out
}

// randomCount is the count of a random pick, or nothing, with its option.
func (g *Generator) randomCount(option string) []string {
	if g.p(35) {
		return nil
	}
	n := strconv.Itoa(g.rng.IntN(16) - 8)
	if g.p(6) {
		n = g.oneOf("abc", "", "-9223372036854775808", "0", "9223372036854775807")
	}
	if option == "" {
		return []string{n}
	}
	return append([]string{n}, g.maybe(50, option)...)
}

func (g *Generator) cursor() string {
	if g.p(6) {
		return g.oneOf("abc", "", "-1", "18446744073709551616", "1.5")
	}
	return "0"
}

func (g *Generator) scanOptions(types bool) []string {
	out := g.maybe(40, "MATCH", g.pattern())
	if g.p(40) {
		out = append(out, "COUNT", g.oneOf("1", "2", "5", "10", "100", "1000", "0", "-1", "abc"))
	}
	if types && g.p(25) {
		out = append(out, "TYPE", g.oneOf("string", "list", "set", "zset", "hash", "STRING", "nosuch"))
	}
	return out
}

func (g *Generator) pattern() string {
	return g.oneOf("*", "s*", "f1*", "?0", "*[0-4]", "[^s]*", "h[a", "{tag}*", "\\*", "*\xff*", "", "f?", "*1*2*", "[z-a]*", "m*", "[-5]*", "\\")
}

var listMakers = []maker{
	{"LPUSH", 5, func(g *Generator) [][]byte { return join("LPUSH", g.key('l'), g.elements()) }, true, true},
	{"RPUSH", 6, func(g *Generator) [][]byte { return join("RPUSH", g.key('l'), g.elements()) }, true, true},
	{"LPUSHX", 2, func(g *Generator) [][]byte { return join("LPUSHX", g.key('l'), g.elements()) }, true, true},
	{"RPUSHX", 2, func(g *Generator) [][]byte { return join("RPUSHX", g.key('l'), g.elements()) }, true, true},
	{"LPOP", 3, func(g *Generator) [][]byte { return join("LPOP", g.key('l'), g.maybe(40, g.count())) }, true, true},
	{"RPOP", 3, func(g *Generator) [][]byte { return join("RPOP", g.key('l'), g.maybe(40, g.count())) }, true, true},
	{"LLEN", 2, func(g *Generator) [][]byte { return join("LLEN", g.key('l')) }, true, true},
	{"LINDEX", 2, func(g *Generator) [][]byte { return join("LINDEX", g.key('l'), g.integer()) }, true, true},
	{"LINSERT", 3, func(g *Generator) [][]byte {
		return join("LINSERT", g.key('l'), g.oneOf("BEFORE", "AFTER", "after", "AT"), g.element(), g.value())
	}, true, true},
	{"LSET", 3, func(g *Generator) [][]byte { return join("LSET", g.key('l'), g.integer(), g.value()) }, true, true},
	{"LRANGE", 4, func(g *Generator) [][]byte { return join("LRANGE", g.key('l'), g.integer(), g.integer()) }, true, true},
	{"LREM", 3, func(g *Generator) [][]byte { return join("LREM", g.key('l'), g.integer(), g.element()) }, true, true},
	{"LTRIM", 2, func(g *Generator) [][]byte { return join("LTRIM", g.key('l'), g.integer(), g.integer()) }, false, true},
	{"LPOS", 3, func(g *Generator) [][]byte {
		return join("LPOS", g.key('l'), g.element(), g.maybe(40, "RANK", g.integer()), g.maybe(40, "COUNT", g.count()), g.maybe(30, "MAXLEN", g.count()))
	}, true, true},
	{"LMOVE", 3, func(g *Generator) [][]byte {
		return join("LMOVE", g.key('l'), g.key('l'), g.side(), g.side())
	}, true, true},
	{"RPOPLPUSH", 2, func(g *Generator) [][]byte { return join("RPOPLPUSH", g.key('l'), g.key('l')) }, true, true},
	{"LMPOP", 3, func(g *Generator) [][]byte {
		return join("LMPOP", g.numbered('l'), g.side(), g.maybe(40, "COUNT", g.count()))
	}, true, true},
}

func (g *Generator) side() string {
	if g.p(4) {
		return g.oneOf("UP", "", "MIDDLE")
	}
	return g.oneOf("LEFT", "RIGHT", "left")
}

// element comes from so small a space that lists hold it several times.
func (g *Generator) element() string {
	if g.p(15) {
		return g.value()
	}
	return g.oneOf("a", "b", "c", "1", "2", "")
}

func (g *Generator) elements() []string {
	if g.p(3) {
		return many("e", 0, 100+g.rng.IntN(200))
	}
	if g.p(1) {
		return g.times(2, 6, func() string { return string(make([]byte, 3000+g.rng.IntN(9000))) })
	}
	return g.times(1, 4, g.element)
}

// numbered is numkeys and that many keys, sometimes not as many.
func (g *Generator) numbered(kind byte) []string {
	keys := g.keys(kind, 1, 3)
	n := strconv.Itoa(len(keys))
	if g.p(5) {
		n = g.oneOf("0", "-1", "abc", "4", "1", "9223372036854775807", "2147483648")
	}
	return append([]string{n}, keys...)
}

var setMakers = []maker{
	{"SADD", 8, func(g *Generator) [][]byte {
		key := g.key('t')
		return join("SADD", key, g.members(key))
	}, true, true},
	{"SREM", 4, func(g *Generator) [][]byte {
		if g.p(4) {
			return join("SREM", g.key('t'), many("", 0, 600))
		}
		return join("SREM", g.key('t'), g.times(1, 4, g.member))
	}, true, true},
	{"SISMEMBER", 2, func(g *Generator) [][]byte { return join("SISMEMBER", g.key('t'), g.member()) }, true, true},
	{"SMISMEMBER", 2, func(g *Generator) [][]byte { return join("SMISMEMBER", g.key('t'), g.times(1, 4, g.member)) }, true, true},
	{"SCARD", 2, func(g *Generator) [][]byte { return join("SCARD", g.key('t')) }, true, true},
	{"SMEMBERS", 3, func(g *Generator) [][]byte { return join("SMEMBERS", g.key('t')) }, true, true},
	{"SMOVE", 3, func(g *Generator) [][]byte { return join("SMOVE", g.key('t'), g.key('t'), g.member()) }, true, true},
	{"SPOP", 3, func(g *Generator) [][]byte { return join("SPOP", g.key('t'), g.maybe(60, g.count())) }, false, false},
	{"SRANDMEMBER", 2, func(g *Generator) [][]byte { return join("SRANDMEMBER", g.key('t'), g.randomCount("")) }, true, true},
	{"SINTER", 2, func(g *Generator) [][]byte { return join("SINTER", g.keys('t', 1, 3)) }, true, true},
	{"SUNION", 2, func(g *Generator) [][]byte { return join("SUNION", g.keys('t', 1, 3)) }, true, true},
	{"SDIFF", 2, func(g *Generator) [][]byte { return join("SDIFF", g.keys('t', 1, 3)) }, true, true},
	{"SINTERSTORE", 2, func(g *Generator) [][]byte { return join("SINTERSTORE", g.key('t'), g.keys('t', 1, 3)) }, true, true},
	{"SUNIONSTORE", 2, func(g *Generator) [][]byte { return join("SUNIONSTORE", g.key('t'), g.keys('t', 1, 3)) }, true, true},
	{"SDIFFSTORE", 2, func(g *Generator) [][]byte { return join("SDIFFSTORE", g.key('t'), g.keys('t', 1, 3)) }, true, true},
	{"SINTERCARD", 2, func(g *Generator) [][]byte {
		return join("SINTERCARD", g.numbered('t'), g.maybe(40, "LIMIT", g.count()))
	}, true, true},
	{"SSCAN", 2, func(g *Generator) [][]byte { return join("SSCAN", g.key('t'), g.cursor(), g.scanOptions(false)) }, false, true},
}

// members gives members; rarely so many that the set leaves its integer form. Some sets get integers only,
// else the integer form would be rare.
func (g *Generator) members(key string) []string {
	if (key == "t0" || key == "t1") && g.p(95) {
		return g.times(1, 4, func() string { return strconv.Itoa(g.rng.IntN(40) - 10) })
	}
	if g.p(3) {
		return many("", g.rng.IntN(300), 400+g.rng.IntN(200))
	}
	return g.times(1, 5, g.member)
}

var zsetMakers = []maker{
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
