package list

import "kevy/internal/command"

func lPush() *command.Spec {
	return &command.Spec{
		Name: "lpush", Arity: -3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Insert),
		Group: "list", Since: "1.0.0", Complexity: "O(N) for N elements",
		Syntax:  "key element [element ...]",
		Summary: "Puts elements before the first, one after the other; answers the new length.",
		Run:     func(c *command.Ctx) { push(c, left) },
	}
}

func rPush() *command.Spec {
	return &command.Spec{
		Name: "rpush", Arity: -3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Insert),
		Group: "list", Since: "1.0.0", Complexity: "O(N) for N elements",
		Syntax:  "key element [element ...]",
		Summary: "Puts elements behind the last; answers the new length.",
		Run:     func(c *command.Ctx) { push(c, right) },
	}
}

func lPushX() *command.Spec {
	return &command.Spec{
		Name: "lpushx", Arity: -3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Insert),
		Group: "list", Since: "2.2.0", Complexity: "O(N) for N elements",
		Syntax:  "key element [element ...]",
		Summary: "LPUSH to a list that there is; answers 0 if there is none.",
		Run:     func(c *command.Ctx) { pushExisting(c, left) },
	}
}

func rPushX() *command.Spec {
	return &command.Spec{
		Name: "rpushx", Arity: -3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatList,
		Keys:  command.One(1, command.RW|command.Insert),
		Group: "list", Since: "2.2.0", Complexity: "O(N) for N elements",
		Syntax:  "key element [element ...]",
		Summary: "RPUSH to a list that there is; answers 0 if there is none.",
		Run:     func(c *command.Ctx) { pushExisting(c, right) },
	}
}

func push(c *command.Ctx, at side) {
	n, err := at.push(c.Tx, c.Key(1), c.Args[2:]...)
	replyInt(c, n, err)
}

func pushExisting(c *command.Ctx, at side) {
	if !c.Tx.Exists(c.Key(1)) {
		c.W.Int(0)
		return
	}
	push(c, at)
}
