// Package ds holds the data structures of the keyspace: the hash table that maps keys to entries, and the
// collections that are values (hash, set, list, sorted set), with the order of deadlines beside them.
//
// The structures take no locks and read no clock: one goroutine at a time may use a structure, and every mutation
// excludes every other use of it. The only exception is a frozen view (Table.Freeze): other goroutines may walk it
// while the table goes on being written.
//
// Bytes. What a caller hands in is copied, and must not be a slice of the same structure's own bytes (Table.Put
// excepted). What a structure hands out is read-only and valid until the next mutation of that structure,
// unless the method says otherwise. A callback must neither mutate the structure it is called from nor keep what it
// was given.
package ds
