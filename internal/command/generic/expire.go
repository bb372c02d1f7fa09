package generic

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func expire() *command.Spec {
	return &command.Spec{
		Name: "expire", Arity: -3, Flags: command.Write | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "generic", Since: "1.0.0", Complexity: "O(log N) with N keys that expire",
		Syntax:  "key seconds [NX | XX] [GT | LT]",
		Summary: "Lets the key expire in some seconds.",
		Run:     func(c *command.Ctx) { setExpiry(c, 1000, c.Tx.NowMs()) },
	}
}

func pExpire() *command.Spec {
	return &command.Spec{
		Name: "pexpire", Arity: -3, Flags: command.Write | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "generic", Since: "2.6.0", Complexity: "O(log N) with N keys that expire",
		Syntax:  "key milliseconds [NX | XX] [GT | LT]",
		Summary: "Lets the key expire in some milliseconds.",
		Run:     func(c *command.Ctx) { setExpiry(c, 1, c.Tx.NowMs()) },
	}
}

func expireAt() *command.Spec {
	return &command.Spec{
		Name: "expireat", Arity: -3, Flags: command.Write | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "generic", Since: "1.2.0", Complexity: "O(log N) with N keys that expire",
		Syntax:  "key unix-seconds [NX | XX] [GT | LT]",
		Summary: "Lets the key expire at a time.",
		Run:     func(c *command.Ctx) { setExpiry(c, 1000, 0) },
	}
}

func pExpireAt() *command.Spec {
	return &command.Spec{
		Name: "pexpireat", Arity: -3, Flags: command.Write | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "generic", Since: "2.6.0", Complexity: "O(log N) with N keys that expire",
		Syntax:  "key unix-milliseconds [NX | XX] [GT | LT]",
		Summary: "Lets the key expire at a time in milliseconds.",
		Run:     func(c *command.Ctx) { setExpiry(c, 1, 0) },
	}
}

var (
	errNXWithOthers = &resp.Error{Code: "ERR", Text: "NX and XX, GT or LT options at the same time are not compatible"}
	errGTWithLT     = &resp.Error{Code: "ERR", Text: "GT and LT options at the same time are not compatible"}
)

// expireOptions are the conditions of EXPIRE and its kin.
type expireOptions struct{ nx, xx, gt, lt bool }

func parseExpireOptions(a *command.Args) (o expireOptions) {
	for a.More() {
		switch {
		case a.Is("NX"):
			o.nx = true
		case a.Is("XX"):
			o.xx = true
		case a.Is("GT"):
			o.gt = true
		case a.Is("LT"):
			o.lt = true
		default:
			a.Fail(resp.Errorf("ERR", "Unsupported option %s", command.CText(a.Peek())))
		}
	}
	switch {
	case o.nx && (o.xx || o.gt || o.lt):
		a.Fail(errNXWithOthers)
	case o.gt && o.lt:
		a.Fail(errGTWithLT)
	}
	return o
}

// allow reports whether a key whose deadline is oldMs, 0 for none, may get atMs.
// No deadline counts as one that is never reached.
func (o expireOptions) allow(oldMs, atMs int64) bool {
	switch {
	case o.nx && oldMs != 0, o.xx && oldMs == 0:
		return false
	case o.gt && (oldMs == 0 || atMs <= oldMs):
		return false
	case o.lt && oldMs != 0 && atMs >= oldMs:
		return false
	}
	return true
}

// setExpiry runs the four: the time given is in units of unitMs and counts from
// baseMs.
func setExpiry(c *command.Ctx, unitMs, baseMs int64) {
	key := c.Args[1]
	a := c.Scan(3)
	o := parseExpireOptions(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	n, ok := command.ParseInt(c.Args[2])
	if !ok {
		c.W.Error(command.ErrNotInt)
		return
	}
	if n > math.MaxInt64/unitMs || n < math.MinInt64/unitMs || n*unitMs > math.MaxInt64-baseMs {
		c.W.Error(c.Spec.InvalidExpire())
		return
	}
	atMs := n*unitMs + baseMs
	oldMs, exists := c.Tx.Deadline(key)
	if !exists || !o.allow(oldMs, atMs) {
		c.W.Int(0)
		return
	}
	// In a log the end of a key that has expired stands by itself, if it came.
	if atMs <= c.Tx.NowMs() && !c.Tx.Replaying() {
		c.Tx.Del(key)
		c.Tx.Notify(shard.OfGeneric, "del", key)
	} else {
		c.Tx.ExpireAt(key, atMs)
		c.Tx.Notify(shard.OfGeneric, "expire", key)
	}
	c.W.Int(1)
}
