package oracle

import (
	"strconv"
	"strings"
)

var stringFamily = family{
	keys: map[byte][]string{'s': {"s0", "s1", "s2", "s3", "{tag}s", "s5"}},
	makers: []maker{
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
	},
	newer: []maker{
		{"SET", 6, func(g *Generator) [][]byte {
			return join("SET", g.key('s'), g.value(), g.condition(), g.maybe(30, "GET"), g.maybe(20, "KEEPTTL"), g.expiryOption(30))
		}, true, true},
		{"DELEX", 4, func(g *Generator) [][]byte { return join("DELEX", g.anyKey(), g.condition()) }, true, true},
		{"DELIFEQ", 2, func(g *Generator) [][]byte { return join("DELIFEQ", g.key('s'), g.value()) }, true, true},
		{"DIGEST", 2, func(g *Generator) [][]byte { return join("DIGEST", g.key('s')) }, true, true},
		{"MSETEX", 3, func(g *Generator) [][]byte {
			pairs := g.pairs('s')
			n := strconv.Itoa(len(pairs) / 2)
			if g.p(5) {
				n = g.oneOf("0", "-1", "abc", "3", "9223372036854775807")
			}
			return join("MSETEX", n, pairs, g.maybe(30, g.oneOf("NX", "XX")), g.maybe(15, "KEEPTTL"), g.expiryOption(40))
		}, true, true},
	},
	specials: map[string]special{"APPEND": {run: appendNothing, when: func(args [][]byte) bool {
		return len(args) == 3 && len(args[2]) == 0
	}}},
	avoid: map[string]func(*Generator, [][]byte) bool{
		"SET": expiresSoon, "GETEX": expiresSoon, "MSETEX": expiresSoon,
		"SETEX":    func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1000, 0) },
		"PSETEX":   func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1, 0) },
		"SETRANGE": farOffset,
	},
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

// condition is one of SET and DELEX since Redis 8.4, or none.
func (g *Generator) condition() []string {
	switch g.rng.IntN(6) {
	case 0:
		return nil
	case 1, 2:
		return []string{g.oneOf("IFDEQ", "IFDNE", "ifdeq"), g.oneOf("0000000000000000", "abc", "zzzzzzzzzzzzzzzz", "E05CC2A9D7AB2D4C")}
	}
	return []string{g.oneOf("IFEQ", "IFNE", "ifeq"), g.value()}
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

// expiresSoon tells of an expiry among the options of a command that would fall into the run.
func expiresSoon(g *Generator, args [][]byte) bool {
	for i := 2; i+1 < len(args); i++ {
		switch strings.ToUpper(string(args[i])) {
		case "EX":
			if g.near(args, i+1, 1000, 0) {
				return true
			}
		case "PX":
			if g.near(args, i+1, 1, 0) {
				return true
			}
		case "EXAT":
			if g.near(args, i+1, 1000, g.nowMs) {
				return true
			}
		case "PXAT":
			if g.near(args, i+1, 1, g.nowMs) {
				return true
			}
		}
	}
	return false
}

// farOffset tells of offsets that are allowed but would cost hundreds of megabytes.
func farOffset(_ *Generator, args [][]byte) bool {
	for _, a := range args[min(2, len(args)):] {
		if v, err := strconv.ParseInt(strings.TrimPrefix(string(a), "#"), 10, 64); err == nil && v > 8<<20 && v <= 1<<32 {
			return true
		}
	}
	return false
}

// appendNothing runs an APPEND of nothing where it makes a key. Else Redis fails the transactions that watch the
// key; a server for which a change is what can be logged does not.
func appendNothing(p *Pair, s Step, at int) (*Difference, error) {
	if err := p.oracle.selectDB(p.state[s.Conn].db); err != nil {
		return nil, err
	}
	r, err := p.oracle.admin.Do("EXISTS", string(s.Args[1]))
	if err != nil || string(r.Text) == "1" {
		return nil, err
	}
	_, _, diff, err := p.runOne(s, at)
	return diff, err
}
