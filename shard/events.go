package shard

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

// SetTracked says whether keys that change are noted, for Changed to tell.
func (s *Set) SetTracked(on bool) { s.tracked.Store(on) }

// noted is what a Tx has noted for others than those that share its log. It is all
// empty while nobody asks for it.
type noted struct {
	events []Event
	keys   []byte // the events' keys and the changed ones, one behind the other
	// changed are the keys that changed, one that changes again at once only once;
	// cleared says that whole databases were.
	changed [][]byte
	cleared bool
}

// maxKeptNoted is how many events and keys, and maxKeptNotedBytes how many of their
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

// changes notes that a key changes.
func (tx *Tx) changes(key []byte) {
	n := &tx.noted
	if last := len(n.changed) - 1; last < 0 || string(n.changed[last]) != string(key) {
		n.changed = append(n.changed, n.keep(key))
	}
}

// keep returns a copy of a key.
func (n *noted) keep(key []byte) []byte {
	at := len(n.keys)
	n.keys = append(n.keys, key...)
	return n.keys[at:len(n.keys):len(n.keys)]
}

// Noted reports whether there are events, or changed keys, that nobody was told of.
func (tx *Tx) Noted() bool {
	return len(tx.noted.events) > 0 || len(tx.noted.changed) > 0 || tx.noted.cleared
}

// Events returns the events since TakeNoted, in order. They are valid until it or
// End is called.
func (tx *Tx) Events() []Event { return tx.noted.events }

// Changed returns the names of the keys that changed since TakeNoted, whatever their
// databases, and whether a database was cleared. They are valid until it or End is
// called.
func (tx *Tx) Changed() (keys [][]byte, cleared bool) { return tx.noted.changed, tx.noted.cleared }

// TakeNoted forgets what Events and Changed return: it was told.
func (tx *Tx) TakeNoted() {
	n := &tx.noted
	if cap(n.events) > maxKeptNoted || cap(n.changed) > maxKeptNoted || cap(n.keys) > maxKeptNotedBytes {
		*n = noted{}
		return
	}
	clear(n.events)
	clear(n.changed)
	n.events, n.changed, n.keys, n.cleared = n.events[:0], n.changed[:0], n.keys[:0], false
}
