package strings

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func set() *command.Spec {
	return &command.Spec{
		Name: "set", Arity: -3, Flags: command.Write | command.DenyOOM, Category: command.CatString,
		Keys:  setKeys(),
		Group: "string", Since: "1.0.0", Complexity: "O(1)",
		Syntax: "key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] " +
			"[EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | KEEPTTL]",
		Summary:     "Makes the key hold a string, whatever it held.",
		Differences: "IFEQ is that of Valkey 8.1 and Redis 8.4, which agree on it; IFNE, IFDEQ and IFDNE are those of Redis 8.4.",
		Run:         runSet,
	}
}

// setKeys: SET reads what it overwrites only with GET or a condition on it.
func setKeys() []command.KeySpec {
	keys := command.One(1, command.RW|command.Access|command.Update|command.VariableFlags, "RW and ACCESS due to the optional `GET` argument")
	keys[0].Vary = func(args [][]byte) command.KeyFlags {
		for _, option := range args[min(3, len(args)):] {
			if _, reads := matchKind(option); reads || command.EqualFold(option, "GET") {
				return command.RW | command.Access | command.Update
			}
		}
		return command.OW | command.Update
	}
	return keys
}

// setOptions are the options of SET and MSETEX.
type setOptions struct {
	condition    condition
	get, keepTTL bool
	expiry       expiry
}

func parseSetOptions(a *command.Args) (o setOptions) {
	for a.More() {
		switch {
		case o.condition.takeExistence(a), o.takeExpiry(a), o.condition.takeMatch(a):
		case a.Is("GET"):
			o.get = true
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	return o
}

// takeExpiry consumes KEEPTTL or an expiry.
func (o *setOptions) takeExpiry(a *command.Args) bool {
	if o.expiry.unit == noExpiry && a.Is("KEEPTTL") {
		o.keepTTL = true
		return true
	}
	return !o.keepTTL && o.expiry.take(a)
}

// deadline returns the deadline as Tx.Set takes it.
func (o *setOptions) deadline(c *command.Ctx) (int64, *resp.Error) {
	switch {
	case o.keepTTL:
		return shard.KeepTTL, nil
	case o.expiry.unit == noExpiry:
		return 0, nil
	}
	return o.expiry.unit.deadline(c, o.expiry.given)
}

func runSet(c *command.Ctx) {
	key, value := c.Args[1], c.Args[2]
	if len(c.Args) == 3 {
		c.Tx.Set(key, value, 0)
		c.Tx.Notify(shard.OfStrings, "set", key)
		c.W.OK()
		return
	}
	a := c.Scan(3)
	o := parseSetOptions(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	deadlineMs, err := o.deadline(c)
	if err != nil {
		c.W.Error(err)
		return
	}
	// The look also lets an overdue key go, whose deadline KEEPTTL would keep.
	var old []byte
	var found bool
	if o.get || o.condition.readsValue() {
		c.Tx.TellMisses(o.get)
		var wrong error
		if old, found, wrong = c.Tx.String(key); wrong != nil {
			c.W.Err(wrong)
			return
		}
	} else {
		found = c.Tx.Exists(key)
	}
	holds, err := o.condition.holds(old, found)
	switch {
	case err != nil:
		c.W.Error(err)
		return
	case o.get && found:
		c.W.Bulk(old)
	case o.get || !holds:
		c.W.Null()
	default:
		c.W.OK()
	}
	if holds {
		setUntil(c, key, value, deadlineMs)
	}
}

// setUntil makes the key hold a string with a deadline as Tx.Set takes it.
func setUntil(c *command.Ctx, key, value []byte, deadlineMs int64) {
	c.Tx.Set(key, value, deadlineMs)
	c.Tx.Notify(shard.OfStrings, "set", key)
	if deadlineMs > 0 {
		c.Tx.Notify(shard.OfGeneric, "expire", key)
	}
}
