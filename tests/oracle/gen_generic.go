package oracle

import "strconv"

var genericFamily = family{
	makers: []maker{
		{"DEL", 5, func(g *Generator) [][]byte { return join("DEL", g.times(1, 3, g.anyKey)) }, true, true},
		{"UNLINK", 2, func(g *Generator) [][]byte { return join("UNLINK", g.times(1, 3, g.anyKey)) }, true, true},
		{"EXISTS", 2, func(g *Generator) [][]byte { return join("EXISTS", g.times(1, 4, g.anyKey)) }, true, true},
		{"TOUCH", 1, func(g *Generator) [][]byte { return join("TOUCH", g.times(1, 3, g.anyKey)) }, true, true},
		{"TYPE", 3, func(g *Generator) [][]byte { return join("TYPE", g.anyKey()) }, true, true},
		{"RENAME", 3, func(g *Generator) [][]byte { return join("RENAME", g.anyKey(), g.anyKey()) }, true, true},
		{"RENAMENX", 2, func(g *Generator) [][]byte { return join("RENAMENX", g.anyKey(), g.anyKey()) }, true, true},
		{"COPY", 3, func(g *Generator) [][]byte {
			return join("COPY", g.anyKey(), g.anyKey(), g.maybe(25, "DB", g.database()), g.maybe(50, "REPLACE"))
		}, true, true},
		{"MOVE", 3, func(g *Generator) [][]byte { return join("MOVE", g.anyKey(), g.database()) }, true, false},
		{"EXPIRE", 4, func(g *Generator) [][]byte { return join("EXPIRE", g.anyKey(), g.seconds(), g.expireFlags()) }, true, true},
		{"PEXPIRE", 3, func(g *Generator) [][]byte {
			return join("PEXPIRE", g.anyKey(), g.milliseconds(), g.expireFlags())
		}, true, true},
		{"EXPIREAT", 3, func(g *Generator) [][]byte {
			return join("EXPIREAT", g.anyKey(), g.unixSeconds(), g.expireFlags())
		}, true, true},
		{"PEXPIREAT", 3, func(g *Generator) [][]byte {
			return join("PEXPIREAT", g.anyKey(), g.unixMilliseconds(), g.expireFlags())
		}, true, true},
		{"PERSIST", 2, func(g *Generator) [][]byte { return join("PERSIST", g.anyKey()) }, true, true},
		{"TTL", 2, func(g *Generator) [][]byte { return join("TTL", g.anyKey()) }, true, true},
		{"PTTL", 2, func(g *Generator) [][]byte { return join("PTTL", g.anyKey()) }, true, true},
		{"EXPIRETIME", 2, func(g *Generator) [][]byte { return join("EXPIRETIME", g.anyKey()) }, true, true},
		{"PEXPIRETIME", 2, func(g *Generator) [][]byte { return join("PEXPIRETIME", g.anyKey()) }, true, true},
		{"KEYS", 1, func(g *Generator) [][]byte { return join("KEYS", g.pattern()) }, true, true},
		{"RANDOMKEY", 1, func(g *Generator) [][]byte { return join("RANDOMKEY") }, false, true},
		{"SCAN", 2, func(g *Generator) [][]byte { return join("SCAN", g.cursor(), g.scanOptions(true)) }, false, true},
		{"DBSIZE", 1, func(g *Generator) [][]byte { return join("DBSIZE") }, false, true},
		{"OBJECT ENCODING", 6, func(g *Generator) [][]byte { return join("OBJECT", "ENCODING", g.anyKey()) }, true, true},
		{"OBJECT IDLETIME", 1, func(g *Generator) [][]byte { return join("OBJECT", "IDLETIME", g.anyKey()) }, true, true},
		{"OBJECT FREQ", 1, func(g *Generator) [][]byte { return join("OBJECT", "FREQ", g.anyKey()) }, true, true},
		{"OBJECT REFCOUNT", 1, func(g *Generator) [][]byte { return join("OBJECT", "REFCOUNT", g.anyKey()) }, true, true},
		// For a replica, of which there is none, it waits to the end of its time, so that is short.
		{"WAIT", 1, func(g *Generator) [][]byte {
			return join("WAIT", g.oneOf("0", "0", "1", "2", "-1", "abc", "9223372036854775808"), g.oneOf("1", "2", "5", "-1", "abc", ""))
		}, true, false},
	},
	newer: []maker{
		{"PREFIX.STATS", 1, func(g *Generator) [][]byte { return join("PREFIX.STATS", g.oneOf("s", "h", "{tag}", "nosuch", "")) }, true, true},
	},
	modes: map[string]mode{
		"KEYS": unordered, "TTL": clock, "PTTL": clock, "EXPIRETIME": clock, "PEXPIRETIME": clock, "OBJECT IDLETIME": clock,
		"RANDOMKEY": random, "SCAN": shape,
		// Which integers are shared is up to the server; Redis unshares one when COPY copies it.
		"OBJECT REFCOUNT": shape,
	},
	specials: map[string]special{
		"RANDOMKEY": {run: pickRandomly, queued: true}, "SCAN": {run: scanToTheEnd, queued: true}, "DBSIZE": {run: countKeys, queued: true},
	},
	avoid: map[string]func(*Generator, [][]byte) bool{
		"EXPIRE":    func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1000, 0) },
		"PEXPIRE":   func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1, 0) },
		"EXPIREAT":  func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1000, g.nowMs) },
		"PEXPIREAT": func(g *Generator, args [][]byte) bool { return g.near(args, 2, 1, g.nowMs) },
	},
}

// database gives one of few databases, so that they meet.
func (g *Generator) database() string {
	if g.p(8) {
		return g.oneOf("15", "16", "-1", "abc", "", "9223372036854775808", "01")
	}
	return strconv.Itoa(g.rng.IntN(3))
}

func (g *Generator) expireFlags() []string {
	if g.p(55) {
		return nil
	}
	return g.times(1, 2, func() string { return g.oneOf("NX", "XX", "GT", "LT", "gt", "FOO") })
}
