package stream

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

// policy says what becomes of pending entries whose entry is removed.
type policy uint8

const (
	noPolicy policy = iota // none was given: keepRefs
	keepRefs               // they stay
	delRefs                // they go, of all groups
	acked                  // only entries go that all groups have read and acknowledged
)

// parse consumes a policy if the next argument is one and none was given
// before.
func (p *policy) parse(a *command.Args) bool {
	switch {
	case *p != noPolicy:
		return false
	case a.Is("KEEPREF"):
		*p = keepRefs
	case a.Is("DELREF"):
		*p = delRefs
	case a.Is("ACKED"):
		*p = acked
	default:
		return false
	}
	return true
}

// referenced reports whether a group has still to read an entry, or to
// acknowledge it.
func referenced(s shard.StreamView, id shard.StreamID) (is bool) {
	s.EachGroup(func(g shard.GroupView) bool {
		is = g.LastID().Less(id)
		if !is {
			_, is = g.PendingOf(id)
		}
		return !is
	})
	return is
}

// groupRefs are pending entries of a group.
type groupRefs struct {
	group []byte
	ids   []shard.StreamID
}

// forget makes entries pending in no group.
func forget(c *command.Ctx, s shard.StreamView, ids ...shard.StreamID) {
	var refs []groupRefs
	s.EachGroup(func(g shard.GroupView) bool {
		r := groupRefs{group: []byte(g.Name())}
		for _, id := range ids {
			if _, ok := g.PendingOf(id); ok {
				r.ids = append(r.ids, id)
			}
		}
		if len(r.ids) > 0 {
			refs = append(refs, r)
		}
		return true
	})
	for _, r := range refs {
		_, _ = c.Tx.XAck(c.Key(1), r.group, r.ids) // there is the group
	}
}

var (
	errIDCount   = &resp.Error{Code: "ERR", Text: "Number of IDs must be a positive integer"}
	errIDsTooFew = &resp.Error{Code: "ERR", Text: "The `numids` parameter must match the number of arguments"}
	errIDsLack   = &resp.Error{Code: "ERR", Text: "IDS option is required"}
)

