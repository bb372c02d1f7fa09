package oracle

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// scriptFamily runs other commands from scripts. What Lua itself does is compared beside it.
var scriptFamily = family{
	makers: []maker{
		{"EVAL", 6, makeEval("EVAL", source), true, true},
		{"EVAL_RO", 2, makeEval("EVAL_RO", source), true, true},
		{"EVALSHA", 2, func(g *Generator) [][]byte {
			if g.p(80) {
				return makeEval("EVALSHA", digest)(g)
			}
			return join("EVALSHA", g.oneOf("ffffffffffffffffffffffffffffffffffffffff", "a", ""), g.oneOf("0", "1", "x"), g.maybe(30, g.key('s')))
		}, true, false},
		{"EVALSHA_RO", 2, makeEval("EVALSHA_RO", digest), true, false},
		{"SCRIPT LOAD", 1, func(g *Generator) [][]byte { return join("SCRIPT", "LOAD", g.oneOf(scripts...)) }, true, false},
		{"SCRIPT DEBUG", 1, func(g *Generator) [][]byte { return join("SCRIPT", "DEBUG", g.oneOf("NO", "no", "x", "")) }, false, false},
		{"SCRIPT EXISTS", 1, func(g *Generator) [][]byte {
			return join("SCRIPT", "EXISTS", g.oneOf("ffffffffffffffffffffffffffffffffffffffff", "a", "", digest(g.oneOf(scripts...))))
		}, true, false},
		{"SCRIPT FLUSH", 1, func(g *Generator) [][]byte {
			// Seldom, so that digests find a script.
			if g.p(75) {
				return join("SCRIPT", "FLUSH", g.oneOf("x", "0", ""))
			}
			return join("SCRIPT", "FLUSH", g.maybe(50, g.oneOf("SYNC", "ASYNC")))
		}, true, false},
		{"SCRIPT KILL", 1, func(g *Generator) [][]byte { return join("SCRIPT", "KILL", g.maybe(10, "x")) }, true, false},
		{"FCALL", 2, func(g *Generator) [][]byte {
			return join("FCALL", g.oneOf("f1", "f2", "nosuch"), "2", g.anyKey(), g.anyKey(), g.value())
		}, true, true},
		{"FCALL_RO", 2, func(g *Generator) [][]byte {
			return join("FCALL_RO", g.oneOf("f1", "f2", "nosuch"), "1", g.anyKey())
		}, true, true},
		{"FUNCTION LOAD", 4, func(g *Generator) [][]byte {
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
		{"FUNCTION DUMP", 1, func(*Generator) [][]byte { return cmd("FUNCTION", "DUMP") }, false, false},
		{"FUNCTION RESTORE", 1, func(g *Generator) [][]byte {
			return join("FUNCTION", "RESTORE", g.oneOf("", "x", "\n\x00", libraryDumps[0], libraryDumps[1], libraryDumps[1]+"x"), g.maybe(50, g.oneOf("FLUSH", "APPEND", "REPLACE", "x")))
		}, true, false},
	},
	modes: map[string]mode{"FUNCTION DUMP": shape},
	specials: map[string]special{
		// redis-server refuses it behind replies that it has not sent, as those of a pipeline or a transaction.
		"SCRIPT DEBUG":  {run: runAlone},
		"FUNCTION DUMP": {run: dumpLibrariesAcross},
	},
	avoid: map[string]func(*Generator, [][]byte) bool{
		// Ours has no debugger.
		"SCRIPT DEBUG": func(_ *Generator, args [][]byte) bool {
			return len(args) > 2 && (strings.EqualFold(string(args[2]), "yes") || strings.EqualFold(string(args[2]), "sync"))
		},
	},
}

func runAlone(p *Pair, s Step, at int) (*Difference, error) {
	_, _, diff, err := p.runOne(s, at)
	return diff, err
}

// dumpLibrariesAcross runs FUNCTION DUMP, and lets each server restore what the other one dumped: both have the
// libraries that they had.
func dumpLibrariesAcross(p *Pair, s Step, at int) (*Difference, error) {
	want, got, diff, err := p.runOne(s, at)
	if diff != nil || err != nil || want.IsError("") {
		return diff, err
	}
	for _, to := range []struct {
		side    *side
		payload []byte
	}{{&p.oracle, got.Text}, {&p.server, want.Text}} {
		before, err := to.side.libraries()
		if err != nil {
			return nil, err
		}
		r, err := to.side.admin.Do("FUNCTION", "RESTORE", string(to.payload), "FLUSH")
		if err != nil {
			return nil, err
		}
		after, err := to.side.libraries()
		if err != nil {
			return nil, err
		}
		if r.IsError("") || before != after {
			return &Difference{Index: at, Step: s, What: "FUNCTION DUMP, then RESTORE by the other", Want: before, Got: after + " " + r.String()}, nil
		}
	}
	return nil, nil
}

// libraries is what the server says of its libraries, in the order of their texts.
func (s *side) libraries() (string, error) {
	r, err := s.admin.Do("FUNCTION", "LIST", "WITHCODE")
	if err != nil || r.IsError("") {
		return "", fmt.Errorf("FUNCTION LIST: %s, %v", r, err)
	}
	return strings.Join(sortedElems(r, 1), "\n"), nil
}

// scripts call commands on the keys that they get, in several steps, some of which fail halfway.
var scripts = []string{
	"redis.call('append', KEYS[1], ARGV[1]) return redis.call('strlen', KEYS[1])",
	"redis.call('set', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[1])",
	"local n = redis.call('incr', KEYS[1]) if n == 1 then redis.call('expire', KEYS[1], 100000) end return n",
	"redis.call('rpush', KEYS[1], ARGV[1], 'x') return redis.call('lrange', KEYS[1], 0, -1)",
	"redis.call('lpush', KEYS[1], ARGV[1]) redis.call('rename', KEYS[1], KEYS[2]) return redis.call('type', KEYS[2])",
	"local r = redis.pcall('hincrby', KEYS[1], 'f', 2) redis.call('set', KEYS[2], 'x') return r",
	// SCAN ends what is overdue, which DBSIZE counts in redis-server.
	"redis.call('select', 1) redis.call('set', KEYS[1], ARGV[1]) redis.call('scan', 0, 'count', 1000) return redis.call('dbsize')",
	"redis.call('zadd', KEYS[1], 1, ARGV[1], 2, 'b') return redis.call('zrange', KEYS[1], 0, -1)",
	"redis.call('sadd', KEYS[1], ARGV[1]) redis.call('del', KEYS[1], KEYS[2]) return redis.call('exists', KEYS[1], KEYS[2])",
	"return redis.call('blmpop', 0, 2, KEYS[1], KEYS[2], 'left')", // the only one for lists that 7.0 lets scripts call
	"for i = 1, 10 do redis.call('incrby', KEYS[1], i) end redis.call('lpush', KEYS[1], 1)",
	"#!lua flags=no-writes\nreturn redis.call('del', KEYS[1])",
	"#!lua\nreturn redis.call('copy', KEYS[1], KEYS[2])",
}

// readers are scripts that may run where nothing may write.
var readers = []string{
	"return redis.call('get', KEYS[1])",
	"return {redis.call('type', KEYS[1]), redis.call('exists', KEYS[1], KEYS[2]), redis.pcall('strlen', KEYS[2])}",
	"#!lua flags=no-writes\nreturn redis.call('object', 'encoding', KEYS[1])",
}

func source(script string) string { return script }

func digest(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

func makeEval(name string, known func(script string) string) func(g *Generator) [][]byte {
	return func(g *Generator) [][]byte {
		script := g.oneOf(scripts...)
		if g.p(20) || strings.HasSuffix(name, "_RO") && g.p(50) {
			script = g.oneOf(readers...)
		}
		keys := []string{g.anyKey(), g.anyKey()}
		if g.p(50) {
			keys = []string{g.key('s'), g.key('s')}
		}
		return join(name, known(script), strconv.Itoa(len(keys)), keys, g.value())
	}
}

// libraries have one function each, as those of one are listed in any order.
var libraries = []string{
	"#!lua name=l1\nredis.register_function('f1', function(keys, args) redis.call('append', keys[1], args[1]) return redis.call('strlen', keys[1]) end)",
	"#!lua name=l1\nredis.register_function('f2', function(keys) return redis.call('del', keys[1]) end)",
	"#!lua name=l2\nredis.register_function{function_name='f2', callback=function(keys) return redis.call('type', keys[1]) end, flags={'no-writes'}}",
	"#!lua name=l2\nreturn 1",
}

// libraryDumps are the first library and the third, as FUNCTION DUMP of redis-server 7.0.15 answers each.
var libraryDumps = []string{
	"\xf5\xc3@t@\x91\x1f#!lua name=l1\x0aredis.register_fun\x0bction('f1', \xe0\x00\x0e\x0bkeys, args) \x802\x0bcall('append )@ \x02[1]\x80# \x08@&\x03turn\xe0\x04-\x05strlen\xe0\x01-\x01)  <\x00)\x0a\x00]5\xb8\x85@)\xbe\xa1",
	"\xf5\xc3@~@\x8e\x1f#!lua name=l2\x0aredis.register_fun\x05ction{\xc0\x08\x00_`(\x0e'f2', callback=\xc0\x1c\x0c(keys) return \x06@J@$\x05('type 1@\x1f\x1d[1]) end, flags={'no-writes'}}\x0a\x00Oo\x997\x9aq\xba\xf1",
}
