package shard

import (
	"math/rand/v2"

	"kevy/internal/ds"
)

// LFU says how uses of keys are counted for the eviction policies that ask how
// often a key is used rather than when.
type LFU struct {
	// LogFactor is how much more seldom a counter grows the higher it is.
	LogFactor int
	// DecayMinutes is how long it takes a counter to fall by one; 0 for never.
	DecayMinutes int
}

// While uses are counted, an entry's LRU word holds the counter in its low eight
// bits and above it, in sixteen, the minute in which that was brought up to date.
// The counter is that of Redis (evict.c): it grows by chance, the more seldom the
// higher it is, and 255 stands for a million uses or so.
const (
	counterMask = 1<<8 - 1
	minuteMask  = 1<<16 - 1
	// newCounter is that of a new key, so that it is not the first one to go.
	newCounter = 5
)

// SetLFU begins to count the uses of keys, or ends it with nil. What a key has on
// record until then is read as the other kind, and is of no use until the key is.
func (s *Set) SetLFU(l *LFU) { s.lfu.Store(l) }

func (tx *Tx) minute() uint32 { return uint32(tx.nowMs/60_000) & minuteMask }

// counted returns the record of an entry that is used now.
func (tx *Tx) counted(e *ds.Entry, lfu *LFU) uint32 {
	word := e.LRU() &^ notIntBit
	counter := uint32(newCounter)
	if word != 0 {
		counter = tx.decayed(word, lfu)
		above := max(0, int(counter)-newCounter)
		if counter < counterMask && rand.Float64() < 1/float64(above*lfu.LogFactor+1) {
			counter++
		}
	}
	return tx.minute()<<8 | counter
}

// decayed returns the counter of a record as of now.
func (tx *Tx) decayed(word uint32, lfu *LFU) uint32 {
	counter := word & counterMask
	if lfu.DecayMinutes <= 0 {
		return counter
	}
	elapsed := (tx.minute() - word>>8) & minuteMask
	return counter - min(counter, elapsed/uint32(lfu.DecayMinutes))
}

// CountsUses reports whether uses of keys are counted.
func (tx *Tx) CountsUses() bool { return tx.set.lfu.Load() != nil }

// SetFrequency sets the counter of the key's uses, at most 255, where uses are
// counted, as RESTORE can. It changes no value and is no op.
func (tx *Tx) SetFrequency(key []byte, counter uint8) {
	if e := tx.lookup(key); e != nil && tx.CountsUses() {
		e.SetLRU(e.LRU()&notIntBit | tx.minute()<<8 | uint32(counter))
	}
}
