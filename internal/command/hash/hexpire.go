package hash

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

// fieldExpiryDiffers is what is said of the commands that give deadlines.
const fieldExpiryDiffers = "A small hash keeps the order of its fields."

func hExpire() *command.Spec {
	return &command.Spec{
		Name: "hexpire", Arity: -6, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "hash", Since: "7.4.0", Complexity: "O(N log M) for N fields of M that expire",
		Syntax:      "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
		Summary:     "Lets fields expire in some seconds.",
		Differences: fieldExpiryDiffers,
		Run:         func(c *command.Ctx) { expireFields(c, 1000, c.Tx.NowMs()) },
	}
}

func hPExpire() *command.Spec {
	return &command.Spec{
		Name: "hpexpire", Arity: -6, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "hash", Since: "7.4.0", Complexity: "O(N log M) for N fields of M that expire",
		Syntax:      "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
		Summary:     "Lets fields expire in some milliseconds.",
		Differences: fieldExpiryDiffers,
		Run:         func(c *command.Ctx) { expireFields(c, 1, c.Tx.NowMs()) },
	}
}

func hExpireAt() *command.Spec {
	return &command.Spec{
		Name: "hexpireat", Arity: -6, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "hash", Since: "7.4.0", Complexity: "O(N log M) for N fields of M that expire",
		Syntax:      "key unix-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
		Summary:     "Lets fields expire at a time.",
		Differences: fieldExpiryDiffers,
		Run:         func(c *command.Ctx) { expireFields(c, 1000, 0) },
	}
}

func hPExpireAt() *command.Spec {
	return &command.Spec{
		Name: "hpexpireat", Arity: -6, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "hash", Since: "7.4.0", Complexity: "O(N log M) for N fields of M that expire",
		Syntax:      "key unix-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
		Summary:     "Lets fields expire at a time in milliseconds.",
		Differences: fieldExpiryDiffers,
		Run:         func(c *command.Ctx) { expireFields(c, 1, 0) },
	}
}

var errExpireNumFields = &resp.Error{Code: "ERR", Text: "Parameter `numFields` should be greater than 0"}

// condition reads NX, XX, GT or LT and returns the condition on a field's
// deadline, 0 for none, for it to become atMs; nil without one.
func condition(a *command.Args, atMs int64) func(oldMs int64) bool {
	switch {
	case a.Is("NX"):
		return func(oldMs int64) bool { return oldMs == 0 }
	case a.Is("XX"):
		return func(oldMs int64) bool { return oldMs != 0 }
	case a.Is("GT"):
		return func(oldMs int64) bool { return oldMs != 0 && atMs > oldMs }
	case a.Is("LT"):
		return func(oldMs int64) bool { return oldMs == 0 || atMs < oldMs }
	}
	return nil
}

// expireFields runs the four: the time given is in units of unitMs and counts
// from baseMs.
func expireFields(c *command.Ctx, unitMs, baseMs int64) {
	if !hashFirst(c) {
		return
	}
	a := c.Scan(2)
	atMs := deadline(c, &a, unitMs, baseMs)
	allow := condition(&a, atMs)
	fields := countedFields(c, &a, errExpireNumFields)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	c.W.Array(len(fields))
	// The key holds a hash or nothing: there is no error.
	set, gone := false, false
	_ = c.Tx.HExpireAt(c.Key(1), max(atMs, 1), fields, allow, func(e shard.FieldExpiry) {
		set, gone = set || e == shard.FieldExpires, gone || e == shard.FieldDeleted
		c.W.Int(int64(e))
	})
	switch {
	case gone:
		c.Tx.NotifyRemoval(shard.OfHashes, "hdel", c.Key(1))
	case set:
		c.Tx.Notify(shard.OfHashes, "hexpire", c.Key(1))
	}
}
