package server

import (
	"math/rand/v2"
	"slices"
	"sync"

	"kevy/internal/command/connection"
	"kevy/shard"
)

// Connections in CLIENT TRACKING are told which keys have changed, so that they can keep
// values on their side. A connection's reads are entered into a table under the locks of
// their shards, and a commit looks its keys up there under the same locks: whoever read
// before is told, and who reads later sees what is new. What it is told waits in its
// queue as messages of channels do. It must come behind the reply with the value, which
// the queue is held back for, or the client would keep what it was just told to forget.
// Of its own changes it is told by its own goroutine, right behind the reply of the
// command. With BCAST no reads are entered: all keys with a prefix are told.

// tracking is who is told of changes.
type tracking struct {
	srv   *Server
	table *trackedKeys

	mu sync.RWMutex // behind the locks of shards; nothing that waits is called under it
	// trackers are all connections in CLIENT TRACKING; guarded by mu.
	trackers map[*tracker]struct{}
	// prefixes are those of BCAST with who has them; guarded by mu.
	prefixes map[string]map[*tracker]struct{}
	// lengths are how many of prefixes have each length; guarded by mu.
	lengths [connection.MaxPrefixBytes + 1]int
	longest int // no prefix is longer; guarded by mu

	counted int64     // bytes of the table that count against maxmemory; for the housekeeping
	tellers sync.Pool // of *teller
}

func newTracking(s *Server) *tracking {
	return &tracking{
		srv: s, table: newTrackedKeys(s.cfg.TrackingTableMaxKeys.Load),
		trackers: make(map[*tracker]struct{}), prefixes: make(map[string]map[*tracker]struct{}),
	}
}

// clients returns how many connections track keys.
func (t *tracking) clients() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.trackers)
}

// prefixCount returns how many prefixes somebody has.
func (t *tracking) prefixCount() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.prefixes)
}

// countMemory counts the table against maxmemory.
func (t *tracking) countMemory() {
	now := t.table.bytes.Load()
	t.srv.store.Outside().Add(now - t.counted)
	t.counted = now
}

// begin makes a tracker one of those who are told, with further prefixes.
func (t *tracking) begin(w *tracker, prefixes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trackers[w] = struct{}{}
	for _, p := range prefixes {
		if t.prefixes[p] == nil {
			t.prefixes[p] = make(map[*tracker]struct{})
			t.lengths[len(p)]++
			t.longest = max(t.longest, len(p))
		}
		t.prefixes[p][w] = struct{}{}
	}
	t.srv.store.Set().SetTracked(true)
}

// end makes it none of them any more. With the last one all keys are forgotten: what
// changes then is noted nowhere.
func (t *tracking) end(w *tracker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.trackers, w)
	for _, p := range w.prefixes {
		delete(t.prefixes[p], w)
		if len(t.prefixes[p]) == 0 {
			delete(t.prefixes, p)
			t.lengths[len(p)]--
		}
	}
	if len(t.trackers) == 0 {
		t.longest = 0
		t.srv.store.Set().SetTracked(false)
		t.table.clear()
	}
}

// tell tells everybody of changes, which a connection has made, or, if by is nil,
// nobody. Who is told sees what is in the log up to lsn. The shards are locked.
func (t *tracking) tell(by *client, changes []shard.Change, lsn uint64) {
	var reads []trackedRead // by who made the changes
	e := t.teller(lsn)
	if by != nil && by.tracker != nil {
		e.own = by.tracker
		reads = e.own.takeChanged(changes)
		e.own.told = true
	}
	t.mu.RLock()
	for i := range changes {
		for len(reads) > 0 && reads[0].changes <= i {
			t.table.add(reads[0].key, e.own)
			reads = reads[1:]
		}
		if changes[i].Key == nil {
			t.table.clear()
			l := letter{}
			for w := range t.trackers {
				e.send(w, w.terms.Load(), &l, true)
			}
			continue
		}
		e.key[0] = changes[i].Key
		l := letter{keys: e.key[:]}
		in := t.table.take(changes[i].Key)
		in.each(func(w *tracker) {
			// As in Redis what the store does within its own command is not told, either.
			if how := w.terms.Load(); how.readKeys() {
				e.send(w, how, &l, true)
			}
		})
	}
	if len(t.prefixes) > 0 {
		t.tellPrefixes(e, changes)
	}
	t.mu.RUnlock()
	e.done(t)
}

