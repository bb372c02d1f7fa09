package hash

import (
	"math"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func hSetEX() *command.Spec {
	return &command.Spec{
		Name: "hsetex", Arity: -6, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "hash", Since: "8.0.0", Complexity: "O(N log M) for N fields of M that expire",
		Syntax: "key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | KEEPTTL] " +
			"FIELDS numfields field value [field value ...]",
		Summary: "Sets fields along with their expiry, if none (FNX) or all (FXX) are there; answers 1 if it did.",
		Run:     runHSetEX,
	}
}

var (
	errSetNumFields = &resp.Error{Code: "ERR", Text: "invalid number of fields"}
	errNoTime       = &resp.Error{Code: "ERR", Text: "missing expire time"}
	errTwoChecks    = &resp.Error{Code: "ERR", Text: "Only one of FXX or FNX arguments can be specified"}
	errTwoTimes     = &resp.Error{Code: "ERR", Text: "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"}
)

// setOptions are what HSETEX takes.
type setOptions struct {
	noneThere, allThere bool
	atMs                int64 // 0 if no time is given
	keepTTL             bool
	pairs               [][]byte
}

func parseHSetEX(c *command.Ctx, a *command.Args) (o setOptions) {
	timed := false
	for {
		clock := takeClock(a)
		switch {
		case clock != nil:
			if timed {
				a.Fail(errTwoTimes)
				return o
			}
			timed = true
			if !a.More() {
				a.Fail(errNoTime)
				return o
			}
			o.atMs = max(clock.deadline(c, a), 1)
		case a.Is("KEEPTTL"):
			if timed {
				a.Fail(errTwoTimes)
				return o
			}
			timed, o.keepTTL = true, true
		case a.Is("FNX"):
			o.check(a, &o.noneThere)
		case a.Is("FXX"):
			o.check(a, &o.allThere)
		case a.Is("FIELDS"):
			o.takePairs(c, a)
			return o
		case !a.More():
			a.Fail(c.Spec.ArityError())
			return o
		default:
			a.Fail(resp.Errorf("ERR", "unknown argument: %s", command.CText(a.Peek())))
			return o
		}
	}
}

func (o *setOptions) check(a *command.Args, which *bool) {
	if o.noneThere || o.allThere {
		a.Fail(errTwoChecks)
	}
	*which = true
}

// takePairs reads the number of pairs and these, which end the arguments.
func (o *setOptions) takePairs(c *command.Ctx, a *command.Args) {
	if a.Len() < 3 {
		a.Fail(c.Spec.ArityError())
		return
	}
	n := a.AtLeast(1, errSetNumFields)
	if n > math.MaxInt32 {
		a.Fail(errSetNumFields)
	}
	o.pairs = a.Rest()
	if len(o.pairs)%2 != 0 || n != int64(len(o.pairs)/2) {
		a.Fail(c.Spec.ArityError())
	}
}

// allow reports whether the conditions hold.
func (o *setOptions) allow(h shard.HashView) bool {
	if !o.noneThere && !o.allThere {
		return true
	}
	for i := 0; i < len(o.pairs); i += 2 {
		if _, found := h.Get(o.pairs[i]); found == o.noneThere {
			return false
		}
	}
	return true
}

func runHSetEX(c *command.Ctx) {
	a := c.Scan(2)
	o := parseHSetEX(c, &a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	h, err := c.Tx.HashFields(c.Key(1))
	switch {
	case err != nil:
		c.W.Err(err)
		return
	case !o.allow(h):
		c.W.Int(0)
		return
	}
	o.set(c)
	c.W.Int(1)
}

// set does it. The key holds a hash or nothing, so nothing fails.
func (o *setOptions) set(c *command.Ctx) {
	key := c.Key(1)
	if o.atMs == 0 {
		if o.keepTTL {
			_, _ = c.Tx.HSetKeepTTL(key, o.pairs...)
		} else {
			_, _ = c.Tx.HSet(key, o.pairs...)
		}
		c.Tx.Notify(shard.OfHashes, "hset", key)
		return
	}
	fields := make([][]byte, 0, len(o.pairs)/2)
	for i := 0; i < len(o.pairs); i += 2 {
		fields = append(fields, o.pairs[i])
	}
	if o.atMs <= c.Tx.NowMs() && !c.Tx.Replaying() {
		// They would be set only to go at once.
		n, _ := c.Tx.HDel(key, fields...)
		c.Tx.Notify(shard.OfHashes, "hset", key)
		if n > 0 {
			c.Tx.NotifyRemoval(shard.OfHashes, "hdel", key)
		}
		c.Tx.CountExpiredFields(len(fields))
		return
	}
	_, _ = c.Tx.HSet(key, o.pairs...)
	_ = c.Tx.HExpireAt(key, o.atMs, fields, nil, nil)
	c.Tx.Notify(shard.OfHashes, "hset", key)
	c.Tx.Notify(shard.OfHashes, "hexpire", key)
}
