package script

import (
	"crypto/sha1"
	"encoding/hex"
	"sync"
	"sync/atomic"

	"kevy/internal/script/lualib"
)

const (
	// maxScripts and maxScriptsBytes bound the cache: from there on a script that has
	// not run for long goes for a new one, and one that SCRIPT LOAD has made known only
	// if there are no others. Redis 7.0 keeps all of them; programs have some dozens.
	maxScripts      = 100_000
	maxScriptsBytes = 256 << 20
	// scriptBytes is about what a script's place here takes.
	scriptBytes = 192
)

// digest is the SHA1 of a script.
type digest [sha1.Size]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// parseDigest reads the text of a digest, in either case.
func parseDigest(text []byte) (d digest, ok bool) {
	if len(text) != hex.EncodedLen(len(d)) {
		return d, false
	}
	_, err := hex.Decode(d[:], text)
	return d, err == nil
}

// cached is a compiled script.
type cached struct {
	digest  digest
	name    string // the digest's text
	flags   Flags
	program *lualib.Program
	bytes   int // that it takes

	used   atomic.Bool // since it came, or its turn to go did
	loaded atomic.Bool // by SCRIPT LOAD
}

// cache is the scripts by digest. It is safe for concurrent use.
type cache struct {
	mu      sync.RWMutex
	scripts map[digest]*cached // guarded by mu
	oldest  []*cached          // in the order in which their turn to go comes; guarded by mu
	kept    []*cached          // those of SCRIPT LOAD whose turn has come before, alike; guarded by mu
	bytes   int                // guarded by mu
}

func newCache() cache { return cache{scripts: make(map[digest]*cached)} }

// get returns a script, nil if it is not there.
func (c *cache) get(d digest) *cached {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.scripts[d]
	if s != nil && !s.used.Load() {
		s.used.Store(true)
	}
	return s
}

// add puts a script into the cache, and lets others go for it if need be.
func (c *cache) add(s *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scripts[s.digest] != nil {
		return
	}
	for len(c.scripts) == maxScripts || c.bytes+s.bytes > maxScriptsBytes && len(c.scripts) > 0 {
		c.forgetOne()
	}
	c.scripts[s.digest] = s
	c.oldest = append(c.oldest, s)
	c.bytes += s.bytes
}

// forgetOne lets one script go, under mu. Who has run since their last turn have
// another one, behind all others.
func (c *cache) forgetOne() {
	for {
		turn := &c.oldest
		if len(c.oldest) == 0 {
			turn = &c.kept
		}
		first := (*turn)[0]
		(*turn)[0] = nil
		*turn = (*turn)[1:]
		switch {
		case turn == &c.oldest && first.loaded.Load():
			c.kept = append(c.kept, first)
		case first.used.Swap(false):
			*turn = append(*turn, first)
		default:
			delete(c.scripts, first.digest)
			c.bytes -= first.bytes
			return
		}
	}
}

// flush forgets all scripts.
func (c *cache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.scripts)
	c.oldest, c.kept, c.bytes = nil, nil, 0
}

// size returns how many scripts there are and what they take.
func (c *cache) size() (scripts, bytes int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.scripts), c.bytes
}
