package shard

import (
	"kevy/internal/ds"
	"kevy/internal/op"
)

// UnknownRead stands for a number of entries read that is not known.
const UnknownRead = ds.UnknownRead

// Pending is an entry that was delivered and not acknowledged.
type Pending struct {
	ID          StreamID
	Consumer    string
	DeliveredMs int64  // when last, in unix ms
	Count       uint64 // of deliveries
}

// GroupView reads a consumer group of a stream.
type GroupView struct {
	s *ds.Stream
	g *ds.StreamGroup
}

// ConsumerView reads a consumer of a group.
type ConsumerView struct {
	g *ds.StreamGroup
	c *ds.StreamConsumer
}

// Groups returns the number of consumer groups.
func (v StreamView) Groups() int {
	if v.s == nil {
		return 0
	}
	return len(v.s.Groups())
}

// EachGroup calls fn with the groups in the order of their names until it
// returns false. fn must not change keys.
func (v StreamView) EachGroup(fn func(g GroupView) bool) {
	if v.s == nil {
		return
	}
	for _, g := range v.s.Groups() {
		if !fn(GroupView{v.s, g}) {
			return
		}
	}
}

// Group returns the group of that name.
func (v StreamView) Group(name []byte) (g GroupView, ok bool) {
	if v.s == nil {
		return g, false
	}
	g = GroupView{v.s, v.s.Group(name)}
	return g, g.g != nil
}

// Name returns the name of the group.
func (v GroupView) Name() string { return v.g.Name() }

// LastID returns the id of the entry that was delivered last.
func (v GroupView) LastID() StreamID { return v.g.LastID() }

// EntriesRead returns how many entries were read up to LastID, or UnknownRead.
func (v GroupView) EntriesRead() int64 { return v.g.EntriesRead() }

// Lag returns how many entries are still to be read; ok is false if that is not
// known.
func (v GroupView) Lag() (lag int64, ok bool) { return v.s.Lag(v.g.EntriesRead(), v.g.LastID()) }

// ReadNext returns what EntriesRead becomes when it was before and the entry id
// is read.
func (v GroupView) ReadNext(before int64, id StreamID) int64 { return v.s.ReadNext(before, id) }

// Pending returns the number of pending entries.
func (v GroupView) Pending() int { return v.g.Pending() }

// PendingOf returns the pending entry of that id.
func (v GroupView) PendingOf(id StreamID) (p Pending, ok bool) {
	q, ok := v.g.PendingOf(id)
	if !ok {
		return p, false
	}
	return pendingOf(v.g, q), true
}

func pendingOf(g *ds.StreamGroup, p ds.PendingEntry) Pending {
	return Pending{ID: p.ID, Consumer: g.ConsumerOf(p).Name(), DeliveredMs: p.DeliveredMs, Count: p.Count}
}

// EachPending calls fn with the pending entries from an id on, in order, until
// it returns false. fn must not change keys.
func (v GroupView) EachPending(from StreamID, fn func(p Pending) bool) {
	v.g.EachPending(from, func(p ds.PendingEntry) bool { return fn(pendingOf(v.g, p)) })
}

// LastPending returns the last pending entry.
func (v GroupView) LastPending() (p Pending, ok bool) {
	v.g.EachPendingBack(func(q ds.PendingEntry) bool {
		p, ok = pendingOf(v.g, q), true
		return false
	})
	return p, ok
}

// Consumers returns the number of consumers.
func (v GroupView) Consumers() int { return v.g.Consumers() }

// EachConsumer calls fn with the consumers in the order of their names until it
// returns false. fn must not change keys.
func (v GroupView) EachConsumer(fn func(c ConsumerView) bool) {
	v.g.EachConsumer(func(c *ds.StreamConsumer) bool { return fn(ConsumerView{v.g, c}) })
}

// Consumer returns the consumer of that name.
func (v GroupView) Consumer(name []byte) (c ConsumerView, ok bool) {
	c = ConsumerView{v.g, v.g.Consumer(name)}
	return c, c.c != nil
}

// Name returns the name of the consumer.
func (v ConsumerView) Name() string { return v.c.Name() }

// SeenMs returns when the consumer was there last, in unix ms. It is in no op:
// after a restart it is the time of the last change that one recorded.
func (v ConsumerView) SeenMs() int64 { return v.c.SeenMs() }

// Pending returns the number of the consumer's pending entries.
func (v ConsumerView) Pending() int { return v.c.Pending() }

// EachPending calls fn with the consumer's pending entries from an id on, in
// order, until it returns false. fn must not change keys.
func (v ConsumerView) EachPending(from StreamID, fn func(p Pending) bool) {
	v.c.EachPending(from, func(id StreamID) bool {
		p, _ := v.g.PendingOf(id)
		return fn(pendingOf(v.g, p))
	})
}

// group returns a stream and a group of it for changing, nil where there is
// none. The error is ErrWrongType.
func (tx *Tx) group(key, group []byte) (sh *Shard, s *ds.Stream, g *ds.StreamGroup, err error) {
	sh, d := tx.at(key)
	if s, err = writable[*ds.Stream](tx, sh, d, key, nil); err == nil && s != nil {
		g = s.MutableGroup(group)
	}
	return sh, s, g, err
}

// recordGroup begins an op XGROUP with nargs arguments behind the group.
func (tx *Tx) recordGroup(sh *Shard, subcommand string, key, group []byte, nargs int) {
	tx.recordSub(sh, op.XGroup, subcommand, key, nargs+1)
	tx.arg(group)
}

