package generic

import "kevy/internal/command"

func touch() *command.Spec {
	return &command.Spec{
		Name: "touch", Arity: -2, Flags: command.ReadOnly | command.Fast, Category: command.CatKeyspace,
		Keys:  []command.KeySpec{command.Range(1, -1, 1, command.RO)},
		Tips:  []string{"request_policy:multi_shard", "response_policy:agg_sum"},
		Group: "generic", Since: "3.2.1", Complexity: "O(N) with N keys",
		Syntax:  "key [key ...]",
		Summary: "Counts keys as used now and answers how many exist.",
		Run:     runTouch,
	}
}

func runTouch(c *command.Ctx) {
	n := int64(0)
	for _, key := range c.Args[1:] {
		if c.Tx.Touch(key) {
			n++
		}
	}
	c.W.Int(n)
}
