package oracle

import "strconv"

// hashTTLFamily has the hashes whose fields expire, which Redis has since 7.4. They are the hashes of
// hashFamily.
var hashTTLFamily = family{
	newer: []maker{
		{"HEXPIRE", 4, func(g *Generator) [][]byte {
			return join("HEXPIRE", g.key('h'), g.seconds(), g.fieldCondition(), g.fields())
		}, true, true},
		{"HPEXPIRE", 4, func(g *Generator) [][]byte {
			return join("HPEXPIRE", g.key('h'), g.milliseconds(), g.fieldCondition(), g.fields())
		}, true, true},
		{"HEXPIREAT", 3, func(g *Generator) [][]byte {
			return join("HEXPIREAT", g.key('h'), g.unixSeconds(), g.fieldCondition(), g.fields())
		}, true, true},
		{"HPEXPIREAT", 3, func(g *Generator) [][]byte {
			return join("HPEXPIREAT", g.key('h'), g.unixMilliseconds(), g.fieldCondition(), g.fields())
		}, true, true},
		{"HTTL", 2, func(g *Generator) [][]byte { return join("HTTL", g.key('h'), g.fields()) }, true, true},
		{"HPTTL", 2, func(g *Generator) [][]byte { return join("HPTTL", g.key('h'), g.fields()) }, true, true},
		{"HEXPIRETIME", 2, func(g *Generator) [][]byte { return join("HEXPIRETIME", g.key('h'), g.fields()) }, true, true},
		{"HPEXPIRETIME", 2, func(g *Generator) [][]byte { return join("HPEXPIRETIME", g.key('h'), g.fields()) }, true, true},
		{"HPERSIST", 3, func(g *Generator) [][]byte { return join("HPERSIST", g.key('h'), g.fields()) }, true, true},
		{"HGETDEL", 3, func(g *Generator) [][]byte { return join("HGETDEL", g.key('h'), g.fields()) }, true, true},
		{"HGETEX", 3, func(g *Generator) [][]byte {
			return join("HGETEX", g.key('h'), g.maybe(20, "PERSIST"), g.expiryOption(60), g.fields())
		}, true, true},
		{"HSETEX", 4, func(g *Generator) [][]byte {
			var pairs []string
			for range 1 + g.rng.IntN(3) {
				pairs = append(pairs, g.field(), g.value())
			}
			return join("HSETEX", g.key('h'), g.maybe(30, g.oneOf("FNX", "FXX", "fnx")), g.maybe(20, "KEEPTTL"), g.expiryOption(60),
				"FIELDS", strconv.Itoa(len(pairs)/2), pairs)
		}, true, true},
	},
	modes: map[string]mode{"HTTL": clock, "HPTTL": clock, "HEXPIRETIME": clock, "HPEXPIRETIME": clock},
	avoid: map[string]func(*Generator, [][]byte) bool{
		"HEXPIRE":    func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1000, 0) },
		"HPEXPIRE":   func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1, 0) },
		"HEXPIREAT":  func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1000, g.nowMs) },
		"HPEXPIREAT": func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1, g.nowMs) },
		"HGETEX":     expiresSoon, "HSETEX": expiresSoon,
	},
}

// fields is FIELDS, their number and so many fields, sometimes not as many.
func (g *Generator) fields() []string {
	fields := g.times(1, 4, g.field)
	n := strconv.Itoa(len(fields))
	if g.p(4) {
		n = g.oneOf("0", "-1", "abc", "5", "9223372036854775807")
	}
	return append([]string{"FIELDS", n}, fields...)
}

func (g *Generator) fieldCondition() []string {
	return g.maybe(40, g.oneOf("NX", "XX", "GT", "LT", "gt", "FOO"))
}
