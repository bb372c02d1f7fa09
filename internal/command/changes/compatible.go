package changes

import (
	"context"

	"kevy/feed"
	"kevy/internal/command"
)

// maxCompatibleCount bounds COUNT of FEED.READ.
const maxCompatibleCount = 4096

// compatible returns the commands of the system that this one re-creates, with
// its strict contract: any generation but the current one is FEEDRESYNC.
func (f *family) compatible() []*command.Spec {
	return []*command.Spec{
		{
			Name: "feed.shards", Arity: 1, Flags: flags, Group: "feed", Since: "0.1.0", Complexity: "O(1)",
			Summary: "Answers how many shard streams there are.",
			Run:     f.enabled(func(c *command.Ctx) { c.W.Int(int64(f.source.Shards())) }),
		},
		{
			Name: "feed.tail", Arity: 2, Flags: flags, Group: "feed", Since: "0.1.0", Complexity: "O(1)", Syntax: "shard",
			Summary: "Answers the cursor at which a fresh reader of a shard starts.",
			Run: f.enabled(func(c *command.Ctx) {
				if stream, ok := f.shard(c, c.Args[1]); ok {
					writeCursor(c.W, f.source.Tail(stream))
				}
			}),
		},
		{
			Name: "feed.read", Arity: -4, Flags: flags, Group: "feed", Since: "0.1.0", Complexity: "O(N) for N frames looked at",
			Syntax:  "shard generation offset [COUNT n] [PREFIX p ...]",
			Summary: "Answers what follows a cursor of the current generation.",
			Run:     f.enabled(f.readShard),
		},
		{
			Name: "prefix.stats", Arity: 2, Flags: command.ReadOnly | command.AllShards, Category: command.CatKeyspace, Group: "feed", Since: "0.1.0",
			Complexity: "O(N) for N keys of the database", Syntax: "prefix",
			Summary: "Answers how many keys begin with a prefix, and how many of those expire.",
			Run: func(c *command.Ctx) {
				var filter feed.Filter
				if len(c.Args[1]) > 0 {
					if err := filter.AddPrefix(c.Args[1]); err != nil {
						c.W.Error(feed.ReplyError(err))
						return
					}
				}
				if !mayRead(c, &filter) {
					return
				}
				keys, expires := c.Tx.PrefixStats(c.Args[1])
				c.W.Array(2)
				c.W.Int(int64(keys))
				c.W.Int(int64(expires))
			},
		},
	}
}

// shard reads the number of a shard stream.
func (f *family) shard(c *command.Ctx, name []byte) (stream int, ok bool) {
	if stream, ok = f.stream(c, name); ok && stream == f.source.All() {
		c.W.Error(feed.ReplyError(&feed.NoStreamError{Name: string(name)}))
		return 0, false
	}
	return stream, ok
}

func (f *family) readShard(c *command.Ctx) {
	if _, ok := f.shard(c, c.Args[1]); !ok {
		return
	}
	stream, at, ok := f.cursor(c, 1)
	if !ok {
		return
	}
	filter := feed.Filter{DB: c.Session.DB()}
	req := feed.Request{Stream: stream, Cursor: at, Filter: &filter, Strict: true}
	a := c.Scan(4)
	for a.More() {
		switch option := a.Bytes(); {
		case command.EqualFold(option, "COUNT"):
			req.Count = positive(&a, maxCompatibleCount)
		case command.EqualFold(option, "PREFIX"):
			addFilter(&a, filter.AddPrefix)
			for a.More() && !command.EqualFold(a.Peek(), "COUNT") && !command.EqualFold(a.Peek(), "PREFIX") {
				addFilter(&a, filter.AddPrefix)
			}
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
	var b feed.Batch
	defer b.Release()
	if err := f.source.Since(context.Background(), &req, &b); err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	writeBatch(c, &b, false)
}
