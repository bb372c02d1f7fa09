package ds

import (
	"cmp"
	"slices"
)

// fieldDeadlines are the deadlines of a hash's fields.
type fieldDeadlines struct {
	min int64 // the earliest; 0 if no field has one
	// at has the deadline of each pair while they are packed, in their order; 0 for none.
	at     []int64
	shared bool // a fork has the same at: it is copied before it is written
	// order has the fields with a deadline of a table, each entry of which has its own as Aux.
	order *DeadlineIndex
}

const (
	fieldDeadlinesBytes = 48
	// orderedBytes is about what a DeadlineIndex takes for each key beside its bytes: its place in a tree whose nodes
	// are partly filled, and what the allocator rounds up.
	orderedBytes = 44
)

func (d *fieldDeadlines) memBytes() int {
	switch {
	case d == nil:
		return 0
	case d.order != nil:
		return fieldDeadlinesBytes + d.order.MemBytes()
	}
	return fieldDeadlinesBytes + 8*cap(d.at)
}

func (d *fieldDeadlines) fork() *fieldDeadlines {
	if d == nil {
		return nil
	}
	if d.order != nil {
		return &fieldDeadlines{min: d.min, order: d.order.fork()}
	}
	d.shared = true
	return &fieldDeadlines{min: d.min, at: d.at, shared: true}
}

// own makes at writable.
func (d *fieldDeadlines) own() {
	if d.shared {
		d.at, d.shared = slices.Clone(d.at), false
	}
}

// append adds a pair without a deadline.
func (d *fieldDeadlines) append() {
	d.own()
	d.at = append(d.at, 0)
}

// set gives pair i a deadline.
func (d *fieldDeadlines) set(i int, at int64) {
	old := d.at[i]
	if old == at {
		return
	}
	d.own()
	d.at[i] = at
	d.moved(old, at)
}

// remove takes pair i out.
func (d *fieldDeadlines) remove(i int) {
	old := d.at[i]
	d.own()
	d.at = slices.Delete(d.at, i, i+1)
	d.moved(old, 0)
}

// move changes the deadline of a table's field.
func (d *fieldDeadlines) move(field []byte, old, at int64) {
	d.order.Set(field, old, at)
	d.moved(old, at)
}

// moved keeps min after a deadline changed.
func (d *fieldDeadlines) moved(old, at int64) {
	switch {
	case at != 0 && (d.min == 0 || at < d.min):
		d.min = at
	case old == d.min:
		d.findMin()
	}
}

func (d *fieldDeadlines) findMin() {
	d.min = 0
	if d.order != nil {
		_, d.min, _ = d.order.Min()
		return
	}
	for _, at := range d.at {
		if at != 0 && (d.min == 0 || at < d.min) {
			d.min = at
		}
	}
}

// NextDeadline returns the earliest deadline of a field, 0 if none has one.
func (h *Hash) NextDeadline() int64 {
	if h.deadlines == nil {
		return 0
	}
	return h.deadlines.min
}

// Deadline returns the deadline of field, 0 if it has none, and whether field exists.
func (h *Hash) Deadline(field []byte) (at int64, ok bool) {
	if h.table != nil {
		if e := h.table.Get(field); e != nil {
			return e.Aux(), true
		}
		return 0, false
	}
	off, _, _, ok := h.find(field)
	if ok && h.deadlines != nil {
		at = h.deadlines.at[h.pairAt(off)]
	}
	return at, ok
}

// SetDeadline gives field a deadline, which is positive, or with 0 takes it away, and says whether field exists.
func (h *Hash) SetDeadline(field []byte, at int64) bool {
	if h.deadlines == nil && at == 0 {
		return h.Has(field)
	}
	if h.table != nil {
		e := h.table.Get(field)
		if e == nil {
			return false
		}
		if e.Aux() != at {
			h.moveDeadline(h.table.Mutable(field), at)
		}
		return true
	}
	off, _, _, ok := h.find(field)
	if !ok {
		return false
	}
	if h.deadlines == nil {
		h.deadlines = &fieldDeadlines{at: make([]int64, h.Len())}
	}
	h.deadlines.set(h.pairAt(off), at)
	return true
}

