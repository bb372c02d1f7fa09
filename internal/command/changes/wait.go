package changes

import (
	"context"
	"errors"
	"time"

	"kevy/feed"
	"kevy/internal/command"
)

// wait is CHANGES WAIT: the reply is 1 once the stream serves up to the cursor,
// or a hold has passed it.
func (f *family) wait(c *command.Ctx) {
	stream, at, ok := f.cursor(c, 2)
	if !ok {
		return
	}
	a := c.Scan(5)
	timeout := blockTime(&a)
	hold := ""
	if a.More() {
		if !command.EqualFold(a.Bytes(), "HOLD") {
			a.Fail(command.ErrSyntax)
		}
		if hold = string(a.Bytes()); a.Err() == nil && hold == "" {
			a.Fail(feed.ReplyError(feed.ErrHoldName))
		}
	}
	if a.More() {
		a.Fail(command.ErrSyntax)
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	reached, err := f.waitUntil(c, stream, at, hold, timeout)
	if err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	if reached {
		c.W.Int(1)
	} else {
		c.W.Int(0)
	}
}

// waitUntil looks once, and prepares the connection for waiting if that does not
// answer.
func (f *family) waitUntil(c *command.Ctx, stream int, at feed.Cursor, hold string, timeout time.Duration) (bool, error) {
	reached, err := f.source.WaitUntil(context.Background(), stream, at, hold, 0)
	s := c.Session.(Session)
	if err != nil || reached || s.InMulti() {
		return reached, err
	}
	ctx, done, ok := s.Block()
	if !ok {
		return false, nil
	}
	defer done()
	reached, err = f.source.WaitUntil(ctx, stream, at, hold, timeout)
	if errors.Is(err, context.Canceled) {
		return false, unblocked(ctx)
	}
	return reached, err
}

// at is CHANGES AT.
func (f *family) at(c *command.Ctx) {
	stream, ok := f.stream(c, c.Args[2])
	if !ok {
		return
	}
	ms, ok := command.ParseInt(c.Args[3])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	at, err := f.source.At(stream, ms)
	if err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	writeCursor(c.W, at)
}
