package stream

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func xPending() *command.Spec {
	return &command.Spec{
		Name: "xpending", Arity: -3, Flags: command.ReadOnly, Category: command.CatStream,
		Keys:  command.One(1, command.RO|command.Access),
		Tips:  []string{"nondeterministic_output"},
		Group: "stream", Since: "5.0.0", Complexity: "O(log N + M) for M entries looked at, of N pending; O(C) for C consumers without a range",
		Syntax:  "key group [[IDLE min-idle-time] start end count [consumer]]",
		Summary: "Answers which entries are pending, or how many are, from where to where and whose they are.",
		Run:     runXPending,
	}
}

// pendingQuery is the range that an XPENDING asks for.
type pendingQuery struct {
	from, to shard.StreamID
	count    int64
	minIdle  int64
	consumer []byte // nil for all
}

const mostPendingArgs = 9

func parsePendingQuery(c *command.Ctx) (q pendingQuery, err *resp.Error) {
	n := len(c.Args)
	if n < 6 || n > mostPendingArgs {
		return q, command.ErrSyntax
	}
	a := c.Scan(3)
	at := 3
	if a.Is("IDLE") {
		q.minIdle = a.Int()
		at += 2
		if n < 8 {
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		return q, err
	}
	// The count is looked at before the ids.
	count := c.Scan(at + 2)
	q.count = count.Int()
	if err := count.Err(); err != nil {
		return q, err
	}
	a = c.Scan(at)
	q.from = parseStart(&a)
	q.to = parseEnd(&a)
	if at+3 < n {
		q.consumer = c.Args[at+3]
	}
	return q, a.Err()
}

func runXPending(c *command.Ctx) {
	whole := len(c.Args) == 3
	var q pendingQuery
	if !whole {
		var err *resp.Error
		if q, err = parsePendingQuery(c); err != nil {
			c.W.Error(err)
			return
		}
	}
	_, g, ok := groupAt(c)
	switch {
	case !ok:
	case whole:
		replyPendingSummary(c.W, g)
	default:
		replyPending(c, g, q)
	}
}

func replyPendingSummary(w *resp.Writer, g shard.GroupView) {
	w.Array(4)
	w.Int(int64(g.Pending()))
	last, ok := g.LastPending()
	if !ok {
		w.Null()
		w.Null()
		w.NullArray()
		return
	}
	g.EachPending(shard.StreamID{}, func(p shard.Pending) bool {
		replyID(w, p.ID)
		return false
	})
	replyID(w, last.ID)
	m, n := w.Begin(), 0
	g.EachConsumer(func(c shard.ConsumerView) bool {
		if c.Pending() > 0 {
			w.Array(2)
			w.BulkString(c.Name())
			w.BulkInt(int64(c.Pending()))
			n++
		}
		return true
	})
	w.EndArray(m, n)
}

func replyPending(c *command.Ctx, g shard.GroupView, q pendingQuery) {
	m, n := c.W.Begin(), int64(0)
	each := func(p shard.Pending) bool {
		if q.to.Less(p.ID) || n >= q.count {
			return false
		}
		idle := c.Tx.NowMs() - p.DeliveredMs
		if q.minIdle != 0 && idle < q.minIdle {
			return true
		}
		c.W.Array(4)
		replyID(c.W, p.ID)
		c.W.BulkString(p.Consumer)
		c.W.Int(max(idle, 0))
		c.W.Int(int64(p.Count))
		n++
		return true
	}
	if q.consumer == nil {
		g.EachPending(q.from, each)
	} else if of, ok := g.Consumer(q.consumer); ok {
		of.EachPending(q.from, each)
	}
	c.W.EndArray(m, int(n))
}
