package connection

import "kevy/internal/command"

// ReplyMode says which replies a connection gets.
type ReplyMode int

// The modes of CLIENT REPLY.
const (
	ReplyOn ReplyMode = iota
	ReplyOff
	ReplySkip // none to the next command
)

func clientReply() *command.Spec {
	return &command.Spec{
		Name: "reply", Arity: 3, Flags: subFlags, Category: command.CatConnection, Since: "3.2.0", Complexity: "O(1)",
		Syntax:  "<ON | OFF | SKIP>",
		Summary: "Says whether this connection gets replies.",
		Run: func(c *command.Ctx) {
			switch mode := c.Args[2]; {
			case command.EqualFold(mode, "ON"):
				conn(c).Reply(ReplyOn)
				c.W.OK()
			case command.EqualFold(mode, "OFF"):
				conn(c).Reply(ReplyOff)
			case command.EqualFold(mode, "SKIP"):
				conn(c).Reply(ReplySkip)
			default:
				c.W.Error(command.ErrSyntax)
			}
		},
	}
}

func clientNoEvict() *command.Spec {
	return onOff("no-evict", subFlags|command.Admin, "7.0.0", "Keeps maxmemory-clients from ending this connection.", Conn.SetNoEvict)
}

func clientNoTouch() *command.Spec {
	return onOff("no-touch", subFlags, "7.2.0", "Makes commands of this connection, but for TOUCH, count as no use of keys.", Conn.SetNoTouch)
}

func onOff(name string, flags command.Flags, since, summary string, set func(c Conn, on bool)) *command.Spec {
	return &command.Spec{
		Name: name, Arity: 3, Flags: flags, Category: command.CatConnection, Since: since, Complexity: "O(1)",
		Syntax:  "<ON | OFF>",
		Summary: summary,
		Run: func(c *command.Ctx) {
			on := command.EqualFold(c.Args[2], "ON")
			if !on && !command.EqualFold(c.Args[2], "OFF") {
				c.W.Error(command.ErrSyntax)
				return
			}
			set(conn(c), on)
			c.W.OK()
		},
	}
}
