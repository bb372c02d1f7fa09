// Package pipe carries the change feed into another system: a Consumer of
// package changes at one end, a Sink at the other, and between them batches,
// the durable cursor, the snapshot to begin with, and the rewriting of keys.
//
// Run is the pipe. What it guarantees is what its sink can: one that keeps the
// cursor with the data, in one transaction, makes the pipe exactly-once (Resume
// says so); with any other the pipe keeps a cursor file, which it writes after
// the sink has said that a batch is durable, and is at-least-once: after a crash
// the last batch may come again, and every record has its cursor.
//
// A sink is one file here, and a line in sinks, by the scheme of its URL.
package pipe
