package ds

import "math/rand/v2"

// Hash maps fields to values: packed pairs in the order of insertion while it is small, then a Table.
type Hash struct {
	pairs packed
	count int // of pairs
	table *Table
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
	return h.count
}

// Encoding returns "listpack" or "hashtable".
func (h *Hash) Encoding() string {
	if h.table != nil {
		return encodingHashtable
	}
	return encodingListpack
}

// Fork implements Object in constant time.
func (h *Hash) Fork() Object {
	if h.table != nil {
		return &Hash{table: h.table.fork()}
	}
	return &Hash{pairs: h.pairs.fork(), count: h.count}
}

const hashBytes = 48

// MemBytes implements Object.
func (h *Hash) MemBytes() int {
	if h.table != nil {
		return hashBytes + h.table.MemBytes()
	}
	return hashBytes + cap(h.pairs.b)
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

// Set sets field to value and says whether the field is new.
func (h *Hash) Set(field, value []byte, lim *Limits) (created bool) {
	if h.table == nil && (len(field) > lim.HashMaxListpackValue || len(value) > lim.HashMaxListpackValue) {
		h.convert()
	}
	if h.table != nil {
		_, created = h.table.Put(field, value)
		return created
	}
	if _, valueOff, end, ok := h.find(field); ok {
		putItem(h.pairs.splice(valueOff, end, itemBytes(len(value))), value)
		return false
	}
	if h.count+1 > lim.HashMaxListpackEntries {
		h.convert()
		h.table.Put(field, value)
		return true
	}
	end := len(h.pairs.b)
	putItem(putItem(h.pairs.splice(end, end, itemBytes(len(field))+itemBytes(len(value))), field), value)
	h.count++
	return true
}

func (h *Hash) convert() {
	t := NewTable()
	h.Each(func(field, value []byte) bool {
		t.Put(field, value)
		return true
	})
	*h = Hash{table: t}
}

// Delete removes field and says whether it was there.
func (h *Hash) Delete(field []byte) bool {
	if h.table != nil {
		return h.table.Delete(field) != nil
	}
	off, _, end, ok := h.find(field)
	if ok {
		h.pairs.splice(off, end, 0)
		h.count--
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
	skip := rng.IntN(h.count)
	h.Each(func(f, v []byte) bool {
		field, value = f, v
		skip--
		return skip >= 0
	})
	return field, value
}
