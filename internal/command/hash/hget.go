package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

func hGet() *command.Spec {
	return &command.Spec{
		Name: "hget", Arity: 3, Flags: command.ReadOnly | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "hash", Since: "2.0.0", Complexity: "O(1)",
		Syntax:  "key field",
		Summary: "Answers a field's value.",
		Run:     reading(func(c *command.Ctx, h shard.HashView) { replyValue(c, h, c.Args[2]) }),
	}
}

func hMGet() *command.Spec {
	return &command.Spec{
		Name: "hmget", Arity: -3, Flags: command.ReadOnly | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "hash", Since: "2.0.0", Complexity: "O(N) for N fields",
		Syntax:  "key field [field ...]",
		Summary: "Answers the values of fields.",
		Run: reading(func(c *command.Ctx, h shard.HashView) {
			c.W.Array(len(c.Args) - 2)
			for _, field := range c.Args[2:] {
				replyValue(c, h, field)
			}
		}),
	}
}

func replyValue(c *command.Ctx, h shard.HashView, field []byte) {
	if value, ok := h.Get(field); ok {
		c.W.Bulk(value)
	} else {
		c.W.Null()
	}
}

func hStrLen() *command.Spec {
	return &command.Spec{
		Name: "hstrlen", Arity: 3, Flags: command.ReadOnly | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RO),
		Group: "hash", Since: "3.2.0", Complexity: "O(1)",
		Syntax:  "key field",
		Summary: "Answers how many bytes a field's value has.",
		Run: reading(func(c *command.Ctx, h shard.HashView) {
			value, _ := h.Get(c.Args[2])
			c.W.Int(int64(len(value)))
		}),
	}
}

func hExists() *command.Spec {
	return &command.Spec{
		Name: "hexists", Arity: 3, Flags: command.ReadOnly | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RO),
		Group: "hash", Since: "2.0.0", Complexity: "O(1)",
		Syntax:  "key field",
		Summary: "Answers whether a field is there.",
		Run: reading(func(c *command.Ctx, h shard.HashView) {
			if _, ok := h.Get(c.Args[2]); ok {
				c.W.Int(1)
			} else {
				c.W.Int(0)
			}
		}),
	}
}

func hLen() *command.Spec {
	return &command.Spec{
		Name: "hlen", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RO),
		Group: "hash", Since: "2.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the number of fields.",
		Run:     reading(func(c *command.Ctx, h shard.HashView) { c.W.Int(int64(h.Len())) }),
	}
}
