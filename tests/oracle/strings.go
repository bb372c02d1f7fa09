package oracle

import "strconv"

var stringMakers = []maker{
	{"SET", 14, makeSet, true, true},
	{"GET", 8, func(g *Generator) [][]byte { return join("GET", g.key('s')) }, true, true},
	{"SETNX", 2, func(g *Generator) [][]byte { return join("SETNX", g.key('s'), g.value()) }, true, true},
	{"SETEX", 2, func(g *Generator) [][]byte { return join("SETEX", g.key('s'), g.seconds(), g.value()) }, true, true},
	{"PSETEX", 2, func(g *Generator) [][]byte { return join("PSETEX", g.key('s'), g.milliseconds(), g.value()) }, true, true},
	{"GETSET", 2, func(g *Generator) [][]byte { return join("GETSET", g.key('s'), g.value()) }, true, true},
	{"GETDEL", 2, func(g *Generator) [][]byte { return join("GETDEL", g.key('s')) }, true, true},
	{"GETEX", 3, makeGetex, true, true},
	{"MGET", 2, func(g *Generator) [][]byte { return join("MGET", g.keys('s', 1, 4)) }, true, true},
	{"MSET", 3, func(g *Generator) [][]byte { return join("MSET", g.pairs('s')) }, true, true},
	{"MSETNX", 2, func(g *Generator) [][]byte { return join("MSETNX", g.pairs('s')) }, true, true},
	{"APPEND", 4, func(g *Generator) [][]byte { return join("APPEND", g.key('s'), g.value()) }, true, true},
	{"STRLEN", 2, func(g *Generator) [][]byte { return join("STRLEN", g.key('s')) }, true, true},
	{"SETRANGE", 4, func(g *Generator) [][]byte { return join("SETRANGE", g.key('s'), g.offset(), g.value()) }, true, true},
	{"GETRANGE", 3, func(g *Generator) [][]byte { return join("GETRANGE", g.key('s'), g.integer(), g.integer()) }, true, true},
	{"SUBSTR", 1, func(g *Generator) [][]byte { return join("SUBSTR", g.key('s'), g.integer(), g.integer()) }, true, true},
	{"INCR", 3, func(g *Generator) [][]byte { return join("INCR", g.key('s')) }, true, true},
	{"DECR", 2, func(g *Generator) [][]byte { return join("DECR", g.key('s')) }, true, true},
	{"INCRBY", 3, func(g *Generator) [][]byte { return join("INCRBY", g.key('s'), g.integer()) }, true, true},
	{"DECRBY", 2, func(g *Generator) [][]byte { return join("DECRBY", g.key('s'), g.integer()) }, true, true},
	{"INCRBYFLOAT", 5, func(g *Generator) [][]byte { return join("INCRBYFLOAT", g.key('s'), g.decimal()) }, true, true},
	{"LCS", 2, makeLCS, true, true},
}

func makeSet(g *Generator) [][]byte {
	args := []string{g.key('s'), g.value()}
	if g.p(40) {
		opts := [][]string{g.maybe(30, "NX"), g.maybe(30, "XX"), g.maybe(30, "GET"), g.maybe(20, "KEEPTTL"), g.expiryOption(35)}
		g.rng.Shuffle(len(opts), func(i, j int) { opts[i], opts[j] = opts[j], opts[i] })
		for _, o := range opts {
			args = append(args, o...)
		}
	}
	return join("SET", args)
}

// expiryOption is EX, PX, EXAT or PXAT with its time, in percent of the cases.
func (g *Generator) expiryOption(percent int) []string {
	if !g.p(percent) {
		return nil
	}
	switch g.rng.IntN(4) {
	case 0:
		return []string{g.oneOf("EX", "ex"), g.seconds()}
	case 1:
		return []string{"PX", g.milliseconds()}
	case 2:
		return []string{"EXAT", g.unixSeconds()}
	}
	return []string{g.oneOf("PXAT", "pxat"), g.unixMilliseconds()}
}

func makeGetex(g *Generator) [][]byte {
	return join("GETEX", g.key('s'), g.maybe(20, "PERSIST"), g.expiryOption(60))
}

func (g *Generator) pairs(kind byte) []string {
	var out []string
	for range 1 + g.rng.IntN(4) {
		out = append(out, g.key(kind), g.value())
	}
	return out
}

// offset gives a byte offset, rarely a far one.
func (g *Generator) offset() string {
	switch n := g.rng.IntN(40); {
	case n == 0:
		return g.oneOf("536870911", "536870912", "9223372036854775807", "-1", "abc", "", "4294967296")
	case n == 1:
		return strconv.Itoa(g.rng.IntN(1 << 18))
	case n < 10:
		return strconv.Itoa(g.rng.IntN(200))
	}
	return strconv.Itoa(g.rng.IntN(12))
}

func makeLCS(g *Generator) [][]byte {
	return join("LCS", g.key('s'), g.key('s'), g.maybe(30, "LEN"), g.maybe(40, "IDX"), g.maybe(30, "MINMATCHLEN", g.integer()), g.maybe(30, "WITHMATCHLEN"))
}

var bitMakers = []maker{
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
