package oracle

import "strconv"

var keyMakers = []maker{
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

var connMakers = []maker{
	{"MULTI", 5, func(g *Generator) [][]byte { return join("MULTI") }, false, false},
	{"EXEC", 1, func(g *Generator) [][]byte { return join("EXEC") }, true, false},
	{"DISCARD", 1, func(g *Generator) [][]byte { return join("DISCARD") }, true, false},
	{"WATCH", 3, func(g *Generator) [][]byte { return join("WATCH", g.times(1, 3, g.anyKey)) }, false, false},
	{"UNWATCH", 1, func(g *Generator) [][]byte { return join("UNWATCH") }, true, false},
	{"SELECT", 4, func(g *Generator) [][]byte { return join("SELECT", g.database()) }, true, false},
	{"SWAPDB", 1, func(g *Generator) [][]byte { return join("SWAPDB", g.database(), g.database()) }, true, false},
	{"FLUSHDB", 1, func(g *Generator) [][]byte {
		if g.p(80) {
			return join("FLUSHDB", "BOGUS")
		}
		return join("FLUSHDB", g.maybe(50, g.oneOf("SYNC", "ASYNC", "async", "NOW")))
	}, true, false},
	{"FLUSHALL", 1, func(g *Generator) [][]byte {
		if g.p(90) {
			return join("FLUSHALL", "ASYNC", "SYNC")
		}
		return join("FLUSHALL", g.maybe(50, g.oneOf("SYNC", "ASYNC", "sync", "NOW")))
	}, true, false},
	{"PING", 1, func(g *Generator) [][]byte { return join("PING", g.maybe(50, g.value())) }, true, false},
	{"ECHO", 1, func(g *Generator) [][]byte { return join("ECHO", g.value()) }, true, false},
	{"HELLO", 2, func(g *Generator) [][]byte {
		return join("HELLO", g.oneOf("2", "3", "3", "2", "4", "abc", "1"), g.maybe(15, "SETNAME", g.oneOf("me", "a b", "")), g.maybe(5, "BOGUS"))
	}, false, false},
	{"RESET", 1, func(g *Generator) [][]byte { return join("RESET") }, true, false},
	{"CLIENT SETNAME", 1, func(g *Generator) [][]byte { return join("CLIENT", "SETNAME", g.oneOf("a", "b", "", "a b", "\x7f")) }, true, false},
	{"CLIENT GETNAME", 1, func(g *Generator) [][]byte { return join("CLIENT", "GETNAME") }, true, false},
	{"CLIENT ID", 1, func(g *Generator) [][]byte { return join("CLIENT", "ID") }, true, false},
}
