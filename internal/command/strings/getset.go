package strings

import "kevy/internal/command"

func getSet() *command.Spec {
	return &command.Spec{
		Name: "getset", Arity: 3, Flags: command.Write | command.TellsMisses | command.DenyOOM | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Access|command.Update),
		Group: "string", Since: "1.0.0", Complexity: "O(1)",
		Syntax:  "key value",
		Summary: "Makes the key hold a string and answers the one that it held.",
		Run:     runGetSet,
	}
}

func runGetSet(c *command.Ctx) {
	if _, ok := replyString(c, c.Args[1]); ok {
		setUntil(c, c.Args[1], c.Args[2], 0)
	}
}
