package changes

import (
	"context"
	"errors"
	"time"

	"kevy/feed"
	"kevy/internal/command"
	"kevy/resp"
)

// sinceOptions is what SINCE was asked for.
type sinceOptions struct {
	req    feed.Request
	filter feed.Filter
	meta   bool
}

func (f *family) since(c *command.Ctx) {
	stream, at, ok := f.cursor(c, 2)
	if !ok {
		return
	}
	a := c.Scan(5)
	o, err := f.parseOptions(c, &a, func(o *sinceOptions, option []byte) bool { return o.parseBlock(option, &a) })
	if err != nil {
		c.W.Error(err)
		return
	}
	o.req.Stream, o.req.Cursor, o.req.Filter = stream, at, &o.filter
	var b feed.Batch
	defer b.Release()
	if err := f.read(c, &o.req, &b); err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	writeBatch(c, &b, o.meta)
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
		// Nobody reads the reply any more.
		return nil
	}
	return err
}

var errDBStarNeedsMeta = resp.Errorf("ERR", "invalid filter: DB * needs META, which says each frame's database")

// parseBlock reads the option that only SINCE has.
func (o *sinceOptions) parseBlock(option []byte, a *command.Args) bool {
	if !command.EqualFold(option, "BLOCK") {
		return false
	}
	ms := a.Int()
	if a.Err() == nil && ms < 0 {
		a.Fail(resp.Errorf("ERR", "timeout is negative"))
	}
	if ms == 0 || ms > feed.MaxBlock.Milliseconds() {
		ms = feed.MaxBlock.Milliseconds()
	}
	o.req.Block = time.Duration(ms) * time.Millisecond
	return true
}

// parseOptions reads options and filters, and those of one command with own,
// which reports whether an option is one of them.
func (f *family) parseOptions(c *command.Ctx, a *command.Args, own func(o *sinceOptions, option []byte) bool) (o *sinceOptions, _ *resp.Error) {
	o = &sinceOptions{}
	o.filter.DB = c.Session.DB()
	for a.More() {
		switch option := a.Bytes(); {
		case own(o, option):
		case command.EqualFold(option, "COUNT"):
			o.req.Count = positive(a, feed.MaxCount)
		case command.EqualFold(option, "BYTES"):
			o.req.Bytes = positive(a, feed.MaxBytes)
		case command.EqualFold(option, "DURABLE"):
			o.req.Durable = true
		case command.EqualFold(option, "META"):
			o.meta = true
		case command.EqualFold(option, "DB"):
			f.parseDB(c, a, o)
		case command.EqualFold(option, "PREFIX"):
			addKeyFilter(a, o.filter.AddPrefix)
		case command.EqualFold(option, "MATCH"):
			addKeyFilter(a, o.filter.AddMatch)
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		return nil, err
	}
	if o.filter.AllDBs && !o.meta {
		return nil, errDBStarNeedsMeta
	}
	return o, nil
}

func (f *family) parseDB(c *command.Ctx, a *command.Args, o *sinceOptions) {
	arg := a.Bytes()
	if string(arg) == "*" {
		o.filter.AllDBs = true
		return
	}
	n, ok := command.ParseInt(arg)
	if a.Err() == nil && (!ok || n < 0 || n >= int64(c.Session.(interface{ DBs() int }).DBs())) {
		a.Fail(resp.Errorf("ERR", "DB index is out of range"))
		return
	}
	o.filter.DB, o.filter.AllDBs = int(n), false
}

// positive reads a number that is clamped to 1…most.
func positive(a *command.Args, most int64) int {
	return int(min(max(a.Int(), 1), most))
}

func addKeyFilter(a *command.Args, add func([]byte) error) {
	p := a.Bytes()
	if a.Err() != nil {
		return
	}
	if err := add(p); err != nil {
		a.Fail(feed.ReplyError(err))
	}
}
