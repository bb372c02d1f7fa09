// Package changes reads the change feed of a kevy-server from a Go program:
// every committed change, in order, without a gap or a duplicate for whoever
// keeps its cursor.
//
// It needs a client's connection and nothing else of the server: package resp
// and the standard library. What the feed promises stands in docs/feed.md, what
// the ops are in docs/ops.md.
//
// # Words
//
// A change is a [Frame]: a real Redis command on one key, with everything
// random, relative or conditional resolved. The frames of one command, MULTI or
// script are one [Commit] and come together. A [Cursor] is a place between two
// commits of a stream; a stream is a shard's number ("0", "1", …) or "ALL", the
// whole store in commit order.
package changes
