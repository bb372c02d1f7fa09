package ds

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// StreamGroup is a group of consumers that read a stream together, and the entries that were delivered to one of them
// and not acknowledged: pending entries.
type StreamGroup struct {
	owner   uint64 // the id of the stream that may write the group
	name    string
	last    StreamID // delivered last
	read    int64    // entries read up to last, or UnknownRead
	pending *btree.BTreeG[PendingEntry]
	// consumers are found by number, which pending entries hold; nil where a number is free. byName has the numbers in
	// the order of the names.
	consumers []*StreamConsumer
	byName    []uint32
	nameBytes int // of the consumers' names
}

// StreamConsumer is a consumer of a group.
type StreamConsumer struct {
	owner   uint64
	name    string
	seenMs  int64
	pending *btree.BTreeG[StreamID]
}

// PendingEntry is an entry that was delivered and not acknowledged.
type PendingEntry struct {
	ID          StreamID
	DeliveredMs int64  // when last, in unix ms
	Count       uint64 // of deliveries
	consumer    uint32
}

func newPending() *btree.BTreeG[PendingEntry] {
	less := func(a, b PendingEntry) bool { return a.ID.Less(b.ID) }
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

func newPendingIDs() *btree.BTreeG[StreamID] {
	return btree.NewBTreeGOptions(StreamID.Less, btree.Options{NoLocks: true})
}

// forkTree returns a tree with the content of t, which is not touched: others may read and fork it at the same time.
// Nobody may write t any more.
func forkTree[T any](t *btree.BTreeG[T]) *btree.BTreeG[T] {
	c := *t
	return c.Copy()
}

const (
	streamGroupBytes    = 112 + 104 // and the head of the tree
	streamConsumerBytes = 48 + 104 + 12
	pendingEntryBytes   = 64 + 26 // in both trees, their nodes partly filled
)

func (g *StreamGroup) memBytes() int {
	return streamGroupBytes + len(g.name) + streamConsumerBytes*len(g.byName) + g.nameBytes + pendingEntryBytes*g.pending.Len()
}

// settleGroup counts what the open group has grown or shrunk by.
func (s *Stream) settleGroup() {
	if s.open != nil {
		s.groupBytes += s.open.memBytes() - s.openBytes
		s.open = nil
	}
}

// findGroup returns the index of a group, or the index at which to insert it.
func (s *Stream) findGroup(name []byte) (i int, ok bool) {
	return slices.BinarySearchFunc(s.groups, viewString(name), func(g *StreamGroup, name string) int { return strings.Compare(g.name, name) })
}

// Groups returns the groups in the order of their names. They are read-only.
func (s *Stream) Groups() []*StreamGroup { return s.groups }

// Group returns a group for reading, nil if there is none of that name.
func (s *Stream) Group(name []byte) *StreamGroup {
	if i, ok := s.findGroup(name); ok {
		return s.groups[i]
	}
	return nil
}

// ownGroups makes the slice of groups writable.
func (s *Stream) ownGroups() {
	if s.groupsOwner != s.id {
		s.groups, s.groupsOwner = slices.Clone(s.groups), s.id
	}
}

// MutableGroup returns a group for mutation until the next Fork, nil if there is none of that name.
func (s *Stream) MutableGroup(name []byte) *StreamGroup {
	i, ok := s.findGroup(name)
	if !ok {
		return nil
	}
	g := s.groups[i]
	if g.owner != s.id {
		c := *g
		c.owner = s.id
		c.pending = forkTree(g.pending)
		c.consumers, c.byName = slices.Clone(g.consumers), slices.Clone(g.byName)
		s.ownGroups()
		s.groups[i], g = &c, &c
	}
	s.settleGroup()
	s.open, s.openBytes = g, g.memBytes()
	return g
}

// CreateGroup adds a group and says whether there was none of that name.
func (s *Stream) CreateGroup(name []byte, last StreamID, read int64) bool {
	i, ok := s.findGroup(name)
	if ok {
		return false
	}
	s.ownGroups()
	g := &StreamGroup{owner: s.id, name: string(name), last: last, read: read, pending: newPending()}
	s.groups = slices.Insert(s.groups, i, g)
	s.groupBytes += g.memBytes()
	return true
}

// DestroyGroup removes a group and says whether there was one.
func (s *Stream) DestroyGroup(name []byte) bool {
	i, ok := s.findGroup(name)
	if ok {
		s.settleGroup()
		s.groupBytes -= s.groups[i].memBytes()
		s.ownGroups()
		s.groups = slices.Delete(s.groups, i, i+1)
	}
	return ok
}

// Name returns the name of the group.
func (g *StreamGroup) Name() string { return g.name }

// LastID returns the id of the entry that was delivered last.
func (g *StreamGroup) LastID() StreamID { return g.last }

// EntriesRead returns how many entries were read up to LastID, or UnknownRead.
func (g *StreamGroup) EntriesRead() int64 { return g.read }

// SetID replaces the two.
func (g *StreamGroup) SetID(last StreamID, read int64) { g.last, g.read = last, read }

// Consumers returns the number of consumers.
func (g *StreamGroup) Consumers() int { return len(g.byName) }

// EachConsumer calls fn with the consumers in the order of their names until it returns false.
func (g *StreamGroup) EachConsumer(fn func(c *StreamConsumer) bool) {
	for _, at := range g.byName {
		if !fn(g.consumers[at]) {
			return
		}
	}
}

// findConsumer returns where a consumer's number is, or where to insert it.
func (g *StreamGroup) findConsumer(name []byte) (i int, ok bool) {
	return slices.BinarySearchFunc(g.byName, viewString(name), func(at uint32, name string) int { return strings.Compare(g.consumers[at].name, name) })
}

// Consumer returns a consumer for reading, nil if there is none of that name.
func (g *StreamGroup) Consumer(name []byte) *StreamConsumer {
	if i, ok := g.findConsumer(name); ok {
		return g.consumers[g.byName[i]]
	}
	return nil
}

// ConsumerOf returns the consumer that has a pending entry of this group.
func (g *StreamGroup) ConsumerOf(p PendingEntry) *StreamConsumer { return g.consumers[p.consumer] }

// CreateConsumer adds a consumer and says whether there was none of that name.
func (g *StreamGroup) CreateConsumer(name []byte, nowMs int64) bool {
	i, ok := g.findConsumer(name)
	if ok {
		return false
	}
	c := &StreamConsumer{owner: g.owner, name: string(name), seenMs: nowMs, pending: newPendingIDs()}
	at := len(g.consumers)
	if len(g.byName) < at {
		at = slices.Index(g.consumers, nil)
		g.consumers[at] = c
	} else {
		g.consumers = append(g.consumers, c)
	}
	g.byName = slices.Insert(g.byName, i, uint32(at))
	g.nameBytes += len(name)
	return true
}

// mutableConsumer returns the consumer of a number for mutation.
func (g *StreamGroup) mutableConsumer(at uint32) *StreamConsumer {
	c := g.consumers[at]
	if c.owner != g.owner {
		n := *c
		n.owner = g.owner
		n.pending = forkTree(c.pending)
		c = &n
		g.consumers[at] = c
	}
	return c
}

// DeleteConsumer removes a consumer with its pending entries and returns their number.
func (g *StreamGroup) DeleteConsumer(name []byte) (pending int, ok bool) {
	i, ok := g.findConsumer(name)
	if !ok {
		return 0, false
	}
	at := g.byName[i]
	c := g.consumers[at]
	c.pending.Scan(func(id StreamID) bool {
		g.pending.Delete(PendingEntry{ID: id})
		return true
	})
	g.consumers[at] = nil
	g.nameBytes -= len(name)
	g.byName = slices.Delete(g.byName, i, i+1)
	return c.pending.Len(), true
}

// Seen notes that a consumer, if it exists, was there.
func (g *StreamGroup) Seen(name []byte, nowMs int64) {
	if i, ok := g.findConsumer(name); ok && g.consumers[g.byName[i]].seenMs != nowMs {
		g.mutableConsumer(g.byName[i]).seenMs = nowMs
	}
}

// Pending returns the number of pending entries.
func (g *StreamGroup) Pending() int { return g.pending.Len() }

// PendingOf returns the pending entry of that id.
func (g *StreamGroup) PendingOf(id StreamID) (p PendingEntry, ok bool) {
	return g.pending.Get(PendingEntry{ID: id})
}

// EachPending calls fn with the pending entries from an id on, in order, until it returns false.
func (g *StreamGroup) EachPending(from StreamID, fn func(p PendingEntry) bool) {
	g.pending.Ascend(PendingEntry{ID: from}, fn)
}

// EachPendingBack calls fn with the pending entries against their order until it returns false.
func (g *StreamGroup) EachPendingBack(fn func(p PendingEntry) bool) { g.pending.Reverse(fn) }

// Deliver makes an entry pending, for a consumer that must exist. If it was pending for another one, it moves.
func (g *StreamGroup) Deliver(consumer []byte, p PendingEntry) {
	i, ok := g.findConsumer(consumer)
	if !ok {
		panic("ds: no such consumer")
	}
	p.consumer = g.byName[i]
	old, was := g.pending.Set(p)
	if was {
		if old.consumer == p.consumer {
			return
		}
		g.mutableConsumer(old.consumer).pending.Delete(p.ID)
	}
	g.mutableConsumer(p.consumer).pending.Set(p.ID)
}

// Acknowledge removes a pending entry and says whether there was one.
func (g *StreamGroup) Acknowledge(id StreamID) bool {
	p, ok := g.pending.Delete(PendingEntry{ID: id})
	if ok {
		g.mutableConsumer(p.consumer).pending.Delete(id)
	}
	return ok
}

// Name returns the name of the consumer.
func (c *StreamConsumer) Name() string { return c.name }

// SeenMs returns when the consumer was there last, in unix ms.
func (c *StreamConsumer) SeenMs() int64 { return c.seenMs }

// Pending returns the number of the consumer's pending entries.
func (c *StreamConsumer) Pending() int { return c.pending.Len() }

// EachPending calls fn with the ids of the consumer's pending entries from one on, in order, until it returns false.
func (c *StreamConsumer) EachPending(from StreamID, fn func(id StreamID) bool) {
	c.pending.Ascend(from, fn)
}
