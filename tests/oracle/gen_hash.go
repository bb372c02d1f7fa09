package oracle

import "strconv"

var hashFamily = family{
	keys: map[byte][]string{'h': {"h0", "h1", "h2", "{tag}h"}},
	makers: []maker{
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
	},
	newer: []maker{{"HSCAN", 1, func(g *Generator) [][]byte {
		return join("HSCAN", g.key('h'), g.cursor(), g.scanOptions(false), "NOVALUES")
	}, false, true}},
	modes: map[string]mode{
		"HGETALL": unorderedPairs, "HKEYS": unordered, "HVALS": unordered, "HRANDFIELD": random, "HSCAN": shape,
	},
	specials: map[string]special{"HRANDFIELD": {run: pickRandomly, queued: true}, "HSCAN": {run: scanToTheEnd, queued: true}},
	avoid:    map[string]func(*Generator, [][]byte) bool{"HRANDFIELD": manyPicks},
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
