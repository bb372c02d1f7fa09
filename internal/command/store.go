package command

import (
	"slices"

	"kevy/shard"
)

// StoreZSet makes the key hold a sorted set of the members, whatever it held;
// no members, no key. The members are copies, each there once. event is what
// keyspace notifications call it.
func StoreZSet(tx *shard.Tx, key []byte, members []shard.Scored, event string) {
	defer replaces(tx, key, shard.OfZSets, event, len(members) > 0)()
	for batch := range slices.Chunk(members, shard.MaxOpElems) {
		if _, err := tx.ZAdd(key, batch...); err != nil {
			panic(err) // the key was missing
		}
	}
}

// StoreList makes the key hold a list of the elements, whatever it held; no
// elements, no key. event is what keyspace notifications call it.
func StoreList(tx *shard.Tx, key []byte, elems *Members, event string) {
	defer replaces(tx, key, shard.OfLists, event, elems.Len() > 0)()
	for batch := range elems.Batches {
		if _, err := tx.PushRight(key, batch...); err != nil {
			panic(err) // the key was missing
		}
	}
}

// StoreSet makes the key hold a set of the members, whatever it held; no
// members, no key. event is what keyspace notifications call it.
func StoreSet(tx *shard.Tx, key []byte, members *Members, event string) {
	defer replaces(tx, key, shard.OfSets, event, members.Len() > 0)()
	for batch := range members.Batches {
		if _, err := tx.SAdd(key, batch...); err != nil {
			panic(err) // the key was missing
		}
	}
}

// replaces removes the key, which gets another value before done is called, if it
// gets any.
func replaces(tx *shard.Tx, key []byte, class shard.Classes, event string, any bool) (done func()) {
	// What gets no other value is removed without a look at its deadline.
	replaced := !any && tx.DelOverdue(key) || tx.Del(key)
	notNew := tx.Replacing(replaced)
	return func() {
		notNew()
		if any {
			tx.Notify(class, event, key)
		} else if replaced {
			tx.Notify(shard.OfGeneric, "del", key)
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