// parsePolicyIDs reads a policy and IDS with their number, in any order;
// otherwise it replies with the error.
func parsePolicyIDs(c *command.Ctx, from int) (p policy, ids []shard.StreamID, ok bool) {
	a := c.Scan(from)
	var args [][]byte
	for a.More() {
		switch {
		case p.parse(&a):
		case a.Len() > 1 && a.Is("IDS"):
			n := a.AtLeast(1, errIDCount)
			if a.Err() != nil {
				break
			}
			if n > int64(a.Len()) {
				a.Fail(errIDsTooFew)
				break
			}
			args = args[:0]
			for range n {
				args = append(args, a.Bytes())
			}
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	if args == nil {
		a.Fail(errIDsLack)
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return p, nil, false
	}
	ids, ok = parseIDs(c, nil, args)
	return p, ids, ok
}

// What XDELEX and XACKDEL answer of an id.
const (
	idMissing    = -1
	idDone       = 1
	idReferenced = 2
)

func xDelEx() *command.Spec {
	return &command.Spec{
		Name: "xdelex", Arity: -5, Flags: command.Write | command.Fast, Category: command.CatStream,
		Keys:  command.One(1, command.RW|command.Delete),
		Group: "stream", Since: "8.2.0", Complexity: "O(G log N) for each id, of G groups",
		Syntax:  "key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
		Summary: "Removes entries and, as is said, what is pending of them; answers for each if it went.",
		Run:     runXDelEx,
	}
}

func runXDelEx(c *command.Ctx) {
	p, ids, ok := parsePolicyIDs(c, 2)
	if !ok {
		return
	}
	s, ok := view(c)
	if !ok {
		return
	}
	c.W.Array(len(ids))
	for _, id := range ids {
		c.W.Int(remove(c, s, id, p))
		s, _ = c.Tx.Stream(c.Key(1)) // it is one, or missing
	}
}

// remove removes an entry by a policy and returns what is answered of it.
func remove(c *command.Ctx, s shard.StreamView, id shard.StreamID, p policy) int64 {
	there := s.Has(id)
	switch {
	case p == acked && there && referenced(s, id):
		return idReferenced
	case p == delRefs:
		forget(c, s, id)
	}
	if !there {
		return idMissing
	}
	_, _ = c.Tx.XDel(c.Key(1), []shard.StreamID{id}) // it is a stream
	c.Tx.Notify(shard.OfStreams, "xdel", c.Key(1))
	return idDone
}

func xAckDel() *command.Spec {
	return &command.Spec{
		Name: "xackdel", Arity: -6, Flags: command.Write | command.Fast, Category: command.CatStream,
		Keys:  command.One(1, command.RW|command.Update|command.Delete),
		Group: "stream", Since: "8.2.0", Complexity: "O(G log N) for each id, of G groups",
		Syntax:  "key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
		Summary: "Makes entries of a group no longer pending and removes them; answers for each if it went.",
		Run:     runXAckDel,
	}
}

func runXAckDel(c *command.Ctx) {
	p, ids, ok := parsePolicyIDs(c, 3)
	if !ok {
		return
	}
	if _, ok := view(c); !ok {
		return
	}
	group := c.Args[2]
	c.W.Array(len(ids))
	for _, id := range ids {
		n, _ := c.Tx.XAck(c.Key(1), group, []shard.StreamID{id}) // it is a stream, or missing
		if n == 0 {
			c.W.Int(idMissing)
			continue
		}
		s, _ := c.Tx.Stream(c.Key(1))
		if remove(c, s, id, p) == idReferenced {
			c.W.Int(idReferenced)
		} else {
			c.W.Int(idDone)
		}
	}
}

// run trims the stream that the first argument names and returns how many
// entries went.
func (o *trimOptions) run(c *command.Ctx, s shard.StreamView) (removed int64) {
	switch o.policy {
	case delRefs:
		ids := o.trimmed(s, nil)
		removed, _ = c.Tx.XTrim(c.Key(1), o.trim) // it is a stream, or missing
		s, _ = c.Tx.Stream(c.Key(1))
		// An approximate trim stops earlier.
		gone := ids[:0]
		for _, id := range ids {
			if !s.Has(id) {
				gone = append(gone, id)
			}
		}
		forget(c, s, gone...)
	case acked:
		ids := o.trimmed(s, func(id shard.StreamID) bool { return !referenced(s, id) })
		if o.trim.Limit != 0 && int64(len(ids)) > o.trim.Limit {
			ids = ids[:o.trim.Limit]
		}
		return removeFirst(c, s, ids)
	default:
		removed, _ = c.Tx.XTrim(c.Key(1), o.trim)
	}
	return removed
}

// trimmed returns the ids of entries, out of those that fn admits, if it is not
// nil, that an exact trim removes.
func (o *trimOptions) trimmed(s shard.StreamView, fn func(id shard.StreamID) bool) (ids []shard.StreamID) {
	left := uint64(s.Len())
	s.Each(shard.StreamID{}, shard.MaxStreamID, false, func(e *shard.StreamEntry) bool {
		if o.trim.ByID && !e.ID.Less(o.trim.MinID) || !o.trim.ByID && left <= o.trim.MaxLen {
			return false
		}
		if fn == nil || fn(e.ID) {
			ids = append(ids, e.ID)
			left--
		}
		return true
	})
	return ids
}

// removeFirst removes entries, as a trim the ones that stand before all that
// stay.
func removeFirst(c *command.Ctx, s shard.StreamView, ids []shard.StreamID) int64 {
	n := 0
	s.Each(shard.StreamID{}, shard.MaxStreamID, false, func(e *shard.StreamEntry) bool {
		if n == len(ids) || ids[n] != e.ID {
			return false
		}
		n++
		return true
	})
	if n > 0 {
		_, _ = c.Tx.XTrim(c.Key(1), shard.StreamTrim{MaxLen: uint64(s.Len() - n)}) // it is a stream
	}
	removed := int64(len(ids))
	if n < len(ids) {
		_, _ = c.Tx.XDel(c.Key(1), ids[n:])
	}
	return removed
}
