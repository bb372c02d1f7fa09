package oracle

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Generator makes random commands. The same seed makes the same commands, except that absolute expiries
// follow the clock that it is given.
type Generator struct {
	rng   *rand.Rand
	nowMs int64
	cat   *catalog
	conns []connState
	// current is the connection of the running turn, turn how many more commands it sends.
	current, turn int
	opt           Options
	// ticks counts the ids of entries of streams that were made.
	ticks uint64
}

// Options say what a Generator makes.
type Options struct {
	// Conns is the number of connections that take turns.
	Conns int
	// Plain leaves out connection state: no MULTI, WATCH, SELECT, HELLO, RESET, and no malformed commands.
	Plain bool
	// Names limits the commands to these; all if empty.
	Names []string
	// Newer adds what redis-server 7.0 lacks.
	Newer bool
}

// connState is what the generator believes of a connection; the runner follows the replies instead.
type connState struct{ inMulti bool }

// NewGenerator makes a generator; nowMs is the time that absolute expiries are made from.
func NewGenerator(seed uint64, nowMs int64, opt Options) *Generator {
	if opt.Conns < 1 {
		opt.Conns = 1
	}
	return &Generator{rng: rand.New(rand.NewPCG(seed, 0x6b657679)), nowMs: nowMs, cat: newCatalog(opt.Newer), conns: make([]connState, opt.Conns), opt: opt}
}

// Next makes the next step.
func (g *Generator) Next() Step {
	if g.turn <= 0 {
		g.current = g.rng.IntN(len(g.conns))
		g.turn = 1 + g.rng.IntN(12)
	}
	g.turn--
	c := &g.conns[g.current]
	for {
		m := g.pick(c)
		s := Step{Conn: g.current, Args: m.make(g)}
		if !g.opt.Plain && g.p(5) && m.name != "FLUSHALL" && m.name != "FLUSHDB" {
			s.Args = g.spoil(s.Args)
		}
		if avoid := g.cat.avoid[name(s.Args)]; avoid != nil && avoid(g, s.Args) {
			continue
		}
		if m.name == "MULTI" {
			c.inMulti = true
		}
		if m.name == "EXEC" || m.name == "DISCARD" || m.name == "RESET" {
			c.inMulti = false
		}
		if g.p(2) && !c.inMulti && !g.opt.Plain {
			// A key or a field that has expired on both sides when the next command comes.
			switch m.name {
			case "BLPOP", "BLMOVE", "BZMPOP", "BZPOPMIN":
				return g.shortWait()
			case "PEXPIRE":
				return Step{Conn: g.current, Args: cmd("PEXPIRE", g.anyKey(), "1"), PauseMs: 4}
			case "HPEXPIRE":
				return Step{Conn: g.current, Args: cmd("HPEXPIRE", g.key('h'), "1", "FIELDS", "1", g.field()), PauseMs: 4}
			}
		}
		return s
	}
}

// Malformed makes one step of each command with too few arguments, or with too many, on the first connection: what
// makes sure that every command fails in a long run, where chance would only make it likely.
func (g *Generator) Malformed(tooMany bool) []Step {
	var steps []Step
	for _, n := range Names(g.opt.Newer) {
		if len(g.opt.Names) > 0 && !slices.Contains(g.opt.Names, n) {
			continue
		}
		args := cmd(strings.Fields(n)...)
		if tooMany {
			args = append(g.cat.byName[n].make(g), cmd("x", "y", "z", "x")...)
		}
		if avoid := g.cat.avoid[name(args)]; avoid == nil || !avoid(g, args) {
			steps = append(steps, Step{Args: args})
		}
	}
	return steps
}

func (g *Generator) pick(c *connState) maker {
	if c.inMulti && g.p(25) {
		if g.p(15) {
			return g.cat.byName["DISCARD"]
		}
		return g.cat.byName["EXEC"]
	}
	for {
		m := g.cat.makers[g.weighted()]
		if c.inMulti && !m.inMulti {
			continue
		}
		if g.opt.Plain && !m.plain {
			continue
		}
		if len(g.opt.Names) > 0 && !slices.Contains(g.opt.Names, m.name) {
			continue
		}
		return m
	}
}

func (g *Generator) weighted() int {
	sums := g.cat.sums
	at, _ := slices.BinarySearch(sums, g.rng.IntN(sums[len(sums)-1])+1)
	return at
}

// p is true in percent of the cases.
func (g *Generator) p(percent int) bool { return g.rng.IntN(100) < percent }

func (g *Generator) oneOf(list ...string) string { return list[g.rng.IntN(len(list))] }

// spoil makes a well-formed command wrong, or at least odd.
func (g *Generator) spoil(args [][]byte) [][]byte {
	out := append([][]byte{}, args...)
	at := g.rng.IntN(len(out))
	switch g.rng.IntN(6) {
	case 0:
		if at > 0 {
			return append(out[:at], out[at+1:]...)
		}
		return out[:1]
	case 1:
		return append(out, []byte(g.oneOf("NX", "XX", "GT", "LT", "GET", "COUNT", "LIMIT", "WITHSCORES", "BOGUS", "0", "-1", "", "REV", "CH")))
	case 2:
		if at > 0 {
			out[at] = []byte(g.oneOf(oddInts...))
		}
	case 3:
		if at > 0 {
			out[at] = []byte(g.oneOf("", "\x00", "NX", "limit", "WITHSCORES", "(", "[", "-", "+", "inf", "nan", g.anyKey()))
		}
	case 4:
		out[0] = []byte(strings.ToLower(string(out[0])))
		if g.p(10) {
			out[0] = []byte(g.oneOf("NOSUCH", "", "get\xff", "GETT", strings.Repeat("x", 200)))
		}
	case 5:
		b := g.rng.IntN(len(out))
		if at > 0 && b > 0 {
			out[at], out[b] = out[b], out[at]
		}
	}
	return out
}
