package oracle

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// streamFamily has streams and their groups. Ids are given: those that a server makes of its clock differ. They
// come from a clock of the generator, so that most of them can be added, and others were.
var streamFamily = family{
	keys: map[byte][]string{'e': {"e0", "e1", "{tag}e"}},
	makers: []maker{
		{"XADD", 24, func(g *Generator) [][]byte {
			return join("XADD", g.key('e'), g.maybe(6, "NOMKSTREAM"), g.streamTrim(12), g.newStreamID(), g.streamFields())
		}, true, true},
		{"XDEL", 5, func(g *Generator) [][]byte { return join("XDEL", g.key('e'), g.streamIDs()) }, true, true},
		{"XTRIM", 4, func(g *Generator) [][]byte { return join("XTRIM", g.key('e'), g.streamTrim(97)) }, true, true},
		{"XSETID", 2, func(g *Generator) [][]byte {
			return join("XSETID", g.key('e'), g.oneOf(g.streamID(), strconv.FormatUint(g.ticks/3+1, 10)),
				g.maybe(40, "ENTRIESADDED", g.oneOf(g.integer(), "300", "5")), g.maybe(30, "MAXDELETEDID", g.streamID()))
		}, true, true},
		{"XLEN", 2, func(g *Generator) [][]byte { return join("XLEN", g.key('e')) }, true, true},
		{"XRANGE", 5, func(g *Generator) [][]byte {
			return join("XRANGE", g.key('e'), g.streamBound("-"), g.streamBound("+"), g.maybe(50, "COUNT", g.integer()))
		}, true, true},
		{"XREVRANGE", 4, func(g *Generator) [][]byte {
			return join("XREVRANGE", g.key('e'), g.streamBound("+"), g.streamBound("-"), g.maybe(50, "COUNT", g.integer()))
		}, true, true},
		{"XREAD", 5, func(g *Generator) [][]byte {
			keys := g.keys('e', 1, 3)
			return join("XREAD", g.maybe(40, "COUNT", g.integer()), g.maybe(4, "BLOCK", g.oneOf("1", "2", "-1", "x")), "STREAMS", keys,
				g.times(len(keys), len(keys), func() string { return g.oneOf(g.streamID(), g.streamID(), "0", "$", ">", "0-0") }))
		}, true, true},
		{"XGROUP CREATE", 6, func(g *Generator) [][]byte {
			return join("XGROUP", "CREATE", g.key('e'), g.group(), g.oneOf("0", "$", g.streamID()), g.maybe(30, "MKSTREAM"),
				g.maybe(25, "ENTRIESREAD", g.oneOf("-1", "0", "3", g.integer())))
		}, true, true},
		{"XGROUP SETID", 3, func(g *Generator) [][]byte {
			return join("XGROUP", "SETID", g.key('e'), g.group(), g.oneOf("0", "$", "-", g.streamID()), g.maybe(25, "ENTRIESREAD", g.oneOf("-1", "0", "3", g.integer())))
		}, true, true},
		{"XGROUP DESTROY", 1, func(g *Generator) [][]byte { return join("XGROUP", "DESTROY", g.key('e'), g.group()) }, true, true},
		{"XGROUP CREATECONSUMER", 2, func(g *Generator) [][]byte {
			return join("XGROUP", "CREATECONSUMER", g.key('e'), g.group(), g.consumer())
		}, true, true},
		{"XGROUP DELCONSUMER", 2, func(g *Generator) [][]byte {
			return join("XGROUP", "DELCONSUMER", g.key('e'), g.group(), g.consumer())
		}, true, true},
		{"XREADGROUP", 14, func(g *Generator) [][]byte {
			keys := g.keys('e', 1, 2)
			return join("XREADGROUP", "GROUP", g.group(), g.consumer(), g.maybe(50, "COUNT", g.count()), g.maybe(15, "NOACK"),
				g.maybe(3, "BLOCK", g.oneOf("1", "2")), "STREAMS", keys,
				g.times(len(keys), len(keys), func() string { return g.oneOf(">", ">", ">", ">", "0", g.streamID(), g.oneOf("$", "x", "0-1")) }))
		}, true, true},
		{"XACK", 6, func(g *Generator) [][]byte { return join("XACK", g.key('e'), g.group(), g.streamIDs()) }, true, true},
		{"XPENDING", 5, func(g *Generator) [][]byte {
			if g.p(35) {
				return join("XPENDING", g.key('e'), g.group())
			}
			return join("XPENDING", g.key('e'), g.group(), g.maybe(30, "IDLE", g.idle()), g.streamBound("-"), g.streamBound("+"),
				g.oneOf("10", "100", g.count()), g.maybe(30, g.consumer()))
		}, true, true},
		{"XCLAIM", 7, func(g *Generator) [][]byte {
			return join("XCLAIM", g.key('e'), g.group(), g.consumer(), g.idle(), g.streamIDs(), g.maybe(25, "IDLE", g.oneOf("50000000", "0", "-5", g.oneOf(oddInts...))),
				g.maybe(25, "TIME", g.oneOf("1000", "1700000000000", "-1", "99999999999999", "0")), g.maybe(25, "RETRYCOUNT", g.integer()),
				g.maybe(30, "FORCE"), g.maybe(30, "JUSTID"), g.maybe(10, "LASTID", g.streamID()), g.maybe(2, "BOGUS"))
		}, true, true},
		{"XAUTOCLAIM", 5, func(g *Generator) [][]byte {
			return join("XAUTOCLAIM", g.key('e'), g.group(), g.consumer(), g.idle(), g.streamBound("-"), g.maybe(50, "COUNT", g.count()), g.maybe(30, "JUSTID"))
		}, true, true},
		{"XINFO STREAM", 4, func(g *Generator) [][]byte { return join("XINFO", "STREAM", g.key('e'), g.maybe(5, "FUL")) }, true, true},
		{"XINFO GROUPS", 5, func(g *Generator) [][]byte { return join("XINFO", "GROUPS", g.key('e')) }, true, true},
		{"XINFO CONSUMERS", 3, func(g *Generator) [][]byte { return join("XINFO", "CONSUMERS", g.key('e'), g.group()) }, true, true},
	},
	newer: []maker{
		{"XDELEX", 4, func(g *Generator) [][]byte { return join("XDELEX", g.key('e'), g.refPolicy(), g.countedIDs()) }, true, true},
		{"XACKDEL", 4, func(g *Generator) [][]byte {
			return join("XACKDEL", g.key('e'), g.group(), g.refPolicy(), g.countedIDs())
		}, true, true},
		{"XTRIM", 2, func(g *Generator) [][]byte { return join("XTRIM", g.key('e'), g.refPolicy(), g.streamTrim(100)) }, true, true},
		{"XADD", 3, func(g *Generator) [][]byte {
			return join("XADD", g.key('e'), g.streamTrim(100), g.refPolicy(), g.newStreamID(), g.streamFields())
		}, true, true},
		{"XREAD", 2, func(g *Generator) [][]byte { return join("XREAD", "COUNT", g.count(), "STREAMS", g.key('e'), "+") }, true, true},
	},
	modes: map[string]mode{"XPENDING": clock, "XINFO CONSUMERS": clock},
	avoid: map[string]func(*Generator, [][]byte) bool{
		"XGROUP CREATE": readTooMany, "XGROUP SETID": readTooMany,
		"XADD": madeID,
		// + is an id of XREAD since Redis 7.4.
		"XREAD": func(g *Generator, args [][]byte) bool {
			return blocksLong(g, args) || !g.opt.Newer && slices.ContainsFunc(args, func(a []byte) bool { return string(a) == "+" })
		},
		"XREADGROUP": blocksLong,
		// Redis asks for memory for so many ids at once, and has it or not.
		"XAUTOCLAIM": func(_ *Generator, args [][]byte) bool {
			n, err := strconv.ParseInt(argBehind(args, "COUNT"), 10, 64)
			return err == nil && n > 1_000_000
		},
		// FULL tells absolute times; the comparison of keyspaces reads it.
		"XINFO STREAM": func(_ *Generator, args [][]byte) bool {
			return len(args) > 3 && strings.EqualFold(string(args[3]), "FULL")
		},
	},
}

