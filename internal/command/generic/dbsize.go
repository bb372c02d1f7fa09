package generic

import "kevy/internal/command"

func dbSize() *command.Spec {
	return &command.Spec{
		Name: "dbsize", Arity: 1, Flags: command.ReadOnly | command.Fast | command.AllShards, Category: command.CatKeyspace,
		Tips:  []string{"request_policy:all_shards", "response_policy:agg_sum"},
		Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Answers the number of keys in the database.",
		Run:     func(c *command.Ctx) { c.W.Int(int64(c.Tx.DBSize())) },
	}
}
