package generic

import "kevy/internal/command"

func dbSize() *command.Spec {
	return &command.Spec{
		Name: "dbsize", Arity: 1, Flags: command.ReadOnly | command.Fast | command.AllShards, Category: command.CatKeyspace,
		Tips:  []string{"request_policy:all_shards", "response_policy:agg_sum"},
		Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary:     "Answers the number of keys in the database.",
		Differences: "Keys whose time has come do not count.",
		Run:         runDBSize,
	}
}

// maxDuePerDBSize bounds what one DBSIZE does for the keys whose time has come.
const maxDuePerDBSize = 1000

func runDBSize(c *command.Ctx) {
	// Overdue keys are not counted, so they go first; but where DEBUG SET-ACTIVE-EXPIRE says that they stay
	// until somebody asks for them, their number does not ask for them.
	if !c.Tx.ExpiryPaused() {
		c.Tx.ExpireDue(maxDuePerDBSize)
	}
	c.W.Int(int64(c.Tx.DBSize()))
}
