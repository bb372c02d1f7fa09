package rdb

import (
	"encoding/binary"
	"math"

	"kevy/internal/ds"
)

// Flags of an entry in a block of a stream.
const (
	entryDeleted    = 1
	entrySameFields = 2
)

// stream reads a stream: its blocks, what it says of itself, its groups.
func (d *decoder) stream(typ byte, s *ds.Stream) error {
	err := d.elements(func() error { return d.streamBlock(s) })
	if err != nil {
		return err
	}
	length, err := d.src.length()
	if err != nil {
		return err
	}
	if length != uint64(s.Len()) {
		return damaged("a stream holds %d entries and says %d", s.Len(), length)
	}
	last, err := d.streamID()
	if err != nil {
		return err
	}
	added, maxDeleted := length, ds.StreamID{}
	if typ != typeStream {
		// The first id is in the entries.
		if _, err = d.streamID(); err != nil {
			return err
		}
		if maxDeleted, err = d.streamID(); err != nil {
			return err
		}
		if added, err = d.src.length(); err != nil {
			return err
		}
	}
	// Redis refuses the XSETID that would say less.
	if last.Less(s.TopID()) || added < length || added > math.MaxInt64 {
		return damaged("a stream of %d entries up to %s says that it ends at %s with %d entries added", length, s.TopID(), last, added)
	}
	s.SetID(last, added, maxDeleted)
	return d.elements(func() error { return d.group(typ, s) })
}

// streamID reads an id as two lengths.
func (d *decoder) streamID() (id ds.StreamID, err error) {
	if id.Ms, err = d.src.length(); err == nil {
		id.Seq, err = d.src.length()
	}
	return id, err
}

// rawID reads an id as sixteen bytes.
func (d *decoder) rawID() (ds.StreamID, error) {
	b, err := d.src.take(16)
	if err != nil {
		return ds.StreamID{}, err
	}
	return ds.StreamID{Ms: binary.BigEndian.Uint64(b), Seq: binary.BigEndian.Uint64(b[8:])}, nil
}

// blockItems are the elements of a block while it is read.
type blockItems struct {
	bytes []byte
	ends  []int
	next  int
}

func (b *blockItems) item() ([]byte, error) {
	if b.next >= len(b.ends) {
		return nil, damaged("a block of a stream is cut short")
	}
	start := 0
	if b.next > 0 {
		start = b.ends[b.next-1]
	}
	b.next++
	return b.bytes[start:b.ends[b.next-1]], nil
}

func (b *blockItems) int() (int64, error) {
	item, err := b.item()
	if err != nil {
		return 0, err
	}
	v, ok := parseInt(item)
	if !ok {
		return 0, damaged("a block of a stream has %.20q in the place of a number", item)
	}
	return v, nil
}

// count reads a number of elements that follow, at least one.
func (b *blockItems) count() (int, error) {
	v, err := b.int()
	if err == nil && (v < 1 || v > int64(len(b.ends)-b.next)) {
		return 0, damaged("a block of a stream has an entry of %d fields", v)
	}
	return int(v), err
}

// streamBlock reads a block: the id of its first entry and a listpack. That has
// the numbers of entries that are there and that are deleted, the names of the
// fields of the first entry behind their number, 0, and the entries. An entry is
// its flags, its id less that of the first entry, the number of its fields and
// their names unless they are those, the values, and how many elements these are.
func (d *decoder) streamBlock(s *ds.Stream) error {
	key, err := d.str()
	if err != nil {
		return err
	}
	if len(key) != 16 {
		return damaged("the id of a block of a stream has %d bytes", len(key))
	}
	first := ds.StreamID{Ms: binary.BigEndian.Uint64(key), Seq: binary.BigEndian.Uint64(key[8:])}
	b := &d.block
	if cap(b.bytes) > keptBytes {
		*b = blockItems{}
	}
	b.bytes, b.ends, b.next = b.bytes[:0], b.ends[:0], 0
	err = d.packed(eachListpack, func(item []byte) error {
		b.bytes = append(b.bytes, item...)
		b.ends = append(b.ends, len(b.bytes))
		return nil
	})
	if err != nil {
		return err
	}
	live, err := b.int()
	if err != nil {
		return err
	}
	dead, err := b.int()
	if err != nil {
		return err
	}
	n, err := b.count()
	if err != nil {
		return err
	}
	names := make([][]byte, n)
	for i := range names {
		if names[i], err = b.item(); err != nil {
			return err
		}
	}
	if zero, err := b.int(); err != nil || zero != 0 {
		return damaged("the names of a block of a stream do not end with 0")
	}
	for b.next < len(b.ends) {
		deleted, err := d.streamEntry(s, b, first, names)
		if err != nil {
			return err
		}
		if deleted {
			dead--
		} else {
			live--
		}
	}
	if live != 0 || dead != 0 {
		return damaged("a block of a stream does not hold as many entries as it says")
	}
	return nil
}

