package oracle

import (
	"fmt"
	"strconv"
	"strings"

	"kevy/tests/wire"
)

var connectionFamily = family{
	makers: []maker{
		{"MULTI", 5, func(g *Generator) [][]byte { return join("MULTI") }, true, false},
		{"EXEC", 1, func(g *Generator) [][]byte { return join("EXEC") }, true, false},
		{"DISCARD", 1, func(g *Generator) [][]byte { return join("DISCARD") }, true, false},
		{"WATCH", 3, func(g *Generator) [][]byte { return join("WATCH", g.times(1, 3, g.anyKey)) }, true, false},
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
		{"CLIENT NO-EVICT", 1, func(g *Generator) [][]byte { return join("CLIENT", "NO-EVICT", g.oneOf("on", "OFF", "x")) }, true, false},
		{"CLIENT PAUSE", 1, func(g *Generator) [][]byte {
			if g.p(50) {
				return join("CLIENT", "PAUSE", g.oneOf("0", "1", "20"), g.maybe(70, g.oneOf("WRITE", "all")))
			}
			return join("CLIENT", "PAUSE", g.oneOf("x", "-1", "1.5", "9223372036854775808", ""), g.maybe(50, g.oneOf("WRITE", "all", "x")), g.maybe(5, "x"))
		}, true, false},
		{"CLIENT UNPAUSE", 1, func(*Generator) [][]byte { return cmd("CLIENT", "UNPAUSE") }, true, false},
		{"CLIENT REPLY", 1, func(g *Generator) [][]byte { return join("CLIENT", "REPLY", g.oneOf("ON", "on", "x", "")) }, true, false},
		{"CLIENT GETNAME", 1, func(g *Generator) [][]byte { return join("CLIENT", "GETNAME") }, true, false},
		{"CLIENT INFO", 1, func(*Generator) [][]byte { return cmd("CLIENT", "INFO") }, true, false},
		{"CLIENT LIST", 1, func(g *Generator) [][]byte {
			return join("CLIENT", "LIST", g.maybe(30, "TYPE", g.oneOf("normal", "pubsub", "nosuch")), g.maybe(30, "ID", g.bogusID()))
		}, true, false},
		{"CLIENT KILL", 1, func(g *Generator) [][]byte {
			if g.p(20) {
				return join("CLIENT", "KILL", g.oneOf("127.0.0.1:1", "nosuch", ""))
			}
			return join("CLIENT", "KILL", "ID", g.bogusID(), g.maybe(30, "SKIPME", g.oneOf("yes", "no", "maybe")))
		}, true, false},
		{"CLIENT ID", 1, func(g *Generator) [][]byte { return join("CLIENT", "ID") }, true, false},
	},
	modes:    map[string]mode{"HELLO": shape, "CLIENT ID": shape, "CLIENT INFO": shape, "CLIENT LIST": shape},
	specials: map[string]special{"CLIENT PAUSE": {run: pauseShortly, when: pauses}},
	newer: []maker{
		{"CLIENT SETINFO", 1, func(g *Generator) [][]byte {
			return join("CLIENT", "SETINFO", g.oneOf("lib-name", "LIB-VER", "nosuch"), g.oneOf("x", "1.2.3", "", "a b", "\x7f"))
		}, true, false},
	},
	avoid: map[string]func(*Generator, [][]byte) bool{
		// Of ALL there is no end before its time.
		"CLIENT PAUSE": func(_ *Generator, args [][]byte) bool {
			return pauses(args) && len(args[2]) > 2
		},
		// Without the id of no connection it could end one of the run.
		"CLIENT KILL": func(_ *Generator, args [][]byte) bool {
			return len(args) > 3 && !strings.EqualFold(string(args[2]), "ID")
		},
		// 7.0 keeps the name of a HELLO that it then refuses, later versions do not.
		"HELLO": func(_ *Generator, args [][]byte) bool { return len(args) > 2 && len(args) != 4 },
	},
}

// pauses reports whether a CLIENT PAUSE may be one that works.
func pauses(args [][]byte) bool {
	if len(args) < 3 {
		return false
	}
	_, err := strconv.ParseUint(string(args[2]), 10, 64)
	return err == nil
}

// pauseShortly runs CLIENT PAUSE and ends the pause, or waits for its end.
func pauseShortly(p *Pair, s Step, at int) (*Difference, error) {
	_, _, diff, err := p.runOne(s, at)
	for _, sd := range []*side{&p.oracle, &p.server} {
		if diff != nil || err != nil {
			break
		}
		var r wire.Reply
		if r, err = sd.admin.Do("CLIENT", "UNPAUSE"); err == nil && r.IsError("") {
			err = fmt.Errorf("CLIENT UNPAUSE: %s", r)
		}
	}
	return diff, err
}
