package ds

import "math/rand/v2"

// Hash maps fields to values: packed pairs in the order of insertion while it is small, then a Table. Fields may have
// deadlines.
type Hash struct {
	pairs     packed
	table     *Table
	deadlines *fieldDeadlines // nil until a field has had one
}

// NewHash returns an empty hash.
func NewHash() *Hash { return new(Hash) }

// Kind returns KindHash.
func (h *Hash) Kind() Kind { return KindHash }

// Len returns the number of fields.
func (h *Hash) Len() int {
	if h.table != nil {
		return h.table.Len()
	}
	return int(h.pairs.count)
}

// Encoding returns "listpack", "hashtable", or the "listpackex" of Redis 7.4: a listpack in which a field has, or has
// had, a deadline.
func (h *Hash) Encoding() string {
	switch {
	case h.table != nil:
		return encodingHashtable
	case h.deadlines != nil:
		return encodingListpackEx
	}
	return encodingListpack
}

// Fork implements Object in constant time.
func (h *Hash) Fork() Object {
	f := &Hash{deadlines: h.deadlines.fork()}
	if h.table != nil {
		f.table = h.table.fork()
	} else {
		f.pairs = h.pairs.fork()
	}
	return f
}

const hashBytes = 48

// MemBytes implements Object.
func (h *Hash) MemBytes() int {
	n := hashBytes + h.deadlines.memBytes()
	if h.table != nil {
		return n + h.table.MemBytes()
	}
	return n + cap(h.pairs.b)
}

// find returns the offsets of the pair of field: of the pair, of its value and behind it.
func (h *Hash) find(field []byte) (off, valueOff, end int, ok bool) {
	size := itemBytes(len(field))
	for off < len(h.pairs.b) {
		valueOff = h.pairs.skip(off)
		end = h.pairs.skip(valueOff)
		if h.pairs.equalAt(off, valueOff, field, size) {
			return off, valueOff, end, true
		}
		off = end
	}
	return 0, 0, 0, false
}

// Get returns the value of field.
func (h *Hash) Get(field []byte) (value []byte, ok bool) {
	if h.table != nil {
		if e := h.table.Get(field); e != nil {
			return e.Value(), true
		}
		return nil, false
	}
	_, valueOff, _, ok := h.find(field)
	if ok {
		value, _ = h.pairs.itemAt(valueOff)
	}
	return value, ok
}

// Has says whether field exists.
func (h *Hash) Has(field []byte) bool {
	_, ok := h.Get(field)
	return ok
}

// Set sets field to value and says whether the field is new. The field has no deadline then.
func (h *Hash) Set(field, value []byte, lim *Limits) (created bool) {
	if h.table == nil && (len(field) > lim.HashMaxListpackValue || len(value) > lim.HashMaxListpackValue) {
		h.convert()
	}
	if h.table != nil {
		e, created := h.table.Put(field, value)
		if e.Aux() != 0 {
			h.moveDeadline(e, 0)
		}
		return created
	}
	if off, valueOff, end, ok := h.find(field); ok {
		putItem(h.pairs.splice(valueOff, end, itemBytes(len(value))), value)
		if h.deadlines != nil {
			h.deadlines.set(h.pairAt(off), 0)
		}
		return false
	}
	if h.Len()+1 > lim.HashMaxListpackEntries {
		h.convert()
		h.table.Put(field, value)
		return true
	}
	end := len(h.pairs.b)
	putItem(putItem(h.pairs.splice(end, end, itemBytes(len(field))+itemBytes(len(value))), field), value)
	h.pairs.count++
	if h.deadlines != nil {
		h.deadlines.append()
	}
	return true
}

func (h *Hash) convert() {
	t := NewTable()
	var d *fieldDeadlines
	if h.deadlines != nil {
		d = &fieldDeadlines{min: h.deadlines.min, order: NewDeadlineIndex()}
	}
	h.EachWithDeadline(func(field, value []byte, at int64) bool {
		e, _ := t.Put(field, value)
		if at != 0 {
			t.SetAux(e, at)
			d.order.Set(field, 0, at)
		}
		return true
	})
	*h = Hash{table: t, deadlines: d}
}

// Delete removes field and says whether it was there.
func (h *Hash) Delete(field []byte) bool {
	if h.table != nil {
		e := h.table.Delete(field)
		if e != nil && e.Aux() != 0 {
			h.deadlines.move(e.Key(), e.Aux(), 0)
		}
		return e != nil
	}
	off, _, end, ok := h.find(field)
	if ok {
		if h.deadlines != nil {
			h.deadlines.remove(h.pairAt(off))
		}
		h.pairs.splice(off, end, 0)
		h.pairs.count--
	}
	return ok
}

// Each calls fn for every field until it returns false: in the order of insertion while packed.
func (h *Hash) Each(fn func(field, value []byte) bool) {
	if h.table != nil {
		h.table.Each(func(e *Entry) bool { return fn(e.Key(), e.Value()) })
		return
	}
	for off := 0; off < len(h.pairs.b); {
		field, valueOff := h.pairs.itemAt(off)
		value, end := h.pairs.itemAt(valueOff)
		if !fn(field, value) {
			return
		}
		off = end
	}
}

// Scan is Table.Scan over the fields. A packed hash is returned whole.
func (h *Hash) Scan(cursor uint64, count int, fn func(field, value []byte)) (next uint64) {
	if h.table != nil {
		return h.table.Scan(cursor, count, func(e *Entry) { fn(e.Key(), e.Value()) })
	}
	h.Each(func(field, value []byte) bool {
		fn(field, value)
		return true
	})
	return 0
}

// Random returns a field, every one with the same probability, and its value; nil if the hash is empty.
func (h *Hash) Random(rng *rand.Rand) (field, value []byte) {
	if h.Len() == 0 {
		return nil, nil
	}
	if h.table != nil {
		e := h.table.Random(rng)
		return e.Key(), e.Value()
	}
	skip := rng.IntN(h.Len())
	h.Each(func(f, v []byte) bool {
		field, value = f, v
		skip--
		return skip >= 0
	})
	return field, value
}