// streamEntry reads an entry and adds it to the stream, unless it is deleted.
func (d *decoder) streamEntry(s *ds.Stream, b *blockItems, first ds.StreamID, names [][]byte) (deleted bool, err error) {
	start := b.next
	flags, err := b.int()
	if err != nil {
		return false, err
	}
	ms, err := b.int()
	if err != nil {
		return false, err
	}
	seq, err := b.int()
	if err != nil {
		return false, err
	}
	d.entry = d.entry[:0]
	n := len(names)
	if flags&entrySameFields == 0 {
		if n, err = b.count(); err != nil {
			return false, err
		}
	}
	for i := range n {
		var name []byte
		if flags&entrySameFields != 0 {
			name = names[i]
		} else if name, err = b.item(); err != nil {
			return false, err
		}
		value, err := b.item()
		if err != nil {
			return false, err
		}
		d.entry = append(d.entry, name, value)
	}
	elems := int64(b.next - start)
	if said, err := b.int(); err != nil || said != elems {
		return false, damaged("an entry of a stream does not say how long it is")
	}
	if flags&entryDeleted != 0 {
		return true, nil
	}
	id := ds.StreamID{Ms: first.Ms + uint64(ms), Seq: first.Seq + uint64(seq)}
	if !s.LastID().Less(id) {
		return false, damaged("the entry %s of a stream is not above %s", id, s.LastID())
	}
	s.Add(id, d.entry, d.limits)
	return false, nil
}

// group reads a group: its pending entries, and then its consumers, each with
// the ids of its own.
func (d *decoder) group(typ byte, s *ds.Stream) error {
	name, err := d.str()
	if err != nil {
		return err
	}
	name = d.keep(name)
	last, err := d.streamID()
	if err != nil {
		return err
	}
	read := s.ReadUpTo(last) // what Redis too makes of a stream of a Redis before 7
	if typ != typeStream {
		n, err := d.src.length()
		if err != nil {
			return err
		}
		if read = int64(n); read < ds.UnknownRead {
			return damaged("a group of a stream has read %d entries", read)
		}
	}
	if !s.CreateGroup(name, last, read) {
		return damaged("a stream has the group %.100q twice", name)
	}
	g := s.MutableGroup(name)
	pending := map[ds.StreamID]ds.PendingEntry{}
	err = d.elements(func() error {
		id, err := d.rawID()
		if err != nil {
			return err
		}
		ms, err := d.src.uint64LE()
		if err != nil {
			return err
		}
		count, err := d.src.length()
		if err != nil {
			return err
		}
		if _, twice := pending[id]; twice || count > math.MaxInt64 {
			return damaged("a group of a stream has the pending entry %s twice, or delivered %d times", id, count)
		}
		pending[id] = ds.PendingEntry{ID: id, DeliveredMs: max(int64(ms), 0), Count: count}
		return nil
	})
	if err != nil {
		return err
	}
	if err = d.elements(func() error { return d.consumer(typ, g, pending) }); err != nil {
		return err
	}
	if len(pending) > 0 {
		return damaged("a group of a stream has pending entries that are no consumer's")
	}
	return nil
}

// consumer reads a consumer and takes its entries out of pending.
func (d *decoder) consumer(typ byte, g *ds.StreamGroup, pending map[ds.StreamID]ds.PendingEntry) error {
	name, err := d.str()
	if err != nil {
		return err
	}
	name = d.keep(name)
	seen, err := d.src.uint64LE()
	if err != nil {
		return err
	}
	if typ == typeStream3 {
		// When it last got something, which nothing here shows.
		if _, err := d.src.uint64LE(); err != nil {
			return err
		}
	}
	if !g.CreateConsumer(name, max(int64(seen), 0)) {
		return damaged("a group of a stream has the consumer %.100q twice", name)
	}
	return d.elements(func() error {
		id, err := d.rawID()
		if err != nil {
			return err
		}
		p, ok := pending[id]
		if !ok {
			return damaged("a consumer has the pending entry %s, which its group has not, or another consumer", id)
		}
		delete(pending, id)
		g.Deliver(name, p)
		return nil
	})
}

// stream writes a stream as Redis 7.0 does.
func (e *encoder) stream(s *ds.Stream) {
	e.length(s.Blocks())
	s.EachBlock(func(first ds.StreamID, listpack []byte) bool {
		e.length(16)
		e.rawID(first)
		e.str(listpack)
		return e.err == nil
	})
	e.length(s.Len())
	e.streamID(s.LastID())
	e.streamID(s.FirstID())
	e.streamID(s.MaxDeletedID())
	e.buf = appendLength(e.buf, s.Added())
	e.length(len(s.Groups()))
	for _, g := range s.Groups() {
		e.group(g)
	}
}

func (e *encoder) streamID(id ds.StreamID) {
	e.buf = appendLength(appendLength(e.buf, id.Ms), id.Seq)
}

func (e *encoder) rawID(id ds.StreamID) {
	e.buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(e.buf, id.Ms), id.Seq)
}

func (e *encoder) group(g *ds.StreamGroup) {
	e.str([]byte(g.Name()))
	e.streamID(g.LastID())
	e.buf = appendLength(e.buf, uint64(g.EntriesRead()))
	e.length(g.Pending())
	g.EachPending(ds.StreamID{}, func(p ds.PendingEntry) bool {
		e.rawID(p.ID)
		e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(p.DeliveredMs))
		e.buf = appendLength(e.buf, p.Count)
		e.flushIfFull()
		return e.err == nil
	})
	e.length(g.Consumers())
	g.EachConsumer(func(c *ds.StreamConsumer) bool {
		e.str([]byte(c.Name()))
		e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(c.SeenMs()))
		e.length(c.Pending())
		c.EachPending(ds.StreamID{}, func(id ds.StreamID) bool {
			e.rawID(id)
			e.flushIfFull()
			return e.err == nil
		})
		return e.err == nil
	})
}
