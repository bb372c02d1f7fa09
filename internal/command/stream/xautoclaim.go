package stream

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func xAutoClaim() *command.Spec {
	return &command.Spec{
		Name: "xautoclaim", Arity: -6, Flags: command.Write | command.TellsMisses | command.Fast, Category: command.CatStream,
		Keys:  command.One(1, command.RW|command.Delete),
		Tips:  []string{"nondeterministic_output"},
		Group: "stream", Since: "6.2.0", Complexity: "O(N) for a count of N",
		Syntax:  "key group consumer min-idle-time start [COUNT count] [JUSTID]",
		Summary: "Makes pending entries that have been idle those of a consumer; answers where to go on, the entries, and which pending ones are gone.",
		Run:     runXAutoClaim,
	}
}

var errClaimMany = &resp.Error{Code: "ERR", Text: "COUNT must be > 0"}

const (
	defaultClaimCount = 100
	// So many pending entries are looked at for each that may be claimed.
	claimAttempts = 10
	// mostClaimCount is the greatest count that Redis takes.
	mostClaimCount = math.MaxInt64 / 16
)

func runXAutoClaim(c *command.Ctx) {
	// Redis asks for the key before it looks at the arguments, and once.
	c.Tx.Exists(c.Key(1))
	c.Tx.TellMisses(false)
	a := c.Scan(4)
	minIdle := max(number(&a, errMinIdle("XAUTOCLAIM")), 0)
	from := parseStart(&a)
	count, justID := int64(defaultClaimCount), false
	for a.More() {
		switch {
		case a.Len() > 1 && a.Is("COUNT"):
			if count = a.AtLeast(1, errClaimMany); count > mostClaimCount {
				a.Fail(errClaimMany)
			}
		case a.Is("JUSTID"):
			justID = true
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	s, g, ok := groupAt(c)
	if !ok {
		return
	}
	t := taker{c: c, deliveredMs: c.Tx.NowMs()}
	var next shard.StreamID
	attempts := min(count, math.MaxInt64/claimAttempts) * claimAttempts
	g.EachPending(from, func(p shard.Pending) bool {
		if attempts == 0 || count == 0 {
			next = p.ID
			return false
		}
		attempts--
		switch {
		case !s.Has(p.ID):
			t.gone = append(t.gone, p.ID)
			count--
		case minIdle == 0 || c.Tx.NowMs()-p.DeliveredMs >= minIdle:
			if !justID {
				p.Count++
			}
			t.take(p.ID, p.Count)
			count--
		}
		return true
	})
	c.W.Array(3)
	replyID(c.W, next)
	c.W.Array(len(t.ids))
	for _, id := range t.ids {
		t.replyTaken(s, id, justID)
	}
	c.W.Array(len(t.gone))
	for _, id := range t.gone {
		replyID(c.W, id)
	}
	t.flush()
}
