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

// Entry is one key of a Table with its value, a string or an Object. It is the head of a larger allocation, so that it
// is used by pointer only and never copied.
//
// An inline entry is a string whose key and value follow the head, in one allocation that the garbage collector does
// not scan. Anything else is the head of an external. Key, room and kind of an entry never change: a value that the
// entry has no room for makes a new one, which takes its place in the table.
//
// Package unsafe is used here and, for the groups of a segment, in segment.go. The invariants here:
//   - An Entry is made by newInline or is the first field of an external; flagExternal says which.
//   - An inline entry begins an allocation of 8-byte words, and is aligned like them, of at least headBytes + 1 bytes
//     and at least headBytes + klen + room. No pointer is ever stored in it.
//   - external.text begins an allocation of at least one byte and at least klen + room.
//   - vlen <= room. All slices over keys and values are made by keyBytes and roomBytes, within those bounds.
type Entry struct {
	aux  int64
	klen uint32 // with flagExternal in the top bit
	vlen uint32
	room uint32 // bytes behind the key, with flagRaw and flagShared in the top bits
	lru  uint32
}

// external is an entry that has pointers: to an object, or to a string that is so long that snapshots and writers
// should rather share than copy it.
type external struct {
	Entry
	text unsafe.Pointer // the key, and the room behind it
	obj  Object
}

const (
	flagExternal = 1 << 31

	flagRaw    = 1 << 31
	flagShared = 1 << 30 // another entry has the same text: it is not written
	roomMask   = 1<<30 - 1

	headBytes     = 24
	externalBytes = 48
	// An entry of up to so many bytes, head and key included, is inline.
	maxInlineBytes = 4096

	// A value gives back its room when it fills less than half of it, unless the room is small.
	smallRoomBytes = 64
	// Appended values double up to here and grow by a quarter beyond.
	doublingBytes = 1 << 20
)

// newEntry returns a string entry with its own copies of key and value.
func newEntry(key, value []byte) *Entry {
	e := newString(key, len(value))
	copy(e.roomBytes(len(value)), value)
	e.vlen = uint32(len(value))
	return e
}

// newString returns an entry with an empty string and at least room bytes of room.
func newString(key []byte, room int) *Entry {
	if len(key) > MaxKeyBytes || room > MaxValueBytes {
		panic(fmt.Sprintf("ds: entry of %d + %d bytes", len(key), room))
	}
	if headBytes+len(key)+room <= maxInlineBytes {
		return newInline(key, room)
	}
	return newExternal(key, room, nil)
}

func newInline(key []byte, room int) *Entry {
	// append rounds the capacity up to what the allocator hands out anyway.
	words := append([]uint64(nil), make([]uint64, (headBytes+max(len(key)+room, 1)+7)/8)...)
	e := (*Entry)(unsafe.Pointer(unsafe.SliceData(words)))
	e.klen = uint32(len(key))
	e.room = uint32(8*cap(words) - headBytes - len(key))
	copy(e.keyBytes(), key)
	return e
}

func newExternal(key []byte, room int, obj Object) *Entry {
	text := append([]byte(nil), make([]byte, max(len(key)+room, 1))...)
	copy(text, key)
	x := &external{text: unsafe.Pointer(unsafe.SliceData(text)), obj: obj}
	x.klen = uint32(len(key)) | flagExternal
	x.room = uint32(min(cap(text)-len(key), roomMask))
	return &x.Entry
}

// newObject returns an entry that holds a collection.
func newObject(key []byte, obj Object) *Entry {
	if len(key) > MaxKeyBytes {
		panic(fmt.Sprintf("ds: key of %d bytes", len(key)))
	}
	return newExternal(key, 0, obj)
}

// external returns what e is the head of, nil if it is inline.
func (e *Entry) external() *external {
	if e.klen&flagExternal == 0 {
		return nil
	}
	return (*external)(unsafe.Pointer(e))
}

// text returns the start of the key.
func (e *Entry) text() unsafe.Pointer {
	if x := e.external(); x != nil {
		return x.text
	}
	return unsafe.Add(unsafe.Pointer(e), headBytes)
}

func (e *Entry) keyBytes() []byte {
	return unsafe.Slice((*byte)(e.text()), int(e.klen&^flagExternal))
}