// moveDeadline changes the deadline of an entry that the table owns.
func (h *Hash) moveDeadline(e *Entry, at int64) {
	if h.deadlines == nil {
		h.deadlines = &fieldDeadlines{order: NewDeadlineIndex()}
	}
	h.deadlines.move(e.Key(), e.Aux(), at)
	h.table.SetAux(e, at)
}

// pairAt returns the number of the packed pair at an offset.
func (h *Hash) pairAt(off int) (i int) {
	for at := 0; at < off; i++ {
		at = h.pairs.skip(h.pairs.skip(at))
	}
	return i
}

// EachWithDeadline is Each with the fields' deadlines, 0 for none.
func (h *Hash) EachWithDeadline(fn func(field, value []byte, at int64) bool) {
	if h.table != nil {
		h.table.Each(func(e *Entry) bool { return fn(e.Key(), e.Value(), e.Aux()) })
		return
	}
	i := 0
	h.Each(func(field, value []byte) bool {
		var at int64
		if h.deadlines != nil {
			at = h.deadlines.at[i]
		}
		i++
		return fn(field, value, at)
	})
}

// EachDeadline calls fn for every field that has a deadline, in the order of deadlines, until it returns false.
func (h *Hash) EachDeadline(fn func(field []byte, at int64) bool) {
	switch {
	case h.NextDeadline() == 0:
		return
	case h.table != nil:
		h.deadlines.order.Each(fn)
		return
	}
	type pair struct {
		field []byte
		at    int64
	}
	var pairs []pair
	h.EachWithDeadline(func(field, _ []byte, at int64) bool {
		if at != 0 {
			pairs = append(pairs, pair{field, at})
		}
		return true
	})
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.at, b.at) })
	for _, p := range pairs {
		if !fn(p.field, p.at) {
			return
		}
	}
}

// AllDue says whether every field has a deadline, and none is after now.
func (h *Hash) AllDue(now int64) bool {
	if due := h.NextDeadline(); due == 0 || due > now {
		return false
	}
	if order := h.deadlines.order; order != nil {
		return order.Len() == h.table.Len() && order.max() <= now
	}
	return !slices.ContainsFunc(h.deadlines.at, func(at int64) bool { return at == 0 || at > now })
}

// EachDue calls fn for the fields that DeleteDue with the same arguments deletes.
func (h *Hash) EachDue(now int64, limit int, fn func(field []byte)) {
	if due := h.NextDeadline(); due == 0 || due > now || limit <= 0 {
		return
	}
	if h.table != nil {
		h.deadlines.order.Each(func(field []byte, at int64) bool {
			if at > now {
				return false
			}
			fn(field)
			limit--
			return limit > 0
		})
		return
	}
	h.EachWithDeadline(func(field, _ []byte, at int64) bool {
		if at != 0 && at <= now {
			fn(field)
			limit--
		}
		return limit > 0
	})
}

// DeleteDue deletes at most limit fields whose deadline is not after now, and returns how many it deleted.
func (h *Hash) DeleteDue(now int64, limit int) (deleted int) {
	if due := h.NextDeadline(); due == 0 || due > now || limit <= 0 {
		return 0
	}
	if h.table != nil {
		for deleted < limit {
			field, at, ok := h.deadlines.order.Min()
			if !ok || at > now {
				break
			}
			h.table.Delete(field)
			h.deadlines.order.Set(field, at, 0)
			deleted++
		}
		h.deadlines.findMin()
		return deleted
	}
	// One pass over the pairs, however many go.
	old := h.deadlines.at
	kept := make([]byte, 0, len(h.pairs.b))
	at := make([]int64, 0, len(old))
	off := 0
	for _, t := range old {
		end := h.pairs.skip(h.pairs.skip(off))
		if t != 0 && t <= now && deleted < limit {
			deleted++
		} else {
			kept = append(kept, h.pairs.b[off:end]...)
			at = append(at, t)
		}
		off = end
	}
	if wasteful(len(kept), cap(kept)) {
		kept = slices.Clone(kept)
	}
	h.pairs = packed{b: kept, count: uint32(len(at))}
	h.deadlines.at, h.deadlines.shared = at, false
	h.deadlines.findMin()
	return deleted
}
