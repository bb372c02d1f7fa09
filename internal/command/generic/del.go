package generic

import (
	"kevy/internal/command"
	"kevy/shard"
)

func del() *command.Spec {
	return &command.Spec{
		Name: "del", Arity: -2, Flags: command.Write, Category: command.CatKeyspace,
		Keys:  []command.KeySpec{command.Range(1, -1, 1, command.RM|command.Delete)},
		Tips:  []string{"request_policy:multi_shard", "response_policy:agg_sum"},
		Group: "generic", Since: "1.0.0", Complexity: "O(N) with N keys",
		Syntax:  "key [key ...]",
		Summary: "Deletes keys and answers how many there were.",
		Run:     runDel,
	}
}

func unlink() *command.Spec {
	return &command.Spec{
		Name: "unlink", Arity: -2, Flags: command.Write | command.Fast, Category: command.CatKeyspace,
		Keys:  []command.KeySpec{command.Range(1, -1, 1, command.RM|command.Delete)},
		Tips:  []string{"request_policy:multi_shard", "response_policy:agg_sum"},
		Group: "generic", Since: "4.0.0", Complexity: "O(N) with N keys",
		Syntax:      "key [key ...]",
		Summary:     "Deletes keys and answers how many there were.",
		Differences: "The same as DEL, which never waits for memory to be freed.",
		Run:         runDel,
	}
}

func runDel(c *command.Ctx) {
	n := int64(0)
	for _, key := range c.Args[1:] {
		if c.Tx.Del(key) {
			c.Tx.Notify(shard.OfGeneric, "del", key)
			n++
		}
	}
	c.W.Int(n)
}