// readTooMany reports whether so many entries are said to be read that the next makes the number negative in
// Redis, in a form that its log could not be loaded from.
func readTooMany(_ *Generator, args [][]byte) bool {
	n, err := strconv.ParseInt(argBehind(args, "ENTRIESREAD"), 10, 64)
	return err == nil && n > math.MaxInt64-1_000_000
}

// madeID reports whether an XADD asks the server for a time.
func madeID(_ *Generator, args [][]byte) bool {
	for _, a := range args[min(2, len(args)):] {
		if string(a) == "*" {
			return true
		}
	}
	return false
}

// blocksLong reports whether a read could wait for longer than a moment, and then not to the end of the run.
func blocksLong(_ *Generator, args [][]byte) bool {
	for i, a := range args {
		if i+1 < len(args) && strings.EqualFold(string(a), "BLOCK") {
			if n, err := strconv.ParseInt(string(args[i+1]), 10, 64); err == nil && n > 10 && n < soonMs {
				return true
			}
		}
	}
	return false
}

// argBehind is the argument behind a word, "" if there is none.
func argBehind(args [][]byte, word string) string {
	for i, a := range args {
		if i+1 < len(args) && strings.EqualFold(string(a), word) {
			return string(args[i+1])
		}
	}
	return ""
}

// newStreamID is an id that can mostly be added.
func (g *Generator) newStreamID() string {
	g.ticks++
	ms := strconv.FormatUint(g.ticks/3, 10)
	switch n := g.rng.IntN(20); {
	case n < 6:
		return ms + "-*"
	case n < 7:
		return g.streamID()
	case n < 8:
		return ms
	}
	return ms + "-" + strconv.FormatUint(g.ticks%3+uint64(g.rng.IntN(2)), 10)
}

