package stream

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func xRange() *command.Spec {
	return &command.Spec{
		Name: "xrange", Arity: -4, Flags: command.ReadOnly, Category: command.CatStream,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "stream", Since: "5.0.0", Complexity: "O(log N + M) for M entries answered",
		Syntax:  "key start end [COUNT count]",
		Summary: "Answers the entries from one id to another.",
		Run:     func(c *command.Ctx) { runRange(c, false) },
	}
}

func xRevRange() *command.Spec {
	return &command.Spec{
		Name: "xrevrange", Arity: -4, Flags: command.ReadOnly, Category: command.CatStream,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "stream", Since: "5.0.0", Complexity: "O(log N + M) for M entries answered",
		Syntax:  "key end start [COUNT count]",
		Summary: "Answers the entries from one id back to another.",
		Run:     func(c *command.Ctx) { runRange(c, true) },
	}
}

func runRange(c *command.Ctx, reverse bool) {
	startAt, endAt := 2, 3
	if reverse {
		startAt, endAt = 3, 2
	}
	start, end := c.Scan(startAt), c.Scan(endAt)
	from := parseStart(&start)
	to := parseEnd(&end)
	a := c.Scan(4)
	if err := start.Err(); err != nil {
		a.Fail(err)
	} else if err := end.Err(); err != nil {
		a.Fail(err)
	}
	count := int64(math.MaxInt64)
	for a.More() {
		if a.Len() < 2 || !a.Is("COUNT") {
			a.Fail(command.ErrSyntax)
		}
		count = max(a.Int(), 0)
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	s, ok := view(c)
	switch {
	case !ok:
	case !s.Exists():
		c.W.Array(0)
	case count == 0:
		c.W.NullArray()
	default:
		replyRange(c.W, s, from, to, reverse, count)
	}
}

// replyRange replies with up to count entries between two ids.
func replyRange(w *resp.Writer, s shard.StreamView, from, to shard.StreamID, reverse bool, count int64) {
	m, n := w.Begin(), int64(0)
	s.Each(from, to, reverse, func(e *shard.StreamEntry) bool {
		replyEntry(w, e)
		n++
		return n < count
	})
	w.EndArray(m, int(n))
}
