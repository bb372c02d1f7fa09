package oracle

import "strconv"

var hyperloglogFamily = family{
	keys: map[byte][]string{'p': {"p0", "p1", "p2", "{tag}p"}},
	makers: []maker{
		{"PFADD", 12, func(g *Generator) [][]byte { return join("PFADD", g.key('p'), g.sketched()) }, true, true},
		{"PFCOUNT", 6, func(g *Generator) [][]byte {
			if g.p(60) {
				return join("PFCOUNT", g.key('p'))
			}
			return join("PFCOUNT", g.keys('p', 1, 3))
		}, true, true},
		{"PFMERGE", 5, func(g *Generator) [][]byte {
			if g.p(8) {
				return g.mangled()
			}
			return join("PFMERGE", g.keys('p', 1, 3))
		}, false, true},
		{"PFDEBUG", 4, func(g *Generator) [][]byte {
			return join("PFDEBUG", g.oneOf("ENCODING", "ENCODING", "DECODE", "TODENSE", "GETREG", "encoding", "BOGUS"), g.key('p'))
		}, false, true},
	},
	specials: map[string]special{"PFADD": {run: addToCorrupt, queued: true}, "PFMERGE": {run: mergeOutdated}, "PFDEBUG": {run: debugTold}},
}

// sketched gives elements: of few kinds, so that some were there before; rarely so many that an estimate leaves
// the sparse form.
func (g *Generator) sketched() []string {
	switch n := g.rng.IntN(60); {
	case n < 1:
		return many("e", g.rng.IntN(5000), 1000+g.rng.IntN(1500))
	case n < 8:
		return many("e", g.rng.IntN(5000), 20+g.rng.IntN(120))
	case n < 9:
		// Elements whose hashes end with 31 to 50 zeros.
		return g.times(1, 3, func() string {
			return g.oneOf("\x4a\xb2\x6a\xc0\xc7\x21\xb4\x55", "\x49\x9b\xde\x5f\x61\xa0\x9c\x55", "\x61\xeb\xa9\xe2\x2c\xb2\x71\x22", "\x22\x95\xe7\x76\xdc\x15\xca\x3f")
		})
	}
	return g.times(0, 6, func() string {
		if g.p(10) {
			return g.value()
		}
		return "e" + strconv.Itoa(g.rng.IntN(5000))
	})
}

// mangled makes an estimate that is not sound, or makes one so. None ends in the middle of a run: redis-server
// then writes, and reads, behind its end.
func (g *Generator) mangled() [][]byte {
	key := g.key('p')
	bytes := g.oneOf("\x00", "\x80", "\xff", "\x84\x84", "\x01")
	switch g.rng.IntN(4) {
	case 0:
		return join("APPEND", key, bytes)
	case 1:
		return join("SETRANGE", key, g.oneOf("0", "3", "5", "8", "9", "13"), bytes)
	}
	return join("SET", key, "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"+g.oneOf("\x00", "\x80")+
		g.oneOf("", "\x7f\xff", "\x7f\xfe\x00", "\x7f\xfb\x83", "\x7f\xf0\x80\x84\x88\x81\x80\x84\x00\x02", "\x80\x7f\xfe\x80"))
}

// addToCorrupt runs PFADD, and removes the key where it turns out to be corrupt. Redis may have added elements by
// then, of which it tells neither its log nor who watches the key.
func addToCorrupt(p *Pair, s Step, at int) (*Difference, error) {
	want, _, diff, err := p.runOne(s, at)
	if diff != nil || err != nil || !want.IsError("INVALIDOBJ") {
		return diff, err
	}
	for _, sd := range []*side{&p.oracle, &p.server} {
		if err := sd.selectDB(p.state[s.Conn].db); err != nil {
			return nil, err
		}
		if _, err := sd.admin.Do("DEL", string(s.Args[1])); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// mergeOutdated runs a PFMERGE after a PFCOUNT of its destination. Redis fails the transactions that watch the
// destination even where the merge changes nothing; so it changes the count at least, which it outdates.
func mergeOutdated(p *Pair, s Step, at int) (*Difference, error) {
	if len(s.Args) > 1 {
		for _, sd := range []*side{&p.oracle, &p.server} {
			if err := sd.selectDB(p.state[s.Conn].db); err != nil {
				return nil, err
			}
			if _, err := sd.admin.Do("PFCOUNT", string(s.Args[1])); err != nil {
				return nil, err
			}
		}
	}
	_, _, diff, err := p.runOne(s, at)
	return diff, err
}

// debugTold runs a PFDEBUG and then a change of the count. Redis does not tell the transactions that watch the
// key that PFDEBUG changed its form; here each change is told.
func debugTold(p *Pair, s Step, at int) (*Difference, error) {
	want, _, diff, err := p.runOne(s, at)
	if diff != nil || err != nil || want.IsError("") || len(s.Args) < 3 {
		return diff, err
	}
	for _, sd := range []*side{&p.oracle, &p.server} {
		if err := sd.selectDB(p.state[s.Conn].db); err != nil {
			return nil, err
		}
		if _, err := sd.admin.Do("SETRANGE", string(s.Args[2]), "15", "\x80"); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
