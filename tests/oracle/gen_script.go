package oracle

import (
	"bytes"
	"strconv"
)

// scriptFamily runs other commands from scripts. What Lua itself does is compared beside it. Which scripts are
// known depends on when a server was started, so none is asked for by the digest of one that was run.
var scriptFamily = family{
	makers: []maker{
		{"EVAL", 6, makeEval("EVAL"), true, true},
		{"EVAL_RO", 2, makeEval("EVAL_RO"), true, true},
		{"EVALSHA", 2, func(g *Generator) [][]byte {
			return join("EVALSHA", g.oneOf("ffffffffffffffffffffffffffffffffffffffff", "a", ""), g.oneOf("0", "1", "x"), g.maybe(30, g.key('s')))
		}, true, false},
		{"EVALSHA_RO", 1, func(g *Generator) [][]byte { return join("EVALSHA_RO", g.oneOf("a", ""), "0") }, true, false},
		{"SCRIPT LOAD", 1, func(g *Generator) [][]byte { return join("SCRIPT", "LOAD", g.oneOf(scripts...)) }, true, false},
		{"SCRIPT EXISTS", 1, func(g *Generator) [][]byte {
			return join("SCRIPT", "EXISTS", g.oneOf("ffffffffffffffffffffffffffffffffffffffff", "a", ""))
		}, true, false},
		{"SCRIPT FLUSH", 1, func(g *Generator) [][]byte {
			return join("SCRIPT", "FLUSH", g.maybe(50, g.oneOf("SYNC", "ASYNC", "x")))
		}, true, false},
		{"SCRIPT KILL", 1, func(g *Generator) [][]byte { return join("SCRIPT", "KILL", g.maybe(10, "x")) }, true, false},
		{"FCALL", 2, func(g *Generator) [][]byte {
			return join("FCALL", g.oneOf("f1", "f2", "nosuch"), "2", g.anyKey(), g.anyKey(), g.value())
		}, true, true},
		{"FCALL_RO", 1, func(g *Generator) [][]byte {
			return join("FCALL_RO", g.oneOf("f1", "f2", "nosuch"), "1", g.anyKey())
		}, true, true},
		{"FUNCTION LOAD", 2, func(g *Generator) [][]byte {
			return join("FUNCTION", "LOAD", g.maybe(60, "REPLACE"), g.oneOf(libraries...))
		}, true, false},
		{"FUNCTION DELETE", 1, func(g *Generator) [][]byte { return join("FUNCTION", "DELETE", g.oneOf("l1", "l2", "x")) }, true, false},
		{"FUNCTION FLUSH", 1, func(g *Generator) [][]byte {
			return join("FUNCTION", "FLUSH", g.maybe(50, g.oneOf("SYNC", "ASYNC", "x")))
		}, true, false},
		{"FUNCTION LIST", 1, func(g *Generator) [][]byte {
			return join("FUNCTION", "LIST", "LIBRARYNAME", g.oneOf("l1", "L2", "x"), g.maybe(50, "WITHCODE"))
		}, true, false},
		{"FUNCTION STATS", 1, func(g *Generator) [][]byte { return join("FUNCTION", "STATS") }, true, false},
		{"FUNCTION KILL", 1, func(g *Generator) [][]byte { return join("FUNCTION", "KILL", g.maybe(10, "x")) }, true, false},
		{"FUNCTION RESTORE", 1, func(g *Generator) [][]byte {
			return join("FUNCTION", "RESTORE", g.oneOf("", "x", "\n\x00"), g.maybe(50, g.oneOf("FLUSH", "APPEND", "REPLACE", "x")))
		}, true, false},
	},
	avoid: map[string]func(*Generator, [][]byte) bool{
		"EVAL": hasNUL, "EVAL_RO": hasNUL, "SCRIPT LOAD": hasNUL, "FUNCTION LOAD": hasNUL,
	},
}

// hasNUL: an error about a byte 0 in a script ends before that byte on redis-server.
func hasNUL(_ *Generator, args [][]byte) bool { return bytes.IndexByte(bytes.Join(args, nil), 0) >= 0 }

// scripts call commands on the keys that they get, in several steps, some of which fail halfway.
var scripts = []string{
	"return redis.call('get', KEYS[1])",
	"redis.call('append', KEYS[1], ARGV[1]) return redis.call('strlen', KEYS[1])",
	"redis.call('set', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[1])",
	"local n = redis.call('incr', KEYS[1]) if n == 1 then redis.call('expire', KEYS[1], 100000) end return n",
	"redis.call('rpush', KEYS[1], ARGV[1], 'x') return redis.call('lrange', KEYS[1], 0, -1)",
	"redis.call('lpush', KEYS[1], ARGV[1]) redis.call('rename', KEYS[1], KEYS[2]) return redis.call('type', KEYS[2])",
	"local r = redis.pcall('hincrby', KEYS[1], 'f', 2) redis.call('set', KEYS[2], 'x') return r",
	"redis.call('select', 1) redis.call('set', KEYS[1], ARGV[1]) return redis.call('dbsize')",
	"redis.call('zadd', KEYS[1], 1, ARGV[1], 2, 'b') return redis.call('zrange', KEYS[1], 0, -1)",
	"redis.call('sadd', KEYS[1], ARGV[1]) redis.call('del', KEYS[1], KEYS[2]) return redis.call('exists', KEYS[1], KEYS[2])",
	"return redis.call('blpop', KEYS[1], KEYS[2], 0)",
	"for i = 1, 10 do redis.call('incrby', KEYS[1], i) end redis.call('lpush', KEYS[1], 1)",
	"#!lua flags=no-writes\nreturn redis.call('del', KEYS[1])",
	"#!lua\nreturn redis.call('copy', KEYS[1], KEYS[2])",
}

func makeEval(name string) func(g *Generator) [][]byte {
	return func(g *Generator) [][]byte {
		keys := []string{g.anyKey(), g.anyKey()}
		if g.p(50) {
			keys = []string{g.key('s'), g.key('s')}
		}
		return join(name, g.oneOf(scripts...), strconv.Itoa(len(keys)), keys, g.value())
	}
}

// libraries have one function each, as those of one are listed in any order.
var libraries = []string{
	"#!lua name=l1\nredis.register_function('f1', function(keys, args) redis.call('append', keys[1], args[1]) return redis.call('strlen', keys[1]) end)",
	"#!lua name=l1\nredis.register_function('f2', function(keys) return redis.call('del', keys[1]) end)",
	"#!lua name=l2\nredis.register_function{function_name='f2', callback=function(keys) return redis.call('type', keys[1]) end, flags={'no-writes'}}",
	"#!lua name=l2\nreturn 1",
}
