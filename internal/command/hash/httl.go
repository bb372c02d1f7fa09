package hash

import (
	"kevy/internal/command"
	"kevy/shard"
)

func hTTL() *command.Spec {
	return &command.Spec{
		Name: "httl", Arity: -5, Flags: command.ReadOnly | command.Fast, Category: command.CatHash,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "hash", Since: "7.4.0", Complexity: "O(N) for N fields",
		Syntax:  "key FIELDS numfields field [field ...]",
		Summary: "Answers in how many seconds each field expires, -1 if never, -2 if it is not there.",
		Run:     reading(func(c *command.Ctx, h shard.HashView) { replyDeadlines(c, h, 1000, c.Tx.NowMs()) }),
	}
}

func hPTTL() *command.Spec {
	return &command.Spec{
		Name: "hpttl", Arity: -5, Flags: command.ReadOnly | command.Fast, Category: command.CatHash,
		Keys: command.One(1, command.RO|command.Access), Tips: []string{"nondeterministic_output"},
		Group: "hash", Since: "7.4.0", Complexity: "O(N) for N fields",
		Syntax:  "key FIELDS numfields field [field ...]",
		Summary: "Answers in how many milliseconds each field expires, -1 if never, -2 if it is not there.",
		Run:     reading(func(c *command.Ctx, h shard.HashView) { replyDeadlines(c, h, 1, c.Tx.NowMs()) }),
	}
}

func hExpireTime() *command.Spec {
	return &command.Spec{
		Name: "hexpiretime", Arity: -5, Flags: command.ReadOnly | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "hash", Since: "7.4.0", Complexity: "O(N) for N fields",
		Syntax:  "key FIELDS numfields field [field ...]",
		Summary: "Answers the time in unix seconds at which each field expires, -1 if never, -2 if it is not there.",
		Run:     reading(func(c *command.Ctx, h shard.HashView) { replyDeadlines(c, h, 1000, 0) }),
	}
}

func hPExpireTime() *command.Spec {
	return &command.Spec{
		Name: "hpexpiretime", Arity: -5, Flags: command.ReadOnly | command.Fast, Category: command.CatHash,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "hash", Since: "7.4.0", Complexity: "O(N) for N fields",
		Syntax:  "key FIELDS numfields field [field ...]",
		Summary: "Answers the time in unix milliseconds at which each field expires, -1 if never, -2 if it is not there.",
		Run:     reading(func(c *command.Ctx, h shard.HashView) { replyDeadlines(c, h, 1, 0) }),
	}
}

// replyDeadlines replies with the fields' deadlines in units of unitMs from
// baseMs on, rounded up.
func replyDeadlines(c *command.Ctx, h shard.HashView, unitMs, baseMs int64) {
	a := c.Scan(2)
	fields := countedFields(c, &a, errNumFields)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	c.W.Array(len(fields))
	for _, f := range fields {
		switch atMs, ok := h.Deadline(f); {
		case !ok:
			c.W.Int(-2)
		case atMs == 0:
			c.W.Int(-1)
		default:
			c.W.Int((atMs - baseMs + unitMs - 1) / unitMs)
		}
	}
}
