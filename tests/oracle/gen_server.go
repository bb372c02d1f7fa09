package oracle

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// serverFamily has the commands that ask about a server, as far as two servers can agree about them.
var serverFamily = family{
	makers: []maker{
		{"COMMAND COUNT", 1, func(*Generator) [][]byte { return cmd("COMMAND", "COUNT") }, true, false},
		{"COMMAND GETKEYS", 2, func(g *Generator) [][]byte { return append(cmd("COMMAND", "GETKEYS"), g.someCommand()...) }, true, false},
		{"COMMAND GETKEYSANDFLAGS", 2, func(g *Generator) [][]byte {
			return append(cmd("COMMAND", "GETKEYSANDFLAGS"), g.someCommand()...)
		}, true, false},
		{"COMMAND INFO", 1, func(g *Generator) [][]byte {
			return join("COMMAND", "INFO", g.times(1, 3, func() string { return g.oneOf(plainCommands...) }))
		}, true, false},
		{"COMMAND LIST", 1, func(g *Generator) [][]byte {
			if g.p(20) {
				return join("COMMAND", "LIST", "FILTERBY", g.oneOf("MODULE", "ACLCAT", "BOGUS"), "nosuch")
			}
			return join("COMMAND", "LIST", "FILTERBY", "PATTERN", g.oneOf("get*", "SM*", "incrby*", "pexpire*", "zrev*", "nosuch*", "[h]g?t"))
		}, true, false},
		{"COMMAND DOCS", 1, func(g *Generator) [][]byte { return join("COMMAND", "DOCS", g.oneOf(plainCommands...)) }, true, false},
		{"COMMAND HELP", 1, func(*Generator) [][]byte { return cmd("COMMAND", "HELP") }, true, false},
		{"CONFIG GET", 1, func(g *Generator) [][]byte {
			return join("CONFIG", "GET", g.times(1, 3, func() string {
				return g.oneOf("hash-max-*", "ZSET-max-*", "set-max-intset-entries", "appendfsync", "databases", "nosuch", "tim?out", "[x-z]set-max-listpack-v*")
			}))
		}, true, false},
		{"CONFIG SET", 1, func(g *Generator) [][]byte {
			if g.p(25) {
				return cmd(append([]string{"CONFIG", "SET"}, strings.Fields(g.oneOf(sameSettings...))...)...)
			}
			return join("CONFIG", "SET", g.times(1, 2, func() string {
				return g.oneOf("hash-max-listpack-entries", "zset-max-ziplist-value", "timeout", "nosuch", "databases", "5")
			}), g.oneOf("-1", "abc", "x1"))
		}, true, false},
		{"CONFIG REWRITE", 1, func(*Generator) [][]byte { return cmd("CONFIG", "REWRITE") }, true, false},
		{"CONFIG RESETSTAT", 1, func(*Generator) [][]byte { return cmd("CONFIG", "RESETSTAT") }, true, false},
		{"INFO", 1, func(g *Generator) [][]byte {
			return join("INFO", g.times(0, 2, func() string { return g.oneOf("server", "keyspace", "ALL", "nosuch", "stats") }))
		}, true, false},
		{"ASKING", 1, func(*Generator) [][]byte { return cmd("ASKING") }, true, false},
		{"READONLY", 1, func(*Generator) [][]byte { return cmd("READONLY") }, true, false},
		{"READWRITE", 1, func(*Generator) [][]byte { return cmd("READWRITE") }, true, false},
		{"SLOWLOG GET", 1, func(g *Generator) [][]byte {
			return join("SLOWLOG", "GET", g.maybe(60, g.oneOf("0", "-1", "5", "-2", "x", "9223372036854775807")), g.maybe(5, "1"))
		}, true, false},
		{"SLOWLOG LEN", 1, func(*Generator) [][]byte { return cmd("SLOWLOG", "LEN") }, true, false},
		{"SLOWLOG RESET", 1, func(*Generator) [][]byte { return cmd("SLOWLOG", "RESET") }, true, false},
		{"LATENCY LATEST", 1, func(*Generator) [][]byte { return cmd("LATENCY", "LATEST") }, true, false},
		{"LATENCY HISTORY", 1, func(g *Generator) [][]byte { return join("LATENCY", "HISTORY", g.oneOf("command", "nosuch")) }, true, false},
		{"LATENCY GRAPH", 1, func(g *Generator) [][]byte { return join("LATENCY", "GRAPH", g.oneOf("command", "nosuch")) }, true, false},
		{"LATENCY DOCTOR", 1, func(*Generator) [][]byte { return cmd("LATENCY", "DOCTOR") }, true, false},
		{"LATENCY RESET", 1, func(g *Generator) [][]byte {
			return join("LATENCY", "RESET", g.times(0, 2, func() string { return g.oneOf("command", "nosuch") }))
		}, true, false},
		{"LATENCY HISTOGRAM", 1, func(g *Generator) [][]byte {
			return join("LATENCY", "HISTOGRAM", g.times(0, 2, func() string { return g.oneOf("set", "CLIENT", "nosuch", "config|get") }))
		}, true, false},
		{"TIME", 1, func(*Generator) [][]byte { return cmd("TIME") }, true, false},
		{"LASTSAVE", 1, func(*Generator) [][]byte { return cmd("LASTSAVE") }, true, false},
		{"MEMORY USAGE", 1, func(g *Generator) [][]byte {
			return join("MEMORY", "USAGE", g.anyKey(), g.maybe(30, "SAMPLES", g.count()))
		}, true, false},
		{"MEMORY STATS", 1, func(*Generator) [][]byte { return cmd("MEMORY", "STATS") }, true, false},
		{"MEMORY DOCTOR", 1, func(*Generator) [][]byte { return cmd("MEMORY", "DOCTOR") }, true, false},
		{"MEMORY MALLOC-STATS", 1, func(*Generator) [][]byte { return cmd("MEMORY", "MALLOC-STATS") }, true, false},
		{"LOLWUT", 1, func(g *Generator) [][]byte {
			return join("LOLWUT", "VERSION", g.oneOf("5", "x", "9223372036854775808"), g.maybe(30, g.oneOf("1", "16", "y")))
		}, true, false},
		{"MEMORY PURGE", 1, func(*Generator) [][]byte { return cmd("MEMORY", "PURGE") }, true, false},
		{"MODULE LIST", 1, func(*Generator) [][]byte { return cmd("MODULE", "LIST") }, true, false},
		{"DEBUG SLEEP", 1, func(g *Generator) [][]byte { return join("DEBUG", "SLEEP", "0") }, true, false},
	},
	modes: map[string]mode{
		"COMMAND COUNT": shape, "COMMAND DOCS": shape, "COMMAND LIST": unordered, "CONFIG GET": unorderedPairs,
		"SLOWLOG GET": shape, "SLOWLOG LEN": shape, "LATENCY DOCTOR": shape, "LATENCY HISTOGRAM": shape,
		"INFO": shape, "TIME": shape, "LASTSAVE": shape, "MEMORY STATS": shape, "MEMORY DOCTOR": shape, "MEMORY MALLOC-STATS": shape, "LOLWUT": shape, "MEMORY USAGE": measure,
	},
	specials: map[string]special{"MEMORY USAGE": {run: measureKey, queued: true}},
	avoid: map[string]func(*Generator, [][]byte) bool{
		// Everything: what the servers have in common is not all that each has.
		"COMMAND LIST":    func(_ *Generator, args [][]byte) bool { return len(args) == 2 || has(args, "*") },
		"COMMAND INFO":    func(_ *Generator, args [][]byte) bool { return len(args) == 2 },
		"COMMAND DOCS":    func(_ *Generator, args [][]byte) bool { return len(args) == 2 },
		"COMMAND GETKEYS": avoidInner, "COMMAND GETKEYSANDFLAGS": avoidInner,
		"COMMAND":    func(_ *Generator, args [][]byte) bool { return len(args) == 1 },
		"CONFIG GET": func(_ *Generator, args [][]byte) bool { return has(args, "*") },
		// Only what cannot succeed or changes nothing, and no empty value, which 7.0 takes for 0 bytes.
		"CONFIG SET": func(_ *Generator, args [][]byte) bool {
			if len(args) > 2 && slices.Contains(sameSettings, string(bytes.Join(args[2:], []byte(" ")))) {
				return false
			}
			return has(args, "") || !has(args, "-1") && !has(args, "abc") && !has(args, "x1")
		},
		"DEBUG SLEEP": func(_ *Generator, args [][]byte) bool { return len(args) != 3 || string(args[2]) != "0" },
	},
}

