package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

func hGetEX() *command.Spec {
	return &command.Spec{
		Name: "hgetex", Arity: -5, Flags: command.Write | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Access|command.Update, "RW and UPDATE because it changes the TTL"),
		Group: "hash", Since: "8.0.0", Complexity: "O(N log M) for N fields of M that expire",
		Syntax: "key [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | PERSIST] " +
			"FIELDS numfields field [field ...]",
		Summary: "Answers the values of fields and changes their expiry.",
		Run:     runHGetEX,
	}
}

func runHGetEX(c *command.Ctx) {
	h, wrong := c.Tx.HashFields(c.Key(1))
	if wrong != nil {
		c.W.Err(wrong)
		return
	}
	a := c.Scan(2)
	var atMs int64
	persist := false
	if clock := takeClock(&a); clock != nil {
		atMs = max(clock.deadline(c, &a), 1)
	} else {
		persist = a.Is("PERSIST")
	}
	fields := countedFields(c, &a, errNumFields)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if atMs != 0 && atMs <= c.Tx.NowMs() && !c.Tx.Replaying() {
		c.Tx.CountExpiredFields(takeFields(c, fields))
		return
	}
	c.W.Array(len(fields))
	for _, f := range fields {
		replyValue(c, h, f)
	}
	switch {
	case !h.Exists():
	case persist:
		changed := false
		_ = c.Tx.HPersist(c.Key(1), fields, func(_, had bool) { changed = changed || had })
		if changed {
			c.Tx.Notify(shard.OfHashes, "hpersist", c.Key(1))
		}
	case atMs != 0:
		set := false
		_ = c.Tx.HExpireAt(c.Key(1), atMs, fields, nil, func(e shard.FieldExpiry) { set = set || e == shard.FieldExpires })
		if set {
			c.Tx.Notify(shard.OfHashes, "hexpire", c.Key(1))
		}
	}
}
