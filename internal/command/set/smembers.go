package set

import (
	"kevy/internal/command"
	"kevy/shard"
)

func sMembers() *command.Spec {
	return &command.Spec{
		Name: "smembers", Arity: 2, Flags: command.ReadOnly, Category: command.CatSet,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output_order"},
		Group: "set", Since: "1.0.0", Complexity: "O(N) for N members",
		Syntax:  "key",
		Summary: "Answers all members.",
		Run: reading(func(c *command.Ctx, s shard.SetView) {
			c.W.Set(s.Len())
			replyAll(c, s)
		}),
	}
}

// replyAll replies with each member.
func replyAll(c *command.Ctx, s shard.SetView) {
	s.Each(func(member []byte) bool {
		c.W.Bulk(member)
		return true
	})
}
