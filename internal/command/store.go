package command

import (
	"slices"

	"kevy/shard"
)

// StoreZSet makes the key hold a sorted set of the members, whatever it held;
// no members, no key. The members are copies, each there once.
func StoreZSet(tx *shard.Tx, key []byte, members []shard.Scored) {
	tx.Del(key)
	for batch := range slices.Chunk(members, shard.MaxOpElems) {
		if _, err := tx.ZAdd(key, batch...); err != nil {
			panic(err) // the key was missing
		}
	}
}

// StoreList makes the key hold a list of the elements, whatever it held; no
// elements, no key.
func StoreList(tx *shard.Tx, key []byte, elems *Members) {
	tx.Del(key)
	for batch := range elems.Batches {
		if _, err := tx.PushRight(key, batch...); err != nil {
			panic(err) // the key was missing
		}
	}
}

// StoreSet makes the key hold a set of the members, whatever it held; no
// members, no key.
func StoreSet(tx *shard.Tx, key []byte, members *Members) {
	tx.Del(key)
	for batch := range members.Batches {
		if _, err := tx.SAdd(key, batch...); err != nil {
			panic(err) // the key was missing
		}
	}
}

// Batches calls yield with the members in order, as many at once as an op
// holds. A batch is valid until yield returns.
func (m *Members) Batches(yield func(batch [][]byte) bool) {
	var batch [shard.MaxOpElems][]byte
	for i := 0; i < m.Len(); {
		n := 0
		for ; n < len(batch) && i < m.Len(); i++ {
			batch[n] = m.At(i)
			n++
		}
		if !yield(batch[:n]) {
			return
		}
	}
}
