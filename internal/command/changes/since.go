package changes

import (
	"context"
	"errors"
	"time"

	"kevy/feed"
	"kevy/internal/command"
	"kevy/resp"
)

func (f *family) since(c *command.Ctx) {
	stream, at, ok := f.cursor(c, 2)
	if !ok {
		return
	}
	a := c.Scan(5)
	o := newOptions(c)
	var block time.Duration
	err := o.Parse(&a, func(option []byte) (taken bool) {
		if taken = command.EqualFold(option, "BLOCK"); taken {
			block = blockTime(&a)
		}
		return taken
	})
	if err != nil {
		c.W.Error(err)
		return
	}
	if !mayRead(c, &o.Filter) {
		return
	}
	req := o.Request(stream, at)
	req.Block = block
	var b feed.Batch
	defer b.Release()
	if err := f.read(c, &req, &b); err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	if block > 0 && !mayRead(c, &o.Filter) {
		return // as long as it waited much may have changed
	}
	writeBatch(c, &b, o.Meta)
}

func writeBatch(c *command.Ctx, b *feed.Batch, meta bool) {
	if meta {
		c.W.Array(4)
	} else {
		c.W.Array(3)
	}
	c.W.Int(int64(b.Generation))
	c.W.Int(int64(b.Next))
	writeFrames(c, b, meta)
	if meta {
		c.W.Int(int64(b.CompleteLSN))
	}
}

// read reads once, and again with the connection prepared for waiting if there
// was nothing and the reader wants to wait.
func (f *family) read(c *command.Ctx, req *feed.Request, b *feed.Batch) error {
	block := req.Block
	req.Block = 0
	if err := f.source.Since(context.Background(), req, b); err != nil {
		return err
	}
	s := c.Session.(Session)
	if block == 0 || b.Len() > 0 || b.Generation != req.Cursor.Generation || s.InMulti() {
		return nil
	}
	ctx, done, ok := s.Block()
	if !ok {
		return nil
	}
	defer done()
	req.Block = block
	req.Cursor.Offset = b.Next
	err := f.source.Since(ctx, req, b)
	if errors.Is(err, context.Canceled) {
		return unblocked(ctx)
	}
	return err
}

var errNegativeTimeout = resp.Errorf("ERR", "timeout is negative")

// blockTime reads how long to wait, in milliseconds: 0 is a minute, which is also
// the most.
func blockTime(a *command.Args) time.Duration {
	ms := a.Int()
	if a.Err() == nil && ms < 0 {
		a.Fail(errNegativeTimeout)
	}
	if ms == 0 || ms > feed.MaxBlock.Milliseconds() {
		ms = feed.MaxBlock.Milliseconds()
	}
	return time.Duration(ms) * time.Millisecond
}

// unblocked returns why a wait was ended: nil if nobody reads the reply any more, or as
// at its timeout.
func unblocked(ctx context.Context) error {
	if reply := (*resp.Error)(nil); errors.As(context.Cause(ctx), &reply) {
		return reply
	}
	return nil
}
