package generic

import "kevy/internal/command"

func randomKey() *command.Spec {
	return &command.Spec{
		Name: "randomkey", Arity: 1, Flags: command.ReadOnly | command.AllShards, Category: command.CatKeyspace,
		Tips:  []string{"request_policy:all_shards", "nondeterministic_output"},
		Group: "generic", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Answers some key of the database, null if it is empty.",
		Run:     runRandomKey,
	}
}

func runRandomKey(c *command.Ctx) {
	key := c.Tx.RandomKey(command.Rand)
	if key == nil {
		c.W.Null()
		return
	}
	c.W.Bulk(key)
}
