package shard

import (
	"slices"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// wholeStream records the ops that make a stream: its entries, its groups, and what
// it says of entries that are gone.
//
// Redis makes no entry pending that is not there. So those that are pending and
// gone are added first, without content, and go again when they have been
// claimed: the ones before all others by XTRIM, which leaves no trace, the
// others by XDEL, whose trace XSETID then corrects. An empty stream is made the
// same way.
func (b *rebuilder) wholeStream(s *ds.Stream) {
	gone := goneIDs(s)
	if s.Len() == 0 && len(gone) == 0 {
		gone = []StreamID{{Seq: 1}}
	}
	last, added := b.entries(s, gone)
	for _, g := range s.Groups() {
		b.group(g)
	}
	// Of gone, those below the first entry.
	n := len(gone)
	if s.Len() > 0 {
		n, _ = slices.BinarySearchFunc(gone, s.FirstID(), StreamID.Compare)
	}
	if n > 0 {
		b.begin(op.XTrim, numTrimArgs)
		appendTrim(b.c, s)
		b.end()
	}
	var maxDeleted StreamID
	chunksOf(gone[n:], func(ids []StreamID) {
		b.begin(op.XDel, len(ids))
		for _, id := range ids {
			b.id(id)
		}
		b.end()
		maxDeleted = ids[len(ids)-1]
	})
	if s.LastID() == last && s.Added() == added && s.MaxDeletedID() == maxDeleted {
		return
	}
	if want := s.MaxDeletedID(); want != maxDeleted {
		// Redis takes it together with an id that is not below.
		id := s.LastID()
		if id.Less(want) {
			id = want
		}
		b.setID(id, s.Added(), want, true)
		if id == s.LastID() {
			return
		}
	}
	b.setID(s.LastID(), s.Added(), StreamID{}, false)
}

func (b *rebuilder) setID(last StreamID, added uint64, maxDeleted StreamID, withMax bool) {
	b.begin(op.XSetID, numSetIDArgs(withMax))
	appendSetID(b.c, last, added, maxDeleted, withMax)
	b.end()
}

// goneIDs returns the ids, in order, of entries that are pending and not there.
func goneIDs(s *ds.Stream) (gone []StreamID) {
	for _, g := range s.Groups() {
		g.EachPending(StreamID{}, func(p ds.PendingEntry) bool {
			if !p.ID.IsZero() && !s.Has(p.ID) { // no entry can have 0-0
				gone = append(gone, p.ID)
			}
			return true
		})
	}
	slices.SortFunc(gone, StreamID.Compare)
	return slices.Compact(gone)
}

// entries records an XADD of each entry, and of those that are gone, and
// returns the last id and their number.
func (b *rebuilder) entries(s *ds.Stream, gone []StreamID) (last StreamID, added uint64) {
	addGone := func(n int) {
		for _, id := range gone[:n] {
			last = id
			added++
			b.begin(op.XAdd, 3)
			b.id(id)
			b.c.ArgString("")
			b.c.ArgString("")
			b.end()
		}
		gone = gone[n:]
	}
	s.Each(StreamID{}, ds.MaxStreamID, false, func(e *StreamEntry) bool {
		before := 0
		for before < len(gone) && gone[before].Less(e.ID) {
			before++
		}
		addGone(before)
		last = e.ID
		added++
		b.begin(op.XAdd, 1+2*e.Len())
		b.id(e.ID)
		e.Each(func(name, value []byte) {
			b.c.Arg(name)
			b.c.Arg(value)
		})
		b.end()
		return true
	})
	addGone(len(gone))
	return last, added
}

// group records the ops that make a group with its consumers.
func (b *rebuilder) group(g *ds.StreamGroup) {
	read := g.EntriesRead()
	n := 2
	if read != UnknownRead {
		n = 4
	}
	b.beginSub("CREATE", n)
	b.c.ArgString(g.Name())
	b.id(g.LastID())
	if read != UnknownRead {
		b.c.ArgString("ENTRIESREAD")
		b.c.ArgInt(read)
	}
	b.end()
	g.EachConsumer(func(c *ds.StreamConsumer) bool {
		if c.Pending() == 0 {
			b.beginSub("CREATECONSUMER", 2)
			b.c.ArgString(g.Name())
			b.c.ArgString(c.Name())
			b.end()
			return true
		}
		b.claims(g, c)
		return true
	})
}

// claims records the pending entries of a consumer, an XCLAIM for those that
// follow each other and are alike but for their ids.
func (b *rebuilder) claims(g *ds.StreamGroup, c *ds.StreamConsumer) {
	var like ds.PendingEntry
	var ids []StreamID
	flush := func() {
		if len(ids) == 0 {
			return
		}
		b.begin(op.XClaim, 9+len(ids))
		b.c.ArgString(g.Name())
		appendClaim(b.c, c.Name(), like.DeliveredMs, like.Count, ids)
		b.end()
		ids = ids[:0]
	}
	c.EachPending(StreamID{}, func(id StreamID) bool {
		p, _ := g.PendingOf(id)
		if p.DeliveredMs != like.DeliveredMs || p.Count != like.Count || len(ids) == MaxOpElems {
			flush()
			like = p
		}
		ids = append(ids, id)
		return true
	})
	flush()
}

func (b *rebuilder) begin(v op.Verb, nargs int) {
	b.c.Begin(v, b.db, b.stream, op.User, 2+nargs)
	b.c.Arg(b.key)
}

func (b *rebuilder) beginSub(subcommand string, nargs int) {
	b.c.Begin(op.XGroup, b.db, b.stream, op.User, 3+nargs)
	b.c.ArgString(subcommand)
	b.c.Arg(b.key)
}

func (b *rebuilder) id(id StreamID) { appendID(b.c, id) }

// appendID appends an id to an op.
func appendID(c *op.Commit, id StreamID) {
	var text [ds.MaxStreamIDText]byte
	c.Arg(id.AppendTo(text[:0]))
}

// appendClaim appends what follows the group in an XCLAIM of len(ids) + 8
// arguments.
func appendClaim(c *op.Commit, consumer string, deliveredMs int64, count uint64, ids []StreamID) {
	c.ArgString(consumer)
	c.ArgInt(0)
	for _, id := range ids {
		appendID(c, id)
	}
	c.ArgString("TIME")
	c.ArgInt(deliveredMs)
	c.ArgString("RETRYCOUNT")
	c.ArgInt(int64(count))
	c.ArgString("FORCE")
	c.ArgString("JUSTID")
}
