package generic

import "kevy/internal/command"

func ttl() *command.Spec {
	return &command.Spec{
		Name: "ttl", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RO|command.Access),
		Tips:  []string{"nondeterministic_output"},
		Group: "generic", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers in how many seconds the key expires, -1 if never, -2 if there is no key.",
		Run:     func(c *command.Ctx) { replyDeadline(c, 1000, c.Tx.NowMs()) },
	}
}

func pTTL() *command.Spec {
	return &command.Spec{
		Name: "pttl", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RO|command.Access),
		Tips:  []string{"nondeterministic_output"},
		Group: "generic", Since: "2.6.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers in how many milliseconds the key expires, -1 if never, -2 if there is no key.",
		Run:     func(c *command.Ctx) { replyDeadline(c, 1, c.Tx.NowMs()) },
	}
}

func expireTime() *command.Spec {
	return &command.Spec{
		Name: "expiretime", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "generic", Since: "7.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the time in unix seconds at which the key expires, -1 if never, -2 if there is no key.",
		Run:     func(c *command.Ctx) { replyDeadline(c, 1000, 0) },
	}
}

func pExpireTime() *command.Spec {
	return &command.Spec{
		Name: "pexpiretime", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatKeyspace,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "generic", Since: "7.0.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the time in unix milliseconds at which the key expires, -1 if never, -2 if there is no key.",
		Run:     func(c *command.Ctx) { replyDeadline(c, 1, 0) },
	}
}

// replyDeadline replies with the key's deadline in units of unitMs from baseMs
// on, rounded to the nearest.
func replyDeadline(c *command.Ctx, unitMs, baseMs int64) {
	atMs, exists := c.Tx.Deadline(c.Args[1])
	switch {
	case !exists:
		c.W.Int(-2)
	case atMs == 0:
		c.W.Int(-1)
	default:
		ms := atMs - baseMs
		n := ms / unitMs
		if ms%unitMs*2 >= unitMs && unitMs > 1 {
			n++
		}
		c.W.Int(n)
	}
}
