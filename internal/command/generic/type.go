package generic

import (
	"kevy/internal/command"
	"kevy/shard"
)

func typeOf() *command.Spec {
	return &command.Spec{
		Name: "type", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RO),
		Group: "generic", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the type of the key's value, none if there is no key.",
		Run:     runType,
	}
}

// typeNames are the types as TYPE answers and SCAN takes them.
var typeNames = map[shard.Kind]string{
	shard.KindString: "string", shard.KindList: "list", shard.KindSet: "set", shard.KindZSet: "zset",
	shard.KindHash: "hash", shard.KindStream: "stream",
}

func runType(c *command.Ctx) {
	kind, ok := c.Tx.Kind(c.Args[1])
	if !ok {
		c.W.Simple("none")
		return
	}
	c.W.Simple(typeNames[kind])
}
