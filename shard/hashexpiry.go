package shard

import (
	"kevy/internal/ds"
	"kevy/internal/op"
)

// FieldExpiry is what became of the deadline of one field.
type FieldExpiry int

// The outcomes, by the numbers with which HEXPIRE answers.
const (
	FieldMissing FieldExpiry = -2
	FieldKept    FieldExpiry = 0 // its condition did not hold
	FieldExpires FieldExpiry = 1
	FieldDeleted FieldExpiry = 2 // the deadline has passed
)

// HExpireAt gives fields of the key's hash a deadline in unix ms, at least 1
// (op HPEXPIREAT of those that get it). allow, unless nil, says whether a field
// gets it, from the deadline that it has, 0 for none. Where the deadline has
// passed already, the fields go instead (op HDEL); but a replay keeps them.
// report, unless nil, is called once for each field in order. The error is
// ErrWrongType.
func (tx *Tx) HExpireAt(key []byte, atMs int64, fields [][]byte, allow func(oldMs int64) bool, report func(FieldExpiry)) error {
	sh, d := tx.at(key)
	h, err := tx.writableHash(sh, d, key, nil, fields, 1)
	if err != nil {
		return err
	}
	if report == nil {
		report = func(FieldExpiry) {}
	}
	if h == nil {
		for range fields {
			report(FieldMissing)
		}
		return nil
	}
	past := tx.due(atMs)
	next := h.NextDeadline()
	tx.eff = tx.eff[:0]
	for _, f := range fields {
		old, ok := h.Deadline(f)
		switch {
		case !ok:
			report(FieldMissing)
			continue
		case allow != nil && !allow(old):
			report(FieldKept)
			continue
		case past:
			h.Delete(f)
			report(FieldDeleted)
		default:
			h.SetDeadline(f, atMs)
			report(FieldExpires)
		}
		tx.eff = append(tx.eff, f)
	}
	if past {
		tx.deletedFields(sh, d, key, h, next)
		tx.set.expiry.Fields.Add(int64(len(tx.eff)))
		return nil
	}
	if len(tx.eff) > 0 {
		tx.record(sh, op.HPExpireAt, key, 3+len(tx.eff))
		tx.argInt(atMs)
		tx.recordedFields()
		d.fieldsMoved(key, h, next)
	}
	return nil
}

// MaxFieldDeadlineMs is the latest deadline of a field: Redis keeps 46 bits for
// it (HFE_MAX_ABS_TIME_MSEC of its t_hash.c).
const MaxFieldDeadlineMs = 1<<46 - 1

// HPersist takes the deadlines of fields of the key's hash away (ops HPEXPIREAT
// and HPERSIST of those that had one). The first is for a redis-server that
// loads the log when the old deadline has passed: its HPERSIST would take the
// field for gone, its HPEXPIREAT does not. report, unless nil, is called for
// each field in order with whether it exists and whether it had a deadline. The
// error is ErrWrongType.
func (tx *Tx) HPersist(key []byte, fields [][]byte, report func(found, had bool)) error {
	sh, d := tx.at(key)
	h, err := tx.writableHash(sh, d, key, nil, fields, 1)
	if err != nil {
		return err
	}
	var next int64
	if h != nil {
		next = h.NextDeadline()
	}
	tx.eff = tx.eff[:0]
	for _, f := range fields {
		var at int64
		found := false
		if h != nil {
			at, found = h.Deadline(f)
		}
		if at != 0 {
			h.SetDeadline(f, 0)
			tx.eff = append(tx.eff, f)
		}
		if report != nil {
			report(found, at != 0)
		}
	}
	if len(tx.eff) > 0 {
		tx.record(sh, op.HPExpireAt, key, 3+len(tx.eff))
		tx.argInt(MaxFieldDeadlineMs)
		tx.recordedFields()
		tx.record(sh, op.HPersist, key, 2+len(tx.eff))
		tx.recordedFields()
		d.fieldsMoved(key, h, next)
	}
	return nil
}

