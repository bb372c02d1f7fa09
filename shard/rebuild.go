package shard

import (
	"kevy/internal/ds"
	"kevy/internal/op"
)

// MaxOpElems is how many elements an op holds at most that the store makes of a
// whole collection, rather than of what a client sent.
const MaxOpElems = 128

// maxRebuildBytes closes an op that rebuilds part of a collection once it holds
// so many bytes.
const maxRebuildBytes = 32 << 10

// Rebuild records the ops that give key the value and the deadline of e: what
// RENAME, COPY and a base file are made of. The key must not exist where they
// are applied, or hold a string if e does.
func Rebuild(c *op.Commit, db, stream int, key []byte, e *ds.Entry) {
	o := e.Object()
	if o == nil {
		n := 3
		if e.Aux() != 0 {
			n = 5
		}
		c.Begin(op.Set, db, stream, op.User, n)
		c.Arg(key)
		c.Arg(e.Value())
		if e.Aux() != 0 {
			c.ArgString("PXAT")
			c.ArgInt(e.Aux())
		}
		c.End()
		return
	}
	b := rebuilder{c: c, db: db, stream: stream, key: key}
	switch o := o.(type) {
	case *ds.Hash:
		b.verb = op.HSet
		o.Each(func(field, value []byte) bool { b.add(field, value); return true })
	case *ds.Set:
		b.verb = op.SAdd
		o.Each(func(m []byte) bool { b.add(m); return true })
	case *ds.List:
		b.verb = op.RPush
		o.Each(0, o.Len(), false, func(elem []byte) bool { b.add(elem); return true })
	case *ds.ZSet:
		b.verb = op.ZAdd
		o.EachRank(0, o.Len(), false, func(m []byte, score float64) bool { b.addScored(m, score); return true })
	default:
		panic("shard: no ops rebuild a " + o.Encoding())
	}
	b.flush()
	if e.Aux() != 0 {
		c.Begin(op.PExpireAt, db, stream, op.User, 3)
		c.Arg(key)
		c.ArgInt(e.Aux())
		c.End()
	}
}

// rebuilder gathers elements into ops of bounded size. The elements stay valid:
// nothing is changed while it runs.
type rebuilder struct {
	c          *op.Commit
	db, stream int
	verb       op.Verb
	key        []byte
	args       [][]byte
	scores     []float64
	bytes      int
}

func (b *rebuilder) add(parts ...[]byte) {
	for _, p := range parts {
		b.args = append(b.args, p)
		b.bytes += len(p)
	}
	b.flushIfFull()
}

func (b *rebuilder) addScored(member []byte, score float64) {
	b.args = append(b.args, member)
	b.scores = append(b.scores, score)
	b.bytes += len(member)
	b.flushIfFull()
}

func (b *rebuilder) flushIfFull() {
	if len(b.args) >= MaxOpElems || b.bytes >= maxRebuildBytes {
		b.flush()
	}
}

func (b *rebuilder) flush() {
	if len(b.args) == 0 {
		return
	}
	b.c.Begin(b.verb, b.db, b.stream, op.User, 2+len(b.args)+len(b.scores))
	b.c.Arg(b.key)
	for i, a := range b.args {
		if b.scores != nil {
			b.c.ArgFloat(b.scores[i])
		}
		b.c.Arg(a)
	}
	b.c.End()
	b.args, b.scores, b.bytes = b.args[:0], b.scores[:0], 0
}
