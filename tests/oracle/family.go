package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// family is what a group of commands brings to the generator and to the comparison: one file, gen_<family>.go.
type family struct {
	// keys are names of keys by kind, the letter that Generator.key takes: few, so that commands meet, and
	// one with the hash tag {tag}.
	keys map[byte][]string
	// makers make the commands of redis-server 7.0.
	makers []maker
	// more makes commands that another family has, in other forms.
	more []maker
	// newer are the commands and options that redis-server 7.0 lacks. They are made where Options.Newer asks
	// for them.
	newer []maker
	// modes say how replies are compared where that is not byte for byte.
	modes map[string]mode
	// specials are the commands whose replies are not all that there is to compare.
	specials map[string]special
	// avoid tells of the arguments of a command, well-formed or not, that cannot be compared: what both
	// servers would reach at different times, what would cost hundreds of megabytes, and what versions of
	// Redis treat differently with effects beyond the reply.
	avoid map[string]func(g *Generator, args [][]byte) bool
}

// families is the closed list.
var families = []*family{
	&stringFamily,
	&bitmapFamily,
	&genericFamily,
	&hashFamily,
	&hashTTLFamily,
	&listFamily,
	&setFamily,
	&zsetFamily,
	&streamFamily,
	&connectionFamily,
	&aclFamily,
	&serverFamily,
	&dumpFamily,
	&blockingFamily,
	&sortFamily,
	&geoFamily,
	&hyperloglogFamily,
	&pubsubFamily,
	&scriptFamily,
}

// maker makes the arguments of one command.
type maker struct {
	name   string
	weight int
	make   func(g *Generator) [][]byte
	// inMulti says that the command may be queued: its reply does not need work on both sides around it.
	inMulti bool
	// plain says that the command only reads or writes keys of the selected database.
	plain bool
}

// special is how a command runs that needs more than its reply compared.
type special struct {
	run func(p *Pair, s Step, at int) (*Difference, error)
	// queued says that it may stand in a transaction, where its reply alone is compared.
	queued bool
	// when limits this to some lists of arguments; nil for all.
	when func(args [][]byte) bool
}

// catalog is what the families are together.
type catalog struct {
	makers   []maker
	sums     []int // of the weights up to each maker
	byName   map[string]maker
	keys     map[byte][]string
	kinds    []byte
	modes    map[string]mode
	specials map[string]special
	avoid    map[string]func(g *Generator, args [][]byte) bool
}

// newCatalog puts the families together; two of one name are a mistake in them.
func newCatalog(newer bool) *catalog {
	c := &catalog{byName: map[string]maker{}, keys: map[byte][]string{}, modes: map[string]mode{}, specials: map[string]special{},
		avoid: map[string]func(g *Generator, args [][]byte) bool{}}
	for _, f := range families {
		makers := append(slices.Clip(f.makers), f.more...)
		if newer {
			makers = append(makers, f.newer...)
		}
		for i, m := range makers {
			// Other forms and newer options are makers beside the command's.
			if _, twice := c.byName[m.name]; twice && i < len(f.makers) {
				panic("oracle: two makers of " + m.name)
			}
			if first, _, is := strings.Cut(m.name, " "); is && !containers[first] {
				panic("oracle: " + first + " is not among the containers")
			}
			if _, there := c.byName[m.name]; !there {
				c.byName[m.name] = m
			}
			c.makers = append(c.makers, m)
		}
		for k, names := range f.keys {
			if c.keys[k] != nil {
				panic(fmt.Sprintf("oracle: two kinds of keys are called %c", k))
			}
			c.keys[k] = names
			c.kinds = append(c.kinds, k)
		}
		merge(c.modes, f.modes)
		merge(c.specials, f.specials)
		merge(c.avoid, f.avoid)
	}
	slices.Sort(c.kinds)
	n := 0
	for _, m := range c.makers {
		n += m.weight
		c.sums = append(c.sums, n)
	}
	return c
}

func merge[V any](into, from map[string]V) {
	for k, v := range from {
		if _, twice := into[k]; twice {
			panic("oracle: two families speak of " + k)
		}
		into[k] = v
	}
}

// modeOf is how replies to a command are compared.
func (c *catalog) modeOf(args [][]byte) mode { return c.modes[name(args)] }

// specialOf is what a command needs beyond its reply; run is nil if that is nothing.
func (c *catalog) specialOf(args [][]byte) special {
	s := c.specials[name(args)]
	if s.when != nil && !s.when(args) {
		return special{}
	}
	return s
}

// Names lists all commands that a Generator makes, those among them that redis-server 7.0 lacks if newer.
func Names(newer bool) []string {
	var out []string
	for _, m := range newCatalog(newer).makers {
		if !slices.Contains(out, m.name) {
			out = append(out, m.name)
		}
	}
	return out
}
