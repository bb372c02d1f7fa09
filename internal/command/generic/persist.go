package generic

import (
	"kevy/internal/command"
	"kevy/shard"
)

func persist() *command.Spec {
	return &command.Spec{
		Name: "persist", Arity: 2, Flags: command.Write | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "generic", Since: "2.2.0", Complexity: "O(log N) with N keys that expire",
		Syntax:  "key",
		Summary: "Takes the expiry from the key; answers 0 if it has none.",
		Run:     runPersist,
	}
}

func runPersist(c *command.Ctx) {
	if c.Tx.Persist(c.Args[1]) {
		c.Tx.Notify(shard.OfGeneric, "persist", c.Args[1])
		c.W.Int(1)
	} else {
		c.W.Int(0)
	}
}
