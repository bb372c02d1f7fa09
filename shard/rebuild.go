package shard

import (
	"sync"

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
	RebuildValue(c, db, stream, key, ValueOf(e), e.Aux(), nil)
}

// RebuildValue is Rebuild of a value that is in no keyspace. It calls full, if
// that is not nil, once the ops in c are about as much as one op should be, so
// that a caller can take them and reset c in the middle of a large value.
func RebuildValue(c *op.Commit, db, stream int, key []byte, v Value, atMs int64, full func()) {
	o := v.Object
	if o == nil {
		n := 3
		if atMs != 0 {
			n = 5
		}
		c.Begin(op.Set, db, stream, op.User, n)
		c.Arg(key)
		c.Arg(v.Text)
		if atMs != 0 {
			c.ArgString("PXAT")
			c.ArgInt(atMs)
		}
		c.End()
		return
	}
	b := rebuilders.Get().(*rebuilder)
	defer b.putBack()
	*b = rebuilder{c: c, db: db, stream: stream, key: key, full: full, buf: b.buf[:0], ends: b.ends[:0], scores: b.scores[:0]}
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
	case *ds.Stream:
		b.wholeStream(o)
	default:
		panic("shard: no ops rebuild a " + o.Encoding())
	}
	b.flush()
	if h, ok := o.(*ds.Hash); ok {
		b.verb = op.HPExpireAt
		h.EachDeadline(func(field []byte, at int64) bool { b.addExpiring(field, at); return true })
		b.flush()
	}
	if atMs != 0 {
		c.Begin(op.PExpireAt, db, stream, op.User, 3)
		c.Arg(key)
		c.ArgInt(atMs)
		c.End()
	}
}

// rebuilder gathers elements into ops of bounded size. It copies them: what a
// collection hands to a callback may be gone after it.
type rebuilder struct {
	c          *op.Commit
	db, stream int
	verb       op.Verb
	key        []byte
	buf        []byte // the arguments, back to back
	ends       []int
	scores     []float64
	full       func() // may be nil
	at         int64  // the deadline of all, for HPEXPIREAT
}

var rebuilders = sync.Pool{New: func() any { return new(rebuilder) }}

// putBack keeps the memory for the next value, unless it is large.
func (b *rebuilder) putBack() {
	if cap(b.buf) > 2*maxRebuildBytes {
		b.buf = nil
	}
	*b = rebuilder{buf: b.buf, ends: b.ends, scores: b.scores}
	rebuilders.Put(b)
}

func (b *rebuilder) add(parts ...[]byte) {
	for _, p := range parts {
		b.buf = append(b.buf, p...)
		b.ends = append(b.ends, len(b.buf))
	}
	b.flushIfFull()
}

func (b *rebuilder) addScored(member []byte, score float64) {
	b.scores = append(b.scores, score)
	b.add(member)
}

// addExpiring adds a field of a hash whose deadline is at.
func (b *rebuilder) addExpiring(field []byte, at int64) {
	if at != b.at {
		b.flush()
		b.at = at
	}
	b.add(field)
}

func (b *rebuilder) flushIfFull() {
	if len(b.ends) >= MaxOpElems || len(b.buf) >= maxRebuildBytes {
		b.flush()
	}
}

func (b *rebuilder) flush() {
	if len(b.ends) == 0 {
		return
	}
	n := 2 + len(b.ends) + len(b.scores)
	if b.at != 0 {
		n += 3
	}
	b.c.Begin(b.verb, b.db, b.stream, op.User, n)
	b.c.Arg(b.key)
	if b.at != 0 {
		b.c.ArgInt(b.at)
		b.c.ArgString("FIELDS")
		b.c.ArgInt(int64(len(b.ends)))
	}
	start := 0
	for i, end := range b.ends {
		if len(b.scores) > 0 {
			b.c.ArgFloat(b.scores[i])
		}
		b.c.Arg(b.buf[start:end])
		start = end
	}
	b.buf, b.ends, b.scores = b.buf[:0], b.ends[:0], b.scores[:0]
	b.end()
}

// end finishes an op.
func (b *rebuilder) end() {
	b.c.End()
	if b.full != nil && len(b.c.Bytes()) >= maxRebuildBytes {
		b.full()
	}
}
