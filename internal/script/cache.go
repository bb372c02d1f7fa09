package script

import (
	"crypto/sha1"
	"encoding/hex"
	"sync"

	"kevy/internal/script/lualib"
)

const (
	// maxScripts and maxScriptsBytes bound the cache: from there on the oldest
	// script goes for a new one. Redis 7.0 keeps all of them; programs have some
	// dozens.
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
}

// cache is the scripts by digest. It is safe for concurrent use.
type cache struct {
	mu      sync.RWMutex
	scripts map[digest]*cached // guarded by mu
	oldest  []*cached          // in the order of their coming; guarded by mu
	bytes   int                // guarded by mu
}

func newCache() cache { return cache{scripts: make(map[digest]*cached)} }

// get returns a script, nil if it is not there.
func (c *cache) get(d digest) *cached {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.scripts[d]
}

// add puts a script into the cache, and lets the oldest go for it if need be.
func (c *cache) add(s *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scripts[s.digest] != nil {
		return
	}
	c.scripts[s.digest] = s
	c.oldest = append(c.oldest, s)
	c.bytes += s.bytes
	for len(c.oldest) > maxScripts || c.bytes > maxScriptsBytes && len(c.oldest) > 1 {
		first := c.oldest[0]
		c.oldest[0] = nil
		c.oldest = c.oldest[1:]
		delete(c.scripts, first.digest)
		c.bytes -= first.bytes
	}
}

// flush forgets all scripts.
func (c *cache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.scripts)
	c.oldest, c.bytes = nil, 0
}

// size returns how many scripts there are and what they take.
func (c *cache) size() (scripts, bytes int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.scripts), c.bytes
}