var oddStreamIDs = []string{
	"0", "0-0", "0-1", "-", "+", "*", "(1", "(", "", "x", "1-", "-1", "1-x", "1-*", "01-02", "+1", " 1-1", "1- 1", "1--1", "1- -1", "1-1-1",
	"18446744073709551615", "18446744073709551615-18446744073709551615", "18446744073709551616", "9999999999999-0", "1\x00", strings.Repeat("1", 128),
}

// streamID is an id that may have been added lately.
func (g *Generator) streamID() string {
	if g.p(4) {
		return g.oneOf(oddStreamIDs...)
	}
	id := strconv.FormatUint((g.ticks-min(g.ticks, uint64(g.rng.IntN(g.oneOfInt(12, 100)))))/3, 10)
	if g.p(15) {
		return id
	}
	return id + "-" + strconv.Itoa(g.rng.IntN(4))
}

func (g *Generator) streamIDs() []string {
	if g.p(4) {
		return g.times(10, 60, g.streamID)
	}
	return g.times(1, 5, g.streamID)
}

// streamBound is a bound of a range; end is the one that includes all.
func (g *Generator) streamBound(end string) string {
	switch n := g.rng.IntN(10); {
	case n < 4:
		return end
	case n < 6:
		return "(" + g.streamID()
	}
	return g.streamID()
}

// streamTrim is what an XADD or XTRIM trims, in percent of the cases.
func (g *Generator) streamTrim(percent int) []string {
	if !g.p(percent) {
		return nil
	}
	how := g.maybe(60, g.oneOf("~", "~", "=", "<"))
	limit := g.maybe(12, "LIMIT", g.oneOf("0", "5", "100", "-1", "x"))
	if g.p(50) {
		return append(append(append([]string{"MAXLEN"}, how...), g.oneOf("60", "20", "100", "150", g.integer())), limit...)
	}
	return append(append(append([]string{"MINID"}, how...), g.streamID()), limit...)
}

// streamFields are mostly the same names, so that entries share them.
func (g *Generator) streamFields() []string {
	if g.p(2) {
		return nil
	}
	var out []string
	for i := range 1 + g.rng.IntN(2) {
		name := "n" + strconv.Itoa(i)
		if g.p(10) {
			name = g.field()
		}
		out = append(out, name, g.value())
	}
	if g.p(2) {
		out = out[1:]
	}
	return out
}

func (g *Generator) group() string {
	if g.p(4) {
		return g.oneOf("", "nosuch", "g\x00", "g 1\r\n")
	}
	return g.oneOf("g0", "g0", "g1")
}

func (g *Generator) consumer() string {
	if g.p(3) {
		return g.oneOf("", "c\x00", "c 1\r\n")
	}
	return g.oneOf("c0", "c1", "c2")
}

// idle is an idle time that no run reaches, or none.
func (g *Generator) idle() string {
	return g.oneOf("0", "0", "0", "10000000", "-1", g.oneOf("9223372036854775807", "x", ""))
}

// refPolicy is what becomes of pending entries, or nothing.
func (g *Generator) refPolicy() []string {
	return g.maybe(75, g.oneOf("KEEPREF", "DELREF", "ACKED", "acked"))
}

// countedIDs is IDS, their number and so many ids, sometimes not as many.
func (g *Generator) countedIDs() []string {
	ids := g.times(1, 4, g.streamID)
	n := strconv.Itoa(len(ids))
	if g.p(5) {
		n = g.oneOf("0", "-1", "x", "5", "9223372036854775807")
	}
	return append([]string{"IDS", n}, ids...)
}
