package strings

import "kevy/internal/command"

func mGet() *command.Spec {
	return &command.Spec{
		Name: "mget", Arity: -2, Flags: command.ReadOnly | command.Fast, Category: command.CatString,
		Keys:  []command.KeySpec{command.Range(1, -1, 1, command.RO|command.Access)},
		Tips:  []string{"request_policy:multi_shard"},
		Group: "string", Since: "1.0.0", Complexity: "O(N) with N keys",
		Syntax:  "key [key ...]",
		Summary: "Answers the strings of several keys, null for one that holds none.",
		Run:     runMGet,
	}
}

func runMGet(c *command.Ctx) {
	c.W.Array(len(c.Args) - 1)
	for _, key := range c.Args[1:] {
		if value, found, err := c.Tx.String(key); found && err == nil {
			c.W.Bulk(value)
		} else {
			c.W.Null()
		}
	}
}
