package oracle

import (
	"strconv"
	"strings"
)

var bitmapFamily = family{
	makers: []maker{
		{"SETBIT", 3, func(g *Generator) [][]byte { return join("SETBIT", g.key('s'), g.bitOffset(), g.bit()) }, true, true},
		{"GETBIT", 2, func(g *Generator) [][]byte { return join("GETBIT", g.key('s'), g.bitOffset()) }, true, true},
		{"BITCOUNT", 3, func(g *Generator) [][]byte {
			return join("BITCOUNT", g.key('s'), g.bitRange())
		}, true, true},
		{"BITPOS", 3, func(g *Generator) [][]byte {
			a := []string{g.key('s'), g.bit()}
			if r := g.bitRange(); len(r) > 0 && g.p(25) {
				a = append(a, r[0])
			} else {
				a = append(a, r...)
			}
			return join("BITPOS", a)
		}, true, true},
		{"BITOP", 3, func(g *Generator) [][]byte {
			return join("BITOP", g.oneOf("AND", "OR", "XOR", "NOT", "and", "XNOR"), g.key('s'), g.keys('s', 1, 3))
		}, true, true},
		{"BITFIELD", 4, func(g *Generator) [][]byte { return join("BITFIELD", g.key('s'), g.bitfieldOps(false)) }, true, true},
		{"BITFIELD_RO", 2, func(g *Generator) [][]byte { return join("BITFIELD_RO", g.key('s'), g.bitfieldOps(true)) }, true, true},
	},
	newer: []maker{{"BITOP", 3, func(g *Generator) [][]byte {
		return join("BITOP", g.oneOf("DIFF", "DIFF1", "ANDOR", "ONE", "one"), g.key('s'), g.keys('s', 1, 4))
	}, true, true}},
	specials: map[string]special{"BITFIELD": {run: failingBitfield, when: func(args [][]byte) bool { return hasOption(args, "FAIL") }}},
	avoid:    map[string]func(*Generator, [][]byte) bool{"SETBIT": farOffset, "BITFIELD": farBits, "BITFIELD_RO": farBits},
}

func (g *Generator) bit() string {
	if g.p(5) {
		return g.oneOf("2", "-1", "", "x", "01")
	}
	return g.oneOf("0", "1")
}

func (g *Generator) bitOffset() string {
	switch n := g.rng.IntN(40); {
	case n == 0:
		return g.oneOf("4294967296", "-1", "abc", "", "9223372036854775807", "18446744073709551616", "01")
	case n == 1:
		return strconv.Itoa(g.rng.IntN(1 << 20))
	}
	return strconv.Itoa(g.rng.IntN(80))
}

// bitRange is a range of BITCOUNT or BITPOS, or nothing.
func (g *Generator) bitRange() []string {
	if g.p(30) {
		return nil
	}
	r := []string{g.integer(), g.integer()}
	if g.p(50) {
		r = append(r, g.oneOf("BIT", "BYTE", "bit", "byte", "BITS"))
	}
	return r
}

func (g *Generator) bitfieldOps(readOnly bool) []string {
	kind := func() string {
		if g.p(6) {
			return g.oneOf("u0", "u64", "i0", "i65", "x8", "", "u", "i-1", "u08")
		}
		return g.oneOf("u1", "u2", "u7", "u8", "u16", "u32", "u63", "i1", "i5", "i8", "i16", "i33", "i64")
	}
	at := func() string {
		if g.p(20) {
			return "#" + strconv.Itoa(g.rng.IntN(6))
		}
		return g.bitOffset()
	}
	var out []string
	for range 1 + g.rng.IntN(4) {
		if g.p(25) {
			out = append(out, "OVERFLOW", g.oneOf("WRAP", "SAT", "FAIL", "sat", "NONE"))
		}
		switch n := g.rng.IntN(3); {
		case n == 0 || readOnly && g.p(90):
			out = append(out, g.oneOf("GET", "get"), kind(), at())
		case n == 1:
			out = append(out, "SET", kind(), at(), g.integer())
		default:
			out = append(out, "INCRBY", kind(), at(), g.integer())
		}
	}
	return out
}

// farBits tells also of values of which 7.0 overflows in C when it looks how far they are from the largest of
// a signed field, and saturates at the wrong end.
func farBits(g *Generator, args [][]byte) bool {
	for _, a := range args[min(2, len(args)):] {
		if v, err := strconv.ParseInt(strings.TrimPrefix(string(a), "#"), 10, 64); err == nil && v < -1<<62 {
			return true
		}
	}
	return farOffset(g, args)
}

// failingBitfield runs a BITFIELD that may set nothing and lengthen its string all the same: of that redis-server tells
// neither those who watch the key nor those who keep its value. It is made to.
func failingBitfield(p *Pair, s Step, at int) (*Difference, error) {
	length := func() (string, error) {
		if err := p.oracle.selectDB(p.state[s.Conn].db); err != nil {
			return "", err
		}
		r, err := p.oracle.admin.Do("STRLEN", string(s.Args[1]))
		return string(r.Text), err
	}
	before, err := length()
	if err != nil {
		return nil, err
	}
	_, _, diff, err := p.runOne(s, at)
	if diff != nil || err != nil {
		return diff, err
	}
	if after, err := length(); err != nil || after == before {
		return nil, err
	}
	return nil, p.untold(&p.oracle, "APPEND", string(s.Args[1]), "")
}
