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
//
// # Following a stream
//
//	store, err := changes.OpenFileStore("orders.cursors")
//	if err != nil {
//		return err
//	}
//	c, err := changes.New(changes.Options{
//		Addr:  "127.0.0.1:6379",
//		Start: changes.Oldest, // where there is no cursor yet
//		Store: store,
//	}, changes.HandlerFunc(func(ctx context.Context, c *changes.Commit) error {
//		for i := range c.Frames {
//			fmt.Printf("%s %q\n", c.Next, c.Frames[i].Args)
//		}
//		return nil // the cursor moves past the commit only now
//	}))
//	if err != nil {
//		return err
//	}
//	return c.Run(ctx) // until ctx ends
//
// docs/consumers.md has what a handler can rely on, and programs to copy.
package changes