// hasKey compares keys.
func (e *Entry) hasKey(key []byte) bool {
	// As a signed number the length of an external's key is negative.
	if int(int32(e.klen)) == len(key) {
		return string(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(e), headBytes)), len(key))) == string(key)
	}
	return e.klen&flagExternal != 0 && string(e.keyBytes()) == string(key)
}

// roomBytes returns the first n bytes behind the key; n <= room. An empty slice starts at the key, because the byte
// behind the key may be behind the allocation.
func (e *Entry) roomBytes(n int) []byte {
	var off uint32
	if n > 0 {
		off = e.klen &^ flagExternal
	}
	return unsafe.Slice((*byte)(unsafe.Add(e.text(), off)), n)
}

// viewString returns b as a string without a copy, for comparisons that end before b changes.
func viewString(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// viewBytes returns the bytes of s without a copy. They must not be written.
func viewBytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// inherit takes over what an entry that e replaces keeps: Aux and LRU.
func (e *Entry) inherit(old *Entry) *Entry {
	e.aux, e.lru = old.aux, old.lru
	return e
}

// copyShared returns an entry to be written in the place of e, which others read. It has its own fork of e's object;
// a long string stays shared until it is written.
func (e *Entry) copyShared() *Entry {
	if x := e.external(); x != nil {
		c := *x
		c.room |= flagShared
		if c.obj != nil {
			c.obj = c.obj.Fork()
		}
		return &c.Entry
	}
	c := newEntry(e.keyBytes(), e.Value()).inherit(e)
	c.room |= e.room & flagRaw
	return c
}

// wasteful says that a value of n bytes should not keep room bytes.
func wasteful(n, room int) bool {
	return room > smallRoomBytes && n < room/2
}

// setValue overwrites a string in place and clears Raw. It returns false if the entry cannot take the value. The
// caller owns the entry. value may be a slice of the entry's own bytes.
func (e *Entry) setValue(value []byte) bool {
	n, room := len(value), int(e.room&roomMask)
	if e.room&flagShared != 0 || n > room || wasteful(n, room) || e.Object() != nil {
		return false
	}
	copy(e.roomBytes(n), value)
	e.vlen = uint32(n)
	e.room &^= flagRaw
	return true
}

// resize returns the entry with its string cut to n bytes or filled with zeros up to n, or an entry to replace it. The
// caller owns the entry.
func (e *Entry) resize(n int) *Entry {
	old, room := int(e.vlen), int(e.room&roomMask)
	if e.room&flagShared == 0 && n <= room && (n >= old || !wasteful(n, room)) {
		if n > old {
			clear(e.roomBytes(n)[old:])
		}
		e.vlen = uint32(n)
		return e
	}
	want := n
	if n > room && old > 0 {
		if n < doublingBytes {
			want = 2 * n
		} else {
			want = n + n/4
		}
		want = max(n, min(want, MaxValueBytes))
	}
	c := newString(e.keyBytes(), want).inherit(e)
	copy(c.roomBytes(n), e.Value())
	c.vlen = uint32(n)
	c.room |= e.room & flagRaw
	return c
}

// bytes is the size of the entry with its key and the room behind it.
func (e *Entry) bytes() int {
	n := headBytes + int(e.klen&^flagExternal) + int(e.room&roomMask)
	if e.klen&flagExternal != 0 {
		n += externalBytes - headBytes
	}
	return n
}

// allBytes is bytes with the object.
func (e *Entry) allBytes() int {
	n := e.bytes()
	if o := e.Object(); o != nil {
		n += o.MemBytes()
	}
	return n
}

// Key returns the key. It is valid while the entry lives and must not be modified.
func (e *Entry) Key() []byte { return e.keyBytes() }

// Value returns the string value, empty for a collection. It is read-only and valid until the next mutation of the
// entry.
func (e *Entry) Value() []byte { return e.roomBytes(int(e.vlen)) }

// Object returns the collection, nil for a string. Only an entry that Table.Mutable or Table.PutObject returned may
// have its object mutated.
func (e *Entry) Object() Object {
	if x := e.external(); x != nil {
		return x.obj
	}
	return nil
}

// Kind returns the type of the value.
func (e *Entry) Kind() Kind {
	if o := e.Object(); o != nil {
		return o.Kind()
	}
	return KindString
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
	return e.allBytes() + slotShareBytes
}