// recordedFields ends an op with FIELDS, the number of fields in tx.eff, and
// these.
func (tx *Tx) recordedFields() {
	tx.argString("FIELDS")
	tx.argInt(int64(len(tx.eff)))
	for _, f := range tx.eff {
		tx.arg(f)
	}
	tx.recorded()
}

// HSetKeepTTL is HSet, but fields keep their deadlines. HSET drops them, so that
// HPEXPIREAT ops follow in the same commit: that is what every Redis with field
// expiry replays.
func (tx *Tx) HSetKeepTTL(key []byte, pairs ...[]byte) (created int, err error) {
	e := tx.lookup(key)
	if e == nil {
		return tx.HSet(key, pairs...)
	}
	h, ok := e.Object().(*ds.Hash)
	if !ok {
		return 0, ErrWrongType
	}
	if h.NextDeadline() == 0 {
		return tx.HSet(key, pairs...)
	}
	// Fields of one deadline are likely to be neighbours.
	type run struct {
		at     int64
		fields [][]byte
	}
	var runs []run
	for i := 0; i+1 < len(pairs); i += 2 {
		at, _ := h.Deadline(pairs[i])
		if at == 0 || tx.due(at) {
			continue
		}
		if n := len(runs); n == 0 || runs[n-1].at != at {
			runs = append(runs, run{at: at})
		}
		last := &runs[len(runs)-1]
		last.fields = append(last.fields, pairs[i])
	}
	if created, err = tx.HSet(key, pairs...); err != nil {
		return 0, err
	}
	for _, r := range runs {
		if err := tx.HExpireAt(key, r.at, r.fields, nil, nil); err != nil {
			return 0, err
		}
	}
	return created, nil
}

// HTake calls fn with the value of each field of the key's hash in order, and
// removes it (op HDEL of those that were there); ok is false if there is no such
// field, or not any more. The value is valid inside fn only. The error is
// ErrWrongType.
func (tx *Tx) HTake(key []byte, fields [][]byte, fn func(value []byte, ok bool)) (taken int, err error) {
	sh, d := tx.at(key)
	h, err := tx.writableHash(sh, d, key, nil, fields, 1)
	if err != nil {
		return 0, err
	}
	if h == nil {
		for range fields {
			fn(nil, false)
		}
		return 0, nil
	}
	next := h.NextDeadline()
	tx.eff = tx.eff[:0]
	for _, f := range fields {
		value, ok := h.Get(f)
		fn(value, ok)
		if ok {
			h.Delete(f)
			tx.eff = append(tx.eff, f)
		}
	}
	tx.deletedFields(sh, d, key, h, next)
	return len(tx.eff), nil
}

// CountExpiredFields adds to the count of fields that went by their deadline
// those that a command got a deadline for which has passed.
func (tx *Tx) CountExpiredFields(n int) { tx.set.expiry.Fields.Add(int64(n)) }

// maxDueOnAccess is how many overdue fields a look-up removes: the rest is left
// to the expiry cycle, and hidden from commands on single fields.
// A variable for tests.
var maxDueOnAccess = 4 * MaxOpElems

// withoutDueFields removes overdue fields of a key that was looked up, if it is
// a hash. It returns the key's entry, nil if the key is gone with them. A hash
// that it leaves has a field that is not overdue.
func (tx *Tx) withoutDueFields(sh *Shard, d *database, key []byte, e *ds.Entry) *ds.Entry {
	h, ok := e.Object().(*ds.Hash)
	if !ok || !tx.due(h.NextDeadline()) {
		return e
	}
	if n := h.Len(); n > maxDueOnAccess && h.AllDue(tx.nowMs) {
		cause := tx.cause
		tx.cause = op.Expired
		tx.delete(sh, d, key)
		tx.cause = cause
		tx.set.expiry.Fields.Add(int64(n))
		tx.NotifyRemoval(OfHashes, "hexpired", key)
		return nil
	}
	return tx.expireFirst(sh, d, key, maxDueOnAccess)
}

