package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

func hSet() *command.Spec {
	return &command.Spec{
		Name: "hset", Arity: -4, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "hash", Since: "2.0.0", Complexity: "O(N) for N fields",
		Syntax:  "key field value [field value ...]",
		Summary: "Sets fields; answers how many are new.",
		Run: func(c *command.Ctx) {
			if created, ok := setFields(c); ok {
				c.W.Int(int64(created))
			}
		},
	}
}

func hMSet() *command.Spec {
	return &command.Spec{
		Name: "hmset", Arity: -4, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "hash", Since: "2.0.0", Complexity: "O(N) for N fields",
		Syntax:  "key field value [field value ...]",
		Summary: "Sets fields; HSET with another reply.",
		Run: func(c *command.Ctx) {
			if _, ok := setFields(c); ok {
				c.W.OK()
			}
		},
	}
}

// setFields sets the fields that the arguments name; otherwise it replies with
// the error.
func setFields(c *command.Ctx) (created int, ok bool) {
	if len(c.Args)%2 != 0 {
		c.W.Error(c.Spec.ArityError())
		return 0, false
	}
	created, err := c.Tx.HSet(c.Key(1), c.Args[2:]...)
	if err != nil {
		c.W.Err(err)
		return 0, false
	}
	c.Tx.Notify(shard.OfHashes, "hset", c.Key(1))
	return created, true
}

func hSetNX() *command.Spec {
	return &command.Spec{
		Name: "hsetnx", Arity: 4, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RW|command.Insert),
		Group: "hash", Since: "2.0.0", Complexity: "O(1)",
		Syntax:  "key field value",
		Summary: "Sets a field that is not there yet.",
		Run:     runHSetNX,
	}
}

func runHSetNX(c *command.Ctx) {
	h, err := c.Tx.HashFields(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	if _, ok := h.Get(c.Args[2]); ok {
		c.W.Int(0)
		return
	}
	if _, err := c.Tx.HSet(c.Key(1), c.Args[2:]...); err != nil {
		c.W.Err(err)
		return
	}
	c.Tx.Notify(shard.OfHashes, "hset", c.Key(1))
	c.W.Int(1)
}
