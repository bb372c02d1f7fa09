package generic

import (
	"kevy/internal/command"
	"kevy/internal/glob"
	"kevy/shard"
)

func keys() *command.Spec {
	return &command.Spec{
		Name: "keys", Arity: 2, Flags: command.ReadOnly | command.AllShards, Category: command.CatKeyspace | command.CatDangerous,
		Tips:  []string{"request_policy:all_shards", "nondeterministic_output_order"},
		Group: "generic", Since: "1.0.0", Complexity: "O(N) with N keys in the database",
		Syntax:  "pattern",
		Summary: "Answers the keys that match a glob-style pattern.",
		Run:     runKeys,
	}
}

func runKeys(c *command.Ctx) {
	pattern := c.Args[1]
	all := string(pattern) == "*"
	start, n := c.W.Begin(), 0
	c.Tx.EachKey(func(key []byte, _ shard.Kind) bool {
		if all || glob.Match(pattern, key) {
			c.W.Bulk(key)
			n++
		}
		return true
	})
	c.W.EndArray(start, n)
}
