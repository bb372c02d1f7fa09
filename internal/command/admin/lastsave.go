package admin

import "kevy/internal/command"

func lastSave(srv Server) *command.Spec {
	return &command.Spec{
		Name: "lastsave", Arity: 1, Flags: serverFlags | command.Fast | command.Unlocked, Category: command.CatAdmin | command.CatDangerous,
		Group: "server", Since: "1.0.0", Complexity: "O(1)", Tips: []string{"nondeterministic_output"},
		Summary:     "Answers when the data were last written as a whole, in seconds since 1970.",
		Differences: "A rewrite of the log counts as well; until there is one, it is the start of the server.",
		Run:         func(c *command.Ctx) { c.W.Int(srv.LastSaveUnix()) },
	}
}
