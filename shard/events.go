package shard

import "kevy/internal/op"

// Classes of keyspace events, as notify-keyspace-events names them. Their letters
// are those of Redis.
type Classes uint32

// The classes, and by which channels events are published.
const (
	ByKey       Classes = 1 << iota // K: __keyspace@<db>__:<key> tells the event
	ByEvent                         // E: __keyevent@<db>__:<event> tells the key
	OfGeneric                       // g
	OfStrings                       // $
	OfLists                         // l
	OfSets                          // s
	OfHashes                        // h
	OfZSets                         // z
	OfExpired                       // x
	OfEvicted                       // e
	OfStreams                       // t
	OfModules                       // d
	OfNewKeys                       // n
	OfKeyMisses                     // m
)

// Event is what happened to a key, as keyspace notifications tell it.
type Event struct {
	Name string
	DB   int
	Key  []byte
}

// SetEvents says of which classes events are kept from now on; what begins with no
// channel is kept for none.
func (s *Set) SetEvents(c Classes) {
	if c&(ByKey|ByEvent) == 0 {
		c = 0
	}
	s.events.Store(uint32(c))
}

// EventClasses returns what SetEvents has set.
func (s *Set) EventClasses() Classes { return Classes(s.events.Load()) }

// Change is what has changed, as those are told who keep values of keys.
type Change struct {
	Key []byte // in whichever database; nil: all keys of one
	// ByStore says that nobody asked for it: the key was overdue, or made room.
	ByStore bool
}

// SetTracked says whether keys that change are noted, for Changes to tell.
func (s *Set) SetTracked(on bool) { s.tracked.Store(on) }

// noted is what a Tx has noted for others than those that share its log. It is all
// empty while nobody asks for it.
type noted struct {
	events []Event
	keys   []byte // the events' keys and the changed ones, one behind the other
	// changes are in the order in which they happened; one that happens again at once
	// is there once, unless marked have been counted between the two.
	changes []Change
	marked  int
}

// maxKeptNoted is how many events and changes, and maxKeptNotedBytes how many of their
// bytes, a Tx keeps memory for.
const (
	maxKeptNoted      = 64
	maxKeptNotedBytes = 4 << 10
)

// Notify notes an event of a key of the selected database, which its key need not
// exist for; who runs a command names it. Its order is that of the calls. Key is
// copied.
func (tx *Tx) Notify(class Classes, name string, key []byte) {
	if Classes(tx.set.events.Load())&class != 0 && !tx.replay {
		tx.noted.events = append(tx.noted.events, Event{name, tx.db, tx.noted.keep(key)})
	}
}

// NotifyIn is Notify of a key of another database.
func (tx *Tx) NotifyIn(db int, class Classes, name string, key []byte) {
	selected := tx.db
	tx.db = db
	tx.Notify(class, name, key)
	tx.db = selected
}

// NotifyRemoval is Notify of an event after which the key may be gone, and then of
// its end, too.
func (tx *Tx) NotifyRemoval(class Classes, name string, key []byte) {
	if tx.set.events.Load() == 0 || tx.replay {
		return
	}
	tx.Notify(class, name, key)
	if _, d := tx.at(key); d.keys.Get(key) == nil {
		tx.Notify(OfGeneric, "del", key)
	}
}

// TellMisses says whether keys that are asked for and missing are events: they are
// for commands that read.
func (tx *Tx) TellMisses(on bool) { tx.tellMisses = on }

// missed notes that a key was asked for and is missing.
func (tx *Tx) missed(key []byte) {
	tx.misses++
	if tx.tellMisses {
		tx.Notify(OfKeyMisses, "keymiss", key)
	}
}

// Replacing makes the keys that come to be until the returned function is called no
// new ones, if on: they take the place of what was removed just before.
func (tx *Tx) Replacing(on bool) (done func()) {
	before := tx.replacing
	tx.replacing = on
	return func() { tx.replacing = before }
}

// created notes that a key has come to be.
func (tx *Tx) created(key []byte) {
	if !tx.replacing {
		tx.Notify(OfNewKeys, "new", key)
	}
}

// changed notes that a key changes.
func (tx *Tx) changed(key []byte) {
	n := &tx.noted
	byStore := tx.cause != op.User
	if last := len(n.changes) - 1; last >= n.marked && n.changes[last].ByStore == byStore && string(n.changes[last].Key) == string(key) {
		return
	}
	n.changes = append(n.changes, Change{Key: n.keep(key), ByStore: byStore})
}

// cleared notes that the keys of a database go.
func (tx *Tx) cleared() {
	n := &tx.noted
	if last := len(n.changes) - 1; last >= n.marked && n.changes[last].Key == nil {
		return
	}
	n.changes = append(n.changes, Change{})
}

// CountChanges returns how many changes were noted. Those that come stand behind
// them, the same ones included.
func (tx *Tx) CountChanges() int {
	tx.noted.marked = len(tx.noted.changes)
	return tx.noted.marked
}

// keep returns a copy of a key, which is not nil for an empty one.
func (n *noted) keep(key []byte) []byte {
	if len(key) == 0 {
		return []byte{}
	}
	at := len(n.keys)
	n.keys = append(n.keys, key...)
	return n.keys[at:len(n.keys):len(n.keys)]
}

// Noted reports whether there are events, or changes, that nobody was told of.
func (tx *Tx) Noted() bool { return len(tx.noted.events) > 0 || len(tx.noted.changes) > 0 }

// Events returns the events since TakeNoted, in order. They are valid until it or
// End is called.
func (tx *Tx) Events() []Event { return tx.noted.events }

// Changes returns the changes since TakeNoted, in order. They are valid until it or
// End is called.
func (tx *Tx) Changes() []Change { return tx.noted.changes }

// TakeNoted forgets what Events and Changes return: it was told.
func (tx *Tx) TakeNoted() {
	n := &tx.noted
	if cap(n.events) > maxKeptNoted || cap(n.changes) > maxKeptNoted || cap(n.keys) > maxKeptNotedBytes {
		*n = noted{}
		return
	}
	clear(n.events)
	clear(n.changes)
	n.events, n.changes, n.keys, n.marked = n.events[:0], n.changes[:0], n.keys[:0], 0
}
