package oracle

import (
	"bytes"
	"strconv"
	"strings"

	"kevy/tests/wire"
)

// elementsToSort are what the keys of kind n hold; each may be a part of the name of a key of kind w.
const elementsToSort = 12

var sortFamily = family{
	keys: map[byte][]string{
		'n': {"n0", "n1", "n2", "{tag}n"},
		'w': {"w_0", "w_1", "w_2", "w_3", "w_4", "w_5", "w_10", "w_11", "{tag}w_1", "{tag}w_2", "{tag}w_3"},
	},
	makers: []maker{
		{"SORT", 8, func(g *Generator) [][]byte { return g.makeSort("SORT", true) }, false, true},
		{"SORT_RO", 4, func(g *Generator) [][]byte { return g.makeSort("SORT_RO", false) }, false, true},
	},
	specials: map[string]special{"SORT": {run: sortWhereOrderIsKnown}, "SORT_RO": {run: sortWhereOrderIsKnown}},
}

// makeSort makes a SORT or, as often, something to sort or to sort by.
func (g *Generator) makeSort(name string, stores bool) [][]byte {
	if g.p(45) {
		return g.makeSortable()
	}
	key := g.key('n')
	if g.p(15) {
		key = g.key(g.oneOf("l", "t", "z")[0])
	}
	var out []string
	if g.p(50) {
		out = append(out, "BY", g.sortPattern())
	}
	if g.p(40) {
		out = append(out, "LIMIT", g.oneOf("0", "1", "2", "-1", g.integer()), g.oneOf("-1", "0", "2", "4", g.integer()))
	}
	for range g.oneOfInt(0, 0, 0, 1, 1, 2) {
		out = append(out, "GET", g.oneOf("#", g.sortPattern()))
	}
	out = append(out, g.maybe(20, g.oneOf("ASC", "asc"))...)
	out = append(out, g.maybe(35, "DESC")...)
	out = append(out, g.maybe(40, g.oneOf("ALPHA", "alpha"))...)
	if stores && g.p(30) || g.p(2) {
		out = append(out, "STORE", g.oneOf(g.key('n'), g.key('l'), g.key('w')))
	}
	if g.p(10) {
		g.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return join(name, key, out)
}

func (g *Generator) sortPattern() string {
	return g.oneOf("w_*", "w_*", "w_*", "w_*->f", "w_*->f", "{tag}w_*", "{tag}w_*->f", "nosort", "*", "w_*->", "w_*->g", "*->f", "w_*1", "#", "", "missing_*", "n*")
}

func (g *Generator) makeSortable() [][]byte {
	elem := func() string {
		if g.p(4) {
			return g.value()
		}
		return strconv.Itoa(g.rng.IntN(elementsToSort))
	}
	number := func() string {
		if g.p(10) {
			return g.oneOf(" 1", "", "1.0", "0x10", "+3", "inf", "-inf", "nan", "1 ", "1e3", "abc", "3\x00")
		}
		return strconv.Itoa(g.rng.IntN(6))
	}
	switch n := g.rng.IntN(12); {
	case n < 2:
		return join("RPUSH", g.key('n'), g.times(1, 20, elem))
	case n < 4:
		return join("SADD", g.key('n'), g.times(1, 8, elem))
	case n < 6:
		a := []string{g.key('n')}
		for range 1 + g.rng.IntN(8) {
			a = append(a, strconv.Itoa(g.rng.IntN(5)), elem())
		}
		return join("ZADD", a)
	case n < 7:
		return join("DEL", g.key('n'))
	case n < 8:
		return join("DEL", g.key('w'))
	case n < 10:
		return join("HSET", g.key('w'), "f", number(), "g", g.value())
	}
	return join("SET", g.key('w'), number())
}

// orderMayBeUnknown tells of a SORT whose answer may depend on the order in which a server keeps a set: where
// elements are not sorted, and where texts may be equal.
func orderMayBeUnknown(args [][]byte) bool {
	for i, a := range args[min(2, len(args)):] {
		switch strings.ToUpper(string(a)) {
		case "ALPHA":
			return true
		case "BY":
			if i+3 < len(args) && !bytes.Contains(args[i+3], []byte("*")) {
				return true
			}
		}
	}
	return false
}

// sortWhereOrderIsKnown runs a SORT, but none whose order may be unknown of a set, or of a sorted set whose
// elements may compare as equal.
func sortWhereOrderIsKnown(p *Pair, s Step, at int) (*Difference, error) {
	if tiny, err := p.oracle.hasTinyScores(s.Args, p.state[s.Conn].db); err != nil || tiny {
		return nil, err
	}
	// Redis takes an error for its own that an earlier command has met in reading a number; a score read well
	// ends that.
	if _, err := p.oracle.admin.Do("ZADD", "missing", "XX", "1", "member"); err != nil {
		return nil, err
	}
	if orderMayBeUnknown(s.Args) {
		known, err := p.oracle.orderKnown(string(s.Args[1]), p.state[s.Conn].db, s.Args[2:])
		if err != nil || !known {
			return nil, err
		}
	}
	_, _, diff, err := p.runOne(s, at)
	return diff, err
}

// hasTinyScores tells of a sorted set with a score below the normal numbers, which SORT itself reads, and meets that
// error.
func (s *side) hasTinyScores(args [][]byte, db int) (bool, error) {
	if len(args) < 2 {
		return false, nil
	}
	if err := s.selectDB(db); err != nil {
		return false, err
	}
	r, err := s.admin.Do("ZCOUNT", string(args[1]), "-2.2250738585072011e-308", "2.2250738585072011e-308")
	if err != nil || r.Kind != wire.Int || string(r.Text) == "0" {
		return false, err
	}
	zeros, err := s.admin.Do("ZCOUNT", string(args[1]), "0", "0")
	return string(zeros.Text) != string(r.Text), err
}

func (s *side) orderKnown(key string, db int, options [][]byte) (bool, error) {
	if err := s.selectDB(db); err != nil {
		return false, err
	}
	r, err := s.admin.Do("TYPE", key)
	if err != nil {
		return false, err
	}
	switch kind := string(r.Text); kind {
	default:
		return true, nil
	case "set":
		r, err = s.admin.Do("SMEMBERS", key)
	case "zset":
		r, err = s.admin.Do("ZRANGE", key, "0", "-1")
	}
	if err != nil {
		return false, err
	}
	if hasOption(options, "BY") {
		return false, nil
	}
	return distinctTexts(r), nil
}

func hasOption(options [][]byte, name string) bool {
	for _, o := range options {
		if strings.EqualFold(string(o), name) {
			return true
		}
	}
	return false
}

// distinctTexts reports whether the elements differ before their first zero bytes.
func distinctTexts(r wire.Reply) bool {
	seen := map[string]bool{}
	for _, e := range r.Strings() {
		text, _, _ := strings.Cut(e, "\x00")
		if seen[text] {
			return false
		}
		seen[text] = true
	}
	return true
}
