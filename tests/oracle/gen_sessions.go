package oracle

import (
	"strconv"
	"strings"
)

// sessionGenerator makes the steps of Sessions: of connections that wait for one another, listen to one another and
// stand in each other's way, on few keys and channels.
type sessionGenerator struct {
	*Generator
	multi []bool // by connection, whether it may be in a transaction
}

// roles are what connections mostly do, in turn, in percent: so that there are always some who go on when others wait, or
// listen in RESP2 and may do nothing else. What is left are writes.
var roles = []struct{ listens, tells, changes, waits int }{
	{listens: 3, tells: 5, changes: 15, waits: 50},
	{listens: 45, tells: 15, changes: 15, waits: 5},
	{listens: 3, tells: 15, changes: 45},
	{tells: 35, changes: 5},
}

// next makes the next step.
func (g *sessionGenerator) next() Step {
	s := Step{Conn: g.rng.IntN(len(g.multi))}
	role, multi := roles[s.Conn%len(roles)], g.multi[s.Conn]
	switch n := g.rng.IntN(100); {
	case multi && g.p(25):
		s.Args = cmd(g.oneOf("EXEC", "EXEC", "EXEC", "EXEC", "DISCARD"))
	case n < role.listens:
		s.Args = g.listening(multi)
	case n < role.listens+role.tells:
		s.Args = g.telling()
	case n < role.listens+role.tells+role.changes:
		s.Args = g.ownState(multi)
	case n < role.listens+role.tells+role.changes+role.waits:
		s.Args = g.waitsForKey()
	case g.p(7):
		s.Args = join("CLIENT", "UNBLOCK", strconv.Itoa(g.rng.IntN(len(g.multi))), g.maybe(60, g.oneOf("TIMEOUT", "ERROR", "x")))
	default:
		s.Args = g.writes()
	}
	switch name(s.Args) {
	case "MULTI":
		g.multi[s.Conn] = true
	case "EXEC", "DISCARD", "RESET":
		g.multi[s.Conn] = false
	}
	return s
}

func (g *sessionGenerator) heard() string {
	return g.oneOf("a", "b", "news.go", "news.c", "", "__keyspace@0__:k1", "__keyevent@0__:set", "__keyevent@0__:lpush")
}

// said is what nobody but publishers say.
func (g *sessionGenerator) said() string { return g.oneOf("a", "b", "news.go", "news.c", "", "c") }

func (g *sessionGenerator) pattern() string {
	return g.oneOf("*", "news.*", "[ab]", "?", "a", "__key*@0__:*", "__keyspace@*:k2", "h[")
}

func (g *sessionGenerator) one() string { return g.oneOf("k1", "k2", "k3", "z1", "z2", "e1", "s1") }

func (g *sessionGenerator) listening(multi bool) [][]byte {
	kind := g.oneOf("", "", "P", "S")
	names := g.times(1, 3, g.heard)
	switch {
	case multi:
		// Not of events: those of a transaction are told of behind its commit, and so to who then listens.
		kind, names = g.oneOf("", "S"), g.times(1, 2, g.said)
	case kind == "P":
		names = g.times(1, 2, g.pattern)
	}
	if g.p(50) {
		return join(kind+"SUBSCRIBE", names)
	}
	if g.p(40) && !multi {
		names = nil
	}
	return join(kind+"UNSUBSCRIBE", names)
}

func (g *sessionGenerator) telling() [][]byte {
	switch g.rng.IntN(12) {
	case 0:
		return join("PUBSUB", g.oneOf("CHANNELS", "SHARDCHANNELS"), g.maybe(40, g.pattern()))
	case 1:
		return join("PUBSUB", g.oneOf("NUMSUB", "SHARDNUMSUB"), g.times(0, 3, g.heard))
	case 2:
		return cmd("PUBSUB", "NUMPAT")
	case 3, 4:
		return cmd("SPUBLISH", g.said(), "m"+strconv.Itoa(g.rng.IntN(1000)))
	case 5:
		return cmd("EVAL", "redis.call('publish', ARGV[1], 'x') redis.call('set', KEYS[1], 'y') return redis.call('publish', ARGV[1], 'z')", "1", g.one(), g.said())
	case 6:
		return cmd("EVAL", "redis.call('spublish', ARGV[1], 'x') redis.call('lpush', KEYS[1], 'y') return redis.pcall('publish', ARGV[1], 'z')", "1", g.one(), g.said())
	}
	return cmd("PUBLISH", g.said(), "m"+strconv.Itoa(g.rng.IntN(1000)))
}

