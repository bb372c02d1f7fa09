package zset

import "kevy/internal/command"

func zRank() *command.Spec {
	return &command.Spec{
		Name: "zrank", Arity: -3, Flags: command.ReadOnly | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "2.0.0", Complexity: "O(log(N)) for N members",
		Syntax:      "key member [WITHSCORE]",
		Summary:     "Answers the position of a member, from the lowest score, which is at 0.",
		Differences: withScoreSince,
		Run:         func(c *command.Ctx) { rank(c, false) },
	}
}

func zRevRank() *command.Spec {
	return &command.Spec{
		Name: "zrevrank", Arity: -3, Flags: command.ReadOnly | command.Fast, Category: command.CatSortedSet,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "sorted-set", Since: "2.0.0", Complexity: "O(log(N)) for N members",
		Syntax:      "key member [WITHSCORE]",
		Summary:     "Answers the position of a member, from the highest score, which is at 0.",
		Differences: withScoreSince,
		Run:         func(c *command.Ctx) { rank(c, true) },
	}
}

const withScoreSince = "WITHSCORE, which Redis has since 7.2."

func rank(c *command.Ctx, reverse bool) {
	withScore := len(c.Args) == 4
	switch {
	case len(c.Args) > 4:
		c.W.Error(c.Spec.ArityError())
		return
	case withScore && !command.EqualFold(c.Args[3], "WITHSCORE"):
		c.W.Error(command.ErrSyntax)
		return
	}
	z, err := c.Tx.ZSet(c.Key(1))
	if err != nil {
		c.W.Err(err)
		return
	}
	at, ok := z.Rank(c.Args[2])
	if reverse {
		at = z.Len() - 1 - at
	}
	switch {
	case ok && withScore:
		c.W.Array(2)
		c.W.Int(int64(at))
		replyScore(c, z, c.Args[2])
	case ok:
		c.W.Int(int64(at))
	case withScore:
		c.W.NullArray()
	default:
		c.W.Null()
	}
}
