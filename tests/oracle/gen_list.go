package oracle

import (
	"bytes"
	"strconv"
)

var listFamily = family{
	keys: map[byte][]string{'l': {"l0", "l1", "l2", "{tag}l"}},
	makers: []maker{
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
	},
	specials: map[string]special{"LTRIM": {run: trim}},
	avoid: map[string]func(*Generator, [][]byte) bool{
		// 7.0 turns the sign of a RANK around, which C cannot do to the smallest one.
		"LPOS": func(_ *Generator, args [][]byte) bool {
			return bytes.Contains(bytes.Join(args, nil), []byte("-9223372036854775808"))
		},
	},
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

// trim runs LTRIM unless it would leave the list as it is. Redis then still fails the transactions that watch
// the list; a server for which a change is what can be logged does not.
func trim(p *Pair, s Step, at int) (*Difference, error) {
	idle, err := p.oracle.trimsNothing(s.Args, p.state[s.Conn].db)
	if err != nil || idle {
		return nil, err
	}
	_, _, diff, err := p.runOne(s, at)
	return diff, err
}

func (s *side) trimsNothing(args [][]byte, db int) (bool, error) {
	if len(args) != 4 {
		return false, nil
	}
	if err := s.selectDB(db); err != nil {
		return false, err
	}
	r, err := s.admin.Do("LLEN", string(args[1]))
	if err != nil {
		return false, err
	}
	length, errLen := r.Int()
	start, errStart := strconv.ParseInt(string(args[2]), 10, 64)
	stop, errStop := strconv.ParseInt(string(args[3]), 10, 64)
	if r.IsError("") || errLen != nil || errStart != nil || errStop != nil {
		return false, nil
	}
	first := start == 0 || start < 0 && start <= -length
	last := stop == -1 || stop >= length-1
	return length > 0 && first && last, nil
}
