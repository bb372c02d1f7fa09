package ds

import (
	"fmt"
	"unsafe"
)

// MaxValueBytes is the longest string value, and MaxKeyBytes the longest key, that an Entry can hold. Callers refuse
// longer ones before they get here; an Entry panics.
const (
	MaxValueBytes = roomMask
	MaxKeyBytes   = roomMask
)

// Entry is one key of a Table with its value: a string, whose bytes lie behind the key's in one allocation that the
// garbage collector does not scan, or an Object.
//
// This file is the only one that uses package unsafe. Its invariant: kv points at the start of an allocation of at
// least klen + room bytes, room being the low bits of the field; the first klen bytes are the key and never change
// after the entry is made; vlen <= room. All slices over kv are made by keyBytes and roomBytes, within those bounds.
type Entry struct {
	// kv and klen lie side by side so that comparing a key reads one cache line of the entry.
	kv   unsafe.Pointer
	klen uint32
	vlen uint32
	room uint32 // bytes behind the key, with flagRaw and flagShared in the top bits
	lru  uint32
	aux  int64
	obj  Object
}

const (
	flagRaw    = 1 << 31
	flagShared = 1 << 30 // another entry has the same kv: the value is copied before it is written
	roomMask   = 1<<30 - 1

	entryBytes = 48

	// A value gives back its room when it fills less than half of it, unless the room is small.
	smallRoomBytes = 64
	// Appended values double up to here and grow by a quarter beyond.
	doublingBytes = 1 << 20
)

func (e *Entry) keyBytes() []byte {
	return unsafe.Slice((*byte)(e.kv), int(e.klen))
}

// roomBytes returns the first n bytes behind the key; n <= room. An empty slice starts at the key, because the byte
// behind the key may be behind the allocation.
func (e *Entry) roomBytes(n int) []byte {
	if n == 0 {
		return unsafe.Slice((*byte)(e.kv), 0)
	}
	return unsafe.Slice((*byte)(unsafe.Add(e.kv, uintptr(e.klen))), n)
}

// setBytes points the entry at a new allocation: the key, and at least room bytes of zeros behind it.
func (e *Entry) setBytes(key []byte, room int) {
	if len(key) > MaxKeyBytes || room > MaxValueBytes {
		panic(fmt.Sprintf("ds: entry of %d + %d bytes", len(key), room))
	}
	// append rounds the capacity up to what the allocator hands out anyway.
	b := append([]byte(nil), make([]byte, max(len(key)+room, 1))...)
	copy(b, key)
	e.kv = unsafe.Pointer(unsafe.SliceData(b))
	e.klen = uint32(len(key))
	e.room = uint32(min(cap(b)-len(key), roomMask))
}

// viewString returns b as a string without a copy, for comparisons that end before b changes.
func viewString(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// viewBytes returns the bytes of s without a copy. They must not be written.
func viewBytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

func newEntry(key, value []byte) *Entry {
	e := new(Entry)
	e.setBytes(key, len(value))
	copy(e.roomBytes(len(value)), value)
	e.vlen = uint32(len(value))
	return e
}

// copyShared returns an entry that shares e's bytes and has its own fork of e's object.
func (e *Entry) copyShared() *Entry {
	c := *e
	c.room |= flagShared
	if c.obj != nil {
		c.obj = c.obj.Fork()
	}
	return &c
}

// wasteful says that a value of n bytes should not keep room bytes.
func wasteful(n, room int) bool {
	return room > smallRoomBytes && n < room/2
}

// setValue makes the entry a string. The caller owns the entry. value may be a slice of the entry's own bytes.
func (e *Entry) setValue(value []byte) {
	n, room := len(value), int(e.room&roomMask)
	if e.room&flagShared == 0 && n <= room && !wasteful(n, room) {
		copy(e.roomBytes(n), value)
		e.room &^= flagRaw
	} else {
		e.setBytes(e.keyBytes(), n)
		copy(e.roomBytes(n), value)
	}
	e.vlen = uint32(n)
	if e.obj != nil {
		e.obj = nil
	}
}

// setObject makes the entry a collection. The caller owns the entry.
func (e *Entry) setObject(obj Object) {
	if e.room&roomMask > smallRoomBytes {
		e.setBytes(e.keyBytes(), 0)
	}
	e.room &^= flagRaw
	e.vlen = 0
	e.obj = obj
}

// resize cuts the string value to n bytes or fills it with zeros up to n. The caller owns the entry.
func (e *Entry) resize(n int) []byte {
	old, room := int(e.vlen), int(e.room&roomMask)
	if e.room&flagShared != 0 || n > room || n < old && wasteful(n, room) {
		want := n
		if n > room && old > 0 {
			if n < doublingBytes {
				want = 2 * n
			} else {
				want = n + n/4
			}
			want = max(n, min(want, MaxValueBytes))
		}
		raw := e.room & flagRaw
		value := e.roomBytes(min(n, old))
		e.setBytes(e.keyBytes(), want)
		copy(e.roomBytes(len(value)), value)
		e.room |= raw
	} else if n > old {
		clear(e.roomBytes(n)[old:])
	}
	e.vlen = uint32(n)
	return e.roomBytes(n)
}

// kvBytes is the size of the key and of the room behind it.
func (e *Entry) kvBytes() int { return int(e.klen) + int(e.room&roomMask) }

// Key returns the key. It is valid while the entry lives and must not be modified.
func (e *Entry) Key() []byte { return e.keyBytes() }

// Value returns the string value, empty for a collection. It is read-only and valid until the next mutation of the
// entry.
func (e *Entry) Value() []byte { return e.roomBytes(int(e.vlen)) }

// Object returns the collection, nil for a string. Only an entry that Table.Mutable or Table.PutObject returned may
// have its object mutated.
func (e *Entry) Object() Object { return e.obj }

// Kind returns the type of the value.
func (e *Entry) Kind() Kind {
	if e.obj == nil {
		return KindString
	}
	return e.obj.Kind()
}

// Aux returns the number kept beside the value: in the keyspace the deadline in unix milliseconds, 0 for none.
func (e *Entry) Aux() int64 { return e.aux }

// LRU returns the owner's access record. Walks of a frozen view must not call it: it is not copied on write.
func (e *Entry) LRU() uint32 { return e.lru }

// SetLRU sets the access record. It is allowed on every entry of a table, those that Table.Get returned included.
func (e *Entry) SetLRU(v uint32) { e.lru = v }

// Raw says whether Table.SetRaw marked the string value as built in place (OBJECT ENCODING "raw").
func (e *Entry) Raw() bool { return e.room&flagRaw != 0 }

// MemBytes estimates the memory of the entry, its key, its value and its share of the table, in bytes.
func (e *Entry) MemBytes() int {
	n := entryBytes + slotShareBytes + e.kvBytes()
	if e.obj != nil {
		n += e.obj.MemBytes()
	}
	return n
}
