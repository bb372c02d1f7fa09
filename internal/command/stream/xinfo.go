package stream

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func xInfo() *command.Spec {
	return &command.Spec{
		Name: "xinfo", Arity: -2, Group: "stream", Since: "5.0.0",
		Summary: "Describes streams and their groups.",
		Sub: []*command.Spec{
			{
				Name: "consumers", Arity: 4, Flags: command.ReadOnly, Category: command.CatStream,
				Keys: command.One(2, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
				Since: "5.0.0", Complexity: "O(N) for N consumers",
				Syntax:  "key group",
				Summary: "Describes the consumers of a group.",
				Run:     runInfoConsumers,
			},
			{
				Name: "groups", Arity: 3, Flags: command.ReadOnly, Category: command.CatStream,
				Keys:  command.One(2, command.RO|command.Access),
				Since: "5.0.0", Complexity: "O(N) for N groups",
				Syntax:  "key",
				Summary: "Describes the groups of a stream.",
				Run:     runInfoGroups,
			},
			{
				Name: "help", Arity: 2, Flags: command.Loading | command.Stale | command.Unlocked, Category: command.CatStream,
				Since: "5.0.0", Complexity: "O(1)",
				Summary: "Lists the subcommands.",
				Run:     func(c *command.Ctx) { command.Help(c, infoHelp) },
			},
			{
				Name: "stream", Arity: -3, Flags: command.ReadOnly, Category: command.CatStream,
				Keys:  command.One(2, command.RO|command.Access),
				Since: "5.0.0", Complexity: "O(N) for N blocks of entries; with FULL also for what it answers",
				Syntax:  "key [FULL [COUNT count]]",
				Summary: "Describes a stream, with FULL its groups and pending entries as well.",
				Run:     runInfoStream,
			},
		},
	}
}

// The texts are those that redis-server shows, the missing bracket included.
var infoHelp = []string{
	"CONSUMERS <key> <groupname>",
	"    Show consumers of <groupname>.",
	"GROUPS <key>",
	"    Show the stream consumer groups.",
	"STREAM <key> [FULL [COUNT <count>]",
	"    Show information about the stream.",
}

// infoView returns the stream that a subcommand is about; otherwise it replies
// with the error.
func infoView(c *command.Ctx) (s shard.StreamView, ok bool) {
	s, err := c.Tx.Stream(c.Key(2))
	switch {
	case err != nil:
		c.W.Err(err)
	case !s.Exists():
		c.W.Error(command.ErrNoSuchKey)
	default:
		return s, true
	}
	return s, false
}

func runInfoConsumers(c *command.Ctx) {
	s, ok := infoView(c)
	if !ok {
		return
	}
	g, ok := s.Group(c.Args[3])
	if !ok {
		c.W.Error(errNoGroupOf(c.Key(2), c.Args[3]))
		return
	}
	c.W.Array(g.Consumers())
	g.EachConsumer(func(of shard.ConsumerView) bool {
		c.W.Map(3)
		c.W.BulkString("name")
		c.W.BulkString(of.Name())
		c.W.BulkString("pending")
		c.W.Int(int64(of.Pending()))
		c.W.BulkString("idle")
		c.W.Int(max(c.Tx.NowMs()-of.SeenMs(), 0))
		return true
	})
}

func runInfoGroups(c *command.Ctx) {
	s, ok := infoView(c)
	if !ok {
		return
	}
	c.W.Array(s.Groups())
	s.EachGroup(func(g shard.GroupView) bool {
		c.W.Map(6)
		c.W.BulkString("name")
		c.W.BulkString(g.Name())
		c.W.BulkString("consumers")
		c.W.Int(int64(g.Consumers()))
		c.W.BulkString("pending")
		c.W.Int(int64(g.Pending()))
		replyGroupProgress(c.W, g)
		return true
	})
}

// replyGroupProgress replies with the fields that say how far a group has read.
func replyGroupProgress(w *resp.Writer, g shard.GroupView) {
	w.BulkString("last-delivered-id")
	replyID(w, g.LastID())
	w.BulkString("entries-read")
	if n := g.EntriesRead(); n != shard.UnknownRead {
		w.Int(n)
	} else {
		w.Null()
	}
	w.BulkString("lag")
	if lag, ok := g.Lag(); ok {
		w.Int(lag)
	} else {
		w.Null()
	}
}

// defaultFullCount is how many entries XINFO STREAM FULL answers.
const defaultFullCount = 10

// parseFull returns how much of everything XINFO STREAM answers; full is false
// without FULL.
func parseFull(c *command.Ctx) (full bool, count int64, err *resp.Error) {
	if len(c.Args) == 3 {
		return false, 0, nil
	}
	count = defaultFullCount
	a := c.Scan(3)
	n := a.Len()
	if n != 1 && n != 3 || !a.Is("FULL") || n == 3 && !a.Is("COUNT") {
		return true, 0, command.SubcommandError(c)
	}
	if n == 3 {
		switch count = a.Int(); {
		case count < 0:
			count = defaultFullCount
		case count == 0:
			count = math.MaxInt64
		}
	}
	return true, count, a.Err()
}

func runInfoStream(c *command.Ctx) {
	s, ok := infoView(c)
	if !ok {
		return
	}
	full, count, err := parseFull(c)
	if err != nil {
		c.W.Error(err)
		return
	}
	w := c.W
	blocks, treeNodes := s.Blocks()
	n := 10
	if full {
		n = 9
	}
	w.Map(n)
	w.BulkString("length")
	w.Int(int64(s.Len()))
	w.BulkString("radix-tree-keys")
	w.Int(int64(blocks))
	w.BulkString("radix-tree-nodes")
	w.Int(int64(treeNodes))
	w.BulkString("last-generated-id")
	replyID(w, s.LastID())
	w.BulkString("max-deleted-entry-id")
	replyID(w, s.MaxDeletedID())
	w.BulkString("entries-added")
	w.Int(int64(s.Added()))
	w.BulkString("recorded-first-entry-id")
	replyID(w, s.FirstID())
	if full {
		w.BulkString("entries")
		replyRange(w, s, shard.StreamID{}, shard.MaxStreamID, false, count)
		replyGroupsFull(w, s, count)
		return
	}
	w.BulkString("groups")
	w.Int(int64(s.Groups()))
	w.BulkString("first-entry")
	replyEdge(w, s, false)
	w.BulkString("last-entry")
	replyEdge(w, s, true)
}

// replyEdge replies with the first or the last entry, null if there is none.
func replyEdge(w *resp.Writer, s shard.StreamView, last bool) {
	if s.Len() == 0 {
		w.Null()
		return
	}
	s.Each(shard.StreamID{}, shard.MaxStreamID, last, func(e *shard.StreamEntry) bool {
		replyEntry(w, e)
		return false
	})
}

func replyGroupsFull(w *resp.Writer, s shard.StreamView, count int64) {
	w.BulkString("groups")
	w.Array(s.Groups())
	s.EachGroup(func(g shard.GroupView) bool {
		w.Map(7)
		w.BulkString("name")
		w.BulkString(g.Name())
		replyGroupProgress(w, g)
		w.BulkString("pel-count")
		w.Int(int64(g.Pending()))
		w.BulkString("pending")
		m, n := w.Begin(), int64(0)
		g.EachPending(shard.StreamID{}, func(p shard.Pending) bool {
			w.Array(4)
			replyID(w, p.ID)
			w.BulkString(p.Consumer)
			w.Int(p.DeliveredMs)
			w.Int(int64(p.Count))
			n++
			return n < count
		})
		w.EndArray(m, int(n))
		w.BulkString("consumers")
		w.Array(g.Consumers())
		g.EachConsumer(func(c shard.ConsumerView) bool {
			replyConsumerFull(w, c, count)
			return true
		})
		return true
	})
}

func replyConsumerFull(w *resp.Writer, c shard.ConsumerView, count int64) {
	w.Map(4)
	w.BulkString("name")
	w.BulkString(c.Name())
	w.BulkString("seen-time")
	w.Int(c.SeenMs())
	w.BulkString("pel-count")
	w.Int(int64(c.Pending()))
	w.BulkString("pending")
	m, n := w.Begin(), int64(0)
	c.EachPending(shard.StreamID{}, func(p shard.Pending) bool {
		w.Array(3)
		replyID(w, p.ID)
		w.Int(p.DeliveredMs)
		w.Int(int64(p.Count))
		n++
		return n < count
	})
	w.EndArray(m, int(n))
}
