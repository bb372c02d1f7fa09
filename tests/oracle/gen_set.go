package oracle

import "strconv"

var setFamily = family{
	keys: map[byte][]string{'t': {"t0", "t1", "t2", "{tag}t"}},
	makers: []maker{
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
	},
	modes: map[string]mode{
		"SMEMBERS": unordered, "SINTER": unordered, "SUNION": unordered, "SDIFF": unordered,
		"SRANDMEMBER": random, "SPOP": random, "SSCAN": shape,
	},
	specials: map[string]special{
		"SRANDMEMBER": {run: pickRandomly, queued: true}, "SSCAN": {run: scanToTheEnd, queued: true},
		// Queued, the pick could not be undone before the next command sees it.
		"SPOP": {run: popRandomly},
	},
	avoid: map[string]func(*Generator, [][]byte) bool{"SRANDMEMBER": manyPicks},
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

// popRandomly runs SPOP, except where Redis would make a set anew of the few members that are left, which may
// give it another encoding.
func popRandomly(p *Pair, s Step, at int) (*Difference, error) {
	if len(s.Args) == 3 {
		if err := p.oracle.selectDB(p.state[s.Conn].db); err != nil {
			return nil, err
		}
		key := string(s.Args[1])
		r, err := p.oracle.admin.Pipeline([]string{"OBJECT", "ENCODING", key}, []string{"SCARD", key})
		if err != nil {
			return nil, err
		}
		size, _ := r[1].Int()
		count, err := strconv.ParseInt(string(s.Args[2]), 10, 64)
		if left := size - count; err == nil && string(r[0].Text) == "hashtable" && left > 0 && left*5 <= count {
			return nil, nil
		}
	}
	return pickRandomly(p, s, at)
}
