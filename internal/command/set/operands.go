package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

// operation calls emit for each member of what it makes of the sets, which it
// may reorder. member is valid until emit returns.
type operation func(sets []shard.SetView, emit func(member []byte))

// setsOf returns the sets that the keys hold, empty ones for missing keys.
func setsOf(c *command.Ctx, keys [][]byte) ([]shard.SetView, error) {
	sets := make([]shard.SetView, len(keys))
	for i, key := range keys {
		var err error
		if sets[i], err = c.Tx.SetOf(key); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// answering is a handler that replies with what the operation makes of the sets
// of all keys.
func answering(op operation) command.Handler {
	return func(c *command.Ctx) {
		sets, err := setsOf(c, c.Args[1:])
		if err != nil {
			c.W.Err(err)
			return
		}
		m, n := c.W.Begin(), 0
		op(sets, func(member []byte) {
			c.W.Bulk(member)
			n++
		})
		c.W.EndSet(m, n)
	}
}

// storing is a handler that makes the first key hold what the operation makes of
// the sets of the others, and replies with the number of members. event is what it
// is called.
func storing(event string, op operation) command.Handler {
	return func(c *command.Ctx) {
		sets, err := setsOf(c, c.Args[2:])
		if err != nil {
			c.W.Err(err)
			return
		}
		// Gathered first: the destination may be one of the sets.
		var members command.Members
		op(sets, members.Append)
		command.StoreSet(c.Tx, c.Key(1), &members, event)
		c.W.Int(int64(members.Len()))
	}
}
