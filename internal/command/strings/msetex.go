package strings

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
)

func mSetEX() *command.Spec {
	keys := command.Count(1, command.OW|command.Update)
	keys.Step = 2
	return &command.Spec{
		Name: "msetex", Arity: -4, Flags: command.Write | command.DenyOOM, Category: command.CatString,
		Keys:  []command.KeySpec{keys},
		Tips:  []string{"request_policy:multi_shard", "response_policy:all_succeeded"},
		Group: "string", Since: "8.4.0", Complexity: "O(N) with N keys",
		Syntax: "numkeys key value [key value ...] [NX | XX] " +
			"[EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
		Summary: "Makes several keys hold strings, all in one commit and with one expiry, if none or all of them exist.",
		Run:     runMSetEX,
	}
}

var (
	errMSetEXCount = &resp.Error{Code: "ERR", Text: "invalid numkeys value"}
	errMSetEXPairs = &resp.Error{Code: "ERR", Text: "wrong number of key-value pairs"}
)

func runMSetEX(c *command.Ctx) {
	a := c.Scan(1)
	n := a.AtLeast(1, errMSetEXCount)
	switch {
	case a.Err() != nil || n > math.MaxInt32:
		c.W.Error(errMSetEXCount)
		return
	case n > int64(a.Len()/2):
		c.W.Error(errMSetEXPairs)
		return
	}
	pairs := c.Args[2 : 2+2*n]
	a = c.Scan(2 + len(pairs))
	var o setOptions
	for a.More() {
		if !o.condition.takeExistence(&a) && !o.takeExpiry(&a) {
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	deadlineMs, err := o.deadline(c)
	if err != nil {
		c.W.Error(err)
		return
	}
	for i := 0; i < len(pairs); i += 2 {
		// The look also lets an overdue key go, whose deadline KEEPTTL would keep.
		found := c.Tx.Exists(pairs[i])
		if holds, _ := o.condition.holds(nil, found); !holds {
			c.W.Int(0)
			return
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		setUntil(c, pairs[i], pairs[i+1], deadlineMs)
	}
	c.W.Int(1)
}
