package strings

import (
	"kevy/internal/command"
	"kevy/shard"
)

func set() *command.Spec {
	return &command.Spec{
		Name: "set", Arity: -3, Flags: command.Write | command.DenyOOM, Category: command.CatString,
		Keys:  setKeys(),
		Group: "string", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | KEEPTTL]",
		Summary: "Makes the key hold a string, whatever it held.",
		Run:     runSet,
	}
}

// setKeys: SET reads what it overwrites only with GET.
func setKeys() []command.KeySpec {
	keys := command.One(1, command.RW|command.Access|command.Update|command.VariableFlags, "RW and ACCESS due to the optional `GET` argument")
	keys[0].Vary = func(args [][]byte) command.KeyFlags {
		for _, option := range args[3:] {
			if command.EqualFold(option, "GET") {
				return command.RW | command.Access | command.Update
			}
		}
		return command.OW | command.Update
	}
	return keys
}

// setOptions are the options of SET.
type setOptions struct {
	nx, xx, get, keepTTL bool
	expiry               expiry
}

func parseSetOptions(a *command.Args) (o setOptions) {
	for a.More() {
		switch {
		case !o.xx && a.Is("NX"):
			o.nx = true
		case !o.nx && a.Is("XX"):
			o.xx = true
		case a.Is("GET"):
			o.get = true
		case o.expiry.unit == noExpiry && a.Is("KEEPTTL"):
			o.keepTTL = true
		case !o.keepTTL && o.expiry.take(a):
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	return o
}

func runSet(c *command.Ctx) {
	key, value := c.Args[1], c.Args[2]
	if len(c.Args) == 3 {
		c.Tx.Set(key, value, 0)
		c.W.OK()
		return
	}
	a := c.Scan(3)
	o := parseSetOptions(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	var deadlineMs int64
	if o.expiry.unit != noExpiry {
		at, err := o.expiry.unit.deadline(c, o.expiry.given)
		if err != nil {
			c.W.Error(err)
			return
		}
		deadlineMs = at
	}
	if o.get {
		if _, ok := replyString(c, key); !ok {
			return
		}
	}
	// The look also lets an overdue key go, whose deadline KEEPTTL would keep.
	found := c.Tx.Exists(key)
	if o.nx && found || o.xx && !found {
		if !o.get {
			c.W.Null()
		}
		return
	}
	if o.keepTTL {
		deadlineMs = shard.KeepTTL
	}
	c.Tx.Set(key, value, deadlineMs)
	if !o.get {
		c.W.OK()
	}
}
