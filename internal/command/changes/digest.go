package changes

import (
	"context"
	"errors"

	"kevy/feed"
	"kevy/internal/command"
	"kevy/resp"
)

var errDigestEnded = resp.Errorf("ERR", "the digest was interrupted")

// digest answers what a mirror of the selected database must have at a cursor.
func (f *family) digest(c *command.Ctx) {
	stream, ok := f.stream(c, c.Args[2])
	if !ok {
		return
	}
	// AddPrefix says what is wrong with a prefix.
	var filter feed.Filter
	var prefix []byte
	a := c.Scan(3)
	for a.More() {
		switch option := a.Bytes(); {
		case command.EqualFold(option, "PREFIX") && prefix == nil:
			prefix = a.Peek()
			addFilter(&a, filter.AddPrefix)
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if !mayRead(c, &filter) {
		return
	}
	// A scan takes long: what was answered before is sent, and it ends when nobody
	// waits for it any more.
	ctx, done, ok := c.Session.(Session).Block()
	if !ok {
		return
	}
	defer done()
	at, keys, sum, err := f.store.Digest(ctx, stream, c.Session.DB(), prefix)
	switch {
	case errors.Is(err, context.Canceled):
		c.W.Error(errDigestEnded)
	case err != nil:
		c.W.Error(feed.ReplyError(err))
	default:
		c.W.Array(4)
		c.W.Int(int64(at.Generation))
		c.W.Int(int64(at.Offset))
		c.W.Int(int64(keys))
		c.W.BulkString(sum.String())
	}
}
