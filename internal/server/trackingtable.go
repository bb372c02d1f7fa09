package server

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	// trackedParts is into how many parts the table of tracked keys is divided, each
	// with a lock of its own.
	trackedParts = 64
	// maxTrackedBytes bounds what the table occupies, whatever the lengths of keys and
	// the number of connections that track one.
	maxTrackedBytes = 512 << 20
	// trackedKeyBytes and trackedItemBytes are about what a key occupies beside its
	// name, and a connection that tracks it.
	trackedKeyBytes  = 96
	trackedItemBytes = 32
	// fewTrackers is how many connections are searched for one by one.
	fewTrackers = 16
)

// trackedKeys knows which connections may have a value of which key. Keys have no
// database here, as in Redis. Each method is safe for use by many goroutines; that
// nothing comes between a read and its entry is for the locks of shards.
type trackedKeys struct {
	seed     maphash.Seed
	parts    [trackedParts]trackedPart
	maxKeys  func() int64 // 0: no bound
	maxBytes int64

	keys, items, bytes atomic.Int64
}

type trackedPart struct {
	mu sync.Mutex
	// keys are those that somebody tracks; guarded by mu.
	keys map[string]interest
}

// interest is who tracks a key: in few, and in many once these are too many.
type interest struct {
	few  []*tracker
	many map[*tracker]struct{}
	// looked is at how many of many those who have ended are looked for again.
	looked int
}

func newTrackedKeys(maxKeys func() int64) *trackedKeys {
	t := &trackedKeys{seed: maphash.MakeSeed(), maxKeys: maxKeys, maxBytes: maxTrackedBytes}
	for i := range t.parts {
		t.parts[i].keys = make(map[string]interest)
	}
	return t
}

func (t *trackedKeys) part(key []byte) *trackedPart {
	return &t.parts[maphash.Bytes(t.seed, key)%trackedParts]
}

// size returns the number of keys, and of connections that track them, each counted
// once a key.
func (t *trackedKeys) size() (keys, items int64) { return t.keys.Load(), t.items.Load() }

// add notes that who tracks a key, which it copies.
func (t *trackedKeys) add(key []byte, who *tracker) {
	p := t.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	in, there := p.keys[string(key)]
	if in.has(who) {
		return
	}
	if len(in.few) == fewTrackers || len(in.many) > 0 && len(in.many) >= in.looked {
		t.count(0, in.forgetEnded(), 0)
	}
	in.add(who)
	p.keys[string(key)] = in
	if there {
		t.count(0, 1, 0)
	} else {
		t.count(1, 1, len(key))
	}
}

// count adds to the counts keys whose names have so many bytes together, and items.
func (t *trackedKeys) count(keys, items, bytes int) {
	t.keys.Add(int64(keys))
	t.items.Add(int64(items))
	t.bytes.Add(int64(keys*trackedKeyBytes + items*trackedItemBytes + bytes))
}

// take removes a key and returns who tracked it.
func (t *trackedKeys) take(key []byte) interest {
	p := t.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	in, there := p.keys[string(key)]
	if there {
		delete(p.keys, string(key))
		t.count(-1, -in.len(), -len(key))
	}
	return in
}

// over reports whether a key has to go.
func (t *trackedKeys) over() bool {
	most := t.maxKeys()
	return most > 0 && t.keys.Load() > most || t.bytes.Load() > t.maxBytes
}

// takeAny removes a key, from the part from on, and returns who tracked it; ok is false
// if there is none.
func (t *trackedKeys) takeAny(from uint64) (key []byte, in interest, ok bool) {
	for i := range uint64(trackedParts) {
		if key, in, ok = t.takeFrom(&t.parts[(from+i)%trackedParts]); ok {
			return key, in, true
		}
	}
	return nil, interest{}, false
}

func (t *trackedKeys) takeFrom(p *trackedPart) (key []byte, in interest, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, in := range p.keys {
		delete(p.keys, name)
		t.count(-1, -in.len(), -len(name))
		return []byte(name), in, true
	}
	return nil, interest{}, false
}

// clear removes all keys.
func (t *trackedKeys) clear() {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		for name, in := range p.keys {
			t.count(-1, -in.len(), -len(name))
		}
		p.keys = make(map[string]interest)
		p.mu.Unlock()
	}
}

func (in *interest) len() int { return len(in.few) + len(in.many) }

func (in *interest) has(who *tracker) bool {
	for _, w := range in.few {
		if w == who {
			return true
		}
	}
	_, ok := in.many[who]
	return ok
}

func (in *interest) add(who *tracker) {
	switch {
	case in.many != nil:
		in.many[who] = struct{}{}
	case len(in.few) < fewTrackers:
		in.few = append(in.few, who)
	default:
		in.many = make(map[*tracker]struct{}, 2*fewTrackers)
		for _, w := range in.few {
			in.many[w] = struct{}{}
		}
		in.many[who] = struct{}{}
		in.few, in.looked = nil, 2*fewTrackers
	}
}

// forgetEnded removes those whose connections have ended, and returns minus their
// number.
func (in *interest) forgetEnded() int {
	before := in.len()
	for w := range in.many {
		if w.ended() {
			delete(in.many, w)
		}
	}
	in.looked = max(2*len(in.many), 2*fewTrackers)
	kept := in.few[:0]
	for _, w := range in.few {
		if !w.ended() {
			kept = append(kept, w)
		}
	}
	clear(in.few[len(kept):])
	in.few = kept
	return in.len() - before
}

// each calls fn with everybody.
func (in *interest) each(fn func(*tracker)) {
	for _, w := range in.few {
		fn(w)
	}
	for w := range in.many {
		fn(w)
	}
}