// sameSettings are settings with the values that both servers start with.
var sameSettings = []string{
	"timeout 0", "set-max-intset-entries 512", "SLOWLOG-MAX-LEN 128", "hash-max-ziplist-value 64", "list-max-listpack-size -2", "timeout 0 slowlog-max-len 128",
}

// plainCommands are commands of which both servers say the same: no containers, whose subcommands differ, and
// none with an option that redis-server 7.0 lacks.
var plainCommands = []string{
	"get", "SET", "hset", "hgetall", "lpush", "lmpop", "sadd", "sinterstore", "zadd", "zrangestore", "zunion", "expire", "copy", "scan",
	"msetnx", "bitfield", "bitop", "watch", "exec", "ping", "nosuch", "",
}

// avoidInner avoids what the command that is asked about avoids.
func avoidInner(g *Generator, args [][]byte) bool {
	if len(args) < 3 {
		return false
	}
	inner := args[2:]
	if n := name(inner); (n == "ZRANK" || n == "ZREVRANK") && len(inner) > 3 && !g.opt.Newer {
		return true // of any length the command is one of 7.2
	}
	avoid := g.cat.avoid[name(inner)]
	return avoid != nil && avoid(g, inner)
}

func has(args [][]byte, word string) bool {
	for _, a := range args[1:] {
		if string(a) == word {
			return true
		}
	}
	return false
}

// someCommand is what another maker makes, as an argument.
func (g *Generator) someCommand() [][]byte {
	for {
		m := g.cat.makers[g.weighted()]
		if strings.HasPrefix(m.name, "COMMAND") {
			continue
		}
		args := m.make(g)
		if g.p(20) {
			args = g.spoil(args)
		}
		if avoid := g.cat.avoid[name(args)]; avoid == nil || !avoid(g, args) {
			return args
		}
	}
}

// bogusID is the id of no connection.
func (g *Generator) bogusID() string {
	return g.oneOf("-1", "0", "abc", "", strconv.Itoa(1_000_000+g.rng.IntN(1000)))
}