// XGroupCreate adds a group to the key's stream (op XGROUP CREATE), which it
// creates if mkStream is set, and reports whether there was a stream, or now
// is, and no group of that name in it. The error is ErrWrongType.
func (tx *Tx) XGroupCreate(key, group []byte, last StreamID, read int64, mkStream bool) (created bool, err error) {
	sh, d := tx.at(key)
	create := ds.NewStream
	if !mkStream {
		create = nil
	}
	missing := tx.lookup(key) == nil
	s, err := writable(tx, sh, d, key, create)
	if err != nil || s == nil || !s.CreateGroup(group, last, read) {
		return false, err
	}
	n := 1
	if missing {
		n++
	}
	if read != UnknownRead {
		n += 2
	}
	if missing && !tx.replay {
		tx.touch(sh, key, wakeEnd)
	}
	tx.recordGroup(sh, "CREATE", key, group, n)
	tx.argID(last)
	if missing {
		tx.argString("MKSTREAM")
	}
	tx.argRead(read)
	tx.recorded()
	return true, nil
}

// argRead appends the number of entries read, if it is known.
func (tx *Tx) argRead(read int64) {
	if read != UnknownRead {
		tx.argString("ENTRIESREAD")
		tx.argInt(read)
	}
}

// XGroupSetID sets what a group has read (op XGROUP SETID) and reports whether
// there is the group. The error is ErrWrongType.
func (tx *Tx) XGroupSetID(key, group []byte, last StreamID, read int64) (ok bool, err error) {
	sh, _, g, err := tx.group(key, group)
	if err != nil || g == nil {
		return false, err
	}
	n := 1
	if read != UnknownRead {
		n = 3
	}
	tx.recordGroup(sh, "SETID", key, group, n)
	tx.argID(last)
	tx.argRead(read)
	tx.recorded()
	g.SetID(last, read)
	return true, nil
}

// XGroupDestroy removes a group (op XGROUP DESTROY) and reports whether there
// was one. The error is ErrWrongType.
func (tx *Tx) XGroupDestroy(key, group []byte) (destroyed bool, err error) {
	sh, s, g, err := tx.group(key, group)
	if err != nil || g == nil {
		return false, err
	}
	tx.recordGroup(sh, "DESTROY", key, group, 0)
	tx.recorded()
	if !tx.replay {
		tx.Recall(key) // its readers wait in vain
	}
	return s.DestroyGroup(group), nil
}

// XGroupCreateConsumer adds a consumer to a group (op XGROUP CREATECONSUMER)
// and reports whether there is the group, and no consumer of that name in it
// before. The error is ErrWrongType.
func (tx *Tx) XGroupCreateConsumer(key, group, consumer []byte) (created bool, err error) {
	sh, _, g, err := tx.group(key, group)
	if err != nil || g == nil || !g.CreateConsumer(consumer, tx.nowMs) {
		return false, err
	}
	tx.recordGroup(sh, "CREATECONSUMER", key, group, 1)
	tx.arg(consumer)
	tx.recorded()
	return true, nil
}

// XGroupDelConsumer removes a consumer with its pending entries (op XGROUP
// DELCONSUMER) and returns their number; ok is false if there is no such
// consumer. The error is ErrWrongType.
func (tx *Tx) XGroupDelConsumer(key, group, consumer []byte) (pending int, ok bool, err error) {
	sh, _, g, err := tx.group(key, group)
	if err != nil || g == nil {
		return 0, false, err
	}
	if pending, ok = g.DeleteConsumer(consumer); !ok {
		return 0, false, nil
	}
	tx.recordGroup(sh, "DELCONSUMER", key, group, 1)
	tx.arg(consumer)
	tx.recorded()
	return pending, true, nil
}

// XSeen notes that a consumer, if it exists, was there. That is no op.
func (tx *Tx) XSeen(key, group, consumer []byte) {
	if _, _, g, err := tx.group(key, group); err == nil && g != nil {
		g.Seen(consumer, tx.nowMs)
	}
}

// Claim says how XClaim makes entries pending.
type Claim struct {
	Consumer    []byte // created if it is missing
	DeliveredMs int64
	Count       uint64
}

// XClaim makes entries of the key's stream pending for a consumer of a group,
// whoever had them before (op XCLAIM), and reports whether there is the group.
// The entries need not be there. The error is ErrWrongType.
func (tx *Tx) XClaim(key, group []byte, c Claim, ids ...StreamID) (ok bool, err error) {
	sh, _, g, err := tx.group(key, group)
	if err != nil || g == nil || len(ids) == 0 {
		return g != nil, err
	}
	chunksOf(ids, func(ids []StreamID) {
		if tx.replay {
			return
		}
		tx.record(sh, op.XClaim, key, 9+len(ids))
		tx.arg(group)
		appendClaim(&tx.commit, string(c.Consumer), c.DeliveredMs, c.Count, ids)
		tx.recorded()
	})
	if !g.CreateConsumer(c.Consumer, tx.nowMs) {
		g.Seen(c.Consumer, tx.nowMs)
	}
	for _, id := range ids {
		g.Deliver(c.Consumer, ds.PendingEntry{ID: id, DeliveredMs: c.DeliveredMs, Count: c.Count})
	}
	return true, nil
}

// XAck removes pending entries of a group (op XACK of those that there were)
// and returns how many went. It overwrites ids. The error is ErrWrongType.
func (tx *Tx) XAck(key, group []byte, ids []StreamID) (acknowledged int, err error) {
	sh, _, g, err := tx.group(key, group)
	if err != nil || g == nil {
		return 0, err
	}
	gone := ids[:0]
	for _, id := range ids {
		if g.Acknowledge(id) {
			gone = append(gone, id)
		}
	}
	chunksOf(gone, func(ids []StreamID) { tx.recordIDs(sh, op.XAck, key, ids, group) })
	return len(gone), nil
}
