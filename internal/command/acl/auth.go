package acl

import (
	"kevy/internal/acl"
	"kevy/internal/command"
	"kevy/resp"
)

func auth(srv Server) *command.Spec {
	return &command.Spec{
		Name: "auth", Arity: -2, Category: command.CatConnection,
		Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.AllowBusy | command.Unlocked,
		Group: "connection", Since: "1.0.0", Complexity: "O(N) for N passwords of the user", Syntax: "[username] password",
		Summary: "Logs the connection in.",
		Secrets: command.HideFrom(1),
		Run: func(c *command.Ctx) {
			name, password := []byte(acl.DefaultName), c.Args[len(c.Args)-1]
			switch {
			case len(c.Args) > 3:
				c.W.Error(command.ErrSyntax)
				return
			case len(c.Args) == 3:
				name = c.Args[1]
			case !srv.Users().NeedsPassword():
				c.W.Error(errNoPassword)
				return
			}
			if !c.Session.(Session).Authenticate(name, password) {
				c.W.Error(ErrWrongPass)
				return
			}
			c.W.OK()
		},
	}
}

var errNoPassword = resp.Errorf("ERR", "AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")

// ErrWrongPass is what every failed login is answered.
var ErrWrongPass = resp.Errorf("WRONGPASS", "invalid username-password pair or user is disabled.")
