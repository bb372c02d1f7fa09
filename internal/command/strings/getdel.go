package strings

import (
	"kevy/internal/command"
	"kevy/shard"
)

func getDel() *command.Spec {
	return &command.Spec{
		Name: "getdel", Arity: 2, Flags: command.Write | command.TellsMisses | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RW|command.Access|command.Delete),
		Group: "string", Since: "6.2.0", Complexity: "O(1)",
		Syntax:  "key",
		Summary: "Answers the key's string and deletes the key.",
		Run:     runGetDel,
	}
}

func runGetDel(c *command.Ctx) {
	if found, ok := replyString(c, c.Args[1]); ok && found {
		c.Tx.Del(c.Args[1])
		c.Tx.Notify(shard.OfGeneric, "del", c.Args[1])
	}
}
