package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

func hGetAll() *command.Spec {
	return &command.Spec{
		Name: "hgetall", Arity: 2, Flags: command.ReadOnly, Category: command.CatHash,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output_order"},
		Group: "hash", Since: "2.0.0", Complexity: "O(N) for N fields",
		Syntax:  "key",
		Summary: "Answers all fields with their values.",
		Run: readingAll(func(c *command.Ctx, h shard.HashView) {
			c.W.Map(h.Len())
			h.Each(func(field, value []byte) bool {
				c.W.Bulk(field)
				c.W.Bulk(value)
				return true
			})
		}),
	}
}

func hKeys() *command.Spec {
	return &command.Spec{
		Name: "hkeys", Arity: 2, Flags: command.ReadOnly, Category: command.CatHash,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output_order"},
		Group: "hash", Since: "2.0.0", Complexity: "O(N) for N fields",
		Syntax:  "key",
		Summary: "Answers all fields.",
		Run:     each(func(field, _ []byte) []byte { return field }),
	}
}

func hVals() *command.Spec {
	return &command.Spec{
		Name: "hvals", Arity: 2, Flags: command.ReadOnly, Category: command.CatHash,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output_order"},
		Group: "hash", Since: "2.0.0", Complexity: "O(N) for N fields",
		Syntax:  "key",
		Summary: "Answers the values of all fields.",
		Run:     each(func(_, value []byte) []byte { return value }),
	}
}

// each is a handler that replies with what pick takes of each field.
func each(pick func(field, value []byte) []byte) command.Handler {
	return readingAll(func(c *command.Ctx, h shard.HashView) {
		c.W.Array(h.Len())
		h.Each(func(field, value []byte) bool {
			c.W.Bulk(pick(field, value))
			return true
		})
	})
}
