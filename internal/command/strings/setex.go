package strings

import "kevy/internal/command"

func setEX() *command.Spec {
	return &command.Spec{
		Name: "setex", Arity: 4, Flags: command.Write | command.DenyOOM, Category: command.CatString,
		Keys:  command.One(1, command.OW|command.Update),
		Group: "string", Since: "2.0.0", Complexity: "O(1)",
		Syntax:  "key seconds value",
		Summary: "Makes the key hold a string for some seconds.",
		Run:     func(c *command.Ctx) { setFor(c, inSeconds) },
	}
}

func pSetEX() *command.Spec {
	return &command.Spec{
		Name: "psetex", Arity: 4, Flags: command.Write | command.DenyOOM, Category: command.CatString,
		Keys:  command.One(1, command.OW|command.Update),
		Group: "string", Since: "2.6.0", Complexity: "O(1)",
		Syntax:  "key milliseconds value",
		Summary: "Makes the key hold a string for some milliseconds.",
		Run:     func(c *command.Ctx) { setFor(c, inMilliseconds) },
	}
}

func setFor(c *command.Ctx, u unit) {
	atMs, err := u.deadline(c, c.Args[2])
	if err != nil {
		c.W.Error(err)
		return
	}
	setUntil(c, c.Args[1], c.Args[3], atMs)
	c.W.OK()
}
