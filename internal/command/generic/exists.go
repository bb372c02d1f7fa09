package generic

import "kevy/internal/command"

func exists() *command.Spec {
	return &command.Spec{
		Name: "exists", Arity: -2, Flags: command.ReadOnly | command.Fast, Category: command.CatKeyspace,
		Keys:  []command.KeySpec{command.Range(1, -1, 1, command.RO)},
		Tips:  []string{"request_policy:multi_shard", "response_policy:agg_sum"},
		Group: "generic", Since: "1.0.0", Complexity: "O(N) with N keys",
		Syntax:  "key [key ...]",
		Summary: "Counts the keys that exist; one that is named twice counts twice.",
		Run:     runExists,
	}
}

func runExists(c *command.Ctx) {
	n := int64(0)
	for _, key := range c.Args[1:] {
		if c.Tx.Exists(key) {
			n++
		}
	}
	c.W.Int(n)
}