// ownState changes or shows what a connection is, or ends another.
func (g *sessionGenerator) ownState(multi bool) [][]byte {
	anyone := strconv.Itoa(g.rng.IntN(len(g.multi)))
	switch g.rng.IntN(24) {
	case 0, 1, 2, 3, 4:
		return cmd("MULTI")
	case 5, 6, 7, 8:
		return join("WATCH", g.times(1, 2, g.one))
	case 9:
		return cmd("UNWATCH")
	case 10, 11:
		return cmd("SELECT", g.oneOf("0", "0", "1", "16"))
	case 12:
		return cmd("RESET")
	case 13, 14:
		if !multi {
			return join("HELLO", g.oneOf("2", "3", "3", "4"), g.maybe(30, "SETNAME", g.oneOf("me", "you")))
		}
	case 15:
		return cmd("CLIENT", "NO-EVICT", g.oneOf("on", "OFF", "x"))
	case 16:
		return cmd("CLIENT", "SETNAME", g.oneOf("a", "b", ""))
	case 17:
		return cmd("CLIENT", "GETNAME")
	case 18:
		if !multi {
			return cmd("CLIENT", "KILL", "ID", anyone, "SKIPME", g.oneOf("yes", "no", "maybe"))
		}
	}
	return cmd("MULTI")
}

// list and zset are keys that mostly hold one.
func (g *sessionGenerator) list() string {
	if g.p(90) {
		return g.oneOf("k1", "k2", "k3")
	}
	return g.one()
}

func (g *sessionGenerator) zset() string {
	if g.p(90) {
		return g.oneOf("z1", "z2")
	}
	return g.one()
}

func (g *sessionGenerator) waitsForKey() [][]byte {
	switch g.rng.IntN(7) {
	case 0:
		return join("BRPOP", g.times(1, 3, g.list), "0")
	case 1:
		return join("BLMOVE", g.list(), g.list(), g.oneOf("LEFT", "RIGHT"), "LEFT", "0")
	case 2:
		return join("BZPOPMIN", g.times(1, 2, g.zset), "0")
	case 3:
		return join("BLMPOP", "0", "1", g.list(), "LEFT", "COUNT", "2")
	case 4:
		return join("XREAD", "BLOCK", "0", "STREAMS", "e1", g.oneOf("$", "0"))
	}
	return join("BLPOP", g.times(1, 3, g.list), g.oneOf("0", "0", "0", "0", "x", "-1"))
}

func (g *sessionGenerator) writes() [][]byte {
	key := g.one()
	value := "v" + strconv.Itoa(g.rng.IntN(1000))
	switch g.rng.IntN(17) {
	case 0, 1, 2:
		return join(g.oneOf("LPUSH", "RPUSH"), g.list(), value, g.maybe(30, value+"b"))
	case 3, 4:
		return cmd("ZADD", g.zset(), strconv.Itoa(g.rng.IntN(9)), value)
	case 5:
		if g.p(70) {
			return cmd("SET", key, value)
		}
		return cmd("XADD", key) // the wrong number of arguments, which aborts a transaction
	case 6, 7:
		return cmd(g.oneOf("DEL", "UNLINK", "LPOP", "ZPOPMAX", "GET", "TYPE"), key)
	case 8:
		return cmd("INCR", key)
	case 9:
		return cmd("APPEND", key, g.oneOf("", value))
	case 10:
		return cmd("RENAME", key, g.one())
	case 11:
		return cmd("COPY", key, g.one(), "DB", g.oneOf("0", "1"), "REPLACE")
	case 12:
		return cmd("MOVE", key, g.oneOf("0", "1"))
	case 13:
		return cmd("LMOVE", key, g.one(), "LEFT", "RIGHT")
	case 14:
		g.ticks++
		return cmd("XADD", g.oneOf("e1", "e1", "e1", key), strconv.FormatUint(g.ticks, 10)+"-1", "f", value)
	case 15:
		if g.p(50) {
			return cmd(g.oneOf("FLUSHDB", "FLUSHALL"))
		}
	}
	return cmd(strings.Fields(g.oneOf("EXISTS k1 k2", "LLEN k1", "PERSIST k1", "LTRIM k1 0 -1", "EXPIRE k2 100000", "SADD k3 x"))...)
}
