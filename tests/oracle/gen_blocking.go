package oracle

import "strconv"

// blockingFamily has the commands that wait, on the keys of the other families. What wakes them comes from the
// other connections.
var blockingFamily = family{
	makers: []maker{
		{"BLPOP", 3, func(g *Generator) [][]byte { return join("BLPOP", g.keys('l', 1, 3), g.timeout()) }, true, false},
		{"BRPOP", 2, func(g *Generator) [][]byte { return join("BRPOP", g.keys('l', 1, 3), g.timeout()) }, true, false},
		{"BLMOVE", 2, func(g *Generator) [][]byte {
			return join("BLMOVE", g.key('l'), g.key('l'), g.side(), g.side(), g.timeout())
		}, true, false},
		{"BRPOPLPUSH", 1, func(g *Generator) [][]byte { return join("BRPOPLPUSH", g.key('l'), g.key('l'), g.timeout()) }, true, false},
		{"BLMPOP", 2, func(g *Generator) [][]byte {
			return join("BLMPOP", g.timeout(), g.numbered('l'), g.side(), g.maybe(40, "COUNT", g.count()))
		}, true, false},
		{"BZPOPMIN", 2, func(g *Generator) [][]byte { return join("BZPOPMIN", g.keys('z', 1, 3), g.timeout()) }, true, false},
		{"BZPOPMAX", 1, func(g *Generator) [][]byte { return join("BZPOPMAX", g.keys('z', 1, 3), g.timeout()) }, true, false},
		{"BZMPOP", 2, func(g *Generator) [][]byte {
			return join("BZMPOP", g.timeout(), g.numbered('z'), g.oneOf("MIN", "MAX", "min", "MID"), g.maybe(40, "COUNT", g.count()))
		}, true, false},
		{"CLIENT UNBLOCK", 12, func(g *Generator) [][]byte {
			return join("CLIENT", "UNBLOCK", g.oneOf("0", "1", "2", "3", "4", "5", "0", "1", "2", "3", "4", "5", "abc", "-1"), g.maybe(50, g.oneOf("ERROR", "TIMEOUT", "timeout", "NOW")))
		}, false, false},
	},
	more: []maker{
		{"XREAD", 3, func(g *Generator) [][]byte {
			keys := g.keys('e', 1, 3)
			return join("XREAD", g.maybe(40, "COUNT", g.integer()), "BLOCK", g.blockMs(), "STREAMS", keys,
				g.times(len(keys), len(keys), func() string { return g.oneOf("$", "$", g.streamID()) }))
		}, true, false},
		{"XREADGROUP", 4, func(g *Generator) [][]byte {
			keys := g.keys('e', 1, 2)
			return join("XREADGROUP", "GROUP", g.group(), g.consumer(), g.maybe(40, "COUNT", g.count()), "BLOCK", g.blockMs(), g.maybe(15, "NOACK"),
				"STREAMS", keys, g.times(len(keys), len(keys), func() string { return g.oneOf(">", ">", ">", g.streamID()) }))
		}, true, false},
	},
	modes: map[string]mode{"BZPOPMIN": scores, "BZPOPMAX": scores, "BZMPOP": scores},
	specials: map[string]special{
		"BLPOP": {run: blockOn, queued: true}, "BRPOP": {run: blockOn, queued: true}, "BLMOVE": {run: blockOn, queued: true},
		"BRPOPLPUSH": {run: blockOn, queued: true}, "BLMPOP": {run: blockOn, queued: true}, "BZPOPMIN": {run: blockOn, queued: true},
		"BZPOPMAX": {run: blockOn, queued: true}, "BZMPOP": {run: blockOn, queued: true},
		"XREAD": {run: blockOn, queued: true, when: blocksForEver}, "XREADGROUP": {run: blockOn, queued: true, when: blocksForEver},
		"CLIENT UNBLOCK": {run: unblock},
		// Redis wakes who waits on a database in the order of a hash table. That shows where one waits on several
		// keys, or where a move to another key feeds who waits there.
		"SWAPDB": {run: func(p *Pair, s Step, at int) (*Difference, error) {
			waiting, moving := 0, false
			for i := range p.state {
				b := p.state[i].blocked
				if b == nil {
					continue
				}
				if waitsOnSeveral(b.Args) {
					return nil, nil
				}
				waiting++
				moving = moving || name(b.Args) == "BLMOVE" || name(b.Args) == "BRPOPLPUSH"
			}
			if moving && waiting > 1 {
				return nil, nil
			}
			_, _, diff, err := p.runOne(s, at)
			return diff, err
		}},
	},
	avoid: map[string]func(*Generator, [][]byte) bool{
		"BLPOP": soonest(-1, 1), "BRPOP": soonest(-1, 1), "BLMOVE": soonest(-1, 1), "BRPOPLPUSH": soonest(-1, 1),
		"BLMPOP": soonest(1, 1), "BZPOPMIN": soonest(-1, 1), "BZPOPMAX": soonest(-1, 1), "BZMPOP": soonest(1, 1),
	},
}

// timeout is for ever, long, or no timeout at all.
func (g *Generator) timeout() string {
	if g.p(8) {
		return g.oneOf("-1", "abc", "", "1e400", "nan", "inf", "9223372036854775807", "-0.5", "1e300")
	}
	return g.oneOf("0", "0", "0", "0.0", "100000", strconv.Itoa(10_000+g.rng.IntN(100_000)))
}

// blockMs is the timeout of a stream's reader.
func (g *Generator) blockMs() string {
	if g.p(5) {
		return g.oneOf("-1", "abc", "", "1.5", "9223372036854775808")
	}
	return g.oneOf("0", "0", "10000000")
}

// blocksForEver reports whether a stream's reader may wait to the end of the run.
func blocksForEver(args [][]byte) bool {
	n, err := strconv.ParseInt(argBehind(args, "BLOCK"), 10, 64)
	return err == nil && (n == 0 || n >= soonMs)
}

// shortWait is a wait that ends before the next step.
func (g *Generator) shortWait() Step {
	const soon, pauseMs = "0.02", 60
	args := cmd("BLPOP", g.key('l'), soon)
	switch g.rng.IntN(4) {
	case 0:
		args = cmd("BZPOPMIN", g.key('z'), soon)
	case 1:
		args = cmd("BLMOVE", g.key('l'), g.key('l'), "LEFT", "RIGHT", soon)
	case 2:
		args = cmd("BZMPOP", soon, "1", g.key('z'), "MAX")
	}
	return Step{Conn: g.current, Args: args, PauseMs: pauseMs}
}

// waitsOnSeveral reports whether a command waits on more than one key.
func waitsOnSeveral(args [][]byte) bool {
	switch name(args) {
	case "BLMOVE", "BRPOPLPUSH":
		return false
	case "BLMPOP", "BZMPOP":
		return string(args[2]) != "1"
	case "XREAD", "XREADGROUP":
		return true
	}
	return len(args) > 3
}
