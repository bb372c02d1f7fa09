package strings

import (
	"kevy/internal/command"
	"kevy/shard"
)

func getEX() *command.Spec {
	return &command.Spec{
		Name: "getex", Arity: -2, Flags: command.Write | command.TellsMisses | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Access|command.Update, "RW and UPDATE because it changes the TTL"),
		Group: "string", Since: "6.2.0", Complexity: "O(1)",
		Syntax:  "key [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | PERSIST]",
		Summary: "Answers the key's string and changes its expiry.",
		Run:     runGetEX,
	}
}

func runGetEX(c *command.Ctx) {
	key := c.Args[1]
	a := c.Scan(2)
	var e expiry
	persist := false
	for a.More() {
		switch {
		case e.unit == noExpiry && a.Is("PERSIST"):
			persist = true
		case !persist && e.take(&a):
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	value, found, wrong := c.Tx.String(key)
	switch {
	case wrong != nil:
		c.W.Err(wrong)
		return
	case !found:
		c.W.Null()
		return
	case persist:
		c.W.Bulk(value)
		if c.Tx.Persist(key) {
			c.Tx.Notify(shard.OfGeneric, "persist", key)
		}
		return
	case e.unit == noExpiry:
		c.W.Bulk(value)
		return
	}
	atMs, err := e.unit.deadline(c, e.given)
	if err != nil {
		c.W.Error(err)
		return
	}
	c.W.Bulk(value)
	if atMs <= c.Tx.NowMs() && !c.Tx.Replaying() {
		c.Tx.Del(key)
		c.Tx.Notify(shard.OfGeneric, "del", key)
		return
	}
	c.Tx.ExpireAt(key, atMs)
	c.Tx.Notify(shard.OfGeneric, "expire", key)
}
