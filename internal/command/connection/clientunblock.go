package connection

import (
	"kevy/internal/command"
	"kevy/resp"
)

func clientUnblock(srv Server) *command.Spec {
	return &command.Spec{
		Name: "unblock", Arity: -3, Flags: subFlags | command.Admin, Category: command.CatConnection,
		Since: "5.0.0", Complexity: "O(1)",
		Syntax:  "client-id [TIMEOUT | ERROR]",
		Summary: "Ends the wait of a blocked connection's command, as its timeout would or with an error.",
		Run:     func(c *command.Ctx) { runUnblock(c, srv) },
	}
}

func runUnblock(c *command.Ctx, srv Server) {
	withError := false
	if len(c.Args) > 4 {
		c.W.Error(resp.Errorf("ERR", "unknown subcommand or wrong number of arguments for '%s'. Try CLIENT HELP.", command.CText(c.Args[1])))
		return
	}
	if len(c.Args) == 4 {
		switch reason := c.Args[3]; {
		case command.EqualFold(reason, "TIMEOUT"):
		case command.EqualFold(reason, "ERROR"):
			withError = true
		default:
			c.W.Error(resp.Errorf("ERR", "CLIENT UNBLOCK reason should be TIMEOUT or ERROR"))
			return
		}
	}
	a := c.Scan(2)
	id := a.Int()
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if srv.Unblock(uint64(id), withError) {
		c.W.Int(1)
	} else {
		c.W.Int(0)
	}
}