// tellPrefixes tells those with BCAST, under mu: as in Redis one message a prefix, of
// the keys in order.
func (t *tracking) tellPrefixes(e *teller, changes []shard.Change) {
	if len(changes) == 1 {
		t.tellPrefixesOf(e, &changes[0])
		return
	}
	byPrefix := make(map[string]map[string]bool) // to the keys, and whether others than the store changed them last
	for i := range changes {
		key := changes[i].Key
		if key == nil {
			continue
		}
		t.eachPrefix(key, func(n int, _ map[*tracker]struct{}) {
			keys := byPrefix[string(key[:n])]
			if keys == nil {
				keys = make(map[string]bool)
				byPrefix[string(key[:n])] = keys
			}
			keys[string(key)] = !changes[i].ByStore
		})
	}
	for _, prefix := range sortedKeys(byPrefix) {
		var all, others letter
		for _, key := range sortedKeys(byPrefix[prefix]) {
			all.keys = append(all.keys, []byte(key))
			if !byPrefix[prefix][key] {
				others.keys = append(others.keys, []byte(key))
			}
		}
		for w := range t.prefixes[prefix] {
			l, how := &all, w.terms.Load()
			if w == e.own && how != nil && how.noOwn {
				if l = &others; len(l.keys) == 0 {
					continue
				}
			}
			e.send(w, how, l, false)
		}
	}
}

// tellPrefixesOf is tellPrefixes of one change, as most commits have.
func (t *tracking) tellPrefixesOf(e *teller, change *shard.Change) {
	if change.Key == nil {
		return // everybody was told
	}
	e.key[0] = change.Key
	l := letter{keys: e.key[:]}
	t.eachPrefix(change.Key, func(_ int, trackers map[*tracker]struct{}) {
		for w := range trackers {
			how := w.terms.Load()
			if w != e.own || how == nil || !how.noOwn || change.ByStore {
				e.send(w, how, &l, false)
			}
		}
	})
}

// eachPrefix calls fn with the lengths of a key's prefixes that somebody has, and with
// who has them, under mu.
func (t *tracking) eachPrefix(key []byte, fn func(n int, trackers map[*tracker]struct{})) {
	for n := range min(len(key), t.longest) + 1 {
		if t.lengths[n] == 0 {
			continue
		}
		if trackers := t.prefixes[string(key[:n])]; trackers != nil {
			fn(n, trackers)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

const (
	// trimmedKeys is how many keys a reader removes beyond those that it has entered: it
	// holds the locks of its shards.
	trimmedKeys = 100
	// trimmedInTurn is how many the housekeeping removes in a turn, which holds none.
	trimmedInTurn = 10_000
)

// trim forgets keys until the table is within its bounds, or until as many keys and as
// many bytes are gone as it is given, and tells those who may have them. Readers keep a
// full table within its bounds, as each makes the room that it takes; after the bound was
// lowered they and the housekeeping bring it there by and by.
func (t *tracking) trim(keys, bytes int) {
	if !t.table.over() {
		return
	}
	e := t.teller(0)
	for (keys > 0 || bytes > 0) && t.table.over() {
		key, in, ok := t.table.takeAny(rand.Uint64())
		if !ok {
			break
		}
		keys--
		bytes -= trackedKeyBytes + in.len()*trackedItemBytes + len(key)
		e.key[0] = key
		l := letter{keys: e.key[:]}
		in.each(func(w *tracker) {
			if how := w.terms.Load(); how.readKeys() {
				e.send(w, how, &l, true)
			}
		})
	}
	e.done(t)
}
