package shard

import "kevy/internal/op"

// KeepTTL as a deadline leaves the one that the key has.
const KeepTTL = -1

// String returns the key's string value; ok is false if there is no key. The
// error is ErrWrongType.
func (tx *Tx) String(key []byte) (value []byte, ok bool, err error) {
	e := tx.lookup(key)
	if e == nil {
		tx.missed(key)
		return nil, false, nil
	}
	tx.hits++
	if e.Object() != nil {
		return nil, false, ErrWrongType
	}
	tx.used(e)
	return e.Value(), true, nil
}

// Set makes the key hold a string (op SET), whatever it held; value is copied
// and must not alias the key's present value. deadlineMs is its expiry in unix
// ms, 0 for none, or KeepTTL.
func (tx *Tx) Set(key, value []byte, deadlineMs int64) {
	sh, d := tx.at(key)
	if tx.set.events.Load() != 0 {
		tx.notifyOverwrites(d, key)
	}
	tx.save(sh, key)
	switch deadlineMs {
	case 0:
		tx.record(sh, op.Set, key, 1)
		tx.arg(value)
	case KeepTTL:
		tx.record(sh, op.Set, key, 2)
		tx.arg(value)
		tx.argString("KEEPTTL")
	default:
		tx.record(sh, op.Set, key, 3)
		tx.arg(value)
		tx.argString("PXAT")
		tx.argInt(deadlineMs)
	}
	tx.recorded()
	if d.fields != nil {
		if old := d.keys.Get(key); old != nil {
			d.forgetFields(old)
		}
	}
	e, created := d.keys.Put(key, value)
	if created {
		tx.created(key)
	}
	if deadlineMs != KeepTTL {
		d.setDeadline(e, deadlineMs)
	}
	tx.usedAnew(e)
}

// notifyOverwrites notes the end of an overdue key that is about to be overwritten:
// that needs no op of its own, but is an event.
func (tx *Tx) notifyOverwrites(d *database, key []byte) {
	if e := d.keys.Get(key); e != nil && tx.overdue(e) {
		tx.Notify(OfExpired, "expired", key)
		tx.created(key)
	}
}

// SetRange overwrites the key's string from offset on with patch (op SETRANGE),
// filling a gap with zeros; a missing key begins empty. patch must not be empty
// (Redis's SETRANGE with an empty value changes nothing). The error is
// ErrWrongType. The caller checks the resulting length.
func (tx *Tx) SetRange(key []byte, offset int, patch []byte) error {
	e := tx.lookup(key)
	if e != nil && e.Object() != nil {
		return ErrWrongType
	}
	sh, d := tx.at(key)
	tx.save(sh, key)
	tx.record(sh, op.SetRange, key, 2)
	tx.argInt(int64(offset))
	tx.arg(patch)
	tx.recorded()
	if e == nil {
		e, _ = d.keys.Put(key, nil)
		tx.created(key)
	} else {
		e = d.keys.Mutable(key)
	}
	e, value := d.keys.Resize(e, max(len(e.Value()), offset+len(patch)))
	copy(value[offset:], patch)
	d.keys.SetRaw(e, true)
	tx.used(e)
	return nil
}

// isInt reports whether b is the canonical decimal text of an int64.
func isInt(b []byte) bool {
	if len(b) == 0 || len(b) > 20 {
		return false
	}
	digits := b
	limit := "9223372036854775807"
	if b[0] == '-' {
		digits = b[1:]
		limit = "9223372036854775808"
	}
	if len(digits) == 0 || (digits[0] == '0' && len(b) > 1) {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) < len(limit) || (len(digits) == len(limit) && string(digits) <= limit)
}
