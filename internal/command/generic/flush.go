package generic

import "kevy/internal/command"

func flushDB() *command.Spec {
	return &command.Spec{
		Name: "flushdb", Arity: -1, Flags: command.Write | command.AllShards, Category: command.CatKeyspace | command.CatDangerous,
		Tips:  []string{"request_policy:all_shards", "response_policy:all_succeeded"},
		Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Syntax:      "[ASYNC | SYNC]",
		Summary:     "Deletes every key of the database.",
		Differences: "ASYNC and SYNC are one: memory is freed beside other work.",
		Run:         func(c *command.Ctx) { flush(c, func() { c.Tx.FlushDB(c.Tx.DB()) }) },
	}
}

func flushAll() *command.Spec {
	return &command.Spec{
		Name: "flushall", Arity: -1, Flags: command.Write | command.AllShards, Category: command.CatKeyspace | command.CatDangerous,
		Tips:  []string{"request_policy:all_shards", "response_policy:all_succeeded"},
		Group: "server", Since: "1.0.0", Complexity: "O(1) for each database",
		Syntax:      "[ASYNC | SYNC]",
		Summary:     "Deletes every key of every database.",
		Differences: "ASYNC and SYNC are one: memory is freed beside other work. Begins a new generation of the change feed.",
		Run:         func(c *command.Ctx) { flush(c, c.Tx.FlushAll) },
	}
}

// flush reads the option of the two and clears. An empty database is cleared
// and logged as well, as Redis does.
func flush(c *command.Ctx, clear func()) {
	a := c.Scan(1)
	if a.More() && !a.Is("ASYNC") && !a.Is("SYNC") || a.More() {
		c.W.Error(command.ErrSyntax)
		return
	}
	clear()
	c.W.OK()
}