// expireFirst removes about limit overdue fields of a hash, or what there is,
// and returns the key's entry, nil if the key is gone.
func (tx *Tx) expireFirst(sh *Shard, d *database, key []byte, limit int) *ds.Entry {
	for {
		limit -= tx.expireFields(sh, d, key, limit)
		e := d.keys.Get(key)
		if e == nil || limit <= 0 || !tx.due(e.Object().(*ds.Hash).NextDeadline()) {
			return e
		}
	}
}

// writableHash is writable for a mutator of single fields: every step-th of
// fields. Of those none is overdue then.
func (tx *Tx) writableHash(sh *Shard, d *database, key []byte, create func() *ds.Hash, fields [][]byte, step int) (*ds.Hash, error) {
	h, err := writable(tx, sh, d, key, create)
	if err != nil || h == nil || !tx.due(h.NextDeadline()) {
		return h, err
	}
	next, due := h.NextDeadline(), 0
	for i := 0; i < len(fields); i += step {
		if at, _ := h.Deadline(fields[i]); tx.due(at) {
			due++
		}
	}
	if due == 0 {
		return h, nil
	}
	// Not by way of tx.eff: fields may lie on a stack.
	cause := tx.cause
	tx.cause = op.Expired
	tx.record(sh, op.HDel, key, due)
	tx.cause = cause
	for i := 0; i < len(fields); i += step {
		if at, _ := h.Deadline(fields[i]); tx.due(at) {
			tx.arg(fields[i])
		}
	}
	tx.recorded()
	for i := 0; i < len(fields); i += step {
		if at, _ := h.Deadline(fields[i]); tx.due(at) {
			h.Delete(fields[i])
			tx.set.expiry.Fields.Add(1)
		}
	}
	d.fieldsMoved(key, h, next)
	tx.Notify(OfHashes, "hexpired", key)
	return h, nil
}

// expireFields removes at most limit fields of a hash of which one is overdue,
// the key with its last one, and records why. It returns how many went.
func (tx *Tx) expireFields(sh *Shard, d *database, key []byte, limit int) int {
	limit = min(limit, MaxOpElems)
	tx.save(sh, key)
	h := d.keys.Mutable(key).Object().(*ds.Hash)
	next := h.NextDeadline()
	tx.eff = tx.eff[:0]
	h.EachDue(tx.nowMs, limit, func(field []byte) { tx.eff = append(tx.eff, field) })
	cause := tx.cause
	tx.cause = op.Expired
	tx.recordArgs(sh, op.HDel, key, tx.eff)
	tx.cause = cause
	n := h.DeleteDue(tx.nowMs, limit)
	d.fieldsMoved(key, h, next)
	d.dropIfEmpty(key, h)
	tx.set.expiry.Fields.Add(int64(n))
	tx.NotifyRemoval(OfHashes, "hexpired", key)
	return n
}

// fieldsMoved keeps the index of hashes with expiring fields after a hash
// changed whose next deadline was next before.
func (d *database) fieldsMoved(key []byte, h *ds.Hash, next int64) {
	now := h.NextDeadline()
	if now == next {
		return
	}
	if d.fields == nil {
		d.fields = ds.NewDeadlineIndex()
	}
	d.fields.Set(key, next, now)
}

// noteFields adds an entry to that index which has got its object.
func (d *database) noteFields(e *ds.Entry) {
	if h, ok := e.Object().(*ds.Hash); ok {
		d.fieldsMoved(e.Key(), h, 0)
	}
}

// forgetFields takes an entry out of it that loses its object.
func (d *database) forgetFields(e *ds.Entry) {
	if h, ok := e.Object().(*ds.Hash); ok && h.NextDeadline() != 0 {
		d.fields.Set(e.Key(), h.NextDeadline(), 0)
	}
}
