package generic

import (
	"kevy/internal/command"
	"kevy/internal/rdb"
)

func dump() *command.Spec {
	return &command.Spec{
		Name: "dump", Arity: 2, Flags: command.ReadOnly, Category: command.CatKeyspace,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "generic", Since: "2.6.0", Complexity: "O(N) with a value of N elements or bytes",
		Syntax:  "key",
		Summary: "Answers the key's value in the format of RDB files, as RESTORE takes it.",
		Run:     runDump,
	}
}

func runDump(c *command.Ctx) {
	v, ok := c.Tx.Value(c.Args[1])
	if !ok {
		c.W.Null()
		return
	}
	c.W.Bulk(rdb.AppendPayload(nil, v))
}
